"""Every unary call once: arguments to message, answer to value. Client and AsyncClient differ in how they send it."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from . import _wire, errors, filters, types
from ._channel import Call, request_id
from .filters import Filter
from .types import ItemId


def _given(message: Any, **fields: Any) -> Any:
    """Sets the fields that are not None."""
    for name, value in fields.items():
        if value is not None:
            setattr(message, name, value)
    return message


def _settings(index: Optional[Mapping[str, Any]], into: Any) -> None:
    for name, value in (index or {}).items():
        if name == "kind":
            into.kind = _wire.number_of("IndexKind", "INDEX_KIND_", value)
        elif name == "codes":
            into.codes = _wire.number_of("RowCodes", "ROW_CODES_", value)
        elif name in into.DESCRIPTOR.fields_by_name:
            setattr(into, name, value)
        else:
            allowed = ", ".join(into.DESCRIPTOR.fields_by_name)
            raise errors.InvalidArgument(
                f"index.{name} is not known; allowed: {allowed}", field=f"index.{name}", allowed=allowed
            )


def _payload_fields(fields: Optional[Mapping[str, str]], into: Any) -> None:
    for path, kind in (fields or {}).items():
        into.add(path=path, type=_wire.number_of("PayloadType", "PAYLOAD_TYPE_", kind))


def upsert_request(
    collection: str,
    ids: Sequence[ItemId],
    vectors: Any,
    payloads: Optional[Sequence[Any]],
    inputs: Optional[Sequence[Any]],
    generation: int,
    durability: str,
    same_content: bool,
    keep_input: bool,
    expected_sequences: Optional[Sequence[Optional[int]]],
) -> Any:
    """The message of one batch. `vectors`: shape (n, dimension); exactly one of `vectors` and `inputs`."""
    if (vectors is None) == (inputs is None):
        raise errors.InvalidArgument(
            "vectors, inputs: exactly one is needed", field="vectors", allowed="vectors or inputs"
        )
    n = len(ids)
    rows: Any = None
    if vectors is not None:
        try:
            rows = np.asarray(vectors, dtype="<f4")
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgument(
                f"vectors: {error}", field="vectors", allowed="numbers of shape (n, dimension)"
            ) from None
        if rows.ndim != 2:
            raise errors.InvalidArgument(
                f"vectors: the shape is {rows.shape}; allowed: (n, dimension)",
                field="vectors",
                value=str(rows.shape),
                allowed="(n, dimension)",
            )
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            raise errors.InvalidArgument(
                f"vectors[{bad[0]}]: a number is not finite", field=f"vectors[{bad[0]}]", allowed="finite numbers"
            )
    for name, part in (
        ("vectors", rows),
        ("payloads", payloads),
        ("inputs", inputs),
        ("expected_sequences", expected_sequences),
    ):
        if part is not None and len(part) != n:
            raise errors.InvalidArgument(
                f"{name}: there are {len(part)} of {n} ids; allowed: {n}", field=name, value=str(len(part)), allowed=str(n)
            )
    request = _wire.message("UpsertRequest")(
        collection=collection,
        generation=generation,
        same_content=same_content,
        keep_input=keep_input,
        durability=_wire.number_of("Durability", "DURABILITY_", durability),
    )
    raw = rows.tobytes() if rows is not None else b""
    width = len(raw) // n if n else 0
    items = request.items
    for i in range(n):
        item = items.add()
        types.put_id(ids[i], item.id, f"ids[{i}]")
        if rows is not None:
            item.vector.f32_le = raw[i * width : (i + 1) * width]
        else:
            types.put_input(inputs[i], item.input)  # type: ignore[index]
        if payloads is not None and payloads[i] is not None:
            item.payload_json = types.payload_text(payloads[i], f"payloads[{i}]")
        if expected_sequences is not None and expected_sequences[i] is not None:
            item.expected_sequence = expected_sequences[i]
    return request


def written(response: Any) -> types.Written:
    return types.Written(response.sequence, response.generation, response.items, tuple(response.outdated))


class Operations:
    """Unary calls of both clients. Errors are LightconeError; times are seconds."""

    def _do(self, call: Call) -> Any:
        raise NotImplementedError

    # Items.

    def upsert(
        self,
        collection: str,
        ids: Sequence[ItemId],
        vectors: Any = None,
        payloads: Optional[Sequence[Any]] = None,
        *,
        inputs: Optional[Sequence[Union[types.Image, types.Tensor]]] = None,
        generation: int = 0,
        durability: str = "durable",
        same_content: bool = False,
        keep_input: bool = False,
        expected_sequences: Optional[Sequence[Optional[int]]] = None,
        timeout: Optional[float] = None,
    ) -> types.Written:
        """Writes one batch as a whole or not at all.

        Args:
            ids: n ids, each a text or an integer.
            vectors: float array of shape (n, dimension): the model's output. Or `inputs`, which the server embeds.
            payloads: n dicts (JSON objects), or None.
            generation: the generation whose model made the vectors; 0: the active one.
            durability: "durable" (after fsync) or "process" (survives a killed server, not a loss of power).
            same_content: the vectors embed, by another model, what the collection holds; payloads stay as they are.
            expected_sequences: n sequences that the items must still have; an item that changed is left out, and
                ``outdated`` names its place.
        """
        request = upsert_request(
            collection,
            ids,
            vectors,
            payloads,
            inputs,
            generation,
            durability,
            same_content,
            keep_input,
            expected_sequences,
        )
        return self._do(Call("Retrieval/Upsert", request, written, True, timeout))

    def get(
        self,
        collection: str,
        ids: Sequence[ItemId],
        *,
        with_vector: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> List[types.StoredItem]:
        """Reads items, in the order of `ids`, without those that do not exist."""
        request = _wire.message("GetRequest")(collection=collection, with_vector=with_vector, generation=generation)
        for i, value in enumerate(ids):
            types.put_id(value, request.ids.add(), f"ids[{i}]")
        return self._do(
            Call("Retrieval/Get", request, lambda r: [types.stored_item(item) for item in r.items], False, timeout)
        )

    def delete(
        self, collection: str, ids: Sequence[ItemId], *, durability: str = "durable", timeout: Optional[float] = None
    ) -> types.Deleted:
        """Deletes items; one that does not exist is no error."""
        request = _wire.message("DeleteRequest")(
            collection=collection, durability=_wire.number_of("Durability", "DURABILITY_", durability)
        )
        for i, value in enumerate(ids):
            types.put_id(value, request.ids.add(), f"ids[{i}]")
        return self._do(
            Call("Retrieval/Delete", request, lambda r: types.Deleted(r.sequence, r.deleted), True, timeout)
        )

    def delete_where(
        self,
        collection: str,
        filter: Filter,
        *,
        limit: int = 0,
        token: str = "",
        durability: str = "durable",
        timeout: Optional[float] = None,
    ) -> types.Deleted:
        """Deletes items that pass a filter, in the order of their ids: one bounded batch, as a whole or not at all.

        Args:
            limit: most items to delete; 0: the server's limit of a batch.
            token: `token` of the answer before, to go on behind its items. An empty answer's token is the end.
        """
        request = _wire.message("DeleteRequest")(
            collection=collection,
            filter=filters.make(filter),
            limit=limit,
            token=token,
            durability=_wire.number_of("Durability", "DURABILITY_", durability),
        )
        return self._do(
            Call("Retrieval/Delete", request, lambda r: types.Deleted(r.sequence, r.deleted, r.token), True, timeout)
        )

    def count(self, collection: str, filter: Filter = None, *, timeout: Optional[float] = None) -> types.Count:
        """Counts items that pass a filter."""
        request = _wire.message("CountRequest")(collection=collection, filter=filters.make(filter))
        return self._do(
            Call(
                "Retrieval/Count",
                request,
                lambda r: types.Count(r.count, {part.generation: part.count for part in r.generations}),
                False,
                timeout,
            )
        )

    def search(
        self,
        collection: str,
        query: types.Query,
        k: int = 10,
        *,
        filter: Filter = None,
        generation: int = 0,
        exact: bool = False,
        ef: int = 0,
        nprobe: int = 0,
        target_recall: Optional[float] = None,
        offset: int = 0,
        score_threshold: Optional[float] = None,
        distance_max: Optional[float] = None,
        with_payload: Union[bool, Sequence[str]] = True,
        with_vector: bool = False,
        adapter_mode: str = "unspecified",
        wait_for_sequence: int = 0,
        canary_key: str = "",
        profile: bool = False,
        timeout: Optional[float] = None,
    ) -> types.SearchAnswer:
        """Finds the k nearest items of one query.

        Args:
            query: vector of shape (dimension,), an Image or Tensor that the server embeds, or an ItemQuery.
            filter: text such as ``'class = "cat" and year >= 2020'``, or a dict of fields.
            generation: the generation whose model made the vector; 0: the active one.
            exact: scan everything; the answer equals brute force.
            offset: nearest hits that the answer leaves out.
            score_threshold, distance_max: least score and greatest distance of a hit.
            with_payload: whether hits have payloads, or the paths of the fields that they have.
            ef, nprobe, target_recall: breadth of the search; the default finds at least 95 % of the true nearest.
            wait_for_sequence: sequence of a write that the search must see.
        """
        call = self._search_call(
            collection,
            [query],
            k,
            filter,
            timeout,
            generation=generation,
            exact=exact,
            ef=ef,
            nprobe=nprobe,
            target_recall=target_recall,
            offset=offset,
            score_threshold=score_threshold,
            distance_max=distance_max,
            with_payload=with_payload,
            with_vector=with_vector,
            adapter_mode=_wire.number_of("AdapterMode", "ADAPTER_MODE_", adapter_mode),
            wait_for_sequence=wait_for_sequence,
            canary_key=canary_key,
            profile=profile,
        )
        return self._do(call._replace(read=lambda response: types.search_answers(response, k)[0]))

    def search_many(
        self,
        collection: str,
        queries: Any,
        k: int = 10,
        *,
        filter: Filter = None,
        generation: int = 0,
        exact: bool = False,
        ef: int = 0,
        nprobe: int = 0,
        target_recall: Optional[float] = None,
        offset: int = 0,
        score_threshold: Optional[float] = None,
        distance_max: Optional[float] = None,
        with_payload: Union[bool, Sequence[str]] = False,
        with_vector: bool = False,
        adapter_mode: str = "unspecified",
        evaluate_generations: Sequence[int] = (),
        timeout: Optional[float] = None,
    ) -> types.SearchAnswers:
        """Finds the k nearest items of each of n queries in one call.

        Args:
            queries: float array of shape (n, dimension), or a sequence of queries as `search` takes them.

        Returns:
            Answers in the queries' order; ``.ids``, ``.scores`` and ``.distances`` are arrays of shape (n, k). A query
            that failed alone raises its error when its answer is read.
        """
        call = self._search_call(
            collection,
            queries,
            k,
            filter,
            timeout,
            generation=generation,
            exact=exact,
            ef=ef,
            nprobe=nprobe,
            target_recall=target_recall,
            offset=offset,
            score_threshold=score_threshold,
            distance_max=distance_max,
            with_payload=with_payload,
            with_vector=with_vector,
            adapter_mode=_wire.number_of("AdapterMode", "ADAPTER_MODE_", adapter_mode),
            evaluate_generations=list(evaluate_generations),
        )
        return self._do(call._replace(read=lambda response: types.search_answers(response, k)))

    def _search_call(
        self, collection: str, queries: Any, k: int, filter: Filter, timeout: Optional[float], **fields: Any
    ) -> Call:
        fields = {name: value for name, value in fields.items() if value is not None}
        chosen = fields.pop("with_payload")
        try:
            request = _wire.message("SearchRequest")(collection=collection, k=k, filter=filters.make(filter), **fields)
            request.with_payload = bool(chosen)
            if not isinstance(chosen, bool):
                request.payload.include.extend(chosen)
        except (TypeError, ValueError) as error:
            if isinstance(error, errors.LightconeError):
                raise
            raise errors.InvalidArgument(f"search: {error}") from None
        for i, query in enumerate(queries):
            made = request.queries.add()
            if isinstance(query, (types.Image, types.Tensor)):
                types.put_input(query, made.input)
            elif isinstance(query, types.ItemQuery):
                types.put_id(query.id, made.item, f"queries[{i}]")
            else:
                made.vector.f32_le = types.to_vector(query, f"queries[{i}]")
        return Call("Retrieval/Search", request, lambda response: response, False, timeout)

    # Collections.

    def create_collection(
        self,
        name: str,
        *,
        geometry: str = "cosine",
        curvature: Optional[float] = None,
        index: Optional[Mapping[str, Any]] = None,
        payload_indexes: Optional[Mapping[str, str]] = None,
        require_generation: bool = False,
        timeout: Optional[float] = None,
    ) -> types.Collection:
        """Makes a collection.

        Args:
            geometry: "cosine", "inner_product", "euclidean", or "lorentz" for models that Lightcone trained.
            curvature: K of the Lorentz geometry, above 0.
            index: settings such as ``{"kind": "hnsw", "hnsw_m": 32}``.
            payload_indexes: paths to types: "keyword", "integer", "float", "boolean" or "time".
            require_generation: refuse upserts of vectors that do not name the generation of their model.
        """
        request = _wire.message("CreateRequest")(
            request_id=request_id(), name=name, geometry=_wire.number_of("Geometry", "GEOMETRY_", geometry)
        )
        _given(request, curvature=curvature, require_generation=require_generation)
        _settings(index, request.index)
        _payload_fields(payload_indexes, request.payload_fields)
        return self._collection_call("Collections/Create", request, timeout)

    def collection(self, name: str, *, timeout: Optional[float] = None) -> types.Collection:
        """Reads a collection's state."""
        return self._collection_call("Collections/Get", _wire.message("CollectionsGetRequest")(name=name), timeout)

    def rebuild(
        self, collection: str, index: Mapping[str, Any], *, wait: bool = False, timeout: Optional[float] = None
    ) -> types.Collection:
        """Changes index settings online; with `wait` it answers when the segments are built."""
        request = _wire.message("RebuildRequest")(request_id=request_id(), collection=collection, wait=wait)
        _settings(index, request.index)
        return self._collection_call("Collections/Rebuild", request, timeout)

    def index_payload(
        self,
        collection: str,
        add: Optional[Mapping[str, str]] = None,
        drop: Sequence[str] = (),
        *,
        wait: bool = False,
        timeout: Optional[float] = None,
    ) -> types.Collection:
        """Adds and drops payload indexes online; `add` maps paths to types."""
        request = _wire.message("IndexPayloadRequest")(
            request_id=request_id(), collection=collection, drop=list(drop), wait=wait
        )
        _payload_fields(add, request.add)
        return self._collection_call("Collections/IndexPayload", request, timeout)

    def _collection_call(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        return self._do(Call(method, request, lambda r: types.collection(r.collection), False, timeout))

    def drop_collection(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Removes a collection and everything in it."""
        request = _wire.message("DropRequest")(request_id=request_id(), name=name)
        return self._do(Call("Collections/Drop", request, lambda r: None, False, timeout))

    def set_alias(self, alias: str, collection: str, *, timeout: Optional[float] = None) -> None:
        """Points an alias at a collection, atomically; an empty `collection` removes it."""
        request = _wire.message("SetAliasRequest")(request_id=request_id(), alias=alias, collection=collection)
        return self._do(Call("Collections/SetAlias", request, lambda r: None, False, timeout))

    # Generations and adapters.

    def register(
        self,
        collection: str,
        *,
        dimension: Optional[int] = None,
        manifest: Optional[Mapping[str, Any]] = None,
        encoder: bytes = b"",
        parent: int = 0,
        expects_adapter: bool = False,
        timeout: Optional[float] = None,
    ) -> types.Generation:
        """Adds the next generation of a collection's model.

        Args:
            dimension: numbers of its vectors; enough for a model that the application runs itself.
            manifest: instead of `dimension`, the manifest that training wrote, or a dict with "dimension".
            encoder: TorchScript file with which the server embeds raw inputs.
            parent: generation that it was trained to be compatible with; 0: none.
            expects_adapter: an adapter will lead to older generations, so another dimension than theirs is allowed.
        """
        described: Dict[str, Any] = dict(manifest or {})
        if dimension is not None:
            described.setdefault("dimension", dimension)
        request = _wire.message("RegisterRequest")(
            request_id=request_id(),
            collection=collection,
            manifest_json=json.dumps(described),
            encoder=encoder,
            parent=parent,
            expects_adapter=expects_adapter,
        )
        return self._generation_call("Generations/Register", request, timeout)

    def generation(self, collection: str, generation: int, *, timeout: Optional[float] = None) -> types.Generation:
        """Reads one generation."""
        request = _wire.message("GenerationsGetRequest")(collection=collection, generation=generation)
        return self._generation_call("Generations/Get", request, timeout)

    def activate(
        self,
        collection: str,
        generation: int,
        *,
        force: bool = False,
        reason: str = "",
        expect_active: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> types.Generation:
        """Makes a generation the serving one, in milliseconds whatever the gallery's size."""
        request = _wire.message("ActivateRequest")(
            request_id=request_id(), collection=collection, generation=generation, force=force, reason=reason
        )
        return self._generation_call("Generations/Activate", _given(request, expect_active=expect_active), timeout)

    def rollback(
        self, collection: str, *, force: bool = False, reason: str = "", timeout: Optional[float] = None
    ) -> types.Generation:
        """Goes back to the generation that served before; embeds nothing."""
        request = _wire.message("RollbackRequest")(
            request_id=request_id(), collection=collection, force=force, reason=reason
        )
        return self._generation_call("Generations/Rollback", request, timeout)

    def _generation_call(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        return self._do(Call(method, request, lambda r: types.generation(r.generation), False, timeout))

    def sample(
        self, collection: str, generation: int, items: int = 2000, *, seed: int = 1, timeout: Optional[float] = None
    ) -> List[types.Sampled]:
        """Items to embed by `generation` so that an adapter can be fitted, drawn over the whole gallery."""
        request = _wire.message("SampleItemsRequest")(
            collection=collection, generation=generation, items=items, seed=seed
        )
        return self._do(
            Call(
                "Generations/SampleItems",
                request,
                lambda r: [
                    types.Sampled(types.id_of(item.id), item.sequence, item.generation, item.has_input)
                    for item in r.items
                ],
                False,
                timeout,
            )
        )

    def fit_adapter(
        self,
        collection: str,
        from_generation: int,
        to_generation: int,
        *,
        map: str = "",
        loss: str = "",
        label_field: str = "",
        pairs_max: int = 0,
        timeout: Optional[float] = None,
    ) -> str:
        """Begins a job that fits and puts an adapter; gives the job's id for `wait`.

        From a newer generation to an older one the adapter carries queries, from an older one to a newer one items.
        """
        request = _wire.message("FitAdapterRequest")(
            request_id=request_id(),
            collection=collection,
            from_generation=from_generation,
            to_generation=to_generation,
            map=map,
            loss=loss,
            label_field=label_field,
            pairs_max=pairs_max,
        )
        return self._do(Call("Generations/FitAdapter", request, lambda r: r.job, False, timeout))

    def put_adapter(
        self,
        collection: str,
        from_generation: int,
        to_generation: int,
        adapter: bytes,
        *,
        timeout: Optional[float] = None,
    ) -> None:
        """Puts an adapter's file (as `lightcone adapt` writes it) between two generations."""
        request = _wire.message("PutAdapterRequest")(
            request_id=request_id(),
            collection=collection,
            from_generation=from_generation,
            to_generation=to_generation,
            adapter=adapter,
        )
        return self._do(Call("Generations/PutAdapter", request, lambda r: None, False, timeout))

    def put_probes(
        self,
        collection: str,
        name: str,
        probes: Sequence[types.Probe],
        *,
        label_field: str = "",
        timeout: Optional[float] = None,
    ) -> int:
        """Gives a collection queries whose right answers are known, or replaces the set `name`; gives their number."""
        request = _wire.message("PutProbesRequest")(
            request_id=request_id(), collection=collection, name=name, label_field=label_field
        )
        for i, probe in enumerate(probes):
            made = request.probes.add()
            for generation, vector in probe.vectors.items():
                made.vectors.add(generation=generation).vector.f32_le = types.to_vector(vector, f"probes[{i}].vectors")
            for value in probe.relevant:
                types.put_id(value, made.relevant.add(), f"probes[{i}].relevant")
            if probe.label is not None:
                filters._value(probe.label, made.label, f"probes[{i}].label")
            if probe.item is not None:
                types.put_id(probe.item, made.item, f"probes[{i}].item")
            if probe.input is not None:
                types.put_input(probe.input, made.input)
        return self._do(Call("Generations/PutProbes", request, lambda r: r.probes.probes, False, timeout))

    def probe_sets(self, collection: str, *, timeout: Optional[float] = None) -> List[str]:
        """Names of the collection's probe sets."""
        request = _wire.message("ListProbesRequest")(collection=collection)
        return self._do(
            Call("Generations/ListProbes", request, lambda r: [one.name for one in r.probes], False, timeout)
        )

    def validate(
        self, collection: str, generation: int, *, tolerance: Optional[float] = None, timeout: Optional[float] = None
    ) -> str:
        """Begins a job that measures a generation by the collection's probes; gives the job's id for `wait`."""
        request = _wire.message("ValidateRequest")(
            request_id=request_id(), collection=collection, generation=generation
        )
        _given(request, tolerance=tolerance)
        return self._do(Call("Generations/Validate", request, lambda r: r.job, False, timeout))

    def job(self, id: str, *, timeout: Optional[float] = None) -> types.Job:
        """Reads a job's state."""
        request = _wire.message("JobsGetRequest")(id=id)
        return self._do(Call("Jobs/Get", request, lambda r: types.job(r.job), False, timeout))

    # Lazy backfill.

    def start_backfill(
        self, collection: str, *, embed_rate: Optional[float] = None, timeout: Optional[float] = None
    ) -> types.Backfill:
        """Starts or resumes the re-embedding of the gallery by the active generation.

        Args:
            embed_rate: items a second that the server embeds from stored inputs; 0: workers do it (lightcone.worker).
        """
        request = _given(
            _wire.message("BackfillStartRequest")(request_id=request_id(), collection=collection), embed_rate=embed_rate
        )
        return self._do(Call("Backfill/Start", request, lambda r: types.backfill(r.status), False, timeout))

    def pause_backfill(self, collection: str, *, timeout: Optional[float] = None) -> types.Backfill:
        """Stops leasing until the next start."""
        request = _wire.message("PauseRequest")(request_id=request_id(), collection=collection)
        return self._do(Call("Backfill/Pause", request, lambda r: types.backfill(r.status), False, timeout))

    def backfill_status(self, collection: str, *, timeout: Optional[float] = None) -> types.Backfill:
        """Progress of the backfill."""
        request = _wire.message("StatusRequest")(collection=collection)
        return self._do(Call("Backfill/Status", request, types.backfill, False, timeout))

"""Calls about items: writing, reading, searching."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Union

import numpy as np

from . import _wire, errors, filters, types
from ._calls import Calls
from ._channel import Call
from .filters import Filter
from .types import ItemId


def put_older(request: Any, generation: int, vectors: Any, name: str) -> None:
    """Adds to each query of a SearchRequest its vector by an older generation."""
    if len(vectors) != len(request.queries):
        raise errors.InvalidArgument(
            f"{name}: {len(vectors)} vectors for {len(request.queries)} queries",
            field=name,
            value=str(len(vectors)),
            allowed=f"{len(request.queries)}, one a query",
        )
    for i, (query, vector) in enumerate(zip(request.queries, vectors)):
        try:
            older = query.older_vectors.add(generation=generation)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgument(
                f"{name}: {error}", field="older_vectors", value=str(generation), allowed="numbers of generations"
            ) from None
        older.vector.f32_le = types.to_vector(vector, name if len(vectors) == 1 else f"{name}[{i}]")


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
    model: str = "",
    ttl: types.Ttl = None,
    keep_payload: bool = False,
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
            with np.errstate(over="ignore"):  # What is too large becomes infinite, which is refused below.
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
        bad = np.argwhere(~np.isfinite(rows))
        if bad.size:
            row, place = (int(i) for i in bad[0])
            value, field = str(rows[row, place]), f"vectors[{row}][{place}]"
            raise errors.InvalidArgument(
                f"{field} is {value} as a float32; allowed: finite numbers",
                field=field,
                value=value,
                allowed="finite numbers",
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
        keep_payload=keep_payload,
        model=model,
        durability=_wire.number_of("Durability", "DURABILITY_", durability),
    )
    ttl_ms = types.ttl_ms_of(ttl, n)
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
        if ttl_ms[i] is not None:
            item.ttl_ms = ttl_ms[i]
    return request


def written(response: Any) -> types.Written:
    return types.Written(
        response.sequence,
        response.generation,
        response.items,
        tuple(response.outdated),
        errors.warned(response.warnings),
    )


def put_order(request: Any, order_by: str, descending: bool, start_from: Any) -> None:
    """Writes the order of a scroll into its request."""
    if not order_by:
        if descending or start_from is not None:
            raise errors.InvalidArgument(
                "descending, start_from: they need order_by", field="order_by", allowed="the path of a payload field"
            )
        return
    request.order_by.field = order_by
    request.order_by.descending = descending
    if start_from is not None:
        filters.put_value(start_from, request.order_by.start_from, "start_from")


class ItemCalls(Calls):
    """Upsert, get, delete, count and search."""

    def upsert(
        self,
        collection: str,
        ids: Sequence[ItemId],
        vectors: Any = None,
        payloads: Optional[Sequence[Any]] = None,
        *,
        inputs: Optional[Sequence[Union[types.Image, types.Tensor, types.Text]]] = None,
        texts: Optional[Sequence[str]] = None,
        generation: int = 0,
        durability: str = "durable",
        same_content: bool = False,
        keep_input: bool = False,
        keep_payload: bool = False,
        expected_sequences: Optional[Sequence[Optional[int]]] = None,
        model: str = "",
        ttl: types.Ttl = None,
        timeout: Optional[float] = None,
    ) -> types.Written:
        """Writes one batch as a whole or not at all.

        Args:
            ids: n ids, each a text or an integer.
            vectors: float array of shape (n, dimension): the model's output. Or `inputs`, which the server embeds.
            texts: n texts, instead of `inputs` of Text.
            payloads: n dicts (JSON objects), or None.
            generation: the generation whose model made the vectors; 0: the active one.
            durability: "durable" (after fsync) or "process" (survives a killed server, not a loss of power).
            same_content: the vectors embed, by another model, what the collection holds; payloads stay as they are.
            keep_input: the server keeps the inputs, so that later generations can embed them.
            keep_payload: new content for stored items: each keeps its payload and its time to expire. An id without
                an item raises NotFound, and nothing is written.
            expected_sequences: n sequences that the items must still have; an item that changed is left out, and
                ``outdated`` names its place.
            model: the model that made the vectors; another one than the generation's is refused.
            ttl: seconds after which the items are gone, or n such numbers; 0: they stay. None: as the collection says.
        """
        if texts is not None:
            if inputs is not None:
                raise errors.InvalidArgument("inputs: given beside texts", field="inputs", allowed="inputs or texts")
            inputs = [types.Text(text) for text in texts]
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
            model,
            ttl,
            keep_payload,
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

    def set_payload(
        self,
        collection: str,
        payload: Any,
        ids: Optional[Sequence[ItemId]] = None,
        *,
        filter: Filter = None,
        key: str = "",
        limit: int = 0,
        token: str = "",
        durability: str = "durable",
        timeout: Optional[float] = None,
    ) -> types.Changed:
        """Sets keys of payloads and keeps the others; vectors stay. One batch, as a whole or not at all.

        Args:
            payload: a dict (a JSON object) of the keys to set.
            ids: the items to change. Or `filter`: those that pass, one bounded batch a call, in the order of their ids.
            key: path of the object inside the payload that changes; by default the payload itself.
            limit: most items to change by the filter; 0: the server's limit of a batch.
            token: `token` of the answer before, to go on behind its items. An empty answer's token is the end.
        """
        text = types.payload_text(payload)
        return self._change(
            collection, "set", ids, filter, limit, token, durability, timeout, payload_json=text, key=key
        )

    def overwrite_payload(
        self,
        collection: str,
        payload: Any,
        ids: Optional[Sequence[ItemId]] = None,
        *,
        filter: Filter = None,
        limit: int = 0,
        token: str = "",
        durability: str = "durable",
        timeout: Optional[float] = None,
    ) -> types.Changed:
        """Replaces payloads. Arguments as in `set_payload`."""
        text = types.payload_text(payload)
        return self._change(collection, "overwrite", ids, filter, limit, token, durability, timeout, payload_json=text)

    def delete_payload(
        self,
        collection: str,
        keys: Sequence[str],
        ids: Optional[Sequence[ItemId]] = None,
        *,
        filter: Filter = None,
        limit: int = 0,
        token: str = "",
        durability: str = "durable",
        timeout: Optional[float] = None,
    ) -> types.Changed:
        """Deletes the fields of these paths from payloads. Other arguments as in `set_payload`."""
        return self._change(
            collection, "delete_keys", ids, filter, limit, token, durability, timeout, keys=list(keys)
        )

    def clear_payload(
        self,
        collection: str,
        ids: Optional[Sequence[ItemId]] = None,
        *,
        filter: Filter = None,
        limit: int = 0,
        token: str = "",
        durability: str = "durable",
        timeout: Optional[float] = None,
    ) -> types.Changed:
        """Makes payloads empty. Arguments as in `set_payload`."""
        return self._change(collection, "clear", ids, filter, limit, token, durability, timeout)

    def _change(
        self,
        collection: str,
        change: str,
        ids: Optional[Sequence[ItemId]],
        filter: Filter,
        limit: int,
        token: str,
        durability: str,
        timeout: Optional[float],
        **fields: Any,
    ) -> Any:
        request = _wire.message("ChangePayloadRequest")(
            collection=collection,
            change=_wire.number_of("PayloadChange", "PAYLOAD_CHANGE_", change),
            filter=filters.make(filter),
            limit=limit,
            token=token,
            durability=_wire.number_of("Durability", "DURABILITY_", durability),
            **fields,
        )
        for i, value in enumerate(ids or ()):
            types.put_id(value, request.ids.add(), f"ids[{i}]")
        return self._do(Call("Retrieval/ChangePayload", request, types.changed, True, timeout))

    def facet(
        self,
        collection: str,
        field: str,
        *,
        filter: Filter = None,
        limit: int = 10,
        timeout: Optional[float] = None,
    ) -> types.Facet:
        """Counts items by the value of a payload field: the `limit` values of the most items."""
        request = _wire.message("FacetRequest")(
            collection=collection, field=field, filter=filters.make(filter), limit=limit
        )
        return self._do(Call("Retrieval/Facet", request, types.facet, False, timeout))

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
        query: Optional[types.Query] = None,
        k: int = 10,
        *,
        text: Optional[str] = None,
        filter: Filter = None,
        generation: int = 0,
        exact: bool = False,
        ef: int = 0,
        nprobe: int = 0,
        target_recall: Optional[float] = None,
        offset: int = 0,
        score_threshold: Optional[float] = None,
        distance_max: Optional[float] = None,
        relevance_min: Optional[float] = None,
        scale_generation: int = 0,
        with_payload: Union[bool, Sequence[str]] = True,
        with_vector: bool = False,
        adapter_mode: str = "unspecified",
        wait_for_sequence: int = 0,
        canary_key: str = "",
        refresh_top: int = 0,
        embed_older: bool = False,
        profile: bool = False,
        model: str = "",
        older_vectors: Optional[Mapping[int, Any]] = None,
        group_by: str = "",
        groups: int = 10,
        group_size: int = 3,
        timeout: Optional[float] = None,
    ) -> types.SearchAnswer:
        """Finds the k nearest items of one query.

        Args:
            query: vector of shape (dimension,), an Image, Tensor or Text that the server embeds, or an ItemQuery.
            text: instead of `query`, a text that the server embeds.
            filter: text such as ``'class = "cat" and year >= 2020'``, or a dict of fields.
            generation: the generation whose model made the vector; 0: the active one.
            exact: scan everything; the answer equals brute force.
            offset: nearest hits that the answer leaves out.
            score_threshold, distance_max: least score and greatest distance of a hit.
            relevance_min: least chance that a hit is relevant, 0 to 1 (``Hit.relevance``).
            scale_generation: the generation in whose distances these bounds are given, so that they outlive it;
                0: the collection's setting.
            with_payload: whether hits have payloads, or the paths of the fields that they have.
            ef, nprobe, target_recall: breadth of the search; the default finds at least 95 % of the true nearest.
            wait_for_sequence: sequence of a write that the search must see.
            refresh_top: of the first so many candidates, those that older generations embedded are embedded anew by the
                server, from their stored inputs, before they are ranked, and stay so. ``answer.refresh`` says how many.
            embed_older: whether the server embeds a raw input by each older generation, too, that has items and an
                encoder, as if `older_vectors` held these vectors. ``answer.older_error`` says which of them failed.
            model: the model that made the vector; another one than the generation's is refused.
            older_vectors: by older generation, the same query as that generation's model embeds it. Items that such a
                generation embedded are then ranked by both vectors.
            group_by: path of a payload field: the answer has `groups` groups of at most `group_size` hits that share its
                value, in place of hits. `k` does not count then.
        """
        if (query is None) == (text is None):
            raise errors.InvalidArgument("query, text: exactly one is needed", field="query", allowed="query or text")
        if text is not None:
            query = types.Text(text)
        call = self._search_call(
            collection,
            [query],
            0 if group_by else k,
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
            relevance_min=relevance_min,
            scale_generation=scale_generation,
            with_payload=with_payload,
            with_vector=with_vector,
            adapter_mode=_wire.number_of("AdapterMode", "ADAPTER_MODE_", adapter_mode),
            wait_for_sequence=wait_for_sequence,
            canary_key=canary_key,
            refresh_top=refresh_top,
            embed_older=embed_older,
            profile=profile,
            model=model,
        )
        for generation, vector in (older_vectors or {}).items():
            put_older(call.request, generation, [vector], f"older_vectors[{generation}]")
        if group_by:
            by = call.request.group_by
            by.field, by.groups, by.group_size = group_by, groups, group_size
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
        relevance_min: Optional[float] = None,
        scale_generation: int = 0,
        with_payload: Union[bool, Sequence[str]] = False,
        with_vector: bool = False,
        adapter_mode: str = "unspecified",
        evaluate_generations: Sequence[int] = (),
        refresh_top: int = 0,
        embed_older: bool = False,
        model: str = "",
        older_vectors: Optional[Mapping[int, Any]] = None,
        timeout: Optional[float] = None,
    ) -> types.SearchAnswers:
        """Finds the k nearest items of each of n queries in one call.

        Args:
            queries: float array of shape (n, dimension), or a sequence of queries as `search` takes them.
            refresh_top: as `search` takes it, for each query; at most 10,000 candidates of all queries.
            older_vectors: by older generation, the vectors of all n queries by its model, as `search` takes one.

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
            relevance_min=relevance_min,
            scale_generation=scale_generation,
            with_payload=with_payload,
            with_vector=with_vector,
            adapter_mode=_wire.number_of("AdapterMode", "ADAPTER_MODE_", adapter_mode),
            evaluate_generations=list(evaluate_generations),
            refresh_top=refresh_top,
            embed_older=embed_older,
            model=model,
        )
        for older, vectors in (older_vectors or {}).items():
            put_older(call.request, older, vectors, f"older_vectors[{older}]")
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
            if isinstance(query, (types.Image, types.Tensor, types.Text)):
                types.put_input(query, made.input)
            elif isinstance(query, types.ItemQuery):
                types.put_id(query.id, made.item, f"queries[{i}]")
            else:
                made.vector.f32_le = types.to_vector(query, f"queries[{i}]")
        return Call("Retrieval/Search", request, lambda response: response, False, timeout)

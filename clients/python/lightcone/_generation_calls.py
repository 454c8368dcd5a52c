"""Calls about generations, adapters, probes, jobs and the backfill."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import _wire, filters, types
from ._calls import Calls, given
from ._channel import Call, request_id


class GenerationCalls(Calls):
    """Register, adapt, validate, activate, and embed the gallery anew."""

    def register(
        self,
        collection: str,
        *,
        dimension: Optional[int] = None,
        manifest: Optional[Mapping[str, Any]] = None,
        endpoint: Optional[Mapping[str, Any]] = None,
        encoder: bytes = b"",
        parent: int = 0,
        expects_adapter: bool = False,
        timeout: Optional[float] = None,
    ) -> types.Generation:
        """Adds the next generation of a collection's model.

        Args:
            dimension: numbers of its vectors; enough for a model that the application runs itself.
            manifest: instead of `dimension`, the manifest that training wrote, or a dict with "dimension".
            endpoint: a server that embeds texts, beside `dimension`: a dict with "url" and "model", and perhaps
                "key_file", "query_prefix" and others.
            encoder: TorchScript file with which the server embeds raw inputs.
            parent: generation that it was trained to be compatible with; 0: none.
            expects_adapter: an adapter will lead to older generations, so another dimension than theirs is allowed.
        """
        described: Dict[str, Any] = dict(manifest or {})
        if dimension is not None:
            described.setdefault("dimension", dimension)
        if endpoint is not None:
            described["endpoint"] = dict(endpoint)
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
        return self._generation_call("Generations/Activate", given(request, expect_active=expect_active), timeout)

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
        embed: int = 0,
        timeout: Optional[float] = None,
    ) -> str:
        """Begins a job that fits and puts an adapter; gives the job's id for `wait`.

        From a newer generation to an older one the adapter carries queries, from an older one to a newer one items.

        Args:
            pairs_max: most items that both generations embedded to fit from; 0: the server's default.
            embed: pairs that there should be: the server embeds stored inputs by the newer generation until there are.
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
            embed_max=embed,
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
                filters.put_value(probe.label, made.label, f"probes[{i}].label")
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
        self,
        collection: str,
        generation: int,
        *,
        tolerance: Optional[float] = None,
        measure: str = "",
        timeout: Optional[float] = None,
    ) -> str:
        """Begins a job that measures a generation by the collection's probes; gives the job's id for `wait`.

        Args:
            tolerance: loss against the older generation's own queries that the 95 % interval must exclude.
            measure: measure to compare by: cmc1, cmc5, map, mrr, ndcg10, recall10, or several with weights, such as
                "cmc1:2,map:1"; empty: CMC@1 and mAP, each for itself.
        """
        request = _wire.message("ValidateRequest")(
            request_id=request_id(), collection=collection, generation=generation, measure=measure
        )
        given(request, tolerance=tolerance)
        return self._do(Call("Generations/Validate", request, lambda r: r.job, False, timeout))

    def job(self, id: str, *, timeout: Optional[float] = None) -> types.Job:
        """Reads a job's state."""
        request = _wire.message("JobsGetRequest")(id=id)
        return self._do(Call("Jobs/Get", request, lambda r: types.job(r.job), False, timeout))

    def start_backfill(
        self,
        collection: str,
        *,
        generation: int = 0,
        embed_rate: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> types.Backfill:
        """Starts or resumes the re-embedding of the gallery by the active generation, or by a newer one.

        Args:
            generation: a newer generation works the gallery up before it serves; 0: the active one.
            embed_rate: items a second that the server embeds from stored inputs; 0: workers do it (lightcone.worker).
        """
        request = given(
            _wire.message("BackfillStartRequest")(
                request_id=request_id(), collection=collection, generation=generation
            ),
            embed_rate=embed_rate,
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

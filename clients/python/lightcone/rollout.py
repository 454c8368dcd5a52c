"""A whole upgrade of an application's own model, step by step, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Sequence

from . import errors, types
from .client import Client
from .worker import put_embeddings

_BATCH = 256


@dataclass(frozen=True)
class Result:
    """The generation that serves now, the pairs that taught its adapters, and the validation's result (a dict)."""

    generation: int
    pairs: int
    validation: Optional[Any]


def run(
    client: Client,
    collection: str,
    embed: Optional[Callable[[List[types.StoredItem]], Sequence[Any]]] = None,
    *,
    dimension: int,
    endpoint: Optional[Mapping[str, Any]] = None,
    pairs: int = 2000,
    label_field: str = "",
    map: str = "",
    measure: str = "",
    force: bool = False,
    reason: str = "",
    backfill: bool = True,
    embed_rate: Optional[float] = None,
    see: Optional[Callable[[str], None]] = None,
) -> Result:
    """Registers a new model, fits adapters from a few re-embedded items, validates, activates, starts the backfill.

    Args:
        embed: takes stored items with payload, gives as many vectors of shape (dimension,) by the new model.
        dimension: numbers of the new model's vectors.
        endpoint: instead of `embed`, the new model's endpoint as `register` takes it: the server embeds stored texts.
        pairs: items to embed anew before activation; the rest of the gallery stays as it is.
        label_field: payload field with the items' classes, where there is one: helps the adapters.
        map: kind of the adapters, such as "affine"; default: the server's.
        measure: measure that the new generation must not be worse in; default: CMC@1 and mAP, each for itself.
        force, reason: activate although the validation did not pass.
        backfill: start the lazy backfill; `lightcone.worker.run` does the work.
        embed_rate: items a second of it that the server embeds by the endpoint.
        see: called with a sentence at each step.

    Raises:
        FailedPrecondition where the validation did not pass; what it measured is in the generation's validation.
    """
    if (embed is None) == (endpoint is None):
        raise errors.InvalidArgument(
            "embed, endpoint: exactly one is needed", field="embed", allowed="embed or endpoint"
        )
    if embed_rate and endpoint is None:
        raise errors.InvalidArgument(
            "embed_rate: needs an endpoint", field="embed_rate", allowed="0 without an endpoint"
        )
    tell = see or (lambda text: None)
    old = client.collection(collection).active_generation
    new = client.register(collection, dimension=dimension, endpoint=endpoint, expects_adapter=True).generation
    tell(f"generation {new} is registered")
    embedded = _embed_pairs(client, collection, new, pairs, embed, tell) if embed else 0
    for source, target in ((new, old), (old, new)):
        wanted = 0 if embed else pairs  # The second fit has those that the first one embedded.
        job = client.fit_adapter(collection, source, target, map=map, label_field=label_field, embed=wanted)
        fitted = client.wait(job).result
        embedded = embedded or fitted["pairs"]
        tell(f"the adapter {source} -> {target} is fitted")
    validation = None
    if list(client.probe_sets(collection)):
        validation = client.wait(client.validate(collection, new, measure=measure)).result
        tell("the generation is validated")
    client.activate(collection, new, force=force, reason=reason)
    tell(f"generation {new} serves")
    if backfill:
        client.start_backfill(collection, embed_rate=embed_rate)
        tell("the backfill has begun")
    return Result(new, embedded, validation)


def _embed_pairs(
    client: Client,
    collection: str,
    new: int,
    pairs: int,
    embed: Callable[[List[types.StoredItem]], Sequence[Any]],
    tell: Callable[[str], None],
) -> int:
    sampled = client.sample(collection, new, pairs)
    embedded = 0
    for begin in range(0, len(sampled), _BATCH):
        some = {item.id: item.sequence for item in sampled[begin : begin + _BATCH]}
        items = client.get(collection, list(some))
        embedded += put_embeddings(client, collection, new, items, embed(items), some)
        tell(f"{embedded} of {len(sampled)} pairs are embedded")
    return embedded

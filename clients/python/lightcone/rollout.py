"""A whole upgrade of an application's own model, step by step, in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence

from . import types
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
    embed: Callable[[List[types.StoredItem]], Sequence[Any]],
    *,
    dimension: int,
    pairs: int = 2000,
    label_field: str = "",
    map: str = "",
    measure: str = "",
    force: bool = False,
    reason: str = "",
    backfill: bool = True,
    see: Optional[Callable[[str], None]] = None,
) -> Result:
    """Registers a new model, fits adapters from a few re-embedded items, validates, activates, starts the backfill.

    Args:
        embed: takes stored items with payload, gives as many vectors of shape (dimension,) by the new model.
        dimension: numbers of the new model's vectors.
        pairs: items to embed anew before activation; the rest of the gallery stays as it is.
        label_field: payload field with the items' classes, where there is one: helps the adapters.
        map: kind of the adapters, such as "affine"; default: the server's.
        measure: measure that the new generation must not be worse in; default: CMC@1 and mAP, each for itself.
        force, reason: activate although the validation did not pass.
        backfill: start the lazy backfill; `lightcone.worker.run` does the work.
        see: called with a sentence at each step.

    Raises:
        FailedPrecondition where the validation did not pass; what it measured is in the generation's validation.
    """
    tell = see or (lambda text: None)
    old = client.collection(collection).active_generation
    new = client.register(collection, dimension=dimension, expects_adapter=True).generation
    tell(f"generation {new} is registered")
    sampled = client.sample(collection, new, pairs)
    embedded = 0
    for begin in range(0, len(sampled), _BATCH):
        some = {item.id: item.sequence for item in sampled[begin : begin + _BATCH]}
        items = client.get(collection, list(some))
        embedded += put_embeddings(client, collection, new, items, embed(items), some)
        tell(f"{embedded} of {len(sampled)} pairs are embedded")
    for source, target in ((new, old), (old, new)):
        client.wait(client.fit_adapter(collection, source, target, map=map, label_field=label_field))
        tell(f"the adapter {source} -> {target} is fitted")
    validation = None
    if list(client.probe_sets(collection)):
        validation = client.wait(client.validate(collection, new, measure=measure)).result
        tell("the generation is validated")
    client.activate(collection, new, force=force, reason=reason)
    tell(f"generation {new} serves")
    if backfill:
        client.start_backfill(collection)
        tell("the backfill has begun")
    return Result(new, embedded, validation)

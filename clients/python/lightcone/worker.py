"""A backfill worker in five lines:

    import lightcone, lightcone.worker

    client = lightcone.Client("127.0.0.1:7700")
    lightcone.worker.run(client, "docs", lambda items: model.encode([item.payload["text"] for item in items]))

Any number of workers, on any number of machines, may run at once: items are leased, and newer content always wins.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Sequence

from . import _wire, errors, types
from ._channel import Call
from .client import Client

_POLL_SECONDS = 1.0  # between leases while others hold all that is left


@dataclass(frozen=True)
class Report:
    """What a run did: items embedded, items that changed meanwhile or were gone, and items that `embed` gave None for."""

    embedded: int
    changed: int
    skipped: int


def run(
    client: Client,
    collection: str,
    embed: Callable[[List[types.StoredItem]], Sequence[Any]],
    *,
    batch: int = 64,
    lease_seconds: float = 300.0,
    stop: Optional[threading.Event] = None,
    see: Optional[Callable[[Report], None]] = None,
) -> Report:
    """Embeds items by the active generation, worst first, until the backfill is done.

    Args:
        embed: takes items with payload, gives as many vectors of shape (dimension,), or None for an item that it cannot
            embed (such an item is leased again later, behind all others).
        batch: items leased at once.
        lease_seconds: others may take the items after this time without a sign of life; `run` renews its lease.
        stop: ends the run after the batch at hand; what it did not embed goes to others when the lease ends.
        see: called after each batch.

    Raises:
        FailedPrecondition where no backfill is running: ``client.start_backfill(collection)`` starts one.
    """
    stop = stop or threading.Event()
    report = Report(0, 0, 0)
    finished = ""
    while not stop.is_set():
        lease = _lease(client, collection, batch, lease_seconds, finished)
        finished = ""
        state = _wire.name_of("BackfillState", "BACKFILL_STATE_", lease.state)
        if state in ("unspecified", "paused", "stopped", "failed"):
            raise errors.FailedPrecondition(
                f"collection '{collection}' has no running backfill (state: {state}); start_backfill starts one"
            )
        if state == "done":
            break
        if not lease.items:
            stop.wait(_POLL_SECONDS)
            continue
        with _Renewal(client, collection, lease.token, lease_seconds):
            report = _embed(client, collection, lease, embed, report)
        finished = lease.token
        if see is not None:
            see(report)
    return report


def _embed(client: Client, collection: str, lease: Any, embed: Any, before: Report) -> Report:
    sequences = {types.id_of(item.id): item.sequence for item in lease.items}
    items = client.get(collection, list(sequences))
    vectors = embed(items)
    done = put_embeddings(client, collection, lease.generation, items, vectors, sequences)
    skipped = sum(vector is None for vector in vectors)
    return Report(
        before.embedded + done,
        before.changed + len(sequences) - skipped - done,
        before.skipped + skipped,
    )


def put_embeddings(
    client: Client,
    collection: str,
    generation: int,
    items: Sequence[types.StoredItem],
    vectors: Sequence[Any],
    sequences: Mapping[types.ItemId, int],
) -> int:
    """Writes embeddings of stored content by another generation; gives the number written.

    Args:
        vectors: one a item, of shape (dimension,), or None where an item could not be embedded.
        sequences: of each item when it was read; an item that changed since is left out.
    """
    if len(vectors) != len(items):
        raise errors.InvalidArgument(
            f"embed gave {len(vectors)} vectors for {len(items)} items", field="embed", allowed=str(len(items))
        )
    able = [i for i in range(len(items)) if vectors[i] is not None]
    if not able:
        return 0
    answer = client.upsert(
        collection,
        [items[i].id for i in able],
        [vectors[i] for i in able],
        generation=generation,
        same_content=True,
        expected_sequences=[sequences[items[i].id] for i in able],
    )
    return len(able) - len(answer.outdated)


def _lease(client: Client, collection: str, items: int, seconds: float, finished: str = "", renew: str = "") -> Any:
    request = _wire.message("LeaseRequest")(
        collection=collection, items_max=items, finished_token=finished, renew_token=renew
    )
    request.timeout.FromNanoseconds(int(seconds * 1e9))
    return client._do(Call("Backfill/Lease", request, lambda response: response, False))


class _Renewal:
    """Keeps a lease alive while its items are embedded."""

    def __init__(self, client: Client, collection: str, token: str, seconds: float) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(client, collection, token, seconds), daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *unused: Any) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self, client: Client, collection: str, token: str, seconds: float) -> None:
        while not self._ended.wait(seconds / 3):
            try:
                _lease(client, collection, 0, seconds, renew=token)
            except errors.LightconeError:
                return  # The items go to others; expected_sequence keeps both right.

"""Calls about snapshots."""

from __future__ import annotations

from typing import Optional, Sequence

from . import _wire, snapshots
from ._calls import Calls
from ._channel import Call, request_id


class SnapshotCalls(Calls):
    """Make snapshots, and bring their collections back."""

    def create_snapshot(
        self, name: str = "", collections: Sequence[str] = (), *, timeout: Optional[float] = None
    ) -> snapshots.Snapshot:
        """Makes a snapshot on the server. It holds every write that was acknowledged before the call.

        Args:
            name: 1 .. 128 of A-Z a-z 0-9 . _ -, no dot first; empty: a name of the present time.
            collections: names or aliases of the collections that it is to hold; empty: the whole server.
            timeout: seconds after which the server gives up and keeps nothing.
        """
        request = _wire.message("CreateSnapshotRequest")(
            request_id=request_id(), name=name, collections=list(collections)
        )
        return self._do(
            Call("Snapshots/CreateSnapshot", request, lambda r: snapshots.snapshot(r.snapshot), False, timeout)
        )

    def restore_collection(
        self, snapshot: str, collection: str, name: str = "", *, timeout: Optional[float] = None
    ) -> snapshots.SnapshotCollection:
        """Brings one collection of a snapshot into the running server, as a whole or not at all.

        Its aliases and jobs stay behind.

        Args:
            snapshot: name of one of the server's snapshots.
            collection: name of the collection in the snapshot, not an alias.
            name: its new name, which must be free; empty: the same name.
            timeout: seconds after which the server gives up and keeps nothing.
        """
        request = _wire.message("RestoreCollectionRequest")(
            request_id=request_id(), snapshot=snapshot, collection=collection, name=name
        )
        return self._do(
            Call(
                "Snapshots/RestoreCollection",
                request,
                lambda r: snapshots.SnapshotCollection(r.name, r.items, r.sequence, r.active_generation),
                False,
                timeout,
            )
        )

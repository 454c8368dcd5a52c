"""Snapshots, as calls answer them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Optional, Tuple


@dataclass(frozen=True)
class SnapshotCollection:
    """A collection in a snapshot, or as it was restored from one. `sequence` is that of its last write."""

    name: str
    items: int
    sequence: int
    active_generation: int


@dataclass(frozen=True)
class Snapshot:
    """A snapshot; `bytes` are those of its files. `message` is the whole SnapshotInfo of the wire."""

    name: str
    collections: Tuple[SnapshotCollection, ...]
    files: int
    bytes: int
    created: Optional[datetime]
    message: Any = field(repr=False, compare=False, default=None)


def snapshot(info: Any) -> Snapshot:
    return Snapshot(
        name=info.name,
        collections=tuple(
            SnapshotCollection(one.collection, one.items, one.sequence, one.active_generation)
            for one in info.collections
        ),
        files=info.files,
        bytes=info.bytes,
        created=info.created.ToDatetime() if info.HasField("created") else None,
        message=info,
    )

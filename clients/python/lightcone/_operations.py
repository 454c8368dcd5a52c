"""Every unary call once. Client and AsyncClient differ in how they send it."""

from ._collection_calls import CollectionCalls
from ._generation_calls import GenerationCalls
from ._item_calls import ItemCalls
from ._snapshot_calls import SnapshotCalls


class Operations(ItemCalls, CollectionCalls, GenerationCalls, SnapshotCalls):
    """Unary calls of both clients. Errors are LightconeError; times are seconds."""

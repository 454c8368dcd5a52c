"""LlamaIndex's vector store over a collection. Needs the package llama-index-core.

    from lightcone.llama_index import LightconeVectorStore

    store = LightconeVectorStore(lightcone.Client("127.0.0.1:7700"), "docs")
    index = VectorStoreIndex.from_documents(documents, storage_context=StorageContext.from_defaults(vector_store=store))

The collection is made with the first nodes where there is none. The payload of an item is the node's metadata with the
node itself beside it, as other stores keep it. Threads: safe, as the client is.
"""

from __future__ import annotations

import json
from typing import Any, List, Optional

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from . import errors
from .client import Client
from .filters import key_path

_BATCH = 256
_COMPARISONS = {
    FilterOperator.EQ: "=",
    FilterOperator.NE: "!=",
    FilterOperator.GT: ">",
    FilterOperator.GTE: ">=",
    FilterOperator.LT: "<",
    FilterOperator.LTE: "<=",
    FilterOperator.CONTAINS: "=",  # a condition on an array holds if it holds for one element
}


class LightconeVectorStore(BasePydanticVectorStore):
    """A collection as LlamaIndex's vector store.

    Args:
        client: client of the server.
        collection: name of the collection.
        generation: the generation whose model embeds nodes and queries; 0: the active one.
        geometry: geometry of a collection that is made.
    """

    stores_text: bool = True
    flat_metadata: bool = False

    _client: Any = PrivateAttr()
    _collection: str = PrivateAttr()
    _generation: int = PrivateAttr()
    _geometry: str = PrivateAttr()

    def __init__(self, client: Client, collection: str, *, generation: int = 0, geometry: str = "cosine") -> None:
        super().__init__(stores_text=True)
        self._client = client
        self._collection = collection
        self._generation = generation
        self._geometry = geometry

    @classmethod
    def class_name(cls) -> str:
        return "LightconeVectorStore"

    @property
    def client(self) -> Client:
        return self._client

    def add(self, nodes: List[BaseNode], **kwargs: Any) -> List[str]:
        """Writes nodes with their embeddings in batches, each as a whole or not at all. Returns their ids."""
        if not nodes:
            return []
        ids = [node.node_id for node in nodes]
        vectors = [node.get_embedding() for node in nodes]
        payloads = [node_to_metadata_dict(node, remove_text=False, flat_metadata=self.flat_metadata) for node in nodes]
        self._make(len(vectors[0]))
        for at in range(0, len(nodes), _BATCH):
            part = slice(at, at + _BATCH)
            self._client.upsert(
                self._collection, ids[part], vectors[part], payloads[part], generation=self._generation
            )
        return ids

    def _make(self, dimension: int) -> None:
        try:
            self._client.collection(self._collection)
        except errors.NotFound:
            self._client.create_collection(
                self._collection, geometry=self._geometry, payload_indexes={"doc_id": "keyword"}
            )
            made = self._client.register(self._collection, dimension=dimension)
            self._client.activate(self._collection, made.generation)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Deletes the nodes of a document."""
        self._delete_where(f"doc_id = {json.dumps(ref_doc_id)}")

    def delete_nodes(
        self,
        node_ids: Optional[List[str]] = None,
        filters: Optional[MetadataFilters] = None,
        **delete_kwargs: Any,
    ) -> None:
        """Deletes the nodes with these ids that pass the filters."""
        chosen = _together(_of_ids("has_id", node_ids), _of_filters(filters))
        if chosen is None:
            raise errors.InvalidArgument(
                "node_ids, filters: at least one is needed; clear() deletes everything",
                field="node_ids",
                allowed="node_ids or filters",
            )
        self._delete_where(chosen)

    def _delete_where(self, chosen: str) -> None:
        token = ""
        while True:
            deleted = self._client.delete_where(self._collection, chosen, token=token)
            token = deleted.token
            if not token:
                return

    def clear(self) -> None:
        """Deletes every node; the collection stays."""
        ids = [item.id for item in self._client.scroll(self._collection)]
        for at in range(0, len(ids), _BATCH):
            self._client.delete(self._collection, ids[at : at + _BATCH])

    def get_nodes(
        self, node_ids: Optional[List[str]] = None, filters: Optional[MetadataFilters] = None
    ) -> List[BaseNode]:
        """The nodes with these ids that pass the filters; with neither all of them."""
        chosen = _together(_of_ids("has_id", node_ids), _of_filters(filters))
        return [metadata_dict_to_node(item.payload) for item in self._client.scroll(self._collection, chosen)]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes nearest to a query's embedding, or to its text where the server embeds.

        Args:
            query: its mode is the default one; others are refused by name.
            kwargs: further arguments of `Client.search`, such as `older_vectors` or `refresh_top`.

        Returns:
            Similarities are scores: highest first, on one scale over all generations.
        """
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise errors.InvalidArgument(
                f"query.mode: {query.mode.value} is not supported; allowed: default",
                field="query.mode",
                value=str(query.mode.value),
                allowed="default",
            )
        chosen = _together(
            _of_filters(query.filters), _of_ids("doc_id", query.doc_ids), _of_ids("has_id", query.node_ids)
        )
        by_text = query.query_embedding is None
        answer = self._client.search(
            self._collection,
            None if by_text else query.query_embedding,
            query.similarity_top_k,
            text=query.query_str if by_text else None,
            filter=chosen,
            generation=self._generation,
            **kwargs,
        )
        return VectorStoreQueryResult(
            nodes=[metadata_dict_to_node(hit.payload) for hit in answer],
            similarities=[hit.score for hit in answer],
            ids=[str(hit.id) for hit in answer],
        )


def _together(*parts: Optional[str]) -> Optional[str]:
    given = [part for part in parts if part is not None]
    return " and ".join(f"({part})" for part in given) if given else None


def _of_ids(what: str, ids: Optional[List[str]]) -> Optional[str]:
    if not ids:
        return None
    values = ", ".join(json.dumps(value) for value in ids)
    return f"has_id({values})" if what == "has_id" else f"{what} in ({values})"


def _of_filters(filters: Optional[MetadataFilters]) -> Optional[str]:
    if filters is None or not filters.filters:
        return None
    parts = [f"({_of_filters(part)})" if isinstance(part, MetadataFilters) else _of_filter(part) for part in filters.filters]
    condition = FilterCondition(filters.condition or FilterCondition.AND).value
    if condition == "not":
        return f"not ({' or '.join(parts)})"
    return f" {condition} ".join(parts)


def _of_filter(one: Any) -> str:
    field = "`" + key_path(one.key).replace("\\", "\\\\").replace("`", "\\`") + "`"
    values = one.value if isinstance(one.value, list) else [one.value]
    shown = [json.dumps(value) for value in values]
    operator = FilterOperator(one.operator)
    if operator in _COMPARISONS:
        return f"{field} {_COMPARISONS[operator]} {shown[0]}"
    if operator in (FilterOperator.IN, FilterOperator.ANY):
        return f"{field} in ({', '.join(shown)})"
    if operator == FilterOperator.NIN:
        return f"{field} not in ({', '.join(shown)})"
    if operator == FilterOperator.ALL:
        return "(" + " and ".join(f"{field} = {value}" for value in shown) + ")"
    if operator == FilterOperator.TEXT_MATCH:
        return f"words({field}, {shown[0]})"
    if operator == FilterOperator.IS_EMPTY:
        return f"(is_null({field}) or is_empty({field}))"
    raise errors.InvalidArgument(
        f"filters: the operator {operator.value} is not supported",
        field="filters",
        value=operator.value,
        allowed="==, !=, >, >=, <, <=, in, nin, any, all, contains, text_match, is_empty",
    )

"""LangChain's vector store over a collection. Needs the package langchain-core.

    from lightcone.langchain import LightconeVectorStore

    store = LightconeVectorStore.from_texts(texts, embeddings, address="127.0.0.1:7700", collection="docs")
    store.similarity_search("what is a light cone?", k=4, filter={"year": {">=": 2020}})

The payload of an item is ``{"page_content": text, "metadata": {...}}``, as LangChain's store for Qdrant writes it, so a
gallery that was moved from there is served as it is. Threads: safe, as the client is.
"""

from __future__ import annotations

import math
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from . import errors, types
from .client import Client
from .filters import Filter, key_path

_BATCH = 256


class LightconeVectorStore(VectorStore):
    """A collection as LangChain's vector store.

    Args:
        client: client of the server.
        collection: name of the collection.
        embedding: embeds texts and queries. None: the server does, by the endpoint of the active generation, and keeps
            the texts for lazy backfill.
        older_embeddings: by older generation, what embedded its items: queries are then ranked by both models while a
            new one takes over. None where the server embeds.
        generation: the generation whose model `embedding` is; 0: the active one.
        text_key, metadata_key: keys of the payload.
    """

    def __init__(
        self,
        client: Client,
        collection: str,
        embedding: Optional[Embeddings] = None,
        *,
        older_embeddings: Optional[Mapping[int, Embeddings]] = None,
        generation: int = 0,
        text_key: str = "page_content",
        metadata_key: str = "metadata",
    ) -> None:
        self._client = client
        self._collection = collection
        self._embedding = embedding
        self._older = dict(older_embeddings or {})
        self._generation = generation
        self._text_key = text_key
        self._metadata_key = metadata_key
        self._geometry = ""

    @property
    def embeddings(self) -> Optional[Embeddings]:
        return self._embedding

    @property
    def client(self) -> Client:
        return self._client

    @classmethod
    def from_texts(
        cls,
        texts: List[str],
        embedding: Embeddings,
        metadatas: Optional[List[dict]] = None,
        *,
        ids: Optional[List[str]] = None,
        client: Optional[Client] = None,
        address: str = "127.0.0.1:7700",
        collection: str = "langchain",
        geometry: str = "cosine",
        **kwargs: Any,
    ) -> "LightconeVectorStore":
        """Adds texts to a collection, which is made where there is none.

        Args:
            client: client of the server; None: a new one at `address`.
            geometry: geometry of a new collection.
            kwargs: further arguments of the constructor.
        """
        store = cls(client or Client(address), collection, embedding, **kwargs)
        texts = list(texts)
        vectors = embedding.embed_documents(texts)
        try:
            store._client.collection(collection)
        except errors.NotFound:
            if not vectors:
                raise errors.InvalidArgument(
                    "texts: none is there, from which a new collection could take its dimension",
                    field="texts",
                    value="0",
                    allowed="at least one text",
                ) from None
            store._client.create_collection(collection, geometry=geometry)
            made = store._client.register(collection, dimension=len(vectors[0]))
            store._client.activate(collection, made.generation)
        store._add(texts, vectors, metadatas, ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Optional[List[dict]] = None,
        *,
        ids: Optional[List[str]] = None,
        **kwargs: Any,
    ) -> List[str]:
        """Writes texts in batches, each as a whole or not at all; an id that is there is replaced. Returns the ids."""
        texts = list(texts)
        vectors = self._embedding.embed_documents(texts) if self._embedding else None
        return self._add(texts, vectors, metadatas, ids)

    def _add(
        self,
        texts: List[str],
        vectors: Optional[Sequence[Any]],
        metadatas: Optional[Sequence[Optional[dict]]],
        ids: Optional[Sequence[Optional[str]]],
    ) -> List[str]:
        for name, part in (("metadatas", metadatas), ("ids", ids), ("vectors", vectors)):
            if part is not None and len(part) != len(texts):
                raise ValueError(f"{name}: there are {len(part)} for {len(texts)} texts")
        names = [str(uuid.uuid4()) if ids is None or ids[i] is None else ids[i] for i in range(len(texts))]
        payloads = [
            {self._text_key: text, self._metadata_key: (metadatas[i] if metadatas else None) or {}}
            for i, text in enumerate(texts)
        ]
        for at in range(0, len(texts), _BATCH):
            part = slice(at, at + _BATCH)
            self._client.upsert(
                self._collection,
                names[part],
                None if vectors is None else vectors[part],
                payloads[part],
                texts=texts[part] if vectors is None else None,
                keep_input=vectors is None,
                generation=self._generation,
            )
        return names

    def delete(self, ids: Optional[List[str]] = None, **kwargs: Any) -> Optional[bool]:
        """Deletes items; None: all of them."""
        if ids is None:
            ids = [item.id for item in self._client.scroll(self._collection)]
        for at in range(0, len(ids), _BATCH):
            self._client.delete(self._collection, ids[at : at + _BATCH])
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> List[Document]:
        return [self._document(item) for item in self._client.get(self._collection, list(ids))]

    def similarity_search(self, query: str, k: int = 4, filter: Filter = None, **kwargs: Any) -> List[Document]:
        """The k documents nearest to a text.

        Args:
            filter: a dict of metadata fields, or a text over the whole payload, such as ``metadata.year >= 2020``.
            kwargs: further arguments of `Client.search`, such as `score_threshold` or `refresh_top`.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter = None, **kwargs: Any
    ) -> List[Tuple[Document, float]]:
        """The same with scores, highest first, on one scale over all generations."""
        return self._found(self._search(query, k, filter, **kwargs))

    def similarity_search_by_vector(
        self, embedding: List[float], k: int = 4, filter: Filter = None, **kwargs: Any
    ) -> List[Document]:
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: List[float], k: int = 4, filter: Filter = None, **kwargs: Any
    ) -> List[Tuple[Document, float]]:
        return self._found(self._ask(embedding, k, filter, **kwargs))

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
        **kwargs: Any,
    ) -> List[Document]:
        """k of the `fetch_k` nearest documents, each chosen for its score and for its distance to those before it.

        Args:
            lambda_mult: weight of the score, 0 .. 1; the rest is the weight of diversity.
        """
        answer = self._search(query, max(k, fetch_k), filter, with_vector=True, **kwargs)
        return [self._document(answer[i]) for i in _diverse(answer, k, lambda_mult)]

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: List[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
        **kwargs: Any,
    ) -> List[Document]:
        answer = self._ask(embedding, max(k, fetch_k), filter, with_vector=True, **kwargs)
        return [self._document(answer[i]) for i in _diverse(answer, k, lambda_mult)]

    def _search(self, query: str, k: int, filter: Filter, **kwargs: Any) -> types.SearchAnswer:
        if self._embedding is None:
            return self._client.search(
                self._collection,
                text=query,
                k=k,
                filter=self._below_metadata(filter),
                generation=self._generation,
                **kwargs,
            )
        older = {generation: embedding.embed_query(query) for generation, embedding in self._older.items()}
        return self._ask(self._embedding.embed_query(query), k, filter, older_vectors=older, **kwargs)

    def _ask(self, vector: Any, k: int, filter: Filter, **kwargs: Any) -> types.SearchAnswer:
        return self._client.search(
            self._collection, vector, k, filter=self._below_metadata(filter), generation=self._generation, **kwargs
        )

    def _below_metadata(self, filter: Filter) -> Filter:
        if not isinstance(filter, Mapping):
            return filter
        return {f"{key_path(self._metadata_key)}.{path}": condition for path, condition in filter.items()}

    def _found(self, answer: types.SearchAnswer) -> List[Tuple[Document, float]]:
        return [(self._document(hit), hit.score) for hit in answer]

    def _document(self, item: Any) -> Document:
        payload: Dict[str, Any] = item.payload or {}
        metadata = payload.get(self._metadata_key)
        return Document(
            id=str(item.id),
            page_content=str(payload.get(self._text_key, "")),
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        )

    def _select_relevance_score_fn(self) -> Any:
        if not self._geometry:
            self._geometry = self._client.collection(self._collection).geometry
        return _RELEVANCE[self._geometry]


_RELEVANCE = {  # score of a hit, the negative distance, to 0 .. 1
    "cosine": lambda score: 1 + score / 2,
    "inner_product": lambda score: 1 / (1 + math.exp(-score)),
    "euclidean": lambda score: 1 / (1 - score),
    "lorentz": lambda score: 1 / (1 - score),
}


def _diverse(answer: types.SearchAnswer, k: int, weight: float) -> List[int]:
    """Places of k hits by maximal marginal relevance (Carbonell and Goldstein, 1998). Hits of different generations have
    vectors that do not compare: they count as unlike each other."""
    units = []
    for hit in answer:
        vector = np.asarray(hit.vector, dtype=np.float64)
        length = np.linalg.norm(vector)
        units.append(vector / length if length > 0 else vector)
    scores = np.array([hit.score for hit in answer])
    spread = scores.max() - scores.min() if len(answer) else 0.0
    relevance = (scores - scores.min()) / spread if spread > 0 else np.ones(len(answer))
    chosen: List[int] = []
    while len(chosen) < min(k, len(answer)):
        best, best_value = -1, -math.inf
        for i in range(len(answer)):
            if i in chosen:
                continue
            like = max(
                (float(units[i] @ units[j]) for j in chosen if answer[i].generation == answer[j].generation), default=0.0
            )
            value = weight * relevance[i] - (1 - weight) * like
            if value > best_value:
                best, best_value = i, value
        chosen.append(best)
    return chosen

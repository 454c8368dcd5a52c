import abc
import asyncio


class VectorStore(abc.ABC):
    def add_documents(self, documents, **kwargs):
        ids = [document.id for document in documents]
        if "ids" not in kwargs and any(ids):
            kwargs["ids"] = ids
        return self.add_texts([d.page_content for d in documents], [d.metadata for d in documents], **kwargs)

    def search(self, query, search_type, **kwargs):
        if search_type == "similarity":
            return self.similarity_search(query, **kwargs)
        if search_type == "mmr":
            return self.max_marginal_relevance_search(query, **kwargs)
        return [document for document, _ in self.similarity_search_with_relevance_scores(query, **kwargs)]

    @abc.abstractmethod
    def similarity_search(self, query, k=4, **kwargs): ...

    async def asimilarity_search(self, query, k=4, **kwargs):
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: self.similarity_search(query, k=k, **kwargs)
        )

    def similarity_search_with_relevance_scores(self, query, k=4, **kwargs):
        least = kwargs.pop("score_threshold", None)
        relevance = self._select_relevance_score_fn()
        found = [(d, relevance(score)) for d, score in self.similarity_search_with_score(query, k, **kwargs)]
        return [(d, score) for d, score in found if least is None or score >= least]

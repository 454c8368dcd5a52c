import abc


class Embeddings(abc.ABC):
    @abc.abstractmethod
    def embed_documents(self, texts): ...

    @abc.abstractmethod
    def embed_query(self, text): ...

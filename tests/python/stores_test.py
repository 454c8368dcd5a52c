"""The stores for LangChain and LlamaIndex on a real server. Where their packages are not installed, the interfaces are
those of tests/python/published."""

import asyncio
import importlib.util
import pathlib
import unittest
import zlib

import sys

for package in ("langchain_core", "llama_index"):
    if importlib.util.find_spec(package) is None:
        sys.path.append(str(pathlib.Path(__file__).parent / "published"))

import lightcone
import lightcone.testing
import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from lightcone import langchain, llama_index
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)


class Words(Embeddings):
    """Sum of a vector for each word, which the word and the model draw."""

    def __init__(self, model="old", dimension=32):
        self.model, self.dimension = model, dimension

    def embed_query(self, text):
        seeds = [zlib.crc32((self.model + word).encode()) for word in text.split()]
        return list(sum(np.random.default_rng(seed).normal(size=self.dimension) for seed in seeds))

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


TEXTS = ["red car", "red bus", "blue car", "green tree", "red car red car"]
METADATA = [{"year": 2000 + i, "a.b": i % 2, "tags": ["x"] if i else []} for i in range(len(TEXTS))]


class Stores(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context = lightcone.testing.server()
        cls.client = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)

    def test_langchain_adds_finds_filters_reads_and_deletes(self):
        store = langchain.LightconeVectorStore.from_texts(
            TEXTS, Words(), METADATA, ids=list("abcde"), client=self.client, collection="chain"
        )
        self.assertEqual([d.id for d in store.similarity_search("blue car", k=1)], ["c"])
        found = store.similarity_search("red car", k=2, filter={"year": {"<": 2003}})
        self.assertEqual(found[0].page_content, "red car")
        self.assertEqual(found[0].metadata, METADATA[0])
        self.assertEqual([d.id for d in store.similarity_search("red", k=9, filter={'"a.b"': 1})], ["b", "d"])
        self.assertEqual([d.id for d in store.similarity_search("red", k=9, filter="metadata.year = 2003")], ["d"])
        by_vector = store.similarity_search_with_score_by_vector(Words().embed_query("green tree"), k=1)
        self.assertEqual((by_vector[0][0].id, round(by_vector[0][1], 5)), ("d", 0))

        near = store.search("red car", "similarity_score_threshold", score_threshold=0.99)
        self.assertEqual({d.id for d in near}, {"a", "e"})
        alike = [d.id for d in store.search("red car", "mmr", k=2, fetch_k=5, lambda_mult=0.4)]
        self.assertNotEqual(set(alike), {"a", "e"}, "two texts of the same words are no two answers")
        self.assertEqual(len(store.max_marginal_relevance_search_by_vector(Words().embed_query("red"), k=9)), 5)
        self.assertEqual([d.id for d in asyncio.run(store.asimilarity_search("blue car", k=1))], ["c"])

        ids = store.add_documents([Document(page_content="blue boat", metadata={"year": 1})])
        self.assertEqual(len(ids), 1)
        self.assertEqual([d.page_content for d in store.get_by_ids(ids + ["missing"])], ["blue boat"])
        self.assertTrue(store.delete(ids))
        self.assertEqual(store.get_by_ids(ids), [])
        store.add_texts(["black car"], ids=["a"])
        self.assertEqual([d.page_content for d in store.get_by_ids(["a"])], ["black car"], "an id is replaced")
        store.delete()
        self.assertEqual(self.client.count("chain").count, 0)

    def test_langchain_ranks_by_both_models_while_a_new_one_takes_over(self):
        store = langchain.LightconeVectorStore.from_texts(TEXTS, Words(), client=self.client, collection="two")
        self.client.register("two", dimension=48, expects_adapter=True)
        new = langchain.LightconeVectorStore(
            self.client, "two", Words("new", 48), older_embeddings={1: Words()}, generation=2
        )
        new.add_texts(["green car"], ids=["n"])
        found = {d.page_content for d in new.similarity_search("green car", k=2)}
        self.assertIn("green car", found)
        self.assertEqual(len(found), 2, "an item of the old model is found by the old query")
        self.assertEqual(len(new.max_marginal_relevance_search("green car", k=6)), 6, "vectors of two dimensions")
        self.assertEqual(store.similarity_search("red bus", k=1)[0].page_content, "red bus")

    def test_langchain_names_what_is_wrong(self):
        store = langchain.LightconeVectorStore(self.client, "nothing", Words())
        with self.assertRaises(lightcone.NotFound):
            store.similarity_search("red")
        with self.assertRaisesRegex(ValueError, "metadatas: there are 1 for 2 texts"):
            store.add_texts(["a", "b"], [{}])
        with self.assertRaisesRegex(lightcone.InvalidArgument, "texts: none"):
            langchain.LightconeVectorStore.from_texts([], Words(), client=self.client, collection="nothing")

    def nodes(self):
        return [
            TextNode(
                text=text,
                id_=f"n{i}",
                embedding=Words().embed_query(text),
                metadata={**METADATA[i], "note": None if i == 2 else "a few words"},
                **({"ref_doc_id": f"doc{i % 2}"}),
            )
            for i, text in enumerate(TEXTS)
        ]

    def test_llama_index_adds_finds_filters_reads_and_deletes(self):
        store = llama_index.LightconeVectorStore(self.client, "llama")
        self.assertEqual(store.add(self.nodes()), ["n0", "n1", "n2", "n3", "n4"])
        answer = store.query(VectorStoreQuery(query_embedding=Words().embed_query("blue car"), similarity_top_k=2))
        self.assertEqual(answer.ids[0], "n2")
        self.assertEqual(answer.nodes[0].get_content(), "blue car")
        self.assertGreater(answer.similarities[0], answer.similarities[1])

        def ids(condition=FilterCondition.AND, *parts):
            chosen = MetadataFilters(filters=list(parts), condition=condition)
            return [node.node_id for node in store.get_nodes(filters=chosen)]

        one = MetadataFilter
        of = FilterOperator
        year = [one(key="year", value=2001, operator=operator) for operator in (of.EQ, of.GT, of.LTE, of.NE)]
        self.assertEqual(ids(FilterCondition.AND, year[0]), ["n1"])
        self.assertEqual(ids(FilterCondition.AND, year[1], year[3]), ["n2", "n3", "n4"])
        self.assertEqual(ids(FilterCondition.OR, year[0], one(key="a.b", value=0)), ["n0", "n1", "n2", "n4"])
        self.assertEqual(ids(FilterCondition.NOT, year[2]), ["n2", "n3", "n4"])
        nested = MetadataFilters(filters=[year[0], one(key="year", value=2004)], condition=FilterCondition.OR)
        self.assertEqual(ids(FilterCondition.AND, nested, one(key="a.b", value=1)), ["n1"])
        self.assertEqual(ids(FilterCondition.AND, one(key="year", value=[2000, 2004], operator=of.IN)), ["n0", "n4"])
        self.assertEqual(ids(FilterCondition.AND, one(key="year", value=[2000, 2001, 2002], operator=of.NIN)), ["n3", "n4"])
        self.assertEqual(ids(FilterCondition.AND, one(key="tags", value="x", operator=of.CONTAINS)), ["n1", "n2", "n3", "n4"])
        self.assertEqual(ids(FilterCondition.AND, one(key="tags", value=["x"], operator=of.ALL)), ["n1", "n2", "n3", "n4"])
        self.assertEqual(ids(FilterCondition.AND, one(key="note", value="few", operator=of.TEXT_MATCH)), ["n0", "n1", "n3", "n4"])
        self.assertEqual(ids(FilterCondition.AND, one(key="note", value=None, operator=of.IS_EMPTY)), ["n2"])

        def found(**how):
            ask = VectorStoreQuery(query_embedding=Words().embed_query("red"), similarity_top_k=9, **how)
            return sorted(store.query(ask).ids)

        self.assertEqual(found(doc_ids=["doc1"]), ["n1", "n3"])
        self.assertEqual(found(node_ids=["n0", "n4"], filters=MetadataFilters(filters=[year[1]])), ["n4"])
        store.delete("doc1")
        self.assertEqual(found(), ["n0", "n2", "n4"])
        store.delete_nodes(["n0"])
        store.delete_nodes(filters=MetadataFilters(filters=[one(key="year", value=2004)]))
        self.assertEqual(found(), ["n2"])
        store.clear()
        self.assertEqual(found(), [])

    def test_llama_index_names_what_is_wrong(self):
        store = llama_index.LightconeVectorStore(self.client, "llama_wrong")
        store.add(self.nodes())
        with self.assertRaisesRegex(lightcone.InvalidArgument, "query.mode: hybrid"):
            store.query(VectorStoreQuery(query_embedding=[1.0] * 32, mode=VectorStoreQueryMode.HYBRID))
        with self.assertRaisesRegex(lightcone.InvalidArgument, "clear"):
            store.delete_nodes()
        wrong = MetadataFilters(filters=[MetadataFilter(key="year", value="x", operator="text_match_insensitive")])
        with self.assertRaisesRegex(lightcone.InvalidArgument, "text_match_insensitive"):
            store.query(VectorStoreQuery(query_embedding=[1.0] * 32, filters=wrong))
        with self.assertRaisesRegex(lightcone.InvalidArgument, "32"):
            store.query(VectorStoreQuery(query_embedding=[1.0] * 7))


if __name__ == "__main__":
    unittest.main()

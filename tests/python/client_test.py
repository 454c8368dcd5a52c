"""Every call of the Python client, on a real server, with right and wrong arguments."""

import asyncio
import importlib.util
import os
import pathlib
import socket
import sys
import tempfile
import time
import unittest
import warnings
from datetime import datetime, timezone

import grpc
import lightcone
import lightcone.aio
import lightcone.testing
import numpy as np
from lightcone import filters

DIMENSION = 16
RANDOM = np.random.default_rng(1)


def vectors(n, dimension=DIMENSION):
    return RANDOM.normal(size=(n, dimension)).astype(np.float32)


class ServerCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context = lightcone.testing.server()
        cls.client = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)

    def collection(self, name, dimension=DIMENSION):
        self.client.create_collection(name, payload_indexes={"year": "integer"})
        generation = self.client.register(name, dimension=dimension).generation
        self.client.activate(name, generation)
        return name


class Items(ServerCase):
    def test_what_is_written_is_found_read_counted_and_deleted(self):
        name = self.collection("items")
        z = vectors(50)
        payloads = [{"year": 2000 + i, "tags": ["a", "b"] if i % 2 else [], "text": "é😀"} for i in range(50)]
        written = self.client.upsert(name, list(range(50)), z, payloads)
        self.assertEqual((written.items, written.generation), (50, 1))

        answer = self.client.search(name, z[7], k=3, wait_for_sequence=written.sequence)
        self.assertEqual(answer.ids[0], 7)
        self.assertEqual(answer[0].payload, payloads[7])
        self.assertEqual(len(answer), 3)
        many = self.client.search_many(name, z[:4], k=2, exact=True)
        self.assertEqual(many.ids.shape, (4, 2))
        self.assertEqual(list(many.ids[:, 0]), [0, 1, 2, 3])
        np.testing.assert_allclose(many.distances[:, 0], 0, atol=1e-6)

        unit = z[3] / np.linalg.norm(z[3])
        self.assertGreater(float(unit @ self.client.get(name, [3], with_vector=True)[0].vector), 0.99)
        self.assertEqual([item.id for item in self.client.get(name, [4, "missing", 5])], [4, 5])
        self.assertEqual(self.client.count(name, "year >= 2010 and year < 2020").count, 10)
        self.assertEqual(self.client.count(name, {"year": {">=": 2010}, "tags": "a"}).count, 20)
        near = self.client.search(name, z[7], k=2, offset=1, with_payload=["text"])
        self.assertEqual(near.ids, answer.ids[1:])
        self.assertEqual(near[0].payload, {"text": "é😀"})
        bound = answer[1].distance
        self.assertEqual(len(self.client.search(name, z[7], k=10, distance_max=bound, exact=True)), 2)
        self.assertEqual(len(self.client.search(name, z[7], k=10, score_threshold=-bound, exact=True)), 2)
        self.assertEqual(self.client.delete(name, [0, 1, "missing"]).deleted, 2)
        self.assertEqual(int(self.client.count(name)), 48)
        first = self.client.delete_where(name, "year < 2012", limit=6)
        self.assertEqual((first.deleted, bool(first.token)), (6, True))
        last = self.client.delete_where(name, "year < 2012", token=first.token)
        self.assertEqual((last.deleted, last.token, int(self.client.count(name))), (4, "", 38))

    def test_payloads_change_are_counted_grouped_and_ordered(self):
        name = self.collection("verbs")
        z = vectors(30)
        self.client.upsert(name, list(range(30)), z, [{"n": i % 3, "place": {"lon": i, "lat": 0}} for i in range(30)])
        changed = self.client.set_payload(name, {"title": "Red car"}, [1, 2, 77])
        self.assertEqual((changed.changed, changed.missing), (2, (77,)))
        self.assertEqual(self.client.get(name, [1])[0].payload["n"], 1)
        self.client.set_payload(name, {"colour": "red"}, [1], key="more.details")
        self.assertEqual(self.client.get(name, [1])[0].payload["more"], {"details": {"colour": "red"}})
        self.client.delete_payload(name, ["more", "title"], [1])
        self.assertEqual([item.id for item in self.client.scroll(name, 'words(title, "CAR")')], [2])
        self.assertEqual(self.client.count(name, "geo_radius(place, 0, 0, 200000) and has_id(0, 1, 2)").count, 2)
        self.assertEqual(self.client.overwrite_payload(name, {"n": 9}, filter="n = 2", limit=4).changed, 4)
        self.client.clear_payload(name, [0])
        facet = self.client.facet(name, "n", limit=2)
        self.assertEqual((facet.values, facet.distinct), ([(1, 10), (0, 9)], 4))

        answer = self.client.search(name, z[4], group_by="n", groups=2, group_size=2, exact=True)
        self.assertEqual((len(answer), len(answer.groups)), (0, 2))
        self.assertEqual((answer.groups[0].value, answer.groups[0].hits[0].id), (1, 4))
        with self.assertRaisesRegex(lightcone.LightconeError, "no payload index"):
            list(self.client.scroll(name, order_by="n"))
        self.client.index_payload(name, add={"n": "integer"}, wait=True)
        ordered = list(self.client.scroll(name, order_by="n", descending=True, start_from=2, page_size=5))
        self.assertEqual([item.payload["n"] for item in ordered], [2] * 6 + [1] * 10 + [0] * 9)

    def test_a_new_vector_keeps_payload_and_time_where_it_is_asked_to(self):
        name, z = self.collection("kept"), vectors(2)
        self.client.upsert(name, ["a"], z[:1], [{"n": 1}], ttl=3600)
        before = self.client.get(name, ["a"], with_vector=True)[0]
        self.client.upsert(name, ["a"], z[1:], keep_payload=True)
        after = self.client.get(name, ["a"], with_vector=True)[0]
        self.assertEqual((after.payload, after.expires), ({"n": 1}, before.expires))
        self.assertGreater(float(np.abs(after.vector - before.vector).max()), 0.01)
        with self.assertRaisesRegex(lightcone.NotFound, r"items\[1\]"):
            self.client.upsert(name, ["a", "none"], z, keep_payload=True)
        with self.assertRaisesRegex(lightcone.InvalidArgument, "payload_json"):
            self.client.upsert(name, ["a"], z[:1], [{"n": 2}], keep_payload=True)

    def test_items_expire(self):
        self.client.create_collection("expiring", default_ttl=3600)
        self.client.activate("expiring", self.client.register("expiring", dimension=DIMENSION).generation)
        self.client.upsert("expiring", [1, 2, 3], vectors(3), ttl=[None, 0, 0.2])
        by_default, stays = self.client.get("expiring", [1, 2])
        self.assertIsNone(stays.expires)
        left = (by_default.expires - datetime.now(timezone.utc).replace(tzinfo=None)).total_seconds()
        self.assertTrue(3500 < left <= 3600, left)
        deadline = time.monotonic() + 30
        while self.client.get("expiring", [3]) and time.monotonic() < deadline:
            pass
        self.assertEqual(sorted(self.client.search("expiring", vectors(1)[0], exact=True).ids), [1, 2])
        self.assertEqual(self.client.upload("expiring", range(4, 9), vectors(5), ttl=0.001), 5)
        while int(self.client.count("expiring")) > 2 and time.monotonic() < deadline:
            pass
        self.assertEqual(int(self.client.count("expiring")), 2)
        for ttl in (-1, [1, 2], 1e12):
            with self.assertRaisesRegex(lightcone.InvalidArgument, "ttl"):
                self.client.upsert("expiring", [9], vectors(1), ttl=ttl)

    def test_vectors_of_another_model_give_a_warning(self):
        self.client.create_collection("watched", foreign_vectors="warn")
        self.client.activate("watched", self.client.register("watched", dimension=48).generation)
        maps = RANDOM.normal(size=(2, 12, 48))

        def embedded(model, n):
            z = RANDOM.normal(size=(n, 12)) @ maps[model] + 0.1 * RANDOM.normal(size=(n, 48)) + 2
            return (z / np.linalg.norm(z, axis=1, keepdims=True)).astype(np.float32)

        self.client.upload("watched", range(3000), embedded(0, 3000))
        deadline = time.monotonic() + 60
        while not self.client.collection("watched").message.model_watch:
            self.assertLess(time.monotonic(), deadline, "its rows were never learnt")
            time.sleep(0.05)  # what is waited for happens in the server
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.client.upsert("watched", range(100), embedded(0, 100))
            self.client.search_many("watched", embedded(0, 100))
        with self.assertWarnsRegex(lightcone.ForeignVectorsWarning, "generation 1"):
            written = self.client.upsert("watched", range(100), embedded(1, 100))
        self.assertEqual(written.items, 100)
        self.assertRegex(written.warnings[0], "upserted vectors may not come from the model")
        with self.assertWarns(lightcone.ForeignVectorsWarning):
            answers = self.client.search_many("watched", embedded(1, 100))
        self.assertRegex(answers[0].warnings[0], "queries may not come from the model")
        with self.assertRaisesRegex(ValueError, "foreign_vectors: 'never' is not known; allowed: warn, reject, ignore"):
            self.client.create_collection("unwatched", foreign_vectors="never")

    def test_a_collection_may_demand_the_generation_of_vectors(self):
        self.client.create_collection("demanding", require_generation=True)
        self.client.activate("demanding", self.client.register("demanding", dimension=DIMENSION).generation)
        with self.assertRaisesRegex(lightcone.InvalidArgument, "generation"):
            self.client.upsert("demanding", [1], vectors(1))
        self.assertEqual(self.client.upsert("demanding", [1], vectors(1), generation=1).items, 1)

    def test_vectors_of_another_model_and_texts_without_an_encoder_are_refused(self):
        self.client.create_collection("modelled")
        manifest = {"dimension": DIMENSION, "model": "m", "revision": "2"}
        self.client.activate("modelled", self.client.register("modelled", manifest=manifest).generation)
        self.assertEqual(self.client.upsert("modelled", [1], vectors(1), model="m@2").items, 1)
        with self.assertRaisesRegex(lightcone.FailedPrecondition, "'other'.*'m@2'"):
            self.client.upsert("modelled", [2], vectors(1), model="other")
        with self.assertRaisesRegex(lightcone.FailedPrecondition, "'other'.*'m@2'"):
            self.client.search("modelled", vectors(1)[0], model="other")
        with self.assertRaisesRegex(lightcone.FailedPrecondition, "no encoder"):
            self.client.search("modelled", text="words")
        with self.assertRaisesRegex(lightcone.FailedPrecondition, "no encoder that could embed candidates"):
            self.client.search("modelled", vectors(1)[0], refresh_top=5)
        with self.assertRaisesRegex(lightcone.InvalidArgument, "'refresh_top' is 1001"):
            self.client.search_many("modelled", vectors(2), refresh_top=1001)
        with self.assertRaisesRegex(lightcone.FailedPrecondition, "no encoder"):
            self.client.upsert("modelled", [3], texts=["words"])
        with self.assertRaisesRegex(lightcone.FailedPrecondition, "encoder.endpoint_hosts"):
            endpoint = {"url": "http://127.0.0.1:1/v1/embeddings", "model": "m"}
            self.client.register("modelled", manifest=manifest, endpoint=endpoint)
        with self.assertRaises(lightcone.InvalidArgument):
            self.client.search("modelled", vectors(1)[0], text="words")

    def test_texts_and_integers_are_different_ids_and_large_ones_keep_their_digits(self):
        name = self.collection("ids")
        ids = ["1", 1, 2**64 - 1, 2**53 + 1, "ünïcode"]
        self.client.upsert(name, ids, vectors(5))
        self.assertEqual({item.id for item in self.client.scroll(name)}, set(ids))
        for wrong in (-1, 2**64, 1.5, None, True):
            with self.assertRaisesRegex(lightcone.InvalidArgument, r"ids\[0\]"):
                self.client.upsert(name, [wrong], vectors(1))

    def test_wrong_vectors_are_refused_by_name(self):
        name = self.collection("wrong")
        cases = {
            r"vectors: the shape is \(16,\)": vectors(1)[0],
            r"vectors\[1\]\[0\] is nan .*finite": np.where(np.arange(2)[:, None] == 1, np.nan, vectors(2)),
            r"vectors\[0\]\[0\] is inf as a float32.*finite": np.full((2, 16), 1e300),
            "vectors: there are 2 of 1 ids": vectors(2),
            "exactly 16": vectors(1, 8),
        }
        for message, wrong in cases.items():
            ids = list(range(2 if "finite" in message else 1))
            with self.subTest(message), self.assertRaisesRegex(lightcone.InvalidArgument, message):
                self.client.upsert(name, ids, wrong)
        with self.assertRaises(lightcone.InvalidArgument) as caught:
            self.client.search(name, vectors(1)[0][:3])
        self.assertEqual(caught.exception.allowed, "exactly 16")
        self.assertIn("queries[0]", caught.exception.field)
        with self.assertRaisesRegex(lightcone.InvalidArgument, "payloads"):
            self.client.upsert(name, [1], vectors(1), [{"x": float("nan")}])
        with self.assertRaises(lightcone.InvalidArgument):
            self.client.search(name, vectors(1)[0], k=-1)
        with self.assertRaises(lightcone.NotFound):
            self.client.search("missing", vectors(1)[0])

    def test_a_write_that_expects_an_older_state_is_left_out(self):
        name = self.collection("expected")
        first = self.client.upsert(name, ["a", "b"], vectors(2))
        self.client.upsert(name, ["a"], vectors(1))
        late = self.client.upsert(name, ["a", "b"], vectors(2), expected_sequences=[first.sequence] * 2)
        self.assertEqual((late.items, late.outdated), (1, (0,)))

    def test_an_upload_of_iterators_writes_all_and_tells_how_far_it_is(self):
        name = self.collection("upload")
        z = vectors(2345)
        told = []
        done = self.client.upload(
            name, iter(range(2345)), iter(z), ({"n": i} for i in range(2345)), batch=100, progress=told.append
        )
        self.assertEqual((done, told[-1], len(told)), (2345, 2345, 24))
        self.assertEqual(self.client.count(name).count, 2345)
        self.assertEqual(sum(1 for _ in self.client.scroll(name, page_size=100)), 2345)
        self.assertEqual(sum(1 for _ in self.client.scroll(name, page_size=100, limit=250)), 250)
        self.assertEqual(sum(1 for _ in self.client.scroll(name, "n < 7")), 7)

    def test_an_upload_names_the_batch_that_is_wrong_and_does_not_hang(self):
        name = self.collection("upload-wrong")
        with self.assertRaisesRegex(lightcone.InvalidArgument, "finite"):
            self.client.upload(name, range(30), [[1.0] * 16] * 29 + [[np.inf] * 16], batch=10)
        with self.assertRaisesRegex(lightcone.InvalidArgument, "fewer ids"):
            self.client.upload(name, range(5), vectors(6))
        with self.assertRaisesRegex(lightcone.InvalidArgument, "more ids"):
            self.client.upload(name, range(7), vectors(6))
        with self.assertRaises(lightcone.InvalidArgument):
            self.client.upload(name, range(2000), vectors(2000, 8), batch=10)

    def test_the_queries_of_one_call_fail_alone(self):
        name = self.collection("alone")
        self.client.upsert(name, [1], vectors(1))
        answers = self.client.search_many(name, [lightcone.ItemQuery("missing"), vectors(1)[0]], k=1)
        self.assertEqual(answers[1].ids, [1])
        with self.assertRaises(lightcone.LightconeError):
            answers[0]

    def test_queries_carry_vectors_of_older_generations(self):
        name = self.collection("both")
        z = vectors(40)
        self.client.upsert(name, list(range(40)), z)
        newer = self.client.register(name, dimension=DIMENSION, expects_adapter=True).generation
        answer = self.client.search(name, vectors(1)[0], k=1, generation=newer, older_vectors={1: z[7]})
        self.assertEqual((answer.ids, answer.out_of_reach), ([7], 0))
        many = self.client.search_many(name, vectors(5), k=1, generation=newer, older_vectors={1: z[:5]})
        self.assertEqual(list(many.ids[:, 0]), list(range(5)))
        with self.assertRaisesRegex(lightcone.InvalidArgument, "4 vectors for 5 queries"):
            self.client.search_many(name, vectors(5), k=1, generation=newer, older_vectors={1: z[:4]})
        with self.assertRaisesRegex(lightcone.InvalidArgument, "older_vectors"):
            self.client.search(name, z[0], generation=newer, older_vectors={9: z[0]})
        with self.assertRaisesRegex(lightcone.InvalidArgument, "older_vectors"):
            self.client.search(name, z[0], generation=newer, older_vectors={-1: z[0]})


class Collections(ServerCase):
    def test_collections_aliases_and_generations_are_listed(self):
        name = self.collection("listed")
        self.client.set_alias("alias", name)
        self.assertEqual(self.client.collection("alias").name, name)
        self.assertIn(name, [one.name for one in self.client.collections(page_size=1)])
        self.assertEqual([g.state for g in self.client.generations(name)], ["active"])
        self.assertEqual(self.client.rebuild(name, {"kind": "hnsw", "hnsw_m": 12}, wait=True).message.index.hnsw_m, 12)
        self.client.index_payload(name, {"lang": "keyword"}, drop=["year"], wait=True)
        self.assertEqual([i.field.path for i in self.client.collection(name).message.payload_indexes], ["lang"])
        self.client.drop_collection(name)
        with self.assertRaises(lightcone.NotFound):
            self.client.collection(name)

    def test_odd_settings_name_what_is_allowed(self):
        with self.assertRaisesRegex(ValueError, "cosine"):
            self.client.create_collection("odd", geometry="round")
        with self.assertRaisesRegex(lightcone.InvalidArgument, "hnsw_m"):
            self.client.create_collection("odd", index={"hnswm": 3})
        with self.assertRaises(lightcone.AlreadyExists):
            self.client.create_collection(self.collection("twice"))


class Snapshots(ServerCase):
    def test_a_collection_of_a_snapshot_comes_back_under_another_name(self):
        name, other, z = self.collection("kept"), self.collection("left-out"), vectors(20)
        self.client.set_alias("alias", name)
        written = self.client.upsert(name, list(range(20)), z)
        made = self.client.create_snapshot("chosen", ["alias"])
        self.assertEqual((made.name, made.bytes > 0, made.files > 0), ("chosen", True, True))
        held = lightcone.SnapshotCollection(name, 20, written.sequence, 1)
        self.assertEqual(made.collections, (held,))
        self.client.delete(name, list(range(20)))

        restored = self.client.restore_collection("chosen", name, "then")
        self.assertEqual(restored, lightcone.SnapshotCollection("then", 20, written.sequence, 1))
        self.assertEqual(self.client.search("then", z[3], k=1, exact=True).ids, [3])
        self.assertEqual(int(self.client.count(name)), 0)
        whole = self.client.create_snapshot()
        self.assertLessEqual({name, other, "then"}, {one.name for one in whole.collections})
        self.client.drop_collection("then")
        self.assertEqual(self.client.restore_collection(whole.name, "then").name, "then")

    def test_what_cannot_be_made_or_restored_is_named(self):
        name = self.collection("source")
        with self.assertRaisesRegex(lightcone.NotFound, "missing"):
            self.client.create_snapshot("none", ["missing"])
        self.client.create_snapshot("only", [name])
        with self.assertRaisesRegex(lightcone.AlreadyExists, "only"):
            self.client.create_snapshot("only", [name])
        with self.assertRaises(lightcone.NotFound):
            self.client.restore_collection("none", name, "elsewhere")
        with self.assertRaises(lightcone.NotFound):
            self.client.restore_collection("only", "missing", "elsewhere")
        with self.assertRaisesRegex(lightcone.AlreadyExists, name):
            self.client.restore_collection("only", name)


class Asyncio(ServerCase):
    def test_every_call_is_a_coroutine(self):
        name = self.collection("async")
        address = self.client._options.address

        async def run():
            async with lightcone.aio.AsyncClient(address) as client:
                z = vectors(300)
                await asyncio.gather(*(client.upsert(name, [i], z[i : i + 1]) for i in range(300)))
                answers = await asyncio.gather(*(client.search(name, z[i], k=1) for i in range(20)))
                self.assertEqual([answer.ids[0] for answer in answers], list(range(20)))
                self.assertEqual(len([item async for item in client.scroll(name, page_size=50)]), 300)
                self.assertIn(name, [one.name async for one in client.collections()])
                with self.assertRaises(lightcone.NotFound):
                    await client.count("missing")

        asyncio.run(run())

    def test_the_types_of_asyncio_are_those_of_the_client(self):
        source = pathlib.Path(os.environ["LIGHTCONE_SOURCE"], "clients/python")
        spec = importlib.util.spec_from_file_location("make_aio_stub", source / "make_aio_stub.py")
        maker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(maker)
        self.assertEqual(maker.stub(), (source / "lightcone/aio.pyi").read_text(), "run make_aio_stub.py")


class Connections(unittest.TestCase):
    def test_without_a_server_the_error_says_where(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
            with lightcone.Client(address, retries=0, timeout=5) as client:
                with self.assertRaises(lightcone.Unavailable):
                    client.count("docs")
            with self.assertRaises(lightcone.DeadlineExceeded):
                lightcone.Client(address).wait_until_serving(0.3)

    def test_odd_options_name_what_is_allowed(self):
        for wrong in ({"timeout": 0}, {"retries": -1}):
            with self.assertRaisesRegex(lightcone.InvalidArgument, next(iter(wrong))):
                lightcone.Client(**wrong)
        with self.assertRaisesRegex(lightcone.InvalidArgument, "cert and key"):
            lightcone.Client(tls=lightcone.Tls(cert="x"))

    def test_a_client_finds_its_server_again_after_a_restart(self):
        with tempfile.TemporaryDirectory() as data:
            with lightcone.testing.server(data=data) as first:
                first.create_collection("kept")
                address = first._options.address
                lasting = lightcone.Client(address, retries=20)
                self.assertEqual(lasting.collection("kept").items, 0)
            with lightcone.testing.server(data=data, listen=address):
                self.assertEqual(lasting.collection("kept").items, 0)
            lasting.close()


class Filters(unittest.TestCase):
    def same(self, text, fields):
        self.assertEqual(filters.make(text), filters.make(fields), text)

    def test_a_dict_means_what_its_text_means(self):
        self.same('class = "cat"', {"class": "cat"})
        self.same("a == 1 and b == -1.5", {"a": 1, "b": -1.5})
        self.same("x in (1, 'two', true)", {"x": [1, "two", True]})
        self.same(r'`a b` = "\u00e9\n"', {"a b": "é\n"})
        self.same(r"f = 'it\'s \"so\"'", {"f": "it's \"so\""})

    def test_words_bind_as_the_command_line_has_it(self):
        made = filters.make('not a = 1 and b != 2 or c not in (3) and exists(d.e)')
        self.assertEqual(len(getattr(made, "or").of), 2)
        first, second = getattr(made, "or").of
        self.assertEqual(len(getattr(first, "and").of), 2)
        self.assertEqual(getattr(getattr(second, "and").of[0], "not").WhichOneof("kind"), "in")
        self.assertEqual(getattr(second, "and").of[1].exists.field, "d.e")

    def test_odd_keys_empty_fields_and_numbers_of_values_can_be_asked_for(self):
        self.same('"a.b".c = 1 and x.y = 2', {'"a.b".c': 1, "x.y": 2})
        self.same('"" = 1', {'""': 1})
        self.assertEqual(filters.make("is_null(a.b)").is_null.field, "a.b")
        self.assertEqual(filters.make("is_empty(a)").is_empty.field, "a")
        self.assertEqual(filters.make("values_count(a) >= 2").values_count.greater_equal, 2)
        exact = filters.make("values_count(a) = 2").values_count
        self.assertEqual((exact.greater_equal, exact.less_equal), (2, 2))
        for text, what in (("values_count(a)", "expected ="), ("values_count(a) > x", "a whole number")):
            with self.assertRaisesRegex(lightcone.InvalidArgument, what):
                filters.make(text)

    def test_ids_objects_texts_and_places_can_be_asked_for(self):
        made = filters.make('has_id(7, "x") and nested(a, b = 1 or c > 2)')
        ids, nested = getattr(made, "and").of
        self.assertEqual([ids.has_id.ids[0].number, ids.has_id.ids[1].name], [7, "x"])
        self.assertEqual((nested.nested.field, nested.nested.filter.WhichOneof("kind")), ("a", "or"))
        self.assertEqual(filters.make('phrase(t, "red car")').text.phrase, "red car")
        box = filters.make("geo_box(at, 170, 10.5, -170, -10)").geo_box
        self.assertEqual((box.top_left.lon, box.top_left.lat, box.bottom_right.lon), (170, 10.5, -170))
        ring = filters.make("geo_polygon(at, 0, 0, 1.5, 0, 0, 2, 0, 0)").geo_polygon.exterior.points
        self.assertEqual([(point.lon, point.lat) for point in ring], [(0, 0), (1.5, 0), (0, 2), (0, 0)])
        self.assertEqual(filters.make("words = 1").equals.field, "words")
        for text, what in (("has_id(-1)", "an id"), ("geo_box(at, 1, 2)", "','"), ("geo_polygon(at, 1)", "','"), ("words(t, 3)", 'a "text"')):
            with self.subTest(text), self.assertRaisesRegex(lightcone.InvalidArgument, what):
                filters.make(text)

    def test_wrong_filters_name_the_column(self):
        for text, column, what in (
            ("", 1, "empty"),
            ("a", 2, "expected ="),
            ("a = foo", 5, "texts go in"),
            ("a = 1 b", 7, "'and', 'or' or the end"),
            ("a in 1", 6, r"'\('"),
            ("(a = 1", 7, r"'\)'"),
            ("a = 0x10", 5, "no number"),
            ("a = 1e999", 5, "finite"),
            ("a. = 1", 1, "no field"),
            ("a = 1 # b", 7, "unexpected character"),
            ("a = 99999999999999999999", 5, "64-bit"),
        ):
            with self.subTest(text), self.assertRaisesRegex(lightcone.InvalidArgument, what) as caught:
                filters.make(text)
            if "column" in str(caught.exception):
                self.assertIn(f"column {column}:", str(caught.exception))
        for wrong in ({}, {"a": {}}, {"a": {"~": 1}}, {"a": None}, {"a": [None]}, {"a": 2**63}, 3):
            with self.subTest(wrong), self.assertRaises(lightcone.InvalidArgument):
                filters.make(wrong)


class Errors(unittest.TestCase):
    def test_each_code_has_its_class(self):
        for code, kind in (
            (grpc.StatusCode.NOT_FOUND, lightcone.NotFound),
            (grpc.StatusCode.UNAVAILABLE, lightcone.Unavailable),
            (grpc.StatusCode.INTERNAL, lightcone.LightconeError),
        ):
            self.assertIs(type(lightcone.errors.make(code, "text")), kind)
            self.assertIs(lightcone.errors.make(code, "text").code, code)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])

"""The whole story from Python: a gallery by one model, an upgrade to another, lazy backfill by a worker, rollback."""

import sys
import threading
import unittest

import lightcone
import lightcone.rollout
import lightcone.testing
import lightcone.worker
import numpy as np

ITEMS, OLD, NEW, TOPICS = 600, 24, 32, 30


class Models:
    """Two models of the same content: each sees a fixed linear picture of it, with its own noise."""

    def __init__(self):
        random = np.random.default_rng(3)
        topics = random.normal(size=(TOPICS, 16))
        self.topic = random.integers(0, TOPICS, ITEMS + 100)
        content = topics[self.topic] + 0.4 * random.normal(size=(ITEMS + 100, 16))
        self.old = content @ random.normal(size=(16, OLD)) + 0.5 * random.normal(size=(ITEMS + 100, OLD))
        self.new = content @ random.normal(size=(16, NEW))


class Story(unittest.TestCase):
    def test_a_model_is_replaced_without_embedding_the_gallery_first(self):
        models = Models()
        queries = range(ITEMS, ITEMS + 100)

        def share(client, z, **how):
            answers = client.search_many("docs", z[ITEMS:], k=10, with_payload=True, **how)
            right = [
                hit.payload["topic"] == models.topic[query] for query, answer in zip(queries, answers) for hit in answer
            ]
            return sum(right) / len(right)

        with lightcone.testing.server() as client:
            client.create_collection("docs")
            client.activate("docs", client.register("docs", dimension=OLD).generation)
            client.upload(
                "docs", range(ITEMS), models.old[:ITEMS], ({"topic": int(models.topic[i])} for i in range(ITEMS))
            )
            before = share(client, models.old)
            threshold = float(np.median(client.search_many("docs", models.old[ITEMS:], k=20).distances))

            def right_within(z, **how):
                answers = client.search_many("docs", z[ITEMS:], k=100, with_payload=True, **how)
                return sum(
                    hit.payload["topic"] == models.topic[query]
                    for query, answer in zip(queries, answers)
                    for hit in answer
                )

            found_before = right_within(models.old, distance_max=threshold)

            embedded = []

            def embed(items):
                embedded.extend(item.id for item in items)
                return [models.new[item.id] for item in items]

            told = []
            result = lightcone.rollout.run(
                client, "docs", embed, dimension=NEW, pairs=300, label_field="topic", map="affine", see=told.append
            )
            self.assertEqual((result.generation, result.pairs), (2, 300))
            self.assertEqual(len(set(embedded)), 300)
            self.assertEqual(client.collection("docs").active_generation, 2)
            self.assertIn("generation 2 serves", told)
            first = share(client, models.new)
            self.assertGreater(first, before - 0.02, "the new model searches the old gallery from the first minute")
            probes = [
                lightcone.Probe(vectors={1: models.old[i], 2: models.new[i]}, label=int(models.topic[i]))
                for i in queries
            ]
            client.put_probes("docs", "daily", probes, label_field="topic")
            client.wait(client.validate("docs", 2))
            found = right_within(models.new, distance_max=threshold, scale_generation=1)
            self.assertAlmostEqual(found / found_before, 1, delta=0.25, msg="a threshold outlives its model")
            collection = client.update_collection("docs", scale_generation=1)
            self.assertEqual(collection.message.scale_generation, 1)
            self.assertEqual(right_within(models.new, distance_max=threshold), found)
            hit = client.search("docs", models.new[ITEMS], k=1)[0]
            self.assertIsNotNone(hit.scaled_distance)
            self.assertTrue(0 <= hit.relevance <= 1)
            with self.assertRaisesRegex(lightcone.InvalidArgument, "relevance_min"):
                client.search("docs", models.new[ITEMS], relevance_min=2)

            reports = []
            report = lightcone.worker.run(client, "docs", embed, batch=50, see=reports.append)
            self.assertEqual((report.embedded, report.changed, report.skipped), (300, 0, 0))
            self.assertEqual(client.backfill_status("docs").state, "done")
            self.assertEqual(client.count("docs").generations, {2: ITEMS})
            self.assertGreaterEqual(share(client, models.new), first - 0.01)
            found = right_within(models.new, distance_max=threshold)
            self.assertAlmostEqual(found / found_before, 1, delta=0.25, msg="after the last item was embedded anew")

            self.assertEqual(client.rollback("docs", reason="a test").generation, 1)
            self.assertAlmostEqual(share(client, models.old), before, delta=1e-9)

    def test_a_worker_leaves_out_what_it_cannot_embed_and_stops_when_told(self):
        models = Models()
        with lightcone.testing.server() as client:
            client.create_collection("docs")
            client.activate("docs", client.register("docs", dimension=OLD).generation)
            client.upload("docs", range(100), models.old[:100])
            client.register("docs", dimension=OLD)
            with self.assertRaisesRegex(lightcone.FailedPrecondition, "no backfill"):
                lightcone.worker.run(client, "docs", lambda items: [])
            client.activate("docs", 2, force=True, reason="a test of workers")
            client.start_backfill("docs")
            with self.assertRaisesRegex(lightcone.InvalidArgument, "embed gave 0 vectors"):
                lightcone.worker.run(client, "docs", lambda items: [])
            stop = threading.Event()

            def embed(items):
                stop.set()
                return [models.old[item.id] if item.id % 2 else None for item in items]

            report = lightcone.worker.run(client, "docs", embed, batch=20, stop=stop)
            self.assertEqual(report.embedded + report.skipped, 20)
            self.assertEqual(client.count("docs").generations.get(2, 0), report.embedded)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])

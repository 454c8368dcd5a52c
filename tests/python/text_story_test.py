"""The whole story of texts from Python: encoders behind endpoints, an upgrade, lazy backfill by both ways, rollback."""

import http.server
import json
import sys
import threading
import time
import unittest
import zlib

import lightcone
import lightcone.rollout
import lightcone.testing
import lightcone.worker
import numpy as np

ITEMS, PAIRS, QUERIES, TOPICS = 2600, 2000, 120, 30


def tokens_of_letters(text):
    return [text[i : i + 3] for i in range(len(text) - 2)]


class Encoder:
    """Sum of a vector for each token, which the token's name draws."""

    def __init__(self, tokens, dimension):
        self.tokens, self.dimension, self.known = tokens, dimension, {}

    def vector_of(self, token):
        if token not in self.known:
            self.known[token] = np.random.default_rng(zlib.crc32(token.encode())).normal(size=self.dimension)
        return self.known[token]

    def __call__(self, text):
        return sum(self.vector_of(token) for token in self.tokens(text))


MODELS = {"letters": Encoder(tokens_of_letters, 48), "words": Encoder(str.split, 96)}


class Endpoint(http.server.BaseHTTPRequestHandler):
    """OpenAI's /v1/embeddings."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        encode = MODELS[asked["model"]]
        data = [{"index": i, "embedding": list(encode(text))} for i, text in enumerate(asked["input"])]
        body = json.dumps({"object": "list", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *what):
        pass


def texts_of(count, seed):
    """Sentences of a few words of their topic among common ones, each word in some form of its stem."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    stems = np.random.default_rng(1)
    words = [["".join(stems.choice(letters, 6)) for _ in range(8)] for _ in range(TOPICS + 1)]
    topics = random.integers(0, TOPICS, count)
    texts = []
    for topic in topics:
        chosen = [random.choice(words[topic]) for _ in range(3)] + [random.choice(words[TOPICS]) for _ in range(5)]
        random.shuffle(chosen)
        texts.append(" ".join(chosen))
    return texts, topics


class TextStory(unittest.TestCase):
    def setUp(self):
        self.endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        self.host = f"127.0.0.1:{self.endpoint.server_port}"
        thread = threading.Thread(target=self.endpoint.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.endpoint.server_close)
        self.addCleanup(self.endpoint.shutdown)
        self.texts, self.topics = texts_of(ITEMS, 2)
        self.queries, self.wanted = texts_of(QUERIES, 3)

    def model(self, name):
        return {"url": f"http://{self.host}/v1/embeddings", "model": name}

    def right(self, client, **how):
        """Share of the first ten hits that have the query's topic."""
        right = 0
        for text, topic in zip(self.queries, self.wanted):
            answer = client.search("docs", text=text, k=10, with_payload=["topic"], **how)
            right += sum(hit.payload["topic"] == topic for hit in answer) / (10 * QUERIES)
        return right

    def test_a_text_model_behind_an_endpoint_is_replaced(self):
        with lightcone.testing.server(options=["--encoder-endpoint-hosts", self.host]) as client:
            client.create_collection("docs")
            client.activate("docs", client.register("docs", dimension=48, endpoint=self.model("letters")).generation)
            for begin in range(0, ITEMS, 500):
                ids = list(range(begin, min(begin + 500, ITEMS)))
                payloads = [{"text": self.texts[i], "topic": int(self.topics[i])} for i in ids]
                client.upsert("docs", ids, texts=[self.texts[i] for i in ids], payloads=payloads, keep_input=True)
            probes, topics = texts_of(300, 4)
            labelled = [lightcone.Probe(input=lightcone.Text(t), label=int(k)) for t, k in zip(probes, topics)]
            client.put_probes("docs", "daily", labelled, label_field="topic")
            before = self.right(client)

            with self.assertRaisesRegex(lightcone.InvalidArgument, "exactly one is needed"):
                lightcone.rollout.run(client, "docs", dimension=96)
            told = []
            result = lightcone.rollout.run(
                client,
                "docs",
                dimension=96,
                endpoint=self.model("words"),
                pairs=PAIRS,
                measure="ndcg10",
                force=True,
                reason="a test asks what follows",
                embed_rate=0,
                see=told.append,
            )
            self.assertEqual((result.generation, result.pairs), (2, PAIRS))
            self.assertEqual(client.count("docs").generations[2], PAIRS, "both fits have the same pairs")
            self.assertEqual(result.validation["measure"], "ndcg10")
            self.assertIn("generation 2 serves", told)
            self.assertGreater(self.right(client, embed_older=True), before - 0.02, "never worse than before")
            fresh = client.search("docs", text=self.queries[0], refresh_top=20).refresh
            self.assertGreater(fresh.candidates, 0)
            self.assertEqual((fresh.refreshed, fresh.error), (fresh.candidates, ""))

            # The server embeds a part of the rest, and a worker what is left.
            client.pause_backfill("docs")
            client.start_backfill("docs", embed_rate=200)
            limit = time.monotonic() + 60
            while client.count("docs").generations[2] < PAIRS + 100:
                self.assertLess(time.monotonic(), limit, "the server embeds nothing")
                time.sleep(0.01)
            client.pause_backfill("docs")
            client.start_backfill("docs", embed_rate=0)
            words = MODELS["words"]
            report = lightcone.worker.run(
                client, "docs", lambda items: [words(item.payload["text"]) for item in items], batch=100
            )
            self.assertGreater(report.embedded, 0)
            self.assertEqual(client.backfill_status("docs").state, "done")
            self.assertEqual(client.count("docs").generations, {2: ITEMS})
            after = self.right(client)
            self.assertGreater(after, before)

            self.assertEqual(client.rollback("docs", reason="a test").generation, 1)
            self.assertAlmostEqual(self.right(client), before, delta=1e-9)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])

#!/usr/bin/env python3
"""Shows that two builds read each other's data folders: the same answers, item by item.

    tests/system/two_builds.py OLD/lightcone NEW/lightcone [--dir DIR] [--rows N]

Each build in turn fills a data folder: a collection of each geometry, two generations, an adapter, payload indexes, aliases, probe
sets, jobs that have ended, a backfill that is half done, deletions, and rows that no segment holds yet. It is then killed with
SIGKILL. Both builds open copies of that folder, answer the same questions, and the answers are compared as JSON. Exit code
0: all answers agree. It needs python3-grpcio for nothing: every call goes through the command line of NEW.
"""
import argparse
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GEOMETRIES = ["lorentz", "cosine", "inner_product", "euclidean"]
DIMENSION = 16
# Fields that tell of the run and not of the data.
VOLATILE = re.compile(
    r"(_at|time|_ms|_us|_seconds|seconds_|uptime|version|address|pid|eta|rate|token|bytes|profile|segment|building|"
    r"began|ended|builds|resident|memory|latency|since|age)")


class Server:
    client = None  # the program whose command line asks every server: the newer one, which starts fast

    def __init__(self, binary, folder):
        self.binary = binary
        self.log = open(f"{folder}.log", "ab")
        self.process = subprocess.Popen(
            [binary, "serve", "--data", str(folder), "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.address = None
        for line in self.process.stdout:
            found = re.search(r"(127\.0\.0\.1:\d+)", line)
            if found:
                self.address = found[1]
                break
        if self.address is None:
            raise RuntimeError(f"{binary} serve did not start; see {folder}.log")

    def call(self, *words, fails=False):
        done = subprocess.run([Server.client, *map(str, words), "--json", "--server", self.address, "--timeout", "600"],
                              capture_output=True, text=True)
        if done.returncode != 0 and not fails:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()} {done.stdout.strip()}")
        if done.returncode != 0:
            print(f"  refused, as may be: {' '.join(map(str, words[:3]))}: {done.stderr.strip()[:200]}")
        return done.stdout

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def vector(rng, scale=0.6):
    return [round(rng.gauss(0, scale), 4) for _ in range(DIMENSION)]


def write_rows(path, rng, first, count, payload=True):
    with open(path, "w") as out:
        for i in range(first, first + count):
            row = {"id": i if i % 3 else f"name-{i}", "vector": vector(rng)}
            if payload:
                row["payload"] = {"class": f"c{i % 7}", "year": 1990 + i % 40, "price": i * 0.25, "sold": i % 2 == 0,
                                  "when": f"2024-05-{1 + i % 28:02d}T12:30:00Z"}
            out.write(json.dumps(row) + "\n")


def fill(server, folder, rows):
    rng = random.Random(7)
    scratch = Path(folder)
    scratch.mkdir(parents=True, exist_ok=True)
    for geometry in GEOMETRIES:
        extra = ["--curvature", 1] if geometry == "lorentz" else []
        space = ["--curvature", 1, "--clip-radius", 1] if geometry == "lorentz" else []
        server.call("collection", "create", geometry, "--geometry", geometry, "--growing-rows-max", 1000, *extra,
                    "--payload-index", "class=keyword", "--payload-index", "year=integer", "--payload-index",
                    "price=float", "--payload-index", "sold=boolean", "--payload-index", "when=time")
        server.call("generation", "register", geometry, "--dimension", DIMENSION, *space, "--activate")
        write_rows(scratch / "rows.jsonl", rng, 0, rows)
        server.call("import", geometry, scratch / "rows.jsonl")
        server.call("collection", "rebuild", geometry, "--wait")
        server.call("collection", "alias", f"alias-{geometry}", geometry)
        (scratch / "probes.jsonl").write_text("".join(
            json.dumps({"relevant": [i if i % 3 else f"name-{i}"], "vectors": {"1": vector(rng), "2": vector(rng)}}) + "\n"
            for i in range(40)))
        space2 = ["--curvature", 1, "--clip-radius", 1.2] if geometry == "lorentz" else []
        server.call("generation", "register", geometry, "--dimension", DIMENSION, *space2, "--parent", 1)
        server.call("generation", "probes", "put", geometry, "set", scratch / "probes.jsonl")
        server.call("generation", "validate", geometry, 2, fails=True)
        # A tenth of the items has an embedding of generation 2: pairs for an adapter.
        with open(scratch / "second.jsonl", "w") as out:
            for i in range(0, rows, 4):
                out.write(json.dumps({"id": i if i % 3 else f"name-{i}", "vector": vector(rng)}) + "\n")
        server.call("import", geometry, scratch / "second.jsonl", "--generation", 2, "--same-content")
        server.call("generation", "adapter", "fit", geometry, 1, 2, "--map", "procrustes", fails=True)
        server.call("generation", "activate", geometry, 2, "--force", "--reason", "the comparison of two builds")
        server.call("backfill", "start", geometry, "--wait")
        server.call("backfill", "lease", geometry, "--items", 20)
        for i in range(5, 200, 20):
            server.call("delete", geometry, i if i % 3 else f"name-{i}")
        write_rows(scratch / "late.jsonl", rng, rows, 50)
        server.call("import", geometry, scratch / "late.jsonl")
    server.call("upsert", "cosine", "unicode-\u00e9", "--vector", ",".join(["0.1"] * DIMENSION), "--payload",
                '{"class": "c1", "nested": {"a": [1, 2]}}')
    server.call("collection", "create", "empty", "--geometry", "cosine")
    wait_for_jobs(server)


def wait_for_jobs(server):
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        jobs = json.loads(server.call("job", "list"))
        listed = jobs["jobs"] if isinstance(jobs, dict) else jobs
        if not any(job.get("state", "").upper().endswith(("RUNNING", "QUEUED", "PENDING")) for job in listed):
            return
    raise RuntimeError("jobs did not end")


def stable(value):
    if isinstance(value, dict):
        return {key: stable(one) for key, one in sorted(value.items()) if not VOLATILE.search(key)}
    if isinstance(value, list):
        return [stable(one) for one in value]
    if isinstance(value, str) and len(value) > 40 and " " in value:
        return re.sub(r"\d+(\.\d+)? ?(ms|s|us|MiB|GiB)\b", "N", value)
    return value


def questions(server):
    answers = {}

    def ask(name, *words):
        done = subprocess.run([Server.client, *map(str, words), "--json", "--server", server.address], capture_output=True,
                              text=True)
        lines = []
        for text in (done.stdout, done.stderr):
            try:
                lines.append(stable(json.loads(text)))
            except ValueError:
                lines += [stable(json.loads(line)) for line in text.splitlines() if line.startswith(("{", "["))]
        answers[name] = {"exit": done.returncode, "answer": lines}

    ask("collections", "collection", "list")
    ask("jobs", "job", "list")
    rng = random.Random(11)
    for geometry in GEOMETRIES + ["empty"]:
        ask(f"{geometry} collection", "collection", "get", geometry)
        ask(f"{geometry} generations", "generation", "list", geometry)
        ask(f"{geometry} audit", "generation", "audit", geometry)
        ask(f"{geometry} adapters", "generation", "adapter", "list", geometry)
        ask(f"{geometry} probes", "generation", "probes", "list", geometry)
        ask(f"{geometry} backfill", "backfill", "status", geometry)
        ask(f"{geometry} items", "scroll", geometry, "--with-vector")
        for where in ("class = 'c3'", "year >= 2010 and sold = true", "when > '2024-05-20T00:00:00Z'", "not exists(nested)"):
            ask(f"{geometry} count {where}", "count", geometry, "--filter", where)
        if geometry == "empty":
            continue
        for i in range(15):
            query = ",".join(map(str, vector(rng)))
            for flags in ([], ["--exact"], ["--generation", "1"], ["--filter", "class = 'c2'"], ["--adapter-mode", "none"]):
                ask(f"{geometry} search {i} {flags}", "search", f"alias-{geometry}", f"--vector={query}", "-k", 10,
                    "--payload", "--with-vector", *flags)
    return answers


def compare(name, folder, old, new, scratch):
    results = []
    for binary in (old, new):
        copy = scratch / f"{name}-{len(results)}"
        shutil.copytree(folder, copy)
        server = Server(binary, copy)
        results.append(questions(server))
        server.stop()
    differ = [key for key in results[0] if results[0][key] != results[1][key]]
    for key in differ[:10]:
        print(f"  {key}\n    old: {json.dumps(results[0][key])[:600]}\n    new: {json.dumps(results[1][key])[:600]}")
    failed = [key for key, answer in results[0].items() if answer["exit"] != 0]
    print(f"{name}: {len(results[0])} questions, {len(differ)} answers differ, {len(failed)} refused by both alike")
    return not differ


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--dir", default=None)
    parser.add_argument("--rows", type=int, default=3000)
    arguments = parser.parse_args()
    Server.client = arguments.new
    scratch = Path(arguments.dir or tempfile.mkdtemp(prefix="two-builds-"))
    same = True
    for name, binary in (("written by OLD", arguments.old), ("written by NEW", arguments.new)):
        folder = scratch / name.split()[-1].lower() / "data"
        folder.parent.mkdir(parents=True, exist_ok=True)
        server = Server(binary, folder)
        fill(server, folder.parent / "rows", arguments.rows)
        server.kill()
        same &= compare(name, folder, arguments.old, arguments.new, scratch / folder.parent.name)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()

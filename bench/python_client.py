"""Times Lightcone's Python client for python_bench.cc: prints one number.

python_client.py upload ADDRESS COLLECTION FILE DIMENSION  seconds of one upload of the rows in FILE, float32
python_client.py search ADDRESS COLLECTION FILE DIMENSION  median milliseconds of a search of the ten nearest to each
"""

import statistics
import sys
import time

import lightcone
import numpy as np


def main() -> None:
    what, address, collection, file, dimension = sys.argv[1:6]
    vectors = np.fromfile(file, dtype="<f4").reshape(-1, int(dimension))
    client = lightcone.Client(address)
    client.count(collection)  # connects
    if what == "upload":
        begin = time.perf_counter()
        client.upload(collection, range(len(vectors)), vectors, durability="process")
        print(time.perf_counter() - begin)
        return
    times = []
    for vector in vectors:
        begin = time.perf_counter()
        client.search(collection, vector, k=10)
        times.append(1e3 * (time.perf_counter() - begin))
    print(statistics.median(times[len(times) // 5 :]))  # after the warm-up


main()

#!/usr/bin/env python3
"""Takes away what keeps recall's promise, one mechanism at a time, and sees a test fail (`make mutants`).

    mutants.py [NAME ...]     all, or those of these names

Works on a copy of the committed tree in build/mutants. About forty minutes on two cores. Exits with 1 where a test
does not see that a mechanism is gone.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutants"
PROMISE, COPIES = "recall_promise_test", "graph_copies_test"
RECALL = "index/rows/measured_recall.cc"
WRITER = "index/build/segment_writer.cc"
INSERTER = "index/graph/graph_inserter.cc"

# Name, test that sees it, file, text, text in its place.
MUTANTS = [
    ("nothing", None, RECALL, "", ""),
    ("measured_breadth", PROMISE, RECALL, "if (measured.empty()) return ef_default;", "return ef_default;"),
    ("scan_where_no_walk_finds_enough", PROMISE, RECALL, "if (needed == 0) return 0;\n  const int64_t more",
     "if (needed == 0) needed = ef_default;\n  const int64_t more"),
    ("measured_number_of_lists", PROMISE, RECALL,
     "return trusted > 0 ? trusted : ProbesFor(measured, kDefaultRecall, k);", "return trusted > 0 ? 8 : 0;"),
    ("walks_past_the_queries_own_row", PROMISE, "index/build/calibration.cc",
     "{ef, std::numeric_limits<int64_t>::max(), rows_[i]}", "{ef, std::numeric_limits<int64_t>::max(), -1}"),
    ("centred_vectors", PROMISE, "index/graph/graph_builder.cc", "euclidean_(space.metric == Metric::kEuclidean)",
     "euclidean_(false)"),
    ("centred_codes", PROMISE, WRITER, "bounds.around_centre = manifest_.space.metric == Metric::kEuclidean;",
     "bounds.around_centre = false;"),
    ("finer_codes", PROMISE, WRITER, "if (coded >= kCodesFind) break;", "if (coded >= -1) break;"),
    ("entries", PROMISE, WRITER, "LC_RETURN_IF_ERROR(TryOthers([this] { return AddEntries(); }));", ""),
    ("more_links", PROMISE, WRITER, "if (FindsEnough() || unmendable_) return absl::OkStatus();\n    return TryOthers",
     "return absl::OkStatus();\n    return TryOthers"),
    ("bytes_in_place_of_products", PROMISE, WRITER, "if (codes_ != RowCodes::kPq ||",
     "if (codes_ != RowCodes::kAuto ||"),
    ("probes_past_empty_lists", PROMISE, "index/search/probe.cc",
     "rows >= std::max<int64_t>(k_, kCalibrationK + 1) &&", ""),
    ("links_to_copies", COPIES, INSERTER,
     "if (is_copy_(x, nearest.row, nearest.score)) return NoteCopy(x, nearest.row, layer);", ""),
    ("links_to_lost_rows", COPIES, INSERTER, "  LinkLost();\n", ""),
]


def build(program):
    subprocess.run(["cmake", "--build", "build", "-j", str(os.cpu_count()), "--target", program], cwd=COPY, check=True,
                   stdout=subprocess.DEVNULL)


def passes(program):
    return subprocess.run([COPY / "build" / "bin" / program, "--gtest_brief=1"], cwd=COPY, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def sees(test, file, text, other):
    """Whether the test fails with `other` in place of `text`. Without a test: whether all of them pass."""
    path = COPY / file
    whole = path.read_text()
    if whole.count(text) == 0:
        sys.exit(f"{file} has no text '{text}': name the mechanism as it is written now")
    path.write_text(whole.replace(text, other, 1))
    try:
        for program in [test] if test else [PROMISE, COPIES]:
            build(program)
        return not passes(test) if test else passes(PROMISE) and passes(COPIES)
    finally:
        path.write_text(whole)


def main(names):
    unknown = set(names) - {mutant[0] for mutant in MUTANTS}
    if unknown:
        sys.exit(f"no mutant {', '.join(sorted(unknown))}; there are: {', '.join(mutant[0] for mutant in MUTANTS)}")
    shutil.rmtree(COPY, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, COPY], check=True)
    subprocess.run(["cmake", "--preset", "release", "-DLIGHTCONE_TESTS=ON", "-DLIGHTCONE_BENCH=OFF"], cwd=COPY,
                   check=True, stdout=subprocess.DEVNULL)
    unseen = 0
    for name, *mutant in MUTANTS:
        if names and name not in names:
            continue
        seen = sees(*mutant)
        unseen += not seen
        print(f"{name}: {'seen' if seen else 'NOT SEEN'}" if mutant[0] else f"{name}: {'passes' if seen else 'FAILS'}",
              flush=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

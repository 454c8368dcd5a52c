// The Python client beside the C++ client, against one server: rows of a bulk upsert, and what a search takes longer.
#include <chrono>
#include <cstdio>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/load.h"
#include "cli/child_server.h"
#include "client/client.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr int64_t kRows = 50'000;
constexpr int kSearches = 1'000;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The number that python_client.py prints.
absl::StatusOr<double> RunPython(const std::string& words) {
  const std::string command = StrCat("PYTHONPATH=", LIGHTCONE_PYTHON_PATH, " ", LIGHTCONE_PYTHON, " -B ",
                                     LIGHTCONE_BENCH_SOURCE, "/python_client.py ", words);
  std::FILE* const out = ::popen(command.c_str(), "r");
  if (out == nullptr) return Unavailable("cannot run python3");
  char text[256] = {};
  const size_t size = std::fread(text, 1, sizeof text - 1, out);
  double number = 0;
  if (::pclose(out) != 0 || !absl::SimpleAtod(absl::StripAsciiWhitespace({text, size}), &number)) {
    return Unavailable(StrCat("'", command, "' failed; it needs python3-grpcio, python3-protobuf and python3-numpy"));
  }
  return number;
}

std::vector<float> RandomRows(int64_t rows, int dimension) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> out(static_cast<size_t>(rows * dimension));
  for (float& x : out) x = normal(random);
  return out;
}

std::string BytesOf(std::span<const float> rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.size_bytes()};
}

absl::StatusOr<double> MedianSearch(client::Client& client, const std::string& collection,
                                    std::span<const float> vectors, int dimension) {
  std::vector<double> times;
  for (int q = 0; q < kSearches; ++q) {
    v1::SearchRequest request;
    request.set_collection(collection);
    request.set_k(10);
    request.set_with_payload(true);
    client::SetVector(&vectors[static_cast<size_t>(q) * dimension], dimension, request.add_queries()->mutable_vector());
    const Clock::time_point begin = Clock::now();
    LC_RETURN_IF_ERROR(client.Search(request).status());
    if (q >= kSearches / 5) times.push_back(1e3 * SecondsSince(begin));
  }
  return Median(times);
}

}  // namespace

absl::Status BenchPython(const BenchOptions& options, Report& report) {
  const int dimension = options.dimension;
  LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, options.folder + "/python"));
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = server->address()}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(60)));
  const std::vector<float> rows = RandomRows(kRows, dimension);
  const std::string rows_file = options.folder + "/rows", queries_file = options.folder + "/queries";
  LC_RETURN_IF_ERROR(WriteFileAtomically(rows_file, BytesOf(rows)));
  LC_RETURN_IF_ERROR(WriteFileAtomically(
      queries_file, BytesOf(std::span(rows).first(static_cast<size_t>(kSearches) * static_cast<size_t>(dimension)))));
  std::vector<double> python_rows, own_rows, row_ratios, python_ms, own_ms, added;
  for (int round = 0; round <= kRounds; ++round) {
    const std::string ours = StrCat("own-", round), theirs = StrCat("python-", round);
    LC_RETURN_IF_ERROR(MakeCollection(*client, ours, dimension));
    LC_RETURN_IF_ERROR(MakeCollection(*client, theirs, dimension));
    const Clock::time_point begin = Clock::now();
    LC_RETURN_IF_ERROR(LoadRows(*client, ours, rows, dimension));
    const double own_s = SecondsSince(begin);
    LC_ASSIGN_OR_RETURN(const double python_s,
                        RunPython(StrCat("upload ", server->address(), " ", theirs, " ", rows_file, " ", dimension)));
    LC_ASSIGN_OR_RETURN(const double own_search, MedianSearch(*client, ours, rows, dimension));
    LC_ASSIGN_OR_RETURN(const double python_search,
                        RunPython(StrCat("search ", server->address(), " ", ours, " ", queries_file, " ", dimension)));
    for (const std::string& name : {ours, theirs}) {
      v1::DropRequest drop;
      drop.set_name(name);
      LC_RETURN_IF_ERROR(client->DropCollection(drop).status());
    }
    if (round == 0) continue;  // warm-up
    own_rows.push_back(kRows / own_s);
    python_rows.push_back(kRows / python_s);
    row_ratios.push_back(own_s / python_s);
    own_ms.push_back(own_search);
    python_ms.push_back(python_search);
    added.push_back(python_search - own_search);
  }
  report.Add({.name = StrCat("Python client, bulk upsert of ", kRows, " x ", dimension),
              .value = Median(python_rows),
              .unit = "rows/s",
              .peer = "C++ client",
              .peer_value = Median(own_rows),
              .ratio = Median(row_ratios),
              .goal = "ratio >= 0.6",
              .met = Median(row_ratios) >= 0.6,
              .spread = Spread(row_ratios)});
  report.Add({.name = "Python client, top-10 search, p50",
              .value = Median(python_ms),
              .unit = "ms",
              .peer = "C++ client",
              .peer_value = Median(own_ms),
              .ratio = Median(python_ms) / Median(own_ms),
              .goal = "value-peer <= 0.35",
              .met = Median(added) <= 0.35,
              .spread = Spread(added)});
  return absl::OkStatus();
}

}  // namespace lightcone::bench

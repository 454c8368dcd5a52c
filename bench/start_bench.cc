// From the start of a server over sealed segments to its first answer: with its files in the page cache and without,
// and with four times as many rows.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/load.h"
#include "cli/child_server.h"
#include "client/client.h"

namespace lightcone::bench {
namespace {

constexpr char kCollection[] = "gallery";
constexpr int kRounds = 5;
constexpr int64_t kRowsAChunk = 100'000;

// Writes a file back and drops it from the page cache, so that the next read is the disk's.
void Evict(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

// How a graph was built does not matter to a start: a thin one, of as many rows as it may have.
absl::Status Fill(const BenchOptions& options, const std::string& folder, int64_t rows) {
  LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, folder));
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = server->address()}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(30)));
  v1::IndexSettings index;
  index.set_growing_rows_max(rows);
  index.set_merge_rows_max(rows);
  index.set_hnsw_ef_construction(40);
  LC_RETURN_IF_ERROR(MakeCollection(*client, kCollection, options.dimension, index));
  for (int64_t begin = 0; begin < rows; begin += kRowsAChunk) {
    const int64_t n = std::min(kRowsAChunk, rows - begin);
    const std::vector<float> chunk =
        ClusteredVectors(n, options.dimension, 500, 0.7, 100 + static_cast<uint64_t>(begin));
    LC_RETURN_IF_ERROR(LoadRows(*client, kCollection, chunk, options.dimension, static_cast<uint64_t>(begin)));
  }
  v1::RebuildRequest rebuild;
  rebuild.set_collection(kCollection);
  rebuild.set_wait(true);
  LC_RETURN_IF_ERROR(client->RebuildCollection(rebuild, {.timeout = absl::Hours(2)}).status());
  server->Kill();  // what a start finds after a crash
  return absl::OkStatus();
}

absl::StatusOr<double> SecondsToFirstAnswer(const BenchOptions& options, const std::string& folder) {
  const std::vector<float> query = ClusteredVectors(1, options.dimension, 500, 0.7, 100);
  const auto begin = std::chrono::steady_clock::now();
  LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, folder));
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = server->address()}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Minutes(2)));
  v1::SearchRequest request;
  request.set_collection(kCollection);
  request.set_k(10);
  client::SetVector(query.data(), options.dimension, request.add_queries()->mutable_vector());
  LC_ASSIGN_OR_RETURN(const v1::SearchResponse answer, client->Search(request, {.timeout = absl::Minutes(2)}));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const int hits = answer.results(0).hits_size();
  if (hits != 10) return Internal(StrCat(hits, " hits instead of 10"));
  return seconds;
}

}  // namespace

absl::Status BenchStart(const BenchOptions& options, Report& report) {
  const int64_t sizes[] = {options.life_items, 4 * options.life_items};
  std::vector<std::string> folders;
  for (const int64_t rows : sizes) {
    folders.push_back(StrCat(options.folder, "/start-", rows));
    LC_RETURN_IF_ERROR(Fill(options, folders.back(), rows));
  }
  for (const bool cold : {false, true}) {
    std::vector<double> seconds[2], ratios;
    for (int round = 0; round <= kRounds; ++round) {
      for (size_t i = 0; i < 2; ++i) {
        if (cold) {
          for (const auto& entry : std::filesystem::recursive_directory_iterator(folders[i])) {
            if (entry.is_regular_file()) Evict(entry.path());
          }
        }
        LC_ASSIGN_OR_RETURN(const double one, SecondsToFirstAnswer(options, folders[i]));
        if (round > 0) seconds[i].push_back(one);  // the first replays what its predecessor left
      }
      if (round > 0) ratios.push_back(seconds[1].back() / seconds[0].back());
    }
    const std::string cache = cold ? "files not in the page cache" : "files in the page cache";
    report.AddAtMost(StrCat("start to first answer, ", sizes[0], " x ", options.dimension, " sealed, ", cache),
                     Median(seconds[0]), "s", 5, Spread(seconds[0]));
    report.Add({.name = StrCat("start to first answer, ", sizes[1], " x ", options.dimension, " sealed, ", cache),
                .value = Median(seconds[1]),
                .unit = "s",
                .peer = StrCat(sizes[0], " rows"),
                .peer_value = Median(seconds[0]),
                .ratio = Median(ratios),
                .goal = "ratio <= 2",
                .met = Median(ratios) <= 2,
                .spread = Spread(ratios)});
  }
  return absl::OkStatus();
}

}  // namespace lightcone::bench

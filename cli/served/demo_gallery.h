// What `demo` and `eval --served` do with a server: collections, generations and measurements, all through gRPC.
// Threads: one caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/gallery_calls.h"
#include "client/client.h"
#include "models/adapter_file.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {

// One line of the demo's table: whose queries met whose gallery, and what they found.
struct DemoRow {
  std::string query, gallery;  // old, independent, new or lightcone; a query may end in +adapter
  double cmc1 = 0, cmc5 = 0, map = 0;
  std::string how;  // through which search it was measured
};

struct Registration {
  uint32_t parent = 0;           // generation that it was trained to be compatible with
  bool expects_adapter = false;  // The dimension may differ from the parent's.
};
// Registers the model in FOLDER (manifest.json, encoder.pt) as the collection's next generation; gives its number.
absl::StatusOr<uint32_t> RegisterModel(client::Client& client, const std::string& collection, const std::string& folder,
                                       const Registration& how);

// Puts an adapter between two of its generations.
absl::Status PutAdapter(client::Client& client, const std::string& collection, uint32_t from, uint32_t to,
                        const AdapterFile& file);

// Upserts n = labels.size() vectors (n x dimension, before the clip) under the ids 0 .. n-1 with payload {"class":
// NAME}; of `rows` only where they are given.
absl::Status UpsertVectors(client::Client& client, const std::string& collection, uint32_t generation,
                           std::span<const float> z, int dimension, const Dataset& dataset,
                           std::optional<std::span<const int64_t>> rows = std::nullopt);

// Which queries a measurement uses: all images of the test set, or a fixed random sample of them.
std::vector<int64_t> ChooseQueries(int64_t images, int64_t queries_max, uint64_t seed);

struct GalleryQueries {
  std::string collection;
  uint32_t generation = 0;                     // generation that embedded the queries
  std::vector<uint32_t> evaluate_generations;  // overrides the reach, for evaluation
  std::span<const float> z;                    // vectors of all images, n x dimension
  int dimension = 0;
  std::span<const int64_t> queries;  // indices of the images asked for
  v1::AdapterMode adapters = v1::ADAPTER_MODE_NONE;
  const std::atomic<bool>* stop = nullptr;  // CANCELLED once it is set; may be null
};

// Asks for the whole ranking of each query, exactly, leaves the query's own image out and computes CMC@1, CMC@5 and mAP
// (spec 2.7). `labels`: of all images.
absl::StatusOr<DemoRow> MeasureThroughSearch(client::Client& client, const GalleryQueries& what,
                                             std::span<const int32_t> labels);

// The nearest `k` items of each query: ids and exact distances.
using Neighbours = std::vector<std::vector<std::pair<int64_t, double>>>;
absl::StatusOr<Neighbours> NearestThroughSearch(client::Client& client, const GalleryQueries& what, int k);

// Sends one image as PNG, to be embedded by the server with the active generation, and waits for the answer.
absl::Status AskWithImage(client::Client& client, const std::string& collection, const std::string& png);

// Items whose head was embedded by another generation than `generation`.
absl::StatusOr<int64_t> CountReembedded(client::Client& client, const std::string& collection, uint32_t generation);

}  // namespace lightcone::cli

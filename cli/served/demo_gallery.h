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
  std::string how;                      // through which search it was measured
  std::optional<double> p10 = {};       // share of right items among the nearest ten
  std::optional<double> mrr10 = {};     // mean of 1 / rank of the first right item, 0 where none is among ten
  std::optional<double> ndcg10 = {};    // nDCG@10, a right item gains 1
  std::optional<double> recall10 = {};  // share of the new model's own nearest ten that are among the nearest ten
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

// Rows of vectors that become items of a gallery. Row i has id i.
struct GalleryRows {
  std::string collection;
  uint32_t generation = 0;  // generation that embedded the rows
  std::span<const float> z;
  int dimension = 0;
  bool same_content = false;  // The items are in the collection, embedded by another generation.
};
// Upserts these rows. `payload` gives a row's payload as JSON, or nothing. Errors of the server.
absl::Status UpsertRows(client::Client& client, const GalleryRows& what, std::span<const int64_t> rows,
                        const std::function<std::string(int64_t)>& payload);

// Upserts n = labels.size() vectors (n x dimension, before the clip) under the ids 0 .. n-1 with payload {"class":
// NAME}; of `rows` only where they are given.
absl::Status UpsertVectors(client::Client& client, const std::string& collection, uint32_t generation,
                           std::span<const float> z, int dimension, const Dataset& dataset,
                           std::optional<std::span<const int64_t>> rows = std::nullopt);

// Which queries a measurement uses: all images of the test set, or a fixed random sample of them.
std::vector<int64_t> ChooseQueries(int64_t images, int64_t queries_max, uint64_t seed);

// The queries as an older generation embeds them.
struct OlderQueries {
  uint32_t generation = 0;
  std::span<const float> z;  // vectors as of GalleryQueries
  int dimension = 0;
};

struct GalleryQueries {
  std::string collection;
  uint32_t generation = 0;                     // generation that embedded the queries
  std::vector<uint32_t> evaluate_generations;  // overrides the reach, for evaluation
  std::span<const float> z;                    // vectors of all images, n x dimension
  int dimension = 0;
  std::span<const int64_t> queries;  // indices of the images asked for
  v1::AdapterMode adapters = v1::ADAPTER_MODE_NONE;
  const std::atomic<bool>* stop = nullptr;  // CANCELLED once it is set; may be null
  std::optional<OlderQueries> older = {};   // Each query carries this vector, too.
};

// Sends the queries in calls of bounded answers, exact, and gives each result to `use`, in their order. `query` is the
// number out of what.queries. Errors of the server and of `use`.
absl::Status SearchEach(client::Client& client, const GalleryQueries& what, int64_t k,
                        const std::function<absl::Status(int64_t query, const v1::QueryResult&)>& use);

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

// What rolling out a generation takes in and gives out: probe sets, canaries, trainings and jobs. As types.h: no
// protobuf, no gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// A labelled query. Exactly one of `relevant` and `label` says what it should find.
struct Probe {
  std::vector<std::pair<uint32_t, std::vector<float>>> vectors;  // vectors before the clip, and their generations
  std::optional<RawInput> input;                                 // the raw input, for generations without a vector
  std::vector<ItemId> relevant;                                  // ids of the relevant items
  std::optional<FilterValue> label;                              // value of the relevant items' label_field
  std::optional<ItemId> item;  // the item that the query is a copy of: left out of the ranking
};

struct PutProbesCall {
  std::string request_id;
  std::string collection;
  std::string name;
  std::string label_field;
  std::vector<Probe> probes;
};

struct ProbeSetStatus {
  std::string name;
  std::string label_field;
  uint32_t probes = 0, inputs = 0;
  std::vector<std::pair<uint32_t, uint32_t>> vectors;  // probes with a vector by a generation, ascending
  uint64_t bytes = 0;
  absl::Time put;
};

// An adapter is to be fitted from items that both generations embedded.
struct FitAdapterCall {
  std::string request_id;
  std::string collection;
  uint32_t from = 0, to = 0;  // generations, as in PutAdapterCall
  std::string map;            // empty: "auto"; procrustes, affine, low-rank-affine, residual-mlp, kernel
  std::string loss;           // empty: "auto"; sums of reg, rel, sup, contra ("reg+0.3*sup")
  int width = 0;              // 0: the map's usual one
  int64_t pairs_max = 0;      // drawn from those there are; 0: 50,000
  int64_t embed_max = 0;    // while there are fewer pairs, items whose input is stored are embedded for it by the newer
                            // generation's encoder. Nothing of them is kept
  std::string label_field;  // of the payload: classes, for the loss `sup`; items without it are left out
  uint64_t seed = 1;
};

// Items that a generation has not embedded, drawn over the whole gallery: to embed, for an adapter to be fitted from.
struct SampleItemsCall {
  std::string collection;
  uint32_t generation = 0;
  int64_t items = 0;  // 1 .. 100,000; 0: 2,000
  uint64_t seed = 1;  // the same items again, as long as nothing is written
};

struct SampledItem {
  ItemId id;
  uint64_t sequence = 0;    // value for UpsertItem::expected_sequence
  uint32_t generation = 0;  // the newest before it that embedded the item
  bool has_input = false;
};

// A training in a process of its own. Its result becomes a draft of the collection.
struct StartTrainingCall {
  std::string request_id;
  std::string collection;
  std::string recipe_json;  // training_recipe.h
  std::string label_field;  // payload field with the class; empty with a recipe that names its data
  uint32_t parent = 0;      // generation to be compatible with; 0: none
};

struct SetCanaryCall {
  std::string request_id;
  std::string collection;
  uint32_t generation = 0;  // 0: end it
  double share = 0;         // share of the keys, above 0, up to 1
  bool force = false;
  std::string reason;
  std::string operator_name = {};
};

// One side of a canary, since it began or the server started.
struct CanarySide {
  uint32_t generation = 0;
  uint64_t searches = 0, failures = 0;
  double p50_ms = 0, p99_ms = 0;                         // percentiles of the latest searches
  double nearest_distance = 0, nearest_uncertainty = 0;  // means over the nearest hit of each query
  std::optional<double> live_recall;                     // lately
};

struct CanaryStatus {
  uint32_t generation = 0;  // 0: there is none
  double share = 0;
  absl::Time began;
  CanarySide canary, active;
  uint64_t unroutable = 0;  // searches that it should have served, and could not
};

struct RetireCall {
  std::string request_id;
  std::string collection;
  uint32_t generation = 0;
  std::string reason;  // kept in the audit log
  std::string operator_name = {};
};

struct RetireAnswer {
  GenerationStatus generation;
  std::string job;  // job that gives the space back; empty: the job is done
};

enum class JobState { kQueued, kRunning, kSucceeded, kFailed, kCancelled };

struct JobStatus {
  std::string id;
  std::string kind;
  std::string collection;
  uint32_t generation = 0;
  JobState state = JobState::kQueued;
  uint64_t done = 0, total = 0;  // 0 of 0: not known yet
  std::string step;
  absl::Time created;
  std::optional<absl::Time> started, ended;
  uint32_t attempts = 0;
  std::string result_json;    // result of a succeeded job
  std::string progress_json;  // details beside the numbers; empty for kinds without any
  absl::Status error;         // error of a failed job
  uint64_t changes = 0;       // counts what happened to it in this run of the server

  bool final() const { return state != JobState::kQueued && state != JobState::kRunning; }
};

struct JobPage {
  std::vector<JobStatus> jobs;  // newest first
  std::string token;            // empty: the end
};

}  // namespace lightcone::server

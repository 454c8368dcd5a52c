// What rolling out a generation takes in and gives out: probe sets and jobs. As types.h: no protobuf, no gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/types.h"

namespace lightcone::server {

// A labelled query. Exactly one of `relevant` and `label` says what it should find.
struct Probe {
  std::vector<std::pair<uint32_t, std::vector<float>>> vectors;  // by the generations that embedded it; before the clip
  std::optional<RawInput> input;                                 // for generations with an encoder that have no vector
  std::vector<ItemId> relevant;                                  // these items
  std::optional<FilterValue> label;                              // those whose payload has it in the set's label_field
  std::optional<ItemId> item;                                    // that the query is a copy of: left out of its ranking
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

struct RetireCall {
  std::string request_id;
  std::string collection;
  uint32_t generation = 0;
  std::string reason;  // kept in the audit log
};

struct RetireAnswer {
  GenerationStatus generation;
  std::string job;  // that gives the space back; empty: that is done
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
  std::string result_json;  // of kSucceeded
  absl::Status error;       // of kFailed
  uint64_t changes = 0;     // counts what happened to it in this run of the server

  bool final() const { return state != JobState::kQueued && state != JobState::kRunning; }
};

struct JobPage {
  std::vector<JobStatus> jobs;  // newest first
  std::string token;            // empty: the end
};

}  // namespace lightcone::server

// A load on a running server: calls of several clients at once, in a closed loop (each client's next call follows its
// last answer) or in an open one (calls are due at a fixed rate, whatever the server does, and their times count from
// when they were due: a server that stalls is charged for all that waited meanwhile).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/load/vectors.h"
#include "client/client.h"

namespace lightcone::cli {

// Shares of the calls; their sum is 1.
struct LoadMix {
  double search = 1, upsert = 0, remove = 0;
  bool writes() const { return upsert > 0 || remove > 0; }
};

// "search=0.9,upsert=0.08,delete=0.02"; those left out are 0. INVALID_ARGUMENT names --mix.
absl::StatusOr<LoadMix> ParseLoadMix(const std::string& text);

struct LoadPlan {
  std::string collection;
  int clients = 1;             // calls under way at once; 1 .. 1024
  int batch = 1;               // queries, items or ids of a call; 1 .. 10,000
  double rate = 0;             // calls a second of the open loop; 0: closed
  double seconds = 5;          // measured seconds; > 0
  double warm_up_seconds = 1;  // seconds of the same load before the measured ones; >= 0
  LoadMix mix;
  uint32_t k = 10, ef = 0;
  double target_recall = 0;  // recall in place of ef; 0: none
  bool exact = false;
  std::optional<v1::Filter> filter;
  uint64_t first_free_id = 0;  // upserts write ids from here on, and deletions take those
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;  // CANCELLED once it is set; may be null

  // INVALID_ARGUMENT names the flag.
  absl::Status Validate() const;
};

// Milliseconds of a call, by nearest rank; 0 without calls.
struct CallTimes {
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

struct CallFigures {
  int64_t calls = 0;  // answered without an error, in the time measured
  int64_t failed = 0;
  double rate = 0;  // queries, items or ids a second that were answered
  CallTimes ms;
  std::string error;  // the first
};

struct LoadFigures {
  CallFigures search, upsert, remove;
  double seconds = 0;         // measured
  double calls_a_second = 0;  // all kinds, failed ones left out
  int64_t missed = 0;         // calls of an open loop that were due and never made, the server being far behind
  uint64_t next_free_id = 0;
};

// The request of one search for these queries.
v1::SearchRequest SearchOf(const LoadPlan& plan, const LoadVectors& vectors, int64_t first_query, int64_t count);

// Runs the plan. Queries are asked in turn; upserts write vectors of the data under new ids; deletions take the ids
// upserted, oldest first. A call that fails is counted, not repeated. CANCELLED; errors of the plan; UNAVAILABLE when
// every call failed so. An open loop that is behind when its time is over goes on for as long again at most.
absl::StatusOr<LoadFigures> RunLoad(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors);

}  // namespace lightcone::cli

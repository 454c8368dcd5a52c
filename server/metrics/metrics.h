// What Prometheus sees. Names start with lightcone_, base units, labels of low cardinality: methods and codes of the
// wire, names of collections (an operator's), numbers of generations. The list is in docs/reference/metrics.md.
// Threads: every method is safe from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/api/engine.h"

namespace lightcone::server {

struct LaneFigures {
  std::string lane;
  int64_t queued = 0, running = 0;
  uint64_t rejected_total = 0;
};

// What the RPC layer knows at the moment of a scrape.
struct RpcFigures {
  int64_t in_flight = 0;
  bool ready = false;
  std::vector<LaneFigures> lanes;
};

// The calls of one method since the start.
struct CallFigures {
  std::string method;
  std::vector<std::pair<std::string, uint64_t>> codes;  // codes, and the number of calls that ended with each
  std::vector<std::pair<std::string, uint64_t>>
      part_errors;                                   // codes, and how many parts of calls were answered by each
  uint64_t count = 0;                                // number of durations
  std::vector<std::pair<double, uint64_t>> buckets;  // seconds, and calls that took at most as long; ascending
};

class Metrics {
 public:
  explicit Metrics(std::string_view version);
  ~Metrics();

  // A method that may be called: its counters of faults begin at 0, so that the first fault is an increase.
  void ExpectCalls(std::string_view method);

  // The same of a method whose calls have parts.
  void ExpectParts(std::string_view method);

  // One finished call: "Retrieval/Search", "OK".
  void RecordCall(std::string_view method, std::string_view code, absl::Duration elapsed);
  // Parts of one that were answered by an error: queries of a search, batches of a stream.
  void RecordParts(std::string_view method, std::string_view code, uint64_t parts);

  // Where figures that are read at each scrape come from. Both may be null and be changed; a scrape that runs while
  // they change has ended with the old ones when this returns.
  void SetSources(Engine* engine, std::function<RpcFigures()> rpc);

  // Of the methods that were called.
  std::vector<CallFigures> Calls() const;

  // The text exposition format, version 0.0.4.
  std::string Scrape();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lightcone::server

// What Prometheus sees. Names start with lightcone_, and units are base units. Labels have low cardinality: methods and
// codes of the wire, collections, generations. docs/reference/metrics.md lists them.
// Threads: every method is safe from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/audit/audit_file.h"
#include "server/auth/certificates.h"
#include "server/auth/keyring.h"
#include "server/engine/api/engine.h"
#include "server/trace/tracer.h"

namespace lightcone::server {

// Who may call, where keys or TLS are set; the audit file and the limits of writes, where there are any.
struct TrustFigures {
  std::optional<auth::KeyringFigures> keys;
  std::optional<auth::CertificateFigures> certificates;
  std::optional<audit::AuditFigures> audit;
  std::optional<auth::QuotaFigures> writes;  // limits of all writes together
};

struct LaneFigures {
  std::string lane;
  int64_t queued = 0, running = 0;
  uint64_t rejected_total = 0;
  bool overloaded = false;
  std::vector<std::pair<std::string, uint64_t>> refused;  // reasons, and calls that were not begun for each
  std::vector<std::pair<double, uint64_t>> wait_buckets;  // seconds, and begun calls that waited at most as long
  uint64_t begun = 0;                                     // all begun calls
  double wait_seconds_sum = 0;
};

// What the RPC layer knows at the moment of a scrape.
struct RpcFigures {
  int64_t in_flight = 0;
  bool ready = false;
  std::vector<LaneFigures> lanes;
  TrustFigures trust;
  std::optional<TraceFigures> trace;  // absent: no call is traced
  int64_t watches = 0;
};

// The calls of one method since the start.
struct CallFigures {
  std::string method;
  std::vector<std::pair<std::string, uint64_t>> codes;        // codes, and how many calls ended with each
  std::vector<std::pair<std::string, uint64_t>> part_errors;  // codes, and how many parts of calls got each
  uint64_t count = 0;                                         // measured durations
  std::vector<std::pair<double, uint64_t>> buckets;           // seconds, and calls that took at most as long; ascending
};

class Metrics {
 public:
  explicit Metrics(std::string_view version);
  ~Metrics();

  // Starts a method's counters of faults at 0, so that the first fault is an increase.
  void ExpectCalls(std::string_view method);
  // The same for a method whose calls have parts.
  void ExpectParts(std::string_view method);

  // Records a finished call: "Retrieval/Search", "OK".
  void RecordCall(std::string_view method, std::string_view code, absl::Duration elapsed);
  // Records parts of a call that got an error: queries of a search, batches of a stream.
  void RecordParts(std::string_view method, std::string_view code, uint64_t parts);

  // Sets what each scrape reads. Both may be null. No scrape uses the old sources when this returns.
  void SetSources(Engine* engine, std::function<RpcFigures()> rpc);

  // The figures of the methods that were called.
  std::vector<CallFigures> Calls() const;

  // The text exposition format, version 0.0.4.
  std::string Scrape();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lightcone::server

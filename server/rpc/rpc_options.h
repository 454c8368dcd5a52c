// How the RPC layer is set up, and what it tells about each call. No gRPC header: for those who start a server.
// Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "base/trace.h"
#include "index/api/collection_index.h"
#include "server/auth/certificates.h"
#include "server/auth/keyring.h"
#include "server/auth/quota.h"
#include "server/rpc/lanes.h"
#include "server/trace/tracer.h"

namespace lightcone::server {

// "INVALID_ARGUMENT" for 3 and so on; "UNKNOWN" for numbers that are no canonical code.
std::string_view CodeName(int code);

// Who made a call and what it is about, for an audit.
struct CallSubject {
  std::string caller;      // name of the key, token or certificate; empty: none was asked for, or none was valid
  std::string collection;  // as the request names it; empty: it names none
  std::string source;      // collection of a snapshot that the call reads; empty: none
  std::vector<std::string> collections;  // chosen collections of a call that takes a list; empty: all, or no such call
  std::string request_id;                // of an operator's call
  std::string peer;                      // "ipv4:10.0.0.7:5123"
};

// One finished call, for metrics and logs. `method` is "Retrieval/Search" and lives for ever.
struct CallRecord {
  std::string_view method;
  int code = 0;  // canonical
  absl::Duration elapsed;
  std::string_view message;  // message of the error, valid while the observer runs
  // 0: the record is of a call. Otherwise: number of the call's parts (queries, batches) that this error answered, with
  // the first one's message. The call has a record of its own and may end as OK.
  uint64_t parts = 0;
  const CallSubject* subject = nullptr;  // null: RpcOptions::audits does not ask for it
  TraceId trace_id = {};                 // empty: the caller has not sent `traceparent`, and the call is not traced
};

struct RpcOptions {
  std::string listen = "127.0.0.1:0";           // HOST:PORT, port 0: any; or unix:/path
  int64_t message_bytes_max = 256 << 20;        // Largest request. Cost: memory for each call in flight. At start.
  int64_t parsed_bytes_max = int64_t{1} << 30;  // Memory of the requests of all calls, once parsed. At start.
  // Get, Search, Scroll, Count
  LaneOptions read_lane = {8, 1'024, 0, {absl::Milliseconds(500), absl::Milliseconds(10)}};
  // Upsert and Delete, whose threads wait for the disk together (group commit). The niceness lets a search that wakes
  // run first: without it, some 30 writers with slices of 3 ms kept a search from its core for tens of milliseconds. A
  // writer has a third of a reader's share.
  LaneOptions write_lane = {32, 1'024, 5, {absl::Seconds(5), absl::Milliseconds(500)}};
  LaneOptions operate_lane = {4, 64};              // Calls of operators
  LaneOptions wait_lane = {8, 64};                 // calls that may take long: snapshots, rebuilds, searches that wait
  int watch_threads = 1;                           // threads that look for all watches
  int64_t watches_max = 4'096;                     // open Watch streams; above: RESOURCE_EXHAUSTED
  int64_t answer_bytes_max = 64 << 20;             // Largest answer of one Get or Search
  int64_t stream_batches_max = 8;                  // batches of one UpsertStream that are read ahead
  IndexSettings index_defaults;                    // settings of new collections
  auth::QuotaPtr writes = nullptr;                 // rows and bytes of all writes together; null: no limit
  auth::Keyring* keys = nullptr;                   // keys of callers; null: none are asked for. It outlives the server.
  auth::Certificates* certificates = nullptr;      // TLS material; null: no encryption. It outlives the server.
  Tracer* tracer = nullptr;                        // null: no call is traced. It outlives the server.
  std::function<void(const CallRecord&)> observe;  // may be empty; called from any thread
  std::function<bool(std::string_view method)> audits;  // whether `observe` needs the subject of the method's calls
  std::function<absl::Time()> clock = absl::Now;        // clock for deadlines; called from any thread
};

}  // namespace lightcone::server

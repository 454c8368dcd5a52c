// Everything that can be set about a server. Filled by ResolveConfig (server/options/resolve.h) from the options table.
// Threads: a plain value.
#pragma once

#include <cstdint>
#include <string>

#include "index/api/collection_index.h"
#include "index/gpu/device_options.h"
#include "server/engine/api/options.h"
#include "server/engine/api/snapshots.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// How many calls of one kind run at once, and how many may wait.
struct LaneConfig {
  int threads = 4;
  int64_t queue_max = 1'024;
  double wait_seconds_max = 0;           // longest expected wait of a call; 0: none
  double overload_wait_seconds_max = 0;  // the same while more calls come than are done; 0: none
};

// Who may call. Empty: no keys are asked for.
struct AuthConfig {
  std::string keys_file, token_secrets_file;
};

// PEM files. Empty: no encryption, and no client certificates.
struct TlsConfig {
  std::string certificate_file, key_file, client_ca_file;
};

// File of calls (server/audit/audit_file.h). Empty: none.
struct AuditConfig {
  std::string file;
  bool data = false;  // also calls that read and write items
  int64_t bytes_max = 64 << 20;
  int kept = 10;
};

// Spans of calls (server/trace/tracer.h). An empty endpoint: none.
struct TraceConfig {
  std::string endpoint;
  double sample_share = 1;
};

struct ServerConfig {
  std::string listen = "127.0.0.1:7700";       // gRPC; HOST:PORT or unix:/path
  std::string http_listen = "127.0.0.1:7701";  // metrics and health; empty: off
  bool http_metrics_open = false;              // /metrics asks for no key
  std::string console_mode = "auto";           // auto, operate, read, off
  std::string console_host;                    // names of the HTTP port, with commas, beside addresses and localhost
  bool insecure = false;                       // listens beyond loopback without TLS and keys
  AuthConfig auth;
  TlsConfig tls;
  AuditConfig audit;
  TraceConfig trace;
  double drain_seconds = 30;
  std::string log_level = "info";
  std::string log_format = "text";
  int64_t message_bytes_max = 256 << 20;
  int64_t parsed_bytes_max = int64_t{1} << 30;
  int64_t stream_batches_max = 8;
  int64_t write_rows_per_second = 0, write_bytes_per_second = 0;  // of all callers together; 0: no limit
  LaneConfig read_lane = {8, 1'024, 0.5, 0.01};
  LaneConfig write_lane = {32, 1'024, 5, 0.5};
  LaneConfig operate_lane = {4, 64};
  LaneConfig wait_lane = {8, 64};
  int watch_threads = 1;
  int64_t watches_max = 4'096;
  EngineOptions engine;
  BackupOptions backup;
  DeviceOptions device;  // device of the process, for all collections
  IndexSettings index;   // settings of new collections

  ServerConfig() { engine.data_folder = "./lightcone-data"; }
};

}  // namespace lightcone::server

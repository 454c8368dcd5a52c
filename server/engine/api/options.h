// What the engine is opened with: its folder, limits and resources. Threads: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/forward_clock.h"
#include "base/lock_in.h"
#include "server/engine/api/endpoint_options.h"
#include "store/store.h"

namespace lightcone::server {

struct LiveRecallOptions {
  double sample_share = 0.01;        // share of the searches that are repeated exactly in the background. 0: none.
  double capacity_share_max = 0.02;  // largest cost, as a share of all cores' time. 0: nothing is repeated.
  int64_t queue_max = 64;            // searches waiting to be repeated; more are dropped and counted
};

struct Limits {
  int64_t k_max = 10'000;               // hits of one query
  int64_t queries_max = 1'000;          // queries of one Search
  int64_t batch_items_max = 10'000;     // items of one Upsert, Get or Delete
  int64_t payload_bytes_max = 1 << 20;  // payload of one item
  int64_t id_bytes_max = 512;
  int64_t input_bytes_max = 32 << 20;     // size of one raw input that is an image or a tensor
  int64_t text_bytes_max = 1 << 20;       // size of one raw input that is a text
  int64_t image_pixels_max = 36'000'000;  // width x height of one image
  int64_t ef_max = 100'000;
  int64_t page_items_max = 10'000;      // items of one Scroll page
  int64_t answer_bytes_max = 64 << 20;  // answer of one Get or Search by the wire
  int64_t collections_max = 1'000;
  int64_t generations_max = 1'000;         // generations of one collection, retired ones included
  int64_t manifest_bytes_max = 256 << 10;  // manifest of one generation, which is held in memory
  int64_t encoder_bytes_max = int64_t{1} << 30;
  int64_t adapter_bytes_max = 64 << 20;  // size of one adapter's file
  int64_t adapters_max = 64;             // adapters of one collection, which are held in memory
  int64_t probes_max = 10'000;           // probes of one probe set
  int64_t probe_set_bytes_max = 64 << 20;
  absl::Status Validate() const;
};

struct EngineOptions {
  std::string data_folder;  // store in DATA/store, segments in DATA/index, encoders in DATA/encoders
  StoreOptions store;
  Limits limits;
  int search_threads = 0;                                 // legs and queries of one call run in parallel; 0: one a core
  int encoder_threads = 1;                                // torch threads of an encoder's process
  int encoder_batch_max = 64;                             // inputs of concurrent calls that are embedded together
  absl::Duration encoder_linger = absl::Milliseconds(2);  // time that a batch waits for company
  int64_t encoder_pixels_max = 512'000'000;               // of images in calls in flight; above: RESOURCE_EXHAUSTED
  int64_t encoder_queue_max = 4'096;                      // inputs waiting; above: RESOURCE_EXHAUSTED
  int encoder_processes_max = 4;                          // encoders that are kept in processes at once
  int encoder_trials_max = 2;                             // encoders that are tried at once before they are registered
  absl::Duration encoder_stay = absl::Seconds(2);         // least time of an encoder in a process; tests change it
  absl::Duration encoder_run_time_max = absl::Seconds(30);  // of a batch, or to load an encoder; then it hangs
  int64_t encoder_memory_bytes_max = int64_t{8} << 30;      // that an encoder's process may write to; 0: no limit
  LockMode encoder_sandbox = LockMode::kAuto;    // what the processes of encoders and trainings do about their lock
  int64_t slow_search_ms = 0;                    // least time of a search that is logged; 0: none is
  bool encoder_uploads = true;                   // whether Register may bring an encoder
  int64_t refresh_items_per_second_max = 1'000;  // items that searches with refresh_top may embed anew; 0: none may
  EndpointOptions endpoints;                     // encoders that are endpoints elsewhere
  std::vector<std::string> data_folders;         // folders below which callers may name paths
  // Rows that item adapters have carried and searches scan again, of all collections together. Cost: RAM. 0: none are
  // kept, and every such scan pays for the adapter.
  int64_t adapted_rows_bytes_max = int64_t{1} << 30;
  // Sealed segments that item adapters have carried over into files, of all collections together. Cost: as much disk as
  // the rows take themselves. 0: none are, and such galleries are scanned or re-ranked row by row.
  int64_t carried_disk_bytes_max = int64_t{1} << 38;
  // What searches of one collection's index may need in memory (index/build/kind_choice.h): decides its kind where that
  // is left open; a collection that needs more all the same is not served. 0: no limit.
  int64_t index_memory_bytes_max = 0;
  // Rows of one collection that wait in memory to be sealed. Cost: RAM. While there are more, its writes of items wait;
  // from a quarter of it on they are sealed without graph or lists, to be rewritten later. 0: no limit.
  int64_t index_unsealed_bytes_max = int64_t{2} << 30;
  // What the builders of all collections write, so that it does not stand before what searches read and writes sync.
  // Not held to while writes wait for room. 0: no limit.
  int64_t index_build_bytes_per_second_max = int64_t{256} << 20;
  int64_t write_queue_max = 1'024;  // batches waiting for the writer of a collection; above: RESOURCE_EXHAUSTED
  LiveRecallOptions live_recall;
  ForwardClock::Source clock = ForwardClock::Machine();  // time by which items expire; tests change it
  // `lightcone-model`, which runs encoders, fits adapters and trains in processes beside this one. Empty: there is
  // none.
  std::string helper_program;
  int helper_threads = 1;    // threads that the program computes with
  int helper_niceness = 19;  // 0 .. 19: how far it stands back behind this process; 19: it gets what nobody else wants
  int64_t helper_memory_bytes_max = 0;  // memory that the program may ask for; 0: as much as there is
  absl::Duration helper_embed_time_max =
      absl::Minutes(1);  // time for one batch of a backfill's encoder before it counts as hanging
  // After a turn of embedding that failed; doubled each time while it is that the encoder cannot start. Tests change
  // it.
  absl::Duration embed_retry = absl::Seconds(5);
  absl::Duration embed_pass_pause =
      absl::Seconds(10);  // pause until leased or failed items are tried again; tests change it, too
  absl::Status Validate() const;
};

}  // namespace lightcone::server

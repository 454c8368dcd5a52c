// What every use case works with: options, store, threads, the catalog and what encodes.
// Threads: the members are set once. Each of them is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/thread_pool.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/services/catalog.h"
#include "store/store.h"

namespace lightcone::server {

class Embedder;
class Jobs;

// The layout of a data folder, but for the store's own folder.
struct DataFolders {
  std::string data;

  std::string Index(uint32_t collection) const { return StrCat(data, "/index/", collection); }
  std::string Encoders(uint32_t collection) const { return StrCat(data, "/encoders/", collection); }
  std::string Encoder(uint32_t collection, uint32_t generation) const {
    return StrCat(Encoders(collection), "/", generation, ".pt");
  }
  std::string Jobs() const { return data + "/jobs"; }            // scratch space of running jobs
  std::string Trainings() const { return data + "/trainings"; }  // trainings that have not ended
  std::string Training(uint64_t job) const { return StrCat(Trainings(), "/", job); }
};

struct Context {
  // `threads`: what one call may run on.
  Context(const EngineOptions& o, std::shared_ptr<Store> s, std::shared_ptr<Jobs> j, std::shared_ptr<Embedder> e,
          int threads)
      : options(o),
        folders{o.data_folder},
        store(std::move(s)),
        pool(threads),
        adapted_memory(std::make_shared<AdaptedBudget>(o.adapted_rows_bytes_max)),
        clock(o.clock),
        carried_disk(o.carried_disk_bytes_max > 0 ? std::make_shared<AdaptedBudget>(o.carried_disk_bytes_max)
                                                  : nullptr),
        embedder(std::move(e)),
        jobs(std::move(j)) {}

  AdapterCaches CachesOf(uint32_t collection) const {
    return {adapted_memory, carried_disk, CarriedFolder(folders.Index(collection))};
  }

  const EngineOptions options;
  const DataFolders folders;
  const std::shared_ptr<Store> store;
  ThreadPool pool;
  const std::shared_ptr<AdaptedBudget> adapted_memory;
  ForwardClock clock;
  const std::shared_ptr<AdaptedBudget> carried_disk;  // nullptr: item adapters write no files
  const std::shared_ptr<Embedder> embedder;
  const std::shared_ptr<Jobs> jobs;
  Catalog catalog;
  std::atomic<bool> ending{false};  // The server shuts down.
};

}  // namespace lightcone::server

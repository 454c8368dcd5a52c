// A gallery in an engine of this process: a Lorentz collection "gallery" of two generations, of which the second has
// the first as parent. For benchmarks that leave the wire out. Threads: Search and Upsert from any thread, all else
// from one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/engine.h"

namespace lightcone::bench {

class EngineGallery {
 public:
  static constexpr char kName[] = "gallery";
  static constexpr size_t kQueries = 1'000;

  // `helper`: the program `lightcone`, for jobs that run beside the engine.
  EngineGallery(const std::string& folder, int dimension, int64_t items, const std::string& helper = {});

  // Opens a fresh engine, loads all items by the first generation, which is active then, and the first `both` of them
  // by the second as well, at the same places; builds one segment a generation.
  absl::Status Fill(int64_t both = 0);
  absl::Status Reopen();
  void Close() { engine_.reset(); }

  // Items first .. first + n - 1. `same_content`: embedded anew by `generation`, else new.
  absl::Status Upsert(int64_t first, int64_t n, Durability durability, uint32_t generation = 1,
                      bool same_content = false);
  absl::Status Activate(uint32_t generation);
  // The nearest ten of query i.
  absl::StatusOr<server::SearchAnswer> Search(size_t i) const;
  std::vector<float> VectorsOf(int64_t first, int64_t n) const;

  server::Engine& engine() const { return *engine_; }
  int64_t items() const { return items_; }
  const std::string& folder() const { return options_.data_folder; }

 private:
  const int dimension_;
  const int64_t items_;
  const std::vector<float> queries_;
  server::EngineOptions options_;
  std::unique_ptr<server::Engine> engine_;
};

}  // namespace lightcone::bench

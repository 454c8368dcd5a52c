#include "store/store.h"

#include <array>

#include "base/status.h"

namespace lightcone {
namespace {

// Also the names of the column families and a part of every value's checksum: never rename one.
constexpr std::array<std::string_view, kTableCount> kTableNames = {
    "meta", "collections", "generations", "items", "embeddings", "order", "changes", "inputs", "probes", "jobs"};

constexpr int64_t kMemoryMin = int64_t{16} << 20;
constexpr int64_t kMemoryMax = int64_t{1} << 40;
constexpr int kThreadsMax = 64;
constexpr int64_t kReserveMax = int64_t{1} << 40;

}  // namespace

std::string_view TableName(Table table) { return kTableNames[static_cast<size_t>(table)]; }

absl::Status StoreOptions::Validate() const {
  if (memory_bytes < kMemoryMin || memory_bytes > kMemoryMax) {
    return InvalidField("store.memory_bytes", StrCat(memory_bytes), StrCat(kMemoryMin, " .. ", kMemoryMax));
  }
  if (background_threads < 1 || background_threads > kThreadsMax) {
    return InvalidField("store.background_threads", StrCat(background_threads), StrCat("1 .. ", kThreadsMax));
  }
  if (reserve_bytes < 0 || reserve_bytes > kReserveMax) {
    return InvalidField("store.reserve_bytes", StrCat(reserve_bytes), StrCat("0 .. ", kReserveMax));
  }
  return absl::OkStatus();
}

}  // namespace lightcone

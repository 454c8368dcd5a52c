// The adapters of a collection, ready to run.
// Threads: pure functions; a ServedAdapter is immutable but for its cache, which takes care of itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "geometry/adapter.h"
#include "index/adapted/carried_segments.h"
#include "index/rows/adapted_rows.h"
#include "models/adapter_file.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/meta.h"

namespace lightcone::server {

// The number by which a fit knows an item, of 31 bits. Two items may share one; then both are held out, or neither.
uint64_t ItemInFit(uint64_t internal_id);

struct ServedAdapter {
  AdapterStatus status;
  AdapterFit fit;
  Adapter adapter;
  // Of item adapters: what they have carried, in memory and in files; they point to `adapter`.
  std::unique_ptr<AdaptedRows> rows;
  std::unique_ptr<CarriedSegments> carried;  // nullptr: files are not allowed

  ServedAdapter(AdapterStatus s, AdapterFit f, Adapter a)
      : status(std::move(s)), fit(std::move(f)), adapter(std::move(a)) {}
};

// Whether it is known what the fits of all these held out. False without any.
bool KnowHeldOut(std::span<const ServedAdapter* const> adapters);
// REQUIRES: KnowHeldOut.
bool AllHeldOut(std::span<const ServedAdapter* const> adapters, uint64_t internal_id);

// By (from, to). Shared by the states of a collection: a search that began keeps the adapters that it began with.
using AdapterSet = std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<const ServedAdapter>>;

// The direction that a pair of generations has: queries are carried to older ones, items to newer ones.
inline AdapterDirection DirectionOf(uint32_t from, uint32_t to) {
  return from > to ? AdapterDirection::kQuery : AdapterDirection::kItem;
}

// Parses and checks the file for a pair. INVALID_ARGUMENT when it is damaged, does not fit the pair in one of
// direction, dimension and target space, or was fitted between other encoders or from another space, as far as both are
// known: names the field, its value and what the generations are.
absl::StatusOr<AdapterFile> ReadAdapterFor(const GenerationRecord& from, const GenerationRecord& to,
                                           std::string_view file);

inline std::string CarriedFolder(const std::string& index_folder) { return index_folder + "/adapted"; }

// Where adapters of a collection keep what they have carried.
struct AdapterCaches {
  std::shared_ptr<AdaptedBudget> memory,
      disk;            // budgets of the whole program; without a disk budget nothing goes into files
  std::string folder;  // folder with a subfolder for each version
};

// REQUIRES: `file` is that of the record.
absl::StatusOr<std::shared_ptr<const ServedAdapter>> ServeAdapter(const AdapterRecord& record, const AdapterFile& file,
                                                                  const AdapterCaches& caches);

}  // namespace lightcone::server

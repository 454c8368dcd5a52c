// The index of one collection: for each generation one growing segment (exact scan) and sealed segments (flat, HNSW or
// IVF). The index is a cache of the store: Apply brings rows in sequence order, and everything on disk can be rebuilt.
//
// Threads: one writer at a time calls Apply, AddGeneration and Reconfigure. One thread at a time calls PrepareDrop or
// DropGeneration, beside Apply. View(), Stats() and everything on a View are safe from any thread. Background threads
// of the index seal, merge and publish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "geometry/metric.h"
#include "index/api/search.h"
#include "index/api/settings.h"

namespace lightcone {

// A change of the store's log, in the order of the log.
struct RowChange {
  enum class Kind { kAdd, kDelete };
  Kind kind = Kind::kAdd;
  uint64_t internal_id = 0;
  uint32_t generation = 0;           // kAdd
  std::vector<uint32_t> supersedes;  // kAdd: generations whose rows of the same id get superseded_by
  std::span<const float> z;          // kAdd: before the clip; must live during Apply
  float uncertainty = 0;             // kAdd
};

// The store as the index reads it, to rebuild a damaged segment or to replay after a crash. The engine implements it.
// Threads: Open calls it, and later a thread of the index until the index's destructor has returned.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Calls `row` for every live embedding of a generation at some moment after the call began. A change reaches the
  // source before it reaches Apply.
  virtual absl::Status ForEachEmbedding(
      uint32_t generation,
      const std::function<absl::Status(uint64_t internal_id, std::span<const float> z, float uncertainty)>& row) = 0;
  // All generations that embedded the item's content, ascending. Empty: the item is gone.
  virtual absl::StatusOr<std::vector<uint32_t>> GenerationsOf(uint64_t internal_id) = 0;
};

struct SegmentInfo {
  uint32_t generation = 0;
  uint64_t id = 0;
  std::string kind;   // "growing", "flat", "hnsw", "ivf"
  std::string codes;  // codes that searches read first: "float32", "int8", "fp16", "pq"
  int64_t rows = 0, dead_rows = 0, bytes = 0;
  // How a search for ten rows that names no breadth searches a measured segment: its `ef` or number of lists (0: a
  // scan, because no breadth finds enough of the nearest rows), and the recall that was measured at it (1 of a scan).
  // No recall: nothing was measured, because there are too few rows, no graph and no lists.
  int default_breadth = 0;
  std::optional<double> default_recall = {};
};

// A row of a sample, with what a search's filter reads of a row.
struct SampledRow {
  uint64_t internal_id = 0;
  uint32_t generation = 0;
  float uncertainty = 0;
};

// An immutable set of segments pinned for the length of a search. Cheap to hold.
class IndexView {
 public:
  virtual ~IndexView() = default;
  // One answer a request. Each is as if it were alone, unless requests are legs of one query. Rows that several
  // requests scan are read once. NOT_FOUND for an unknown generation; DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE while a
  // damaged segment is rebuilt from the source.
  virtual std::vector<absl::StatusOr<SearchResult>> SearchTogether(std::span<const SearchRequest> requests) const = 0;
  absl::StatusOr<SearchResult> Search(const SearchRequest& request) const {
    return std::move(SearchTogether({&request, 1})[0]);
  }
  // Adapts the rows of a generation ahead of searches, as far as budgets go. `carried` gets sealed segments, built as
  // the settings say, and drops all others; `rows` gets the remaining rows. Either may be nullptr. Cheap when nothing
  // is left to do. NOT_FOUND as Search; CANCELLED soon after `cancelled` says so; else the first error of
  // CarriedSegments, after all segments were tried.
  virtual absl::Status Adapt(uint32_t generation, AdaptedRows* rows, CarriedSegments* carried,
                             const IndexSettings& settings, const std::function<bool()>& cancelled) const = 0;
  // Drops what an adapter that no leg uses carried of segments that are gone. Errors of the files.
  virtual absl::Status KeepCarried(uint32_t generation, CarriedSegments* carried) const = 0;
  // Rows of a generation that a view of `view_generation` serves.
  virtual int64_t VisibleRows(uint32_t generation, uint32_t view_generation) const = 0;
  // Takes `asked` rows, spread evenly over the generations, and returns those that a view of `view_generation` serves.
  virtual std::vector<SampledRow> SampleRows(std::span<const uint32_t> generations, uint32_t view_generation,
                                             int64_t asked) const = 0;
  // Generations with at least one visible row for this view, ascending.
  virtual std::vector<uint32_t> Generations(uint32_t view_generation) const = 0;
  virtual uint64_t sequence() const = 0;  // the last change that this view surely contains
};

// Payload of RESOURCE_EXHAUSTED where an index needs more memory than allowed.
inline constexpr std::string_view kMemoryLimitUrl = "lightcone/index-memory-limit";

struct IndexStats {
  std::vector<SegmentInfo> segments;
  int64_t builds_running = 0, builds_total = 0, rebuilds_total = 0;
  int64_t segments_unchecked = 0;  // segments whose files were not checked since the start
  int64_t segments_damaged = 0;    // segments whose rows are being rebuilt from the source
  int64_t mapped_bytes = 0, heap_bytes = 0;
  uint64_t sealed_sequence = 0;  // changes up to here are in files: the store may trim its log before it
  std::string choice;            // reason for the kind of segments where the settings are kAuto; else empty
  absl::Status last_error;       // error of the last seal, rewrite or repair; OK when all succeeded
};

class CollectionIndex {
 public:
  virtual ~CollectionIndex() = default;

  // Opens the folder, or creates it: loads manifests, maps sealed segments, and rebuilds missing or plainly damaged
  // segments from `source`. The caller then replays the store's changes after replay_after() through Apply. Background
  // work verifies checksums and rebuilds what is damaged or cannot be read.
  // RESOURCE_EXHAUSTED with both figures where searches would need more memory than `limits.memory_bytes_max`
  // (kind_choice.h), for kAuto with the kind that needs least.
  static absl::StatusOr<std::unique_ptr<CollectionIndex>> Open(
      const std::string& folder, const IndexSettings& settings,
      const std::vector<std::pair<uint32_t, Space>>& generations, RowSource* source, const IndexLimits& limits = {});

  // The sequence after which the caller replays changes. Replaying too much is harmless: Apply ignores changes that a
  // segment already holds.
  virtual uint64_t replay_after() const = 0;
  // Whether Apply would add rows of this generation for a change of `sequence`. False: files hold them, or there is no
  // such generation. Apply then ignores `z` of these additions, but not what they supersede.
  virtual bool WantsRows(uint32_t generation, uint64_t sequence) const = 0;
  // The newest change whose effect files held at Open. It is above the store's last sequence if a power loss took
  // writes that were acknowledged without fsync. The caller then opens an empty folder.
  virtual uint64_t newest_sequence_in_files() const = 0;
  virtual absl::Status AddGeneration(uint32_t generation, const Space& space) = 0;
  // Looks up, ahead of DropGeneration, what becomes of the rows that a generation superseded. This takes long, but
  // locks the index for moments only, and answers do not change. CANCELLED once `cancelled` says so.
  virtual absl::Status PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled) = 0;
  // Removes the generation's rows for good; older rows of its items become visible. Looks up what PrepareDrop did not.
  virtual absl::Status DropGeneration(uint32_t generation) = 0;
  // Ignores additions to unknown generations: they were dropped after the change was logged. INVALID_ARGUMENT for a
  // vector that its space does not allow; nothing of the batch is applied then.
  virtual absl::Status Apply(uint64_t sequence, std::span<const RowChange> changes) = 0;
  // Waits until rows that are not sealed take less than `unsealed_bytes_max`. Writers call it before Apply, so that the
  // builder keeps up. False: no room by `deadline`. RESOURCE_EXHAUSTED with the builder's error while the builder
  // fails.
  virtual absl::StatusOr<bool> AwaitRoom(absl::Time deadline) = 0;
  virtual std::shared_ptr<const IndexView> View() const = 0;
  // Seals every growing segment now and waits for the background work, checks of files included. DEADLINE_EXCEEDED,
  // CANCELLED: the work goes on without the caller.
  virtual absl::Status Flush(absl::Time deadline = absl::InfiniteFuture(),
                             const std::function<bool()>& cancelled = {}) = 0;
  // Sets the settings of later segments. `rebuild_now`: the builder rebuilds all sealed segments.
  virtual absl::Status Reconfigure(const IndexSettings& settings, bool rebuild_now) = 0;
  virtual IndexStats Stats() const = 0;
};

}  // namespace lightcone

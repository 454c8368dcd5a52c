// The index of one collection: per generation one growing segment (exact scan) and sealed segments (flat, HNSW or
// IVF). It is a cache of the store: rows come in through Apply, in sequence order, and everything on disk can be
// rebuilt.
//
// Threads: Apply, AddGeneration and Reconfigure come from one writer at a time (the engine's); PrepareDrop and
// DropGeneration may run beside Apply, one of them at a time; View(), Stats() and everything on a View are safe from
// any thread. Background threads of the index seal, merge and publish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// What the writer tells the index, in the order of the store's change log.
struct RowChange {
  enum class Kind { kAdd, kDelete };
  Kind kind = Kind::kAdd;
  uint64_t internal_id = 0;
  uint32_t generation = 0;           // kAdd
  std::vector<uint32_t> supersedes;  // kAdd: rows of these generations with the same internal id get superseded_by
  std::span<const float> z;          // kAdd: before the clip; must live during Apply
  float uncertainty = 0;             // kAdd
};

// Gives rows back from the truth: rebuilding a damaged segment, replaying after a crash. Implemented by the engine.
// Threads: the index calls it while it is opened, and later from a thread of its own, until its destructor has
// returned.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Calls `row` for every live embedding of a generation, as of some moment after the call's begin. A change reaches
  // the source before it reaches Apply.
  virtual absl::Status ForEachEmbedding(
      uint32_t generation,
      const std::function<absl::Status(uint64_t internal_id, std::span<const float> z, float uncertainty)>& row) = 0;
  // For each id the newer generations that embedded the same content (all generations that embedded it, ascending);
  // an empty list means that the item is gone.
  virtual absl::StatusOr<std::vector<uint32_t>> GenerationsOf(uint64_t internal_id) = 0;
};

struct SegmentInfo {
  uint32_t generation = 0;
  uint64_t id = 0;
  std::string kind;   // "growing", "flat", "hnsw", "ivf"
  std::string codes;  // what searches read first: "float32", "int8", "fp16", "pq"
  int64_t rows = 0, dead_rows = 0, bytes = 0;
};

// A row of a sample, as a search's filter would be asked about it.
struct SampledRow {
  uint64_t internal_id = 0;
  uint32_t generation = 0;
  float uncertainty = 0;
};

// An immutable set of segments pinned for the length of a search. Cheap to hold.
class IndexView {
 public:
  virtual ~IndexView() = default;
  // NOT_FOUND for a generation the index does not have; DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE while rows of a
  // damaged segment are taken from the source again.
  // One answer a request, each as if it were alone unless they are legs of one query; rows that several of them have to
  // scan are read once.
  virtual std::vector<absl::StatusOr<SearchResult>> SearchTogether(std::span<const SearchRequest> requests) const = 0;
  absl::StatusOr<SearchResult> Search(const SearchRequest& request) const {
    return std::move(SearchTogether({&request, 1})[0]);
  }
  // Carries the rows of a generation ahead of the searches that will want them: sealed segments over into `carried`,
  // built as the settings say, and what that does not take into `rows` (either nullptr: not), as far as budgets go.
  // `carried` lets go of all other segments. Cheap when that is done. NOT_FOUND as Search; CANCELLED soon after
  // `cancelled` says so; else the first error of CarriedSegments, after all segments were tried.
  virtual absl::Status Adapt(uint32_t generation, AdaptedRows* rows, CarriedSegments* carried,
                             const IndexSettings& settings, const std::function<bool()>& cancelled) const = 0;
  // Of an adapter that no leg uses now: lets go of what it carried of segments that are no more. Errors of the files.
  virtual absl::Status KeepCarried(uint32_t generation, CarriedSegments* carried) const = 0;
  // Rows of a generation that a view of `view_generation` serves.
  virtual int64_t VisibleRows(uint32_t generation, uint32_t view_generation) const = 0;
  // Of `asked` rows, spread evenly over those of the generations, the ones that a view of `view_generation` serves.
  virtual std::vector<SampledRow> SampleRows(std::span<const uint32_t> generations, uint32_t view_generation,
                                             int64_t asked) const = 0;
  // Generations with at least one visible row for this view, ascending.
  virtual std::vector<uint32_t> Generations(uint32_t view_generation) const = 0;
  virtual uint64_t sequence() const = 0;  // the last change that this view surely contains
};

// On the RESOURCE_EXHAUSTED of an index that needs more memory than it is allowed.
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

  // Opens the folder (creates it when missing): loads manifests, maps sealed segments, rebuilds those from `source`
  // that are missing or plainly damaged. Afterwards the caller replays the store's changes after replay_after() through
  // Apply. Checksums are verified later, beside searches; what is found damaged then, or cannot be read any more at any
  // time, is rebuilt online.
  // RESOURCE_EXHAUSTED with both figures where searches of the segments would need more memory than
  // `limits.memory_bytes_max`, by kind_choice.h; where the settings leave the kind open, of the kind that needs least.
  static absl::StatusOr<std::unique_ptr<CollectionIndex>> Open(
      const std::string& folder, const IndexSettings& settings,
      const std::vector<std::pair<uint32_t, Space>>& generations, RowSource* source, const IndexLimits& limits = {});

  // Apply ignores changes of a sequence at or below what a segment already holds, so replaying too much is harmless.
  // It leaves out additions to generations that it does not have: they were dropped after the change was logged.
  // INVALID_ARGUMENT for a vector that its space does not allow; nothing of the batch is applied then.
  virtual uint64_t replay_after() const = 0;
  // Whether Apply would add rows of this generation for a change of `sequence`. False: files hold them, or there is no
  // such generation; `z` of these additions is not looked at then, and what they supersede still is.
  virtual bool WantsRows(uint32_t generation, uint64_t sequence) const = 0;
  // Of the newest change whose effect files held at Open. If the store lost newer ones (writes that were acknowledged
  // without fsync, then a power loss) this is above the store's last sequence: open an empty folder then.
  virtual uint64_t newest_sequence_in_files() const = 0;
  virtual absl::Status AddGeneration(uint32_t generation, const Space& space) = 0;
  // Looks up what becomes of the rows that a generation superseded, in advance of DropGeneration: takes as long as
  // that, the index is locked for moments only, as by a write, and answers stay as they are. CANCELLED once `cancelled`
  // says so.
  virtual absl::Status PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled) = 0;
  // Its rows leave for good; older ones of its items are seen again. Looks up what PrepareDrop did not (rows that came
  // since, or all of them), in the same way.
  virtual absl::Status DropGeneration(uint32_t generation) = 0;
  virtual absl::Status Apply(uint64_t sequence, std::span<const RowChange> changes) = 0;
  // Waits until rows that are not sealed take less than `unsealed_bytes_max`: before Apply, by whoever adds rows faster
  // than the builder seals them. False when they do not by `deadline`; RESOURCE_EXHAUSTED with the builder's error
  // while that fails, for nothing would make room.
  virtual absl::StatusOr<bool> AwaitRoom(absl::Time deadline) = 0;
  virtual std::shared_ptr<const IndexView> View() const = 0;
  // Seals every growing segment now and waits for the background work, checks of files included (used by Rebuild,
  // export, benchmarks, tests).
  // DEADLINE_EXCEEDED, CANCELLED: nobody waits any more, and the work goes on.
  virtual absl::Status Flush(absl::Time deadline = absl::InfiniteFuture(),
                             const std::function<bool()>& cancelled = {}) = 0;
  // New settings for segments built from now on; with `rebuild_now` all sealed segments are rebuilt in the background.
  virtual absl::Status Reconfigure(const IndexSettings& settings, bool rebuild_now) = 0;
  virtual IndexStats Stats() const = 0;
};

}  // namespace lightcone

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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "geometry/adapter.h"
#include "geometry/bound_query.h"
#include "geometry/metric.h"

namespace lightcone {

class AdaptedRows;
class CarriedSegments;
struct IdFilter;

// kAuto: by size, dimension and memory limit (kind_choice.h).
enum class SealedKind { kFlat, kHnsw, kIvf, kAuto };

// What a scan or a walk reads of a sealed segment's rows. Exact answers are the same with either, and the rows that are
// found are ranked by their float32 vectors. kPq has no bound and is for IVF alone: exact answers read the vectors
// there.
enum class RowCodes { kFloat32, kInt8, kHalf, kPq, kAuto };

// "flat", "hnsw", "ivf", "auto"; "float32", "int8", "fp16", "pq", "auto". Parsing gives nothing for any other text.
std::string_view SealedKindName(SealedKind kind);
std::string_view RowCodesName(RowCodes codes);
std::optional<SealedKind> ParseSealedKind(std::string_view name);
std::optional<RowCodes> ParseRowCodes(std::string_view name);
// Every name, as in "flat, hnsw, ivf, auto".
std::string SealedKindNames();
std::string RowCodesNames();

struct IndexSettings {
  SealedKind kind = SealedKind::kHnsw;
  // kFloat32: no codes. Cost: a quarter (kInt8), half (kHalf) or a sixteenth (kPq) of the vectors' bytes, once more on
  // disk. Rows too short for kInt8 or kHalf (CodeDimensionMin in geometry/codes.h) have no codes.
  RowCodes codes = RowCodes::kInt8;
  // A growing segment is sealed here, or at a 16th of the unsealed bytes allowed. Cost: scan time of the growing part.
  int64_t growing_rows_max = 20'000;
  int64_t merge_rows_max = 2'000'000;  // Sealed segments are merged up to this size. Cost: build memory and time.
  double tombstones_share_max = 0.2;   // A segment with a greater dead share is compacted.
  int hnsw_m = 16;                     // links a node (2M on the base layer)
  int hnsw_ef_construction = 200;
  int hnsw_ef_search = 128;  // default breadth; a search may ask for another
  int ivf_lists = 0;         // lists of a segment; 0: by its rows
  int ivf_nprobe = 0;        // lists that a search reads by default; 0: what was measured to find 95 % of the nearest
  int pq_m = 0;              // parts that kPq cuts a row into, a byte each; 0: of four numbers, or some more
  int build_threads = 1;     // of the background builder. Cost: CPU beside searches.
  uint32_t rebuild = 0;      // counts the rebuilds that were asked for: a segment of an earlier one is rebuilt
  absl::Status Validate() const;  // names field, value, allowed
  // Whether rows of this dimension can be kept so; INVALID_ARGUMENT names the field and what is allowed.
  absl::Status ValidateFor(int dimension) const;
};

// Of one index; 0: no limit.
struct IndexLimits {
  int64_t memory_bytes_max = 0;    // what searches of its segments may need (kind_choice.h)
  int64_t unsealed_bytes_max = 0;  // rows in memory that wait for the builder: AwaitRoom
  // What builds write, of all indexes of the process together; while writes wait for the builder it does not hold.
  int64_t build_bytes_per_second_max = 0;
};

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

struct SearchRequest {
  // Not 0: requests of one call with this number are legs of one query. Its k nearest rows are surely among their hits,
  // and of rows that are farther none of them has to be: that makes the legs cheaper than searches of their own.
  uint32_t query_number = 0;
  const BoundQuery* query = nullptr;  // bound to the generation's space; may be null with an adapter
  uint32_t generation = 0;            // whose rows are searched
  uint32_t view_generation = 0;       // a row is seen if superseded_by is 0 or > view_generation
  int64_t k = 10;
  bool exact = false;  // scan everything: results provably equal brute force in double precision
  int ef = 0;          // breadth of graph walks; 0: the settings' default
  // Lists that are read of an IVF segment; 0: the settings' default. A provisional one (architecture, Background
  // builds) is read at least as broadly as it was measured to need.
  int nprobe = 0;
  // Above 0, instead of `ef` and `nprobe`: the breadth that each segment was measured to need for this share of the
  // nearest k, by its own rows as queries; where none is known to reach it the segment is scanned. At most 1.
  double target_recall = 0;
  // Optional filter: only rows of these ids. Cheap to ask, so that each segment can be searched by it (filter_plan.h).
  const IdFilter* ids = nullptr;
  // Optional filter: true keeps the row. Called with live, visible rows of `ids` only; must be safe from several
  // threads. Expensive: asked as late as possible.
  std::function<bool(uint64_t internal_id, float uncertainty)> keep;
  // Optional: share of all rows that `keep` is expected to pass (1: unknown or all).
  double keep_share = 1.0;
  bool profile = false;  // fill SearchResult::segments
  // Optional: rank rows by their distance in another space, into which an item adapter carries them. `query` then only
  // finds the max(4 k, 200, ef) candidates that are carried; without one, and with `exact`, every row is. A row of
  // which the adapter makes no vector of its target (a norm out of range) is left out.
  const Adapter* adapter = nullptr;           // takes rows of the generation's space
  const BoundQuery* adapted_query = nullptr;  // bound to adapter->target(); required with an adapter
  AdaptedRows* adapted_rows = nullptr;        // optional: where carried rows are kept for the next search
  // Optional: segments that the adapter has carried over. They are searched as rows of its target space are: along a
  // graph where one leads through them, by the adapted query alone.
  const CarriedSegments* carried = nullptr;
  absl::Time deadline = absl::InfiniteFuture();
  const std::function<bool()>* cancelled = nullptr;
};

struct SearchHit {
  uint64_t internal_id = 0;
  double distance = 0;  // exact, in double precision from the stored (with an adapter: the carried) float32 vector
  float uncertainty = 0;
  std::string_view segment = {};  // kind of the segment that holds the row; lives as long as the view searched
};

// How a segment was searched; filter_plan.h says when which.
enum class SearchPlan { kScan, kPassingScan, kWalk, kPassingWalk, kPostFilter, kProbe };

// What a search did in one segment.
struct SegmentProfile {
  uint64_t id = 0;
  SearchPlan plan = SearchPlan::kScan;
  int64_t rows = 0;
  double passing_share = 1;  // of the rows, as expected before
  bool fell_back = false;    // that did not find enough, and the segment was scanned after all
};

struct SearchResult {
  std::vector<SearchHit> hits;           // ascending distance, ties by internal id
  int64_t rows_scored = 0;               // kernel evaluations, of codes or vectors
  int64_t rows_refined = 0;              // scores of vectors, of rows that their codes let through
  int64_t rows_reranked = 0;             // exact distances
  int64_t rows_adapted = 0;              // carried for this search alone
  std::vector<SegmentProfile> segments;  // in their order, if asked for
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
  virtual uint64_t sequence() const = 0;  // of the last change that this view is sure to contain
};

// On the RESOURCE_EXHAUSTED of an index that needs more memory than it is allowed.
inline constexpr std::string_view kMemoryLimitUrl = "lightcone/index-memory-limit";

struct IndexStats {
  std::vector<SegmentInfo> segments;
  int64_t builds_running = 0, builds_total = 0, rebuilds_total = 0;
  int64_t segments_unchecked = 0;  // whose files have not been read through since the start
  int64_t segments_damaged = 0;    // whose rows are being taken from the source again
  int64_t mapped_bytes = 0, heap_bytes = 0;
  uint64_t sealed_sequence = 0;  // changes up to here are in files: the store may trim its log before it
  std::string choice;       // why segments are of the kind they are, where the settings leave that open; else empty
  absl::Status last_error;  // of sealing, rewriting or mending, each the last time; OK when all succeeded
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

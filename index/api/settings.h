// Settings of a collection's index, and their names.
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lightcone {

// kAuto: the index chooses by rows, dimension and memory limit (kind_choice.h).
enum class SealedKind { kFlat, kHnsw, kIvf, kAuto };

// What a scan or a walk reads of a sealed segment's rows. Codes only find candidates: their float32 vectors rank them,
// and exact answers are the same with any codes. kPq has no error bound and is for IVF alone; exact searches read the
// vectors there.
enum class RowCodes { kFloat32, kInt8, kHalf, kPq, kAuto };

// "flat", "hnsw", "ivf", "auto"; "float32", "int8", "fp16", "pq", "auto". Parsing gives nothing for any other text.
std::string_view SealedKindName(SealedKind kind);
std::string_view RowCodesName(RowCodes codes);
std::optional<SealedKind> ParseSealedKind(std::string_view name);
std::optional<RowCodes> ParseRowCodes(std::string_view name);
// Every name, as in "flat, hnsw, ivf, auto".
std::string SealedKindNames();
std::string RowCodesNames();

// The number of parts that product quantisation cuts a vector into; 0 if none fits. A positive `pq_m` has to divide the
// dimension. For 0 each part has at least four numbers and at most kPqPartLengthMax.
inline constexpr int kPqPartLengthMax = 16;
int PqParts(int pq_m, int dimension);

struct IndexSettings {
  SealedKind kind = SealedKind::kHnsw;
  // Cost: a quarter (kInt8), half (kHalf) or a sixteenth (kPq) of the vectors' bytes, in addition, on disk. kFloat32
  // has no codes. Rows too short for kInt8 or kHalf (CodeDimensionMin in geometry/codes.h) have none either.
  RowCodes codes = RowCodes::kInt8;
  // Rows at which a growing segment is sealed, or a 16th of the unsealed bytes allowed. Cost: scan time of these rows.
  int64_t growing_rows_max = 20'000;
  int64_t merge_rows_max = 2'000'000;  // Sealed segments are merged up to this size. Cost: build memory and time.
  double tombstones_share_max = 0.2;   // A segment with a greater share of dead rows is compacted.
  int hnsw_m = 16;                     // links of a node (2M on the base layer)
  int hnsw_ef_construction = 200;
  int hnsw_ef_search = 128;  // default `ef` of searches
  int ivf_lists = 0;         // lists of a segment; 0: by its rows
  int ivf_nprobe = 0;        // default `nprobe` of searches; 0: the number measured to reach a recall of 0.95
  int pq_m = 0;              // parts of a row with kPq, a byte each; 0: by the dimension (PqParts)
  int build_threads = 1;     // threads of the background builder. Cost: CPU beside searches.
  uint32_t rebuild = 0;      // The number of rebuilds asked for. Segments of a smaller number are rebuilt.
  // Errors name the field, its value and the range allowed.
  absl::Status Validate() const;
  // Whether rows of this dimension can have the codes.
  absl::Status ValidateFor(int dimension) const;
};

// Limits of one index; 0: no limit.
struct IndexLimits {
  int64_t memory_bytes_max = 0;    // memory that searches of its segments may need (kind_choice.h)
  int64_t unsealed_bytes_max = 0;  // rows in memory that wait for the builder (CollectionIndex::AwaitRoom)
  // Bytes that the builds of all indexes of the process write. Builds ignore the limit while writes wait for them.
  int64_t build_bytes_per_second_max = 0;
};

}  // namespace lightcone

// The two kinds of JSON files that describe an index on disk (docs/reference/formats/index.md): a segment's manifest,
// written last into its folder, and the checkpoint, which says which segments count and up to which change they hold
// everything. Both carry a CRC-32C of themselves. Decoders are total: any bytes give a value or DATA_LOSS. Threads:
// plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/codes.h"
#include "geometry/metric.h"
#include "index/rows/segment.h"

namespace lightcone {

inline constexpr int kIndexFormatVersion = 1;
inline constexpr int64_t kSegmentRowsMax = 2'000'000'000;

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kVectorsFile = "vectors.f32";
inline constexpr std::string_view kFactorsFile = "factors.f32";
inline constexpr std::string_view kIdsFile = "ids.u64";
inline constexpr std::string_view kUncertaintyFile = "uncertainty.f32";
inline constexpr std::string_view kGraphFile = "graph.hnsw";
inline constexpr std::string_view kListsFile = "lists.ivf";
// At most one of these, where the settings ask for codes.
inline constexpr std::string_view kInt8CodesFile = "codes.i8";
inline constexpr std::string_view kHalfCodesFile = "codes.f16";
inline constexpr std::string_view kPqCodesFile = "codes.pq";  // ivf segments alone
inline constexpr CodeKind kCodeKinds[] = {CodeKind::kInt8, CodeKind::kHalf};
constexpr std::string_view CodesFileOf(CodeKind kind) {
  return kind == CodeKind::kInt8 ? kInt8CodesFile : kHalfCodesFile;
}
inline constexpr std::string_view kCarriedFile = "carried.json";  // carried segments alone
inline constexpr std::string_view kStatesFile =
    "states.u32";  // the only file that is rewritten; holds its own checksum

struct FileEntry {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

struct SegmentManifest {
  uint64_t id = 0;
  uint32_t generation = 0;
  Space space;
  std::string kind;  // "flat", "hnsw", "ivf"
  int64_t rows = 0;
  int64_t stride = 0;           // floats from row to row
  uint64_t first_sequence = 0;  // first change that added a row
  uint64_t last_sequence = 0;
  std::optional<float> bias_max;  // largest bias factor of the rows; none in a file of an earlier version
  int hnsw_m = 0;                 // hnsw only: the graph's settings
  int hnsw_ef_construction = 0;
  uint32_t rebuild = 0;            // IndexSettings::rebuild at the time of the plan
  bool provisional = false;        // Sealed in a hurry, flat or with few lists: the builder rewrites it.
  std::vector<RecallAt> measured;  // hnsw and ivf; empty: not measured (few rows, or a file of an earlier version)
  bool mended = false;  // Its walks were held against kTrustedRecall when it was built; false in older files.
  // RowCodes that the settings asked for, where searches by them lost too much and others were written; else empty.
  std::string codes_asked;
  std::vector<FileEntry> files;

  // nullptr when there is no such file.
  const FileEntry* File(std::string_view name) const;
};
std::string EncodeManifest(const SegmentManifest& manifest);
absl::StatusOr<SegmentManifest> DecodeManifest(std::string_view text);

// Beside the manifest of a carried segment (carried_segments.h) and written after it: what was carried, by what.
struct CarriedManifest {
  uint64_t segment = 0;         // id of the segment that was carried
  uint32_t vectors_crc32c = 0;  // checksum of the segment's vectors file
  uint32_t adapter_crc32c = 0;  // checksum of the adapter's file
  bool old_graph = false;       // Walks use the carried segment's graph.
  std::vector<RecallAt> walks;  // recall measured along the old graph; else empty
};
std::string EncodeCarried(const CarriedManifest& manifest);
absl::StatusOr<CarriedManifest> DecodeCarried(std::string_view text);

struct IndexCheckpoint {
  struct Generation {
    uint32_t generation = 0;
    Space space;
    uint64_t sequence = 0;           // the segments hold every change of this generation up to here
    bool complete = true;            // false: rows recovered from the store were not sealed yet; recover again
    std::vector<uint64_t> segments;  // ids
  };
  uint64_t next_segment_id = 1;
  uint64_t newest_sequence = 0;  // no file holds an effect of a later change
  std::vector<Generation> generations;
};
std::string EncodeIndexCheckpoint(const IndexCheckpoint& checkpoint);
absl::StatusOr<IndexCheckpoint> DecodeIndexCheckpoint(std::string_view text);

// The state file: header (magic, version, rows, CRC-32C of all that follows, sequence) and a uint32 a row.
struct SegmentStates {
  uint64_t sequence = 0;  // the file holds no effect of a later change
  std::vector<uint32_t> of_rows;
};
inline constexpr size_t kStatesHeaderBytes = 24;
std::string EncodeStates(const SegmentStates& states);
absl::StatusOr<SegmentStates> DecodeStates(std::string_view bytes, int64_t rows);

}  // namespace lightcone

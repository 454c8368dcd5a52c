// The settings of a collection's index, and the one table of them. A new setting is a field of IndexSettings, a field
// of IndexChange and a row of kIndexSettings. From the table come the server's options, the wire's conversion, the
// stored record, the flags and the JSON of the command line. A setting that a call can change is also a field of
// v1::IndexSettings with the row's name.
// Threads: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/status.h"
#include "geometry/metric.h"

namespace lightcone {

// kAuto: the index chooses by rows, dimension and memory limit (kind_choice.h).
enum class SealedKind { kFlat, kHnsw, kIvf, kAuto };

// What a scan or a walk reads of a sealed segment's rows. Codes only find candidates: their float32 vectors rank them,
// and exact answers are the same with any codes. kPq has no error bound and is for IVF alone; exact searches read the
// vectors there.
enum class RowCodes { kFloat32, kInt8, kHalf, kPq, kAuto };

// The name of each enumerator, by its number. The wire numbers them in the same order, from 1 on.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kSettingNames;
template <>
inline constexpr std::array<std::string_view, 4> kSettingNames<SealedKind> = {"flat", "hnsw", "ivf", "auto"};
template <>
inline constexpr std::array<std::string_view, 5> kSettingNames<RowCodes> = {"float32", "int8", "fp16", "pq", "auto"};

// Empty for a number that is no enumerator.
template <typename Enum>
constexpr std::string_view SettingName(Enum value) {
  const auto number = static_cast<size_t>(value);
  return number < kSettingNames<Enum>.size() ? kSettingNames<Enum>[number] : std::string_view();
}
template <typename Enum>
constexpr std::optional<Enum> ParseSettingName(std::string_view name) {
  for (size_t i = 0; i < kSettingNames<Enum>.size(); ++i) {
    if (kSettingNames<Enum>[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}
// "flat, hnsw, ivf, auto"
template <typename Enum>
std::string AllSettingNames() {
  std::string text;
  for (const std::string_view name : kSettingNames<Enum>) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

inline std::string_view SealedKindName(SealedKind kind) { return SettingName(kind); }
inline std::string_view RowCodesName(RowCodes codes) { return SettingName(codes); }
inline std::optional<SealedKind> ParseSealedKind(std::string_view name) { return ParseSettingName<SealedKind>(name); }

// The number of parts that product quantisation cuts a vector into; 0 if none fits. A positive `pq_m` has to divide the
// dimension. For 0 each part has at least four numbers and at most kPqPartLengthMax.
inline constexpr int kPqPartLengthMax = 16;
int PqParts(int pq_m, int dimension);

struct IndexSettings {
  SealedKind kind = SealedKind::kHnsw;
  // Cost: a quarter (kInt8), half (kHalf) or a sixteenth (kPq) of the vectors' bytes, in addition, on disk. kFloat32
  // has no codes. Rows too short for kInt8 or kHalf (CodeDimensionMin in geometry/codes.h) have none either.
  RowCodes codes = RowCodes::kInt8;
  int64_t growing_rows_max = 20'000;
  int64_t merge_rows_max = 2'000'000;
  double tombstones_share_max = 0.2;
  int hnsw_m = 16;
  int hnsw_ef_construction = 200;
  int hnsw_ef_search = 128;
  int ivf_lists = 0;
  int ivf_nprobe = 0;
  int pq_m = 0;
  int build_threads = 1;
  uint32_t rebuild = 0;  // The number of rebuilds that were asked for. A segment of an earlier one is rebuilt.

  absl::Status Validate() const;  // names field, value, allowed
  // Whether rows of this dimension can be kept so; INVALID_ARGUMENT names the field and what is allowed.
  absl::Status ValidateFor(int dimension) const;
};

// Limits of one index; 0: no limit.
struct IndexLimits {
  int64_t memory_bytes_max = 0;    // memory that searches of its segments may need (kind_choice.h)
  int64_t unsealed_bytes_max = 0;  // rows in memory that wait for the builder (CollectionIndex::AwaitRoom)
  // Bytes that the builds of all indexes of the process write. Builds ignore the limit while writes wait for them.
  int64_t build_bytes_per_second_max = 0;
  // Asked before a build writes about so many bytes. An error is the build's own. Empty: there is always room.
  std::function<absl::Status(int64_t bytes)> disk_room = {};
};

// Index settings as a caller gives them. A setting that is not set stays as it is, or is the server's default.
struct IndexChange {
  std::optional<SealedKind> kind;
  std::optional<RowCodes> codes;
  std::optional<int> hnsw_m, hnsw_ef_construction, hnsw_ef_search, ivf_lists, ivf_nprobe, pq_m;
  std::optional<int64_t> growing_rows_max, merge_rows_max;
  std::optional<double> tombstones_share_max;
  std::optional<int> build_threads;

  IndexChange() = default;
  IndexChange(const IndexSettings& all);  // NOLINT(google-explicit-constructor): settings are a change of everything

  IndexSettings Over(const IndexSettings& base) const;
};

inline constexpr int64_t kMergeRowsMax = 1'000'000'000;

template <typename T>
struct IndexSetting {
  const char* name;
  T IndexSettings::*setting;
  std::optional<T> IndexChange::*change;
  T low, high;  // The range of a number. An enum allows every enumerator.
  const char *unit, *help, *when;
};

inline constexpr std::tuple kIndexSettings = {
    IndexSetting<SealedKind>{
        "kind",
        &IndexSettings::kind,
        &IndexChange::kind,
        {},
        {},
        "",
        "How sealed segments are searched: by an exact scan (flat), a graph (hnsw), inverted lists (ivf) or what "
        "their size and index.memory_bytes_max suggest (auto).",
        "flat for small galleries or exact answers, ivf for galleries that outgrow memory."},
    IndexSetting<RowCodes>{
        "codes",
        &IndexSettings::codes,
        &IndexChange::codes,
        {},
        {},
        "",
        "What searches read first of a row; exact answers are the same. pq needs the kind ivf.",
        "float32 where disk is dearer than speed. An existing collection: `collection rebuild --codes`."},
    IndexSetting<int>{"hnsw_m", &IndexSettings::hnsw_m, &IndexChange::hnsw_m, 2, 128, "links",
                      "Links of a graph node; the base layer has twice as many.",
                      "Raise it for hard data; costs memory and build time."},
    IndexSetting<int>{"hnsw_ef_construction", &IndexSettings::hnsw_ef_construction, &IndexChange::hnsw_ef_construction,
                      8, 4'096, "nodes", "Length of the candidate queue while a graph is built.",
                      "Raise it for recall; costs build time."},
    IndexSetting<int>{"hnsw_ef_search", &IndexSettings::hnsw_ef_search, &IndexChange::hnsw_ef_search, 1, 10'000,
                      "nodes", "Length of a search's candidate queue (ef) unless the search asks for another.",
                      "Raise it for recall; costs search time."},
    IndexSetting<int>{"ivf_lists", &IndexSettings::ivf_lists, &IndexChange::ivf_lists, 0, 1 << 20, "lists",
                      "Lists of an ivf segment; 0: about three times the root of its rows.",
                      "Raise it where probed lists are long; costs build time and the ranking of the lists."},
    IndexSetting<int>{"ivf_nprobe", &IndexSettings::ivf_nprobe, &IndexChange::ivf_nprobe, 0, 1 << 20, "lists",
                      "Lists that a search reads; 0: as many as were measured to find 95 % of the nearest.",
                      "Raise it for recall; costs search time. A search may ask for another number."},
    IndexSetting<int>{"pq_m", &IndexSettings::pq_m, &IndexChange::pq_m, 0, kDimensionMax, "bytes",
                      "Parts that pq cuts a vector into, a byte each; must divide the dimension. 0: parts of four "
                      "numbers, or of a few more.",
                      "Raise it for better candidates; costs memory."},
    IndexSetting<int64_t>{"growing_rows_max", &IndexSettings::growing_rows_max, &IndexChange::growing_rows_max, 1,
                          10'000'000, "rows",
                          "Rows at which a growing segment is sealed, or at a 16th of index.unsealed_bytes_max; at "
                          "most index.merge_rows_max.",
                          "Lower it when fresh rows make searches slow, raise it for fewer builds."},
    IndexSetting<int64_t>{"merge_rows_max", &IndexSettings::merge_rows_max, &IndexChange::merge_rows_max, 1,
                          kMergeRowsMax, "rows",
                          "Rows up to which sealed segments are merged; at least index.growing_rows_max.",
                          "Lower it when merges take too much memory or time."},
    IndexSetting<double>{
        "tombstones_share_max", &IndexSettings::tombstones_share_max, &IndexChange::tombstones_share_max, 0.01, 1, "",
        "Share of dead rows above which a segment is compacted.", "Raise it when many rows change all the time."},
    IndexSetting<int>{"build_threads", &IndexSettings::build_threads, &IndexChange::build_threads, 1, 256, "threads",
                      "Threads of each background build of a collection: one seals new rows, one rewrites segments.",
                      "Raise it for faster bulk loads; costs CPU beside searches."},
};

// Calls `visit` with each row: an IndexSetting of SealedKind, RowCodes, int, int64_t or double.
template <typename Visit>
void ForEachIndexSetting(Visit visit) {
  std::apply([&](const auto&... settings) { (visit(settings), ...); }, kIndexSettings);
}

}  // namespace lightcone

// Rows in memory, appended by the writer and scanned exactly, until a builder seals them. Scans read codes first, as
// those of sealed segments do: rows that wait to be sealed are what every search reads all of.
// Threads: see segment.h. Row addresses never move: the capacity's address range is reserved at the start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "index/rows/segment.h"

namespace lightcone {

class GrowingSegment : public Segment {
 public:
  // `coded`: how rows are coded, if they are. RESOURCE_EXHAUSTED without address space.
  static absl::StatusOr<std::shared_ptr<GrowingSegment>> Make(uint64_t id, uint32_t generation, const Space& space,
                                                              int64_t rows_max, std::optional<CodeKind> coded = {});

  // That a row takes in memory, about.
  static int64_t RowBytes(const Space& space, std::optional<CodeKind> coded);

  bool full() const { return rows() >= rows_max_; }
  uint64_t first_sequence() const { return first_sequence_; }
  uint64_t last_sequence() const { return last_sequence_; }

  // Rows that a rebuild took from the store: until they are sealed, the checkpoint says that files lack some.
  bool recovered() const { return recovered_; }
  void set_recovered() { recovered_ = true; }

  // Appends a row in the given state. REQUIRES: not full; z is a vector of the space; the id has no row here that is
  // not deleted.
  void Append(uint64_t internal_id, std::span<const float> z, float uncertainty, uint32_t state, uint64_t sequence);

  std::string_view kind() const override { return "growing"; }
  std::optional<int64_t> Find(uint64_t internal_id) const override;
  int64_t mapped_bytes() const override { return 0; }
  int64_t heap_bytes() const override;
  CodeBlock PinCodes() const override { return rows() >= centre_rows_ ? coded_ : CodeBlock(); }

 private:
  GrowingSegment(uint64_t id, uint32_t generation, const Space& space, int64_t rows_max)
      : Segment(id, generation, space),
        rows_max_(rows_max),
        centre_rows_(std::clamp(rows_max / 32, int64_t{16}, int64_t{512})) {}

  bool HasCodes() const { return coded_.rows != nullptr; }
  void SetCentre();
  void Encode(int64_t row);

  const int64_t rows_max_;
  const int64_t centre_rows_;  // rows whose mean is the centre of the codes
  Mapping vectors_, factors_, ids_, uncertainty_, codes_;
  CodeBlock coded_;  // codes of all rows from centre_rows_ rows on; no rows: no codes
  std::vector<float> centre_;
  absl::flat_hash_map<uint64_t, int64_t> row_of_id_;  // newest row of the id
  uint64_t id_max_ = 0;                               // largest internal id of a row
  uint64_t first_sequence_ = 0;
  uint64_t last_sequence_ = 0;
  bool recovered_ = false;
};

}  // namespace lightcone

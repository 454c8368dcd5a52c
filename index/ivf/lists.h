// The inverted lists of an IVF segment as one flat block of bytes that is used where it is mapped. The segment's rows
// lie list by list, so that a list is a range of rows: probing it is a scan of neighbouring pages.
//
// Layout, little endian; docs/reference/formats/index.md:
//   header    64 bytes: Header below
//   centres   lists x stride float32, in h_space (row_factors.h: what scale * z is of a row)
//   factors   lists x RowFactors: with them the float32 kernels score a centre as they score a row
//   first     (lists + 1) uint32: list i holds the rows first[i] .. first[i + 1] - 1
//   by_id     rows uint32: the rows in ascending order of internal id
// Threads: immutable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/bound_query.h"
#include "geometry/row_factors.h"

namespace lightcone {

class Lists {
 public:
  static constexpr uint32_t kMagic = 0x4947434c;  // "LCGI"
  static constexpr uint32_t kVersion = 1;

  struct Header {
    uint32_t magic = kMagic;
    uint32_t version = kVersion;
    uint32_t rows = 0;
    uint32_t lists = 0;
    uint32_t dimension = 0;
    uint32_t stride = 0;  // floats from centre to centre
    uint32_t reserved[10] = {};
  };
  static_assert(sizeof(Header) == 64);

  // Checks sizes, and that every row is in one list, but not the order of by_id, which takes the ids. `bytes` must
  // outlive the lists and start on a multiple of 4. DATA_LOSS says what is wrong.
  static absl::StatusOr<Lists> Parse(std::string_view bytes, int dimension, int64_t rows);

  uint32_t count() const { return count_; }
  // Always within the rows, and end never before begin, even if the file is damaged while it is mapped (fault_watch.h).
  int64_t begin(uint32_t list) const { return std::min(first_[list], rows_); }
  int64_t end(uint32_t list) const { return std::max(begin(list), int64_t{std::min(first_[list + 1], rows_)}); }
  int64_t rows() const { return rows_; }
  // The list of a row of the segment.
  uint32_t ListOf(int64_t row) const {
    return static_cast<uint32_t>(std::upper_bound(first_ + 1, first_ + count_, static_cast<uint32_t>(row)) - first_) -
           1;
  }
  std::span<const float> centre(uint32_t list) const { return {centres_ + list * stride_, dimension_}; }
  float bias(uint32_t list) const { return factors_[list].bias; }
  std::span<const uint32_t> by_id() const { return {by_id_, rows_}; }  // each below the number of rows

  // scores[i] = the query's score of centre i, never NaN; higher is nearer. Room for count().
  void Score(const BoundQuery& query, float* scores) const;

 private:
  uint32_t count_ = 0, rows_ = 0;
  size_t stride_ = 0, dimension_ = 0;
  const float* centres_ = nullptr;
  const RowFactors* factors_ = nullptr;
  const uint32_t* first_ = nullptr;
  const uint32_t* by_id_ = nullptr;
};

// A partition of rows into lists (list_builder.h).
struct Partition {
  std::vector<float> centres;  // StrideOf(dimension) floats each
  std::vector<RowFactors> factors;
  std::vector<uint32_t> list_of;  // list of each row, in the order given
};

// The bytes of a lists file. Rows lie list by list, and within a list in the order given; `place[i]` is the place of
// the i-th row given. Callers give rows in ascending order of internal id.
std::string EncodeLists(const Partition& partition, int dimension, std::vector<uint32_t>* place);

}  // namespace lightcone

// Product-quantised codes of an IVF segment's rows: what a row's scaled vector h (row_factors.h) lies away from the
// centre of its list is cut into M parts of dimension / M numbers, and each part is kept as the number of the nearest
// of up to 256 vectors of a codebook (Jegou, Douze and Schmid, IEEE TPAMI 33(1), 2011). M bytes a row; scores come from
// a table of M x 256 products that is made once a query. They carry no bound: candidates by them are ranked by their
// vectors, and `exact` does not read them.
//
// Layout, little endian; docs/reference/formats/index.md:
//   header     64 bytes: Header below
//   codebooks  M x words x (dimension / M) float32
//   biases     rows float32: as CodeFactors::bias (geometry/codes.h), with the list's centre for m
//   codes      rows x M bytes, each below `words`
// Threads: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dcheck.h"
#include "geometry/bound_query.h"
#include "index/rows/scored_row.h"

namespace lightcone {

class PqCodes {
 public:
  static constexpr uint32_t kMagic = 0x5147434c;  // "LCGQ"
  static constexpr uint32_t kVersion = 1;
  static constexpr uint32_t kWordsMax = 256;

  struct Header {
    uint32_t magic = kMagic;
    uint32_t version = kVersion;
    uint32_t rows = 0;
    uint32_t dimension = 0;
    uint32_t parts = 0;  // M
    uint32_t words = 0;  // vectors in each part's codebook
    uint32_t reserved[10] = {};
  };
  static_assert(sizeof(Header) == 64);

  // Checks the sizes; `bytes` must outlive the codes and start on a multiple of 4. DATA_LOSS says what is wrong. Any
  // codes are safe to score.
  static absl::StatusOr<PqCodes> Parse(std::string_view bytes, int dimension, int64_t rows);

  uint32_t parts() const { return header_.parts; }

 private:
  friend class PqQuery;

  Header header_;
  const float* codebooks_ = nullptr;
  const float* biases_ = nullptr;
  const uint8_t* codes_ = nullptr;
};

// A query's table over the codebooks of one segment. Owns what it needs; `codes` must outlive it.
class PqQuery {
 public:
  PqQuery(const PqCodes& codes, const BoundQuery& query);

  // scores[i] = about the score of row begin + i, i < n, for rows of the list whose centre the query scores
  // `centre_score` with the bias `centre_bias` (lists.h).
  void Score(int64_t begin, size_t n, float centre_score, float centre_bias, float* scores) const;

 private:
  const PqCodes& codes_;
  float b_ = 0;
  bool euclidean_ = false;
  std::vector<float> table_;  // parts x kWordsMax; zeros where the codebook has no word
};

// The best rows by scores without a bound, in a heap of a fixed size.
class BestRows {
 public:
  // REQUIRES: size >= 1.
  explicit BestRows(size_t size) : size_(size) { LC_DCHECK(size >= 1); }
  bool full() const { return rows_.size() >= size_; }
  size_t found() const { return rows_.size(); }
  // Whether a row of this score would be kept.
  bool Wants(float score) const { return !full() || score > rows_.front().score; }
  void Add(ScoredRow row);
  const std::vector<ScoredRow>& rows() const { return rows_; }  // the best rows, in any order

 private:
  const size_t size_;
  std::vector<ScoredRow> rows_;  // min-heap
};

}  // namespace lightcone

// The links of an HNSW graph (Malkov and Yashunin, arXiv 1603.09320) as one flat block of bytes that is used where it
// is mapped: graph_inserter.h builds it in this layout, graph_walk.h walks it.
//
// Layout, little endian; docs/reference/formats/index.md:
//   header        64 bytes: Header below
//   base          rows x base_width int32: neighbours on layer 0, then (where there are some) the row itself and copies
//                 of it, then -1
//   upper_first   (rows + 1) uint32: the lists of row i on layers 1, 2, ... are upper_first[i] .. upper_first[i + 1]
//   upper         upper_first[rows] x upper_width int32
//   entries       version 2: Header::entries uint32, rows of the base layer where walks begin besides
//
// Why not FAISS's file: it cannot be mapped, it holds the vectors a second time, and it must be trusted.
// Threads: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dcheck.h"

namespace lightcone {

class Graph {
 public:
  static constexpr uint32_t kMagic = 0x4847434c;  // "LCGH"
  static constexpr uint32_t kVersion = 1, kVersionWithEntries = 2;
  static constexpr uint32_t kEntriesMax = 64;
  static constexpr int kWidthMax = 1024;
  static constexpr uint32_t kLayersMax = 64;
  static constexpr uint32_t kRowsMax = uint32_t{1} << 30;  // settings allow fewer

  struct Header {
    uint32_t magic = kMagic;
    uint32_t version = kVersion;
    uint32_t rows = 0;
    uint32_t base_width = 0;
    uint32_t upper_width = 0;
    uint32_t layers = 1;  // layers of the entry row, base layer included
    uint32_t entry = 0;
    uint32_t upper_lists = 0;
    uint32_t entries = 0;
    uint32_t reserved[7] = {};
  };
  static_assert(sizeof(Header) == 64);

  // Looks at the header alone; whatever the rest holds, Links stays inside `bytes`, which must outlive the graph and
  // start on a multiple of 4. DATA_LOSS says what is wrong.
  static absl::StatusOr<Graph> Parse(std::string_view bytes, int64_t rows);

  // Reads everything: DATA_LOSS for a list out of order, or a link to a row that does not exist or is not on its layer.
  absl::Status Check() const;

  int64_t rows() const { return rows_; }
  uint32_t entry() const { return entry_; }
  // Rows where a walk begins on the base layer, besides the row that the upper layers lead to. Each is a row.
  std::span<const uint32_t> entries() const { return entries_; }
  int layers() const { return layers_; }
  int base_width() const { return static_cast<int>(base_width_); }
  int width_max() const { return static_cast<int>(base_width_ > upper_width_ ? base_width_ : upper_width_); }

  // Links of a row on a layer; read up to the first that is no row (IsRow). Empty where a damaged file has no such
  // list. REQUIRES: row < rows().
  std::span<const int32_t> Links(uint32_t row, int layer) const {
    LC_DCHECK(row < static_cast<uint32_t>(rows_));
    if (layer == 0) return {base_ + static_cast<size_t>(row) * base_width_, base_width_};
    const size_t list = size_t{upper_first_[row]} + static_cast<size_t>(layer - 1);
    if (list >= upper_lists_) return {};
    return {upper_ + list * upper_width_, upper_width_};
  }
  // False for the -1 that ends a list.
  bool IsRow(int32_t link) const { return static_cast<uint32_t>(link) < static_cast<uint32_t>(rows_); }

 private:
  int64_t rows_ = 0;
  uint32_t base_width_ = 0, upper_width_ = 0, upper_lists_ = 0, entry_ = 0;
  int layers_ = 1;
  const int32_t* base_ = nullptr;
  const uint32_t* upper_first_ = nullptr;
  const int32_t* upper_ = nullptr;
  std::vector<uint32_t> entries_;  // a copy: whatever becomes of the file, each is a row
};

// The graph with these entries in place of those that it has. REQUIRES: the bytes of a graph; at most
// Graph::kEntriesMax rows of it.
std::string WithEntries(std::string graph, std::span<const uint32_t> entries);

}  // namespace lightcone

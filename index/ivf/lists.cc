#include "index/ivf/lists.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "geometry/kernels.h"
#include "index/rows/segment.h"

namespace lightcone {

absl::StatusOr<Lists> Lists::Parse(std::string_view bytes, int dimension, int64_t rows) {
  Header header;
  if (bytes.size() < sizeof(header)) {
    return DataLoss(StrCat("lists have ", bytes.size(), " bytes, less than their header"));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return DataLoss("lists have a wrong magic number");
  if (header.version != kVersion) {
    return DataLoss(StrCat("lists have format version ", header.version, "; known: ", kVersion));
  }
  if (static_cast<int64_t>(header.rows) != rows || header.dimension != static_cast<uint32_t>(dimension) ||
      header.stride != StrideOf(dimension) || header.lists == 0 || header.lists > header.rows) {
    return DataLoss("lists do not fit their segment");
  }
  const uint64_t centres = uint64_t{header.lists} * header.stride;
  const uint64_t expected = sizeof(header) + centres * sizeof(float) + uint64_t{header.lists} * sizeof(RowFactors) +
                            (uint64_t{header.lists} + 1 + header.rows) * sizeof(uint32_t);
  if (bytes.size() != expected) return DataLoss(StrCat("lists have ", bytes.size(), " bytes instead of ", expected));
  Lists lists;
  lists.count_ = header.lists;
  lists.rows_ = header.rows;
  lists.stride_ = header.stride;
  lists.dimension_ = header.dimension;
  lists.centres_ = reinterpret_cast<const float*>(bytes.data() + sizeof(header));
  lists.factors_ = reinterpret_cast<const RowFactors*>(lists.centres_ + centres);
  lists.first_ = reinterpret_cast<const uint32_t*>(lists.factors_ + header.lists);
  lists.by_id_ = lists.first_ + header.lists + 1;
  if (lists.first_[0] != 0 || lists.first_[header.lists] != header.rows) {
    return DataLoss("lists do not hold every row");
  }
  for (uint32_t i = 0; i < header.lists; ++i) {
    if (lists.first_[i] > lists.first_[i + 1]) return DataLoss("lists are out of order");
  }
  for (const uint32_t row : lists.by_id()) {
    if (row >= header.rows) return DataLoss("lists name a row that does not exist");
  }
  return lists;
}

void Lists::Score(const BoundQuery& query, float* scores) const {
  ScoreRows(query, centres_, stride_, factors_, count_, scores);
  // Of a damaged centre: what sorts the scores bears none.
  for (uint32_t i = 0; i < count_; ++i) {
    if (std::isnan(scores[i])) scores[i] = -std::numeric_limits<float>::infinity();
  }
}

std::string EncodeLists(const Partition& partition, int dimension, std::vector<uint32_t>* place) {
  Lists::Header header;
  header.rows = static_cast<uint32_t>(partition.list_of.size());
  header.lists = static_cast<uint32_t>(partition.factors.size());
  header.dimension = static_cast<uint32_t>(dimension);
  header.stride = static_cast<uint32_t>(StrideOf(dimension));
  std::vector<uint32_t> first(header.lists + 1, 0);
  for (const uint32_t list : partition.list_of) ++first[list + 1];
  for (uint32_t i = 0; i < header.lists; ++i) first[i + 1] += first[i];
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  place->clear();
  for (const uint32_t list : partition.list_of) place->push_back(next[list]++);
  std::string bytes;
  const auto append = [&bytes](const auto* data, size_t n) {
    bytes.append(reinterpret_cast<const char*>(data), n * sizeof(*data));
  };
  append(&header, 1);
  append(partition.centres.data(), partition.centres.size());
  append(partition.factors.data(), partition.factors.size());
  append(first.data(), first.size());
  append(place->data(), place->size());
  return bytes;
}

}  // namespace lightcone

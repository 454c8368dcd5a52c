#include "index/graph.h"

#include <cstring>

#include "base/status.h"

namespace lightcone {

absl::StatusOr<Graph> Graph::Parse(std::string_view bytes, int64_t rows) {
  Header header;
  if (bytes.size() < sizeof(header))
    return DataLoss(StrCat("graph has ", bytes.size(), " bytes, less than its header"));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return DataLoss("graph has a wrong magic number");
  if (header.version != kVersion) {
    return DataLoss(StrCat("graph has format version ", header.version, "; known: ", kVersion));
  }
  if (header.rows == 0 || static_cast<int64_t>(header.rows) != rows) {
    return DataLoss(StrCat("graph has ", header.rows, " rows instead of ", rows));
  }
  if (header.base_width == 0 || header.base_width > kWidthMax || header.upper_width == 0 ||
      header.upper_width > kWidthMax || header.entry >= header.rows) {
    return DataLoss("graph header is out of range");
  }
  const uint64_t expected = sizeof(header) + uint64_t{header.rows} * header.base_width * 4 +
                            (uint64_t{header.rows} + 1) * 4 + uint64_t{header.upper_lists} * header.upper_width * 4;
  if (expected != bytes.size()) {
    return DataLoss(StrCat("graph has ", bytes.size(), " bytes instead of ", expected));
  }
  Graph graph;
  graph.rows_ = rows;
  graph.base_width_ = header.base_width;
  graph.upper_width_ = header.upper_width;
  graph.entry_ = header.entry;
  graph.base_ = reinterpret_cast<const int32_t*>(bytes.data() + sizeof(header));
  graph.upper_first_ = reinterpret_cast<const uint32_t*>(graph.base_ + size_t{header.rows} * header.base_width);
  graph.upper_ = reinterpret_cast<const int32_t*>(graph.upper_first_ + header.rows + 1);
  if (graph.upper_first_[0] != 0 || graph.upper_first_[header.rows] != header.upper_lists) {
    return DataLoss("graph's upper lists do not fit its header");
  }
  for (uint32_t i = 0; i < header.rows; ++i) {
    if (graph.upper_first_[i] > graph.upper_first_[i + 1]) return DataLoss("graph's upper lists are out of order");
  }
  if (header.layers != 1 + graph.upper_first_[header.entry + 1] - graph.upper_first_[header.entry]) {
    return DataLoss("graph's entry row is on another layer than the header says");
  }
  graph.layers_ = static_cast<int>(header.layers);
  LC_RETURN_IF_ERROR(graph.CheckLinks());
  return graph;
}

absl::Status Graph::CheckLinks() const {
  const size_t base_links = static_cast<size_t>(rows_) * base_width_;
  const int32_t limit = static_cast<int32_t>(rows_);
  bool good = true;
  for (size_t i = 0; i < base_links; ++i) good &= base_[i] >= -1 && base_[i] < limit;
  if (!good) return DataLoss("graph has a link to a row that does not exist");
  for (uint32_t row = 0; row < static_cast<uint32_t>(rows_); ++row) {
    const uint32_t lists = upper_first_[row + 1] - upper_first_[row];
    for (uint32_t layer = 1; layer <= lists; ++layer) {
      for (const int32_t link : Links(row, static_cast<int>(layer))) {
        if (link == -1) continue;
        if (link < 0 || link >= limit || upper_first_[link + 1] - upper_first_[link] < layer) {
          return DataLoss("graph has a link to a row that is not on its layer");
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lightcone

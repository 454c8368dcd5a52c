#include "index/graph/graph.h"

#include <cstring>

#include "base/status.h"

namespace lightcone {

absl::StatusOr<Graph> Graph::Parse(std::string_view bytes, int64_t rows) {
  Header header;
  if (bytes.size() < sizeof(header))
    return DataLoss(StrCat("graph has ", bytes.size(), " bytes, less than its header"));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return DataLoss("graph has a wrong magic number");
  if (header.version != kVersion && header.version != kVersionWithEntries) {
    return DataLoss(
        StrCat("graph has format version ", header.version, "; known: ", kVersion, ", ", kVersionWithEntries));
  }
  if (header.rows > kRowsMax) return DataLoss(StrCat("graph has ", header.rows, " rows; at most: ", kRowsMax));
  if (header.rows == 0 || static_cast<int64_t>(header.rows) != rows) {
    return DataLoss(StrCat("graph has ", header.rows, " rows instead of ", rows));
  }
  if (header.base_width == 0 || header.base_width > kWidthMax || header.upper_width == 0 ||
      header.upper_width > kWidthMax || header.entry >= header.rows || header.layers == 0 ||
      header.layers > kLayersMax || header.entries > (header.version == kVersion ? 0 : kEntriesMax)) {
    return DataLoss("graph header is out of range");
  }
  const uint64_t expected = sizeof(header) + uint64_t{header.rows} * header.base_width * 4 +
                            (uint64_t{header.rows} + 1) * 4 + uint64_t{header.upper_lists} * header.upper_width * 4 +
                            uint64_t{header.entries} * 4;
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
  graph.upper_lists_ = header.upper_lists;
  graph.layers_ = static_cast<int>(header.layers);
  graph.entries_.resize(header.entries);
  const size_t entries_bytes = graph.entries_.size() * sizeof(uint32_t);
  if (entries_bytes > 0)
    std::memcpy(graph.entries_.data(), bytes.data() + (bytes.size() - entries_bytes), entries_bytes);
  for (const uint32_t entry : graph.entries_) {
    if (entry >= header.rows) return DataLoss("graph begins at a row that does not exist");
  }
  return graph;
}

absl::Status Graph::Check() const {
  const uint32_t rows = static_cast<uint32_t>(rows_);
  if (upper_first_[0] != 0 || upper_first_[rows] != upper_lists_) {
    return DataLoss("graph's upper lists do not fit its header");
  }
  for (uint32_t i = 0; i < rows; ++i) {
    if (upper_first_[i] > upper_first_[i + 1]) return DataLoss("graph's upper lists are out of order");
  }
  if (static_cast<uint32_t>(layers_) != 1 + upper_first_[entry_ + 1] - upper_first_[entry_]) {
    return DataLoss("graph's entry row is on another layer than the header says");
  }
  bool good = true;
  for (size_t i = 0; i < size_t{rows} * base_width_; ++i) good &= base_[i] == -1 || IsRow(base_[i]);
  if (!good) return DataLoss("graph has a link to a row that does not exist");
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t lists = upper_first_[row + 1] - upper_first_[row];
    for (uint32_t layer = 1; layer <= lists; ++layer) {
      for (const int32_t link : Links(row, static_cast<int>(layer))) {
        if (link == -1) continue;
        if (!IsRow(link) || upper_first_[link + 1] - upper_first_[link] < layer) {
          return DataLoss("graph has a link to a row that is not on its layer");
        }
      }
    }
  }
  return absl::OkStatus();
}

std::string WithEntries(std::string graph, std::span<const uint32_t> entries) {
  LC_DCHECK(entries.size() <= Graph::kEntriesMax);
  Graph::Header header;
  LC_DCHECK(graph.size() >= sizeof(header));
  std::memcpy(&header, graph.data(), sizeof(header));
  graph.resize(graph.size() - size_t{header.entries} * sizeof(uint32_t));
  header.entries = static_cast<uint32_t>(entries.size());
  header.version = entries.empty() ? Graph::kVersion : Graph::kVersionWithEntries;
  std::memcpy(graph.data(), &header, sizeof(header));
  graph.append(reinterpret_cast<const char*>(entries.data()), entries.size_bytes());
  return graph;
}

}  // namespace lightcone

#include "index/sealed_segment.h"

#include <algorithm>

#include "base/files.h"
#include "base/status.h"
#include "index/segment_codes.h"

namespace lightcone {
namespace {

absl::StatusOr<Mapping> MapChecked(const std::string& folder, const SegmentManifest& manifest, std::string_view name) {
  const FileEntry* entry = manifest.File(name);
  if (entry == nullptr) return DataLoss(StrCat("manifest lists no ", name));
  const std::string path = StrCat(folder, "/", name);
  LC_ASSIGN_OR_RETURN(Mapping mapping, Mapping::OfFile(path));
  if (mapping.bytes() != entry->bytes) {
    return DataLoss(StrCat("'", path, "' has ", mapping.bytes(), " bytes instead of ", entry->bytes));
  }
  if (Crc32c(mapping.view()) != entry->crc32c) return DataLoss(StrCat("'", path, "' has a wrong checksum"));
  return mapping;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SealedSegment>> SealedSegment::Open(const std::string& folder, bool with_states) {
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(StrCat(folder, "/", kManifestFile), int64_t{1} << 24));
  LC_ASSIGN_OR_RETURN(SegmentManifest manifest, DecodeManifest(text));
  std::shared_ptr<SealedSegment> segment(new SealedSegment(folder, std::move(manifest)));
  LC_RETURN_IF_ERROR(segment->MapFiles());
  LC_RETURN_IF_ERROR(segment->CheckRows());
  if (!with_states) return segment;
  const int64_t rows = segment->rows();
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(StrCat(folder, "/", kStatesFile), int64_t{1} << 34));
  LC_ASSIGN_OR_RETURN(const SegmentStates states, DecodeStates(bytes, rows));
  for (int64_t i = 0; i < rows; ++i) segment->SetState(i, states.of_rows[static_cast<size_t>(i)], 0);
  segment->sequence_of_states_ = states.sequence;
  segment->set_dirty(false);
  return segment;
}

absl::Status SealedSegment::MapFiles() {
  LC_ASSIGN_OR_RETURN(vectors_, MapChecked(folder_, manifest_, kVectorsFile));
  LC_ASSIGN_OR_RETURN(factors_, MapChecked(folder_, manifest_, kFactorsFile));
  LC_ASSIGN_OR_RETURN(ids_, MapChecked(folder_, manifest_, kIdsFile));
  LC_ASSIGN_OR_RETURN(uncertainty_, MapChecked(folder_, manifest_, kUncertaintyFile));
  block_ = {vectors_.as<const float>(), static_cast<size_t>(manifest_.stride), factors_.as<const RowFactors>(),
            ids_.as<const uint64_t>(), uncertainty_.as<const float>()};
  counts_.rows = manifest_.rows;
  LC_ASSIGN_OR_RETURN(states_, RowStates::Make(static_cast<size_t>(manifest_.rows)));
  if (manifest_.File(kCodesFile) != nullptr) {
    LC_ASSIGN_OR_RETURN(codes_bytes_, MapChecked(folder_, manifest_, kCodesFile));
    LC_ASSIGN_OR_RETURN(codes_, ParseCodes(codes_bytes_.view(), manifest_.space.dimension, manifest_.rows));
  }
  if (manifest_.kind == "ivf") {
    LC_ASSIGN_OR_RETURN(lists_bytes_, MapChecked(folder_, manifest_, kListsFile));
    LC_ASSIGN_OR_RETURN(lists_, Lists::Parse(lists_bytes_.view(), manifest_.space.dimension, manifest_.rows));
  }
  if (manifest_.kind != "hnsw") return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(graph_bytes_, MapChecked(folder_, manifest_, kGraphFile));
  LC_ASSIGN_OR_RETURN(graph_, Graph::Parse(graph_bytes_.view(), manifest_.rows));
  return absl::OkStatus();
}

absl::Status SealedSegment::CheckRows() {
  for (int64_t i = 0; i < rows(); ++i) {
    if (i > 0 && block_.ids[RowById(i - 1)] >= block_.ids[RowById(i)]) {
      return DataLoss(StrCat("'", folder_, "': ids are out of order"));
    }
    bias_max_ = std::max(bias_max_, block_.factors[i].bias);
  }
  return absl::OkStatus();
}

std::vector<uint32_t> SealedSegment::CopyStates() const {
  std::vector<uint32_t> states(static_cast<size_t>(rows()));
  for (size_t i = 0; i < states.size(); ++i) states[i] = states_.Get(i);
  return states;
}

std::optional<int64_t> SealedSegment::Find(uint64_t internal_id) const {
  if (internal_id < block_.ids[RowById(0)] || internal_id > block_.ids[RowById(rows() - 1)]) return std::nullopt;
  int64_t low = 0, high = rows() - 1;  // the first that is not less lies within
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (block_.ids[RowById(middle)] < internal_id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const int64_t row = RowById(low);
  if (block_.ids[row] != internal_id || states_.Get(static_cast<size_t>(row)) == kDeleted) return std::nullopt;
  return row;
}

int64_t SealedSegment::mapped_bytes() const {
  return static_cast<int64_t>(vectors_.bytes() + factors_.bytes() + ids_.bytes() + uncertainty_.bytes() +
                              graph_bytes_.bytes() + lists_bytes_.bytes() + codes_bytes_.bytes());
}

}  // namespace lightcone

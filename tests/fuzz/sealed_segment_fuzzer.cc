// Any bytes as the files of a sealed segment, behind a manifest that gives their true checksums, so that the checks
// behind those are reached: refused, or a search stays inside the files and ends, whether they are checked later or
// not. The first bytes choose the number of rows, the kind, and a file that is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "geometry/bound_query.h"
#include "index/build/sealed_segment.h"
#include "index/graph/graph_walk.h"
#include "index/rows/manifest.h"
#include "index/rows/segment_codes.h"
#include "index/search/segment_search.h"

namespace {

using namespace lightcone;  // NOLINT: a file of one purpose

constexpr int kDimension = 3;

void Write(const std::string& path, std::string_view bytes) {
  if (!(std::ofstream(path, std::ios::binary) << bytes)) std::abort();
}

// So few rows are always scanned by a search.
void Walk(const SealedSegment& segment) {
  const std::vector<float> values = {0.5f, 0.25f, 1.0f};
  const auto query = BoundQuery::Make(segment.space(), segment.space(), values);
  const auto walked = WalkGraph(
      *segment.graph(), ScoredRows{segment.block(), *query}, {4, 1'000'000}, [](uint32_t row) { return row % 2 == 0; },
      [] { return absl::OkStatus(); });
  if (!walked.ok() || walked->rows.size() > 4) std::abort();
}

void Search(const std::shared_ptr<SealedSegment>& segment, bool exact) {
  const std::vector<float> values = {0.5f, 0.25f, 1.0f};
  const auto query = BoundQuery::Make(segment->space(), segment->space(), values);
  std::vector<PinnedSegment> pinned(1);
  pinned[0].segment = segment;
  pinned[0].rows = segment->rows();
  pinned[0].bias_max = segment->bias_max();
  pinned[0].counts = segment->PinCounts();
  pinned[0].code_block = segment->PinCodes();
  SearchScope scope;
  scope.segments = &pinned;
  SearchRequest request;
  request.query = &*query;
  request.generation = request.view_generation = segment->generation();
  request.k = 5;
  request.exact = exact;
  request.nprobe = 1;
  const ScopedRequest scoped{scope, &request};
  const auto found = std::move(SearchSegments({&scoped, 1})[0]);
  if (found.ok() && found->hits.size() > 5) std::abort();
}

SegmentManifest ManifestOf(const uint8_t* data) {
  SegmentManifest manifest;
  manifest.id = manifest.generation = 1;
  manifest.space = Space{data[1] % 2 == 0 ? Metric::kLorentz : Metric::kEuclidean, kDimension, 1.0, 1.0};
  const bool lists = data[1] / 16 % 2 != 0;
  manifest.kind = lists ? "ivf" : data[1] / 2 % 2 == 0 ? "flat" : "hnsw";
  manifest.rows = 1 + data[0] % 8;
  manifest.stride = kDimension;
  manifest.first_sequence = 1;
  manifest.last_sequence = 8;
  if (manifest.kind == "hnsw") {
    manifest.hnsw_m = 4;
    manifest.hnsw_ef_construction = 8;
  }
  return manifest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto scratch = ScratchFolder::Make("fuzz").value();
  if (size < 3 || size > 1 << 16) return 0;
  SegmentManifest manifest = ManifestOf(data);
  const bool lists = manifest.kind == "ivf";
  std::string_view left(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto take = [&](size_t bytes) {
    std::string taken(left.substr(0, bytes));
    left.remove_prefix(std::min(bytes, left.size()));
    return taken;
  };
  const CodeKind kind = data[1] / 32 % 2 == 0 ? CodeKind::kInt8 : CodeKind::kHalf;
  const size_t rows = static_cast<size_t>(manifest.rows);
  const struct {
    std::string_view name;
    size_t bytes;
  } files[] = {{kIdsFile, 8 * rows},
               {kFactorsFile, 8 * rows},
               {kUncertaintyFile, 4 * rows},
               {kVectorsFile, 4 * kDimension * rows},
               {kStatesFile, 4 * rows},
               {CodesFileOf(kind), CodesBytes(kind, kDimension, manifest.rows)},
               {lists ? kListsFile : kGraphFile, left.size()}};
  for (size_t i = 0; i < std::size(files); ++i) {
    std::string content = take(files[i].bytes);
    if (files[i].name != kGraphFile && files[i].name != kListsFile) content.resize(files[i].bytes);
    if (files[i].name == CodesFileOf(kind)) {
      if (data[1] / 4 % 2 == 0) continue;
      CodeBlock bounds;
      bounds.kind = kind;
      bounds.error_max = bounds.norm_max = bounds.bias_max = 1;
      const CodesFooter footer = CodesFooterOf(kDimension, manifest.rows, bounds);
      if (data[1] / 8 % 2 == 0) std::memcpy(&content[content.size() - sizeof(footer)], &footer, sizeof(footer));
    }
    if (data[2] % 8 == i) content.resize(content.size() * (data[2] / 8) / 32);
    const std::string path = scratch->path() + "/" + std::string(files[i].name);
    if (files[i].name == kStatesFile) {
      SegmentStates states;
      for (size_t at = 0; at + 4 <= content.size(); at += 4) {
        const uint8_t state = static_cast<uint8_t>(content[at]);
        states.of_rows.push_back(state == 255 ? kDeleted : state);
      }
      Write(path, EncodeStates(states));
      continue;
    }
    Write(path, content);
    manifest.files.push_back({std::string(files[i].name), content.size(), Crc32c(content)});
  }
  Write(scratch->path() + "/" + std::string(kManifestFile), EncodeManifest(manifest));
  const auto segment = SealedSegment::Open(scratch->path(), /*with_states=*/true);
  if (!segment.ok()) return 0;
  for (uint64_t id = 0; id < 16; ++id) {
    const auto row = (*segment)->Find(id);
    if (row.has_value() && (*row < 0 || *row >= (*segment)->rows())) std::abort();
  }
  if ((*segment)->graph() != nullptr) Walk(**segment);
  Search(*segment, /*exact=*/false);
  Search(*segment, /*exact=*/true);
  (void)(*segment)->Check([](size_t) { return true; });
  return 0;
}

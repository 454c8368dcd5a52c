// A segment of immutable, mapped files. Rows of a flat segment, or of one with an HNSW graph, ascend by internal id;
// rows of an IVF segment lie list by list.
//
// Opening a segment costs little, whatever its size: it reads and checks the manifest, the states, the ids and the
// lists, and maps the rest. No content of the rest makes a search leave the files. Check reads all files, beside
// searches. Threads: see segment.h; the checks are safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "index/graph/graph.h"
#include "index/ivf/lists.h"
#include "index/ivf/pq_codes.h"
#include "index/rows/manifest.h"
#include "index/rows/segment.h"

namespace lightcone {

class SealedSegment : public Segment {
 public:
  // Maps the segment in `folder`. Checks manifest, sizes, headers, and the ids and lists, on which writes rest. Without
  // `with_states` (a segment that is not in a checkpoint yet) the state file is not read, and every row is live.
  // DATA_LOSS, NOT_FOUND and FAILED_PRECONDITION (a path that is no file): the segment must be rebuilt. Other errors
  // say nothing about the segment.
  static absl::StatusOr<std::shared_ptr<SealedSegment>> Open(const std::string& folder, bool with_states);

  // How far a check has read.
  struct CheckedUpTo {
    size_t file = 0;     // files before this one are right
    uint64_t bytes = 0;  // bytes of this file that were read
    uint32_t crc32c = 0;
  };
  // Reads every file through and checks checksums and structure. It reads by the file system, not by the mapping, so
  // that it takes no memory. `go_on` is asked after every read of `bytes`; CANCELLED when it says no, and a later call
  // with the same `so_far` goes on there. DATA_LOSS: the caller marks the segment. Other errors (no file descriptor
  // left) say nothing about the segment.
  absl::Status Check(CheckedUpTo& so_far, absl::FunctionRef<bool(size_t bytes)> go_on) const;
  absl::Status Check(absl::FunctionRef<bool(size_t bytes)> go_on) const {
    CheckedUpTo so_far;
    return Check(so_far, go_on);
  }
  // Whether a check since the start found the files right: another one that reads them stops.
  bool checked() const { return checked_.load(std::memory_order_relaxed); }
  void set_checked() { checked_.store(true, std::memory_order_relaxed); }
  // DATA_LOSS unless the mapped files are still at their paths, with their sizes. Cheap.
  absl::Status CheckFiles() const;

  const std::string& folder() const { return folder_; }
  const SegmentManifest& manifest() const { return manifest_; }

  // Marks the segment for a rewrite with new settings. Writer only.
  bool stale() const { return stale_; }
  void set_stale() { stale_ = true; }
  // Says that an index serves the segment from now on, before searches meet it. A segment that is opened to be measured
  // or carried does not last.
  void set_lasting() { lasting_ = true; }

  std::vector<uint32_t> CopyStates() const;
  // Sequence of the newest change in the state file when it was read; 0 without a state file.
  uint64_t sequence_of_states() const { return sequence_of_states_; }

  std::string_view kind() const override { return kind_; }
  bool provisional() const override { return manifest_.provisional; }
  bool ordered_by_id() const override { return lists() == nullptr; }
  bool lasting() const override { return lasting_; }
  const Graph* graph() const override { return manifest_.kind == "hnsw" ? &graph_ : nullptr; }
  const Lists* lists() const override { return manifest_.kind == "ivf" ? &lists_ : nullptr; }
  const CodeBlock* codes() const override { return codes_.rows != nullptr ? &codes_ : nullptr; }
  const PqCodes* pq() const override { return pq_.parts() > 0 ? &pq_ : nullptr; }
  std::span<const RecallAt> measured() const override { return manifest_.measured; }
  // RowCodes that the settings asked for.
  std::string_view codes_asked() const {
    return manifest_.codes_asked.empty() ? codes_name() : std::string_view(manifest_.codes_asked);
  }
  std::optional<int64_t> Find(uint64_t internal_id) const override;
  int64_t mapped_bytes() const override;
  int64_t heap_bytes() const override { return rows() * 20; }

 private:
  struct MappedFile {
    std::string_view name;
    Mapping mapping;
  };

  SealedSegment(std::string folder, SegmentManifest manifest)
      : Segment(manifest.id, manifest.generation, manifest.space),
        folder_(std::move(folder)),
        manifest_(std::move(manifest)),
        kind_(SealedKindName(ParseSealedKind(manifest_.kind).value_or(SealedKind::kFlat))) {}

  std::string PathOf(std::string_view name) const { return folder_ + "/" + std::string(name); }
  absl::StatusOr<std::string_view> Map(std::string_view name);
  absl::Status MapFiles();
  absl::Status CheckSum(std::string_view name) const;
  absl::Status CheckIds() const;
  absl::Status CheckFile(const MappedFile& file, CheckedUpTo& so_far, absl::FunctionRef<bool(size_t)> go_on) const;
  // The row with the i-th smallest internal id.
  int64_t RowById(int64_t i) const {
    if (lists() == nullptr) return i;
    const uint32_t row = lists_.by_id()[static_cast<size_t>(i)];
    if (row < rows()) return row;
    MarkDamaged();  // The place was in range when the file was opened.
    return 0;
  }

  const std::string folder_;
  const SegmentManifest manifest_;
  const std::string_view kind_;  // static text: hits name it when the segment may be gone
  std::vector<MappedFile> files_;
  Graph graph_;
  Lists lists_;
  CodeBlock codes_;  // rows: nullptr without codes
  PqCodes pq_;       // no parts without such codes
  bool stale_ = false, lasting_ = false;
  std::atomic<bool> checked_{false};
  uint64_t sequence_of_states_ = 0;
};

}  // namespace lightcone

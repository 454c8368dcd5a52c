#include "index/build/sealed_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "base/files.h"
#include "base/read_error.h"
#include "base/status.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

constexpr size_t kCheckBytes = 1 << 16;  // bytes of one read

float LargestBias(const RowFactors* factors, int64_t rows) {
  float largest = 0;
  for (int64_t i = 0; i < rows; ++i) largest = std::max(largest, factors[i].bias);
  return largest;
}

// The index writes no file that large: a larger one is damaged, and reading it has not failed.
absl::StatusOr<std::string> ReadOwn(const std::string& path, int64_t bytes_max) {
  std::error_code unknown;  // ReadFile says what is wrong then.
  const uintmax_t bytes = std::filesystem::file_size(path, unknown);
  if (!unknown && bytes > static_cast<uintmax_t>(bytes_max)) {
    return DataLoss(StrCat("file '", path, "' has ", bytes, " bytes; allowed: 0 .. ", bytes_max));
  }
  return ReadFile(path, bytes_max);
}

}  // namespace

absl::StatusOr<std::shared_ptr<SealedSegment>> SealedSegment::Open(const std::string& folder, bool with_states) {
  LC_ASSIGN_OR_RETURN(const std::string text, ReadOwn(StrCat(folder, "/", kManifestFile), int64_t{1} << 24));
  LC_ASSIGN_OR_RETURN(SegmentManifest manifest, DecodeManifest(text));
  std::shared_ptr<SealedSegment> segment(new SealedSegment(folder, std::move(manifest)));
  LC_RETURN_IF_ERROR(segment->MapFiles());
  LC_RETURN_IF_ERROR(segment->CheckIds());
  if (!with_states) return segment;
  const int64_t rows = segment->rows();
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadOwn(segment->PathOf(kStatesFile), int64_t{1} << 34));
  LC_ASSIGN_OR_RETURN(const SegmentStates states, DecodeStates(bytes, rows));
  for (int64_t i = 0; i < rows; ++i) {
    const uint32_t state = states.of_rows[static_cast<size_t>(i)];
    if (state != kLive) segment->SetState(i, state, 0);
  }
  segment->sequence_of_states_ = states.sequence;
  segment->set_dirty(false);
  return segment;
}

absl::StatusOr<std::string_view> SealedSegment::Map(std::string_view name) {
  const FileEntry* entry = manifest_.File(name);
  if (entry == nullptr) return DataLoss(StrCat("manifest lists no ", name));
  const std::string path = PathOf(name);
  LC_ASSIGN_OR_RETURN(Mapping mapping, Mapping::OfFile(path, &damaged_));
  if (mapping.bytes() != entry->bytes) {
    return DataLoss(StrCat("'", path, "' has ", mapping.bytes(), " bytes instead of ", entry->bytes));
  }
  files_.push_back({entry->name, std::move(mapping)});
  return files_.back().mapping.view();
}

absl::Status SealedSegment::MapFiles() {
  LC_ASSIGN_OR_RETURN(const std::string_view vectors, Map(kVectorsFile));
  LC_ASSIGN_OR_RETURN(const std::string_view factors, Map(kFactorsFile));
  LC_ASSIGN_OR_RETURN(const std::string_view ids, Map(kIdsFile));
  LC_ASSIGN_OR_RETURN(const std::string_view uncertainty, Map(kUncertaintyFile));
  block_ = {reinterpret_cast<const float*>(vectors.data()), static_cast<size_t>(manifest_.stride),
            reinterpret_cast<const RowFactors*>(factors.data()), reinterpret_cast<const uint64_t*>(ids.data()),
            reinterpret_cast<const float*>(uncertainty.data())};
  counts_.rows = manifest_.rows;
  bias_max_ = manifest_.bias_max ? *manifest_.bias_max : LargestBias(block_.factors, manifest_.rows);
  LC_ASSIGN_OR_RETURN(states_, RowStates::Make(static_cast<size_t>(manifest_.rows)));
  for (const CodeKind kind : kCodeKinds) {
    if (manifest_.File(CodesFileOf(kind)) == nullptr) continue;
    LC_ASSIGN_OR_RETURN(const std::string_view codes, Map(CodesFileOf(kind)));
    LC_ASSIGN_OR_RETURN(codes_, ParseCodes(codes, kind, manifest_.space.dimension, manifest_.rows));
  }
  if (manifest_.kind == "ivf") {
    LC_ASSIGN_OR_RETURN(const std::string_view lists, Map(kListsFile));
    LC_ASSIGN_OR_RETURN(lists_, Lists::Parse(lists, manifest_.space.dimension, manifest_.rows));
    if (manifest_.File(kPqCodesFile) != nullptr) {
      LC_ASSIGN_OR_RETURN(const std::string_view pq, Map(kPqCodesFile));
      LC_ASSIGN_OR_RETURN(pq_, PqCodes::Parse(pq, manifest_.space.dimension, manifest_.rows));
    }
  }
  if (manifest_.kind != "hnsw") return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const std::string_view graph, Map(kGraphFile));
  LC_ASSIGN_OR_RETURN(graph_, Graph::Parse(graph, manifest_.rows));
  return absl::OkStatus();
}

absl::Status SealedSegment::CheckSum(std::string_view name) const {
  for (const MappedFile& file : files_) {
    if (file.name == name && Crc32c(file.mapping.view()) != manifest_.File(name)->crc32c) {
      return DataLoss(StrCat("'", PathOf(name), "' has a wrong checksum"));
    }
  }
  return absl::OkStatus();
}

absl::Status SealedSegment::CheckIds() const {
  LC_RETURN_IF_ERROR(CheckSum(kIdsFile));
  if (lists() != nullptr) LC_RETURN_IF_ERROR(CheckSum(kListsFile));
  for (int64_t i = 1; i < rows(); ++i) {
    if (block_.ids[RowById(i - 1)] >= block_.ids[RowById(i)]) {
      return DataLoss(StrCat("'", folder_, "': ids are out of order"));
    }
  }
  return absl::OkStatus();
}

absl::Status SealedSegment::CheckFiles() const {
  for (const MappedFile& file : files_) {
    struct stat info {};
    if (::stat(PathOf(file.name).c_str(), &info) != 0) {
      // Other errors say nothing about the file that is mapped.
      if (errno == ENOENT) return DataLoss(StrCat("'", PathOf(file.name), "' is gone"));
      continue;
    }
    const Mapping::File now{static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino)};
    if (!(now == file.mapping.file())) return DataLoss(StrCat("'", PathOf(file.name), "' has been replaced"));
    if (static_cast<uint64_t>(info.st_size) != file.mapping.bytes()) {
      return DataLoss(
          StrCat("'", PathOf(file.name), "' has ", info.st_size, " bytes instead of ", file.mapping.bytes()));
    }
  }
  return absl::OkStatus();
}

absl::Status SealedSegment::CheckFile(const MappedFile& file, CheckedUpTo& so_far,
                                      absl::FunctionRef<bool(size_t)> go_on) const {
  const std::string path = PathOf(file.name);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return DataLoss(StrCat("'", path, "' is gone"));
  if (fd < 0) return ReadError(errno, "open", path);
  const auto closing = absl::MakeCleanup([fd] { ::close(fd); });
  std::array<char, kCheckBytes> buffer;
  while (true) {
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(so_far.bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadError(errno, "read", path);
    if (n == 0) break;
    so_far.crc32c = Crc32c({buffer.data(), static_cast<size_t>(n)}, so_far.crc32c);
    so_far.bytes += static_cast<uint64_t>(n);
    if (!go_on(static_cast<size_t>(n))) return MakeStatus(absl::StatusCode::kCancelled, "check stopped");
  }
  const FileEntry& entry = *manifest_.File(file.name);
  if (so_far.bytes != entry.bytes) {
    return DataLoss(StrCat("'", path, "' has ", so_far.bytes, " bytes instead of ", entry.bytes));
  }
  if (so_far.crc32c != entry.crc32c) return DataLoss(StrCat("'", path, "' has a wrong checksum"));
  return absl::OkStatus();
}

absl::Status SealedSegment::Check(CheckedUpTo& so_far, absl::FunctionRef<bool(size_t)> go_on) const {
  LC_RETURN_IF_ERROR(CheckFiles());
  while (so_far.file < files_.size()) {
    LC_RETURN_IF_ERROR(CheckFile(files_[so_far.file], so_far, go_on));
    so_far = {.file = so_far.file + 1};
  }
  // The files are as they were written. These checks look for errors of the writer.
  if (LargestBias(block_.factors, rows()) > bias_max_) return DataLoss(StrCat("'", folder_, "': bias_max is too low"));
  if (graph() != nullptr) LC_RETURN_IF_ERROR(graph_.Check());
  return damaged() ? DataLoss(StrCat("'", folder_, "': mapped bytes cannot be read any more")) : absl::OkStatus();
}

std::vector<uint32_t> SealedSegment::CopyStates() const {
  std::vector<uint32_t> states(static_cast<size_t>(rows()));
  for (size_t i = 0; i < states.size(); ++i) states[i] = states_.Get(i);
  return states;
}

std::optional<int64_t> SealedSegment::Find(uint64_t internal_id) const {
  if (internal_id < block_.ids[RowById(0)] || internal_id > block_.ids[RowById(rows() - 1)]) return std::nullopt;
  int64_t low = 0, high = rows() - 1;  // The first id that is not less lies within.
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
  uint64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.mapping.bytes();
  return static_cast<int64_t>(bytes);
}

}  // namespace lightcone

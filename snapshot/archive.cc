#include "snapshot/archive.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr size_t kBlock = 512;  // a tar archive consists of blocks of this size
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;
constexpr size_t kNameBytes = 100, kSizeAt = 124, kSizeBytes = 12, kSumAt = 148, kSumBytes = 8;
constexpr uint64_t kOctalMax = (uint64_t{1} << 33) - 1;  // the largest size in 11 octal digits

uint64_t PaddingOf(uint64_t bytes) { return (kBlock - bytes % kBlock) % kBlock; }

// The sum of a header's bytes, with its own place as spaces.
uint32_t SumOf(std::string_view header) {
  uint32_t sum = kSumBytes * ' ';
  for (size_t i = 0; i < header.size(); ++i) {
    if (i < kSumAt || i >= kSumAt + kSumBytes) sum += static_cast<uint8_t>(header[i]);
  }
  return sum;
}

std::string HeaderOf(std::string_view path, uint64_t bytes) {
  std::string header(kBlock, '\0');
  const auto put = [&header](size_t at, std::string_view text) { text.copy(header.data() + at, text.size()); };
  char digits[16];
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  if (bytes <= kOctalMax) {
    std::snprintf(digits, sizeof(digits), "%011llo", static_cast<unsigned long long>(bytes));
    put(kSizeAt, digits);
  } else {  // binary, as GNU tar and POSIX pax readers take it
    header[kSizeAt] = static_cast<char>(0x80);
    for (size_t i = 0; i < 8; ++i) header[kSizeAt + kSizeBytes - 1 - i] = static_cast<char>(bytes >> (8 * i));
  }
  put(136, "00000000000");
  header[156] = '0';
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  std::snprintf(digits, sizeof(digits), "%06o", SumOf(header));
  put(kSumAt, std::string_view(digits, 7));
  header[kSumAt + 7] = ' ';
  return header;
}

std::optional<uint64_t> SizeOf(std::string_view header) {
  std::string_view field = header.substr(kSizeAt, kSizeBytes);
  uint64_t size = 0;
  if (static_cast<uint8_t>(field[0]) == 0x80) {
    for (size_t i = 1; i < 4; ++i) {
      if (field[i] != '\0') return std::nullopt;
    }
    for (const char c : field.substr(4)) size = size << 8 | static_cast<uint8_t>(c);
    return size <= INT64_MAX ? std::optional(size) : std::nullopt;
  }
  for (const char c : field.substr(0, kSizeBytes - 1)) {
    if (c < '0' || c > '7') return std::nullopt;
    size = size * 8 + static_cast<uint64_t>(c - '0');
  }
  return size;
}

std::string ArchivePath(const SnapshotFile& file) { return StrCat(kSnapshotDataName, "/", file.path); }

}  // namespace

ArchiveWriter::ArchiveWriter(std::string folder, SnapshotManifest manifest, std::string head)
    : folder_(std::move(folder)), manifest_(std::move(manifest)), ready_(std::move(head)) {}

ArchiveWriter::~ArchiveWriter() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> ArchiveWriter::Open(const std::string& folder) {
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, ReadSnapshotManifest(folder));
  std::string text = EncodeSnapshotManifest(manifest);
  std::string head = HeaderOf(kSnapshotManifestName, text.size());
  head += text;
  head.append(PaddingOf(text.size()), '\0');
  return std::unique_ptr<ArchiveWriter>(new ArchiveWriter(folder, std::move(manifest), std::move(head)));
}

absl::Status ArchiveWriter::OpenFile() {
  const SnapshotFile& file = manifest_.files[next_];
  const std::string path = StrCat(folder_, "/", ArchivePath(file));
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return ErrnoStatus(errno, "open", path);
  ready_ += HeaderOf(ArchivePath(file), file.bytes);
  check_.emplace(file);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ArchiveWriter::Next() {
  std::string piece = std::exchange(ready_, {});
  while (piece.size() < kPieceBytes) {
    if (fd_ < 0 && next_ == manifest_.files.size()) {
      if (!ended_) piece.append(2 * kBlock, '\0');
      ended_ = true;
      break;
    }
    if (fd_ < 0) LC_RETURN_IF_ERROR(OpenFile());
    piece += std::exchange(ready_, {});
    const size_t before = piece.size();
    piece.resize(before + kPieceBytes);
    const ssize_t n = ::read(fd_, piece.data() + before, kPieceBytes);
    if (n < 0 && errno != EINTR) return ErrnoStatus(errno, "read", manifest_.files[next_].path);
    piece.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0) continue;
    check_->Add(std::string_view(piece).substr(before));
    if (n > 0) continue;
    LC_RETURN_IF_ERROR(Annotate(check_->Finish(), StrCat("snapshot '", manifest_.name, "'")));
    piece.append(PaddingOf(manifest_.files[next_].bytes), '\0');
    ::close(std::exchange(fd_, -1));
    ++next_;
  }
  return piece;
}

absl::Status ArchiveReader::Damaged(std::string_view what) const {
  return DataLoss(StrCat("archive '", place_, "' is no whole snapshot: ", what));
}

absl::Status ArchiveReader::Append(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    const uint64_t wanted = body_left_ > 0 ? body_left_ : padding_left_ > 0 ? padding_left_ : kBlock - header_.size();
    const std::string_view now = bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(wanted, bytes.size())));
    bytes.remove_prefix(now.size());
    if (body_left_ > 0) {
      LC_RETURN_IF_ERROR(TakeBody(now));
    } else if (padding_left_ > 0) {
      padding_left_ -= now.size();
    } else {
      header_ += now;
      if (header_.size() == kBlock) LC_RETURN_IF_ERROR(TakeHeader());
    }
  }
  return absl::OkStatus();  // bytes behind the end are the padding of a tape
}

absl::Status ArchiveReader::TakeHeader() {
  const std::string header = std::exchange(header_, {});
  if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) {
    if (in_manifest() || next_ < manifest_->files.size()) return Damaged("it ends before its last file");
    ended_ = true;
    return absl::OkStatus();
  }
  char sum[kSumBytes];
  std::snprintf(sum, sizeof(sum), "%06o", SumOf(header));
  if (header.compare(kSumAt, 6, sum, 6) != 0) return Damaged("a header has another checksum");
  const std::optional<uint64_t> size = SizeOf(header);
  if (header[156] != '0' || !size) return Damaged("it holds something else than plain files");
  const std::string path(header.c_str(), strnlen(header.c_str(), kNameBytes));
  body_left_ = *size;
  padding_left_ = PaddingOf(*size);
  if (in_manifest()) {
    if (path != kSnapshotManifestName) return Damaged(StrCat("its first file is not ", kSnapshotManifestName));
    if (*size == 0 || *size > kManifestBytesMax) return Damaged("the size of its manifest");
    return absl::OkStatus();
  }
  if (next_ >= manifest_->files.size() || path != ArchivePath(manifest_->files[next_])) {
    return Damaged(StrCat("file '", path, "' is not the next one of the manifest"));
  }
  const SnapshotFile& file = manifest_->files[next_];
  if (*size != file.bytes) {
    return Damaged(StrCat("file '", file.path, "' has ", *size, " bytes; ", file.bytes, " are in the manifest"));
  }
  return BeginBody();
}

absl::Status ArchiveReader::BeginBody() {
  check_.emplace(manifest_->files[next_]);
  bool skip = false;  // a sink of a stream takes every byte
  LC_RETURN_IF_ERROR(sink_->Open(manifest_->files[next_], &skip));
  return body_left_ == 0 ? EndBody() : absl::OkStatus();
}

absl::Status ArchiveReader::TakeBody(std::string_view bytes) {
  body_left_ -= bytes.size();
  if (!in_manifest()) {
    check_->Add(bytes);
    LC_RETURN_IF_ERROR(sink_->Write(bytes));
    return body_left_ == 0 ? EndBody() : absl::OkStatus();
  }
  manifest_text_ += bytes;
  if (body_left_ > 0) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(SnapshotManifest manifest, DecodeSnapshotManifest(manifest_text_, place_));
  LC_ASSIGN_OR_RETURN(sink_, make_sink_(manifest, manifest_text_));
  manifest_ = std::move(manifest);
  return absl::OkStatus();
}

absl::Status ArchiveReader::EndBody() {
  LC_RETURN_IF_ERROR(Annotate(check_->Finish(), StrCat("archive '", place_, "'")));
  ++next_;
  return sink_->Close();
}

absl::StatusOr<SnapshotManifest> ArchiveReader::Finish() {
  if (!ended_) return Damaged("it was cut short");
  return *std::move(manifest_);
}

}  // namespace lightcone

#include "trainer/data/recordio.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/text_lines.h"

namespace lightcone {
namespace {

constexpr uint32_t kMagic = 0xced7230a;
constexpr int64_t kFrameBytes = 8, kRecordBytesMax = int64_t{1} << 26;
constexpr size_t kHeaderBytes = 24;
constexpr uint32_t kLabelsMax = 64;

uint32_t Word(const char* bytes) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; --i) word = word << 8 | static_cast<uint8_t>(bytes[i]);
  return word;
}

}  // namespace

absl::StatusOr<std::string> ReadRecord(const ReadAt& read, int64_t file_bytes, int64_t offset, int64_t bytes_max,
                                       std::string_view what) {
  std::string data;
  for (bool first = true;; first = false) {
    if (offset < 0 || offset > file_bytes - kFrameBytes) {
      return DataLoss(StrCat(what, ": truncated: a record begins at byte ", offset, " of ", file_bytes));
    }
    char frame[kFrameBytes];
    LC_RETURN_IF_ERROR(read(offset, kFrameBytes, frame));
    const uint32_t word = Word(frame + 4), part = word >> 29;
    const int64_t length = word & 0x1fffffffu;
    if (Word(frame) != kMagic) return DataLoss(StrCat(what, ": corrupt: no record begins at byte ", offset));
    if (part > 3 || (first ? part > 1 : part < 2)) {
      return DataLoss(StrCat(what, ": corrupt: part ", part, " of a record at byte ", offset,
                             "; allowed: ", first ? "0 or 1" : "2 or 3"));
    }
    if (length > file_bytes - offset - kFrameBytes) {
      return DataLoss(StrCat(what, ": truncated: the record at byte ", offset, " has ", length, " bytes; the file has ",
                             file_bytes - offset - kFrameBytes, " left"));
    }
    if (static_cast<int64_t>(data.size()) + length > kRecordBytesMax) {
      return DataLoss(StrCat(what, ": corrupt: the record at byte ", offset, " has over ", kRecordBytesMax, " bytes"));
    }
    const int64_t wanted = std::min(length, bytes_max - static_cast<int64_t>(data.size()));
    const size_t begin = data.size();
    data.resize(begin + static_cast<size_t>(wanted));
    LC_RETURN_IF_ERROR(read(offset + kFrameBytes, wanted, data.data() + begin));
    if (part == 0 || part == 3 || wanted < length) return data;
    // The writer divides the data at each magic number.
    data.append({'\x0a', '\x23', '\xd7', '\xce'});
    if (static_cast<int64_t>(data.size()) >= bytes_max) {
      data.resize(static_cast<size_t>(bytes_max));
      return data;
    }
    offset += kFrameBytes + (length + 3) / 4 * 4;
  }
}

absl::StatusOr<ImageRecordHeader> ParseImageRecordHeader(std::string_view record, std::string_view what) {
  if (record.size() < kHeaderBytes) {
    return DataLoss(
        StrCat(what, ": truncated: has ", record.size(), " bytes; an image record begins with ", kHeaderBytes));
  }
  const uint32_t flag = Word(record.data());
  if (flag > kLabelsMax) {
    return DataLoss(StrCat(what, ": field 'flag' is ", flag, "; allowed: 0 .. ", kLabelsMax, ", the number of labels"));
  }
  ImageRecordHeader header;
  header.listed = flag > 0;
  header.bytes = kHeaderBytes + 4 * flag;
  if (record.size() < header.bytes) {
    return DataLoss(StrCat(what, ": truncated: has ", record.size(), " bytes; ", flag, " labels need ", header.bytes));
  }
  const char* labels = record.data() + (flag > 0 ? kHeaderBytes : 4);
  for (uint32_t i = 0; i < std::max(flag, 1u); ++i) header.labels.push_back(std::bit_cast<float>(Word(labels + 4 * i)));
  return header;
}

absl::StatusOr<std::vector<IndexEntry>> ParseRecordIndex(std::string_view text, std::string_view what) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  std::vector<IndexEntry> entries;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 2, [&](const TextLine& line) -> absl::Status {
    IndexEntry entry;
    LC_ASSIGN_OR_RETURN(entry.key, line.Integer(0, "key", 0, kMax));
    LC_ASSIGN_OR_RETURN(entry.offset, line.Integer(1, "offset", 0, kMax));
    entries.push_back(entry);
    return absl::OkStatus();
  }));
  std::sort(entries.begin(), entries.end(), [](const IndexEntry& a, const IndexEntry& b) { return a.key < b.key; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].key == entries[i - 1].key)
      return DataLoss(StrCat(what, ": key ", entries[i].key, " is there twice"));
  }
  return entries;
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(const std::string& rec_path, const std::string& idx_path) {
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(idx_path));
  LC_ASSIGN_OR_RETURN(std::vector<IndexEntry> entries, ParseRecordIndex(text, idx_path));
  const int file = ::open(rec_path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return ErrnoStatus(errno, "open", rec_path);
  struct stat info {};
  const int error = ::fstat(file, &info) == 0 ? 0 : errno;
  std::unique_ptr<RecordFile> records(new RecordFile(rec_path, file, static_cast<int64_t>(info.st_size)));
  if (error != 0) return ErrnoStatus(error, "stat", rec_path);
  records->entries_ = std::move(entries);
  return records;
}

RecordFile::~RecordFile() { ::close(file_); }

std::string RecordFile::Name(size_t i) const { return StrCat(path_, ", record ", entries_[i].key); }

absl::StatusOr<std::string> RecordFile::Read(size_t i, int64_t bytes_max) const {
  const auto read = [&](int64_t offset, int64_t bytes, char* out) -> absl::Status {
    while (bytes > 0) {
      const ssize_t got = ::pread(file_, out, static_cast<size_t>(bytes), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read", path_);
      if (got == 0) return DataLoss(StrCat(Name(i), ": truncated at byte ", offset));
      offset += got;
      bytes -= got;
      out += got;
    }
    return absl::OkStatus();
  };
  return ReadRecord(read, bytes_, entries_[i].offset, bytes_max, Name(i));
}

absl::StatusOr<ImageRecordHeader> RecordFile::ReadHeader(size_t i) const {
  LC_ASSIGN_OR_RETURN(const std::string record, Read(i, kHeaderBytes + 4 * kLabelsMax));
  return ParseImageRecordHeader(record, Name(i));
}

absl::StatusOr<std::string> RecordFile::ReadImage(size_t i) const {
  LC_ASSIGN_OR_RETURN(std::string record, Read(i, kRecordBytesMax));
  LC_ASSIGN_OR_RETURN(const ImageRecordHeader header, ParseImageRecordHeader(record, Name(i)));
  record.erase(0, header.bytes);
  return record;
}

}  // namespace lightcone

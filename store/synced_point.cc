#include "store/synced_point.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "absl/strings/numbers.h"
#include "base/files.h"
#include "base/status.h"
#include "rocksdb/write_batch.h"
#include "store/coding.h"

namespace lightcone {
namespace {

constexpr std::string_view kMagic = "LCSYNCED";
constexpr int64_t kBytesMax = 4096;

// RocksDB's log: blocks of records, each of checksum (4 bytes), length (2), type (1) and content. A batch is one
// record, or a first, middle ones and a last one. It begins with its sequence (8) and its number of operations (4).
constexpr size_t kLogBlockBytes = 32 << 10, kLogHeadBytes = 7, kBatchHeadBytes = 12;
enum LogRecordType : uint8_t { kFullRecord = 1, kFirstRecord, kMiddleRecord, kLastRecord };

std::string PathIn(const std::string& folder) { return (std::filesystem::path(folder) / kSyncedName).string(); }

std::string Encoded(SyncedPoint point) {
  std::string bytes(kMagic);
  coding::AppendLittle(&bytes, point.sequence);
  coding::AppendLittle(&bytes, point.log);
  coding::AppendLittle(&bytes, Crc32c(bytes));
  return bytes;
}

}  // namespace

std::string LogPath(const std::string& folder, uint64_t number) {
  std::string digits = StrCat(number);
  if (digits.size() < 6) digits.insert(0, 6 - digits.size(), '0');
  return (std::filesystem::path(folder) / (digits + ".log")).string();
}

bool LogReaches(const std::string& path, uint64_t sequence) {
  std::ifstream file(path, std::ios::binary);
  std::string block(kLogBlockBytes, '\0'), head;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    std::string_view rest(block.data(), static_cast<size_t>(file.gcount()));
    while (rest.size() >= kLogHeadBytes) {
      const size_t bytes = static_cast<uint8_t>(rest[4]) | static_cast<size_t>(static_cast<uint8_t>(rest[5])) << 8;
      const uint8_t type = static_cast<uint8_t>(rest[6]);
      if (type < kFullRecord || type > kLastRecord || rest.size() - kLogHeadBytes < bytes) break;
      if (type == kFullRecord || type == kFirstRecord) head.clear();
      head.append(rest.substr(kLogHeadBytes, std::min(bytes, kBatchHeadBytes - head.size())));
      rest.remove_prefix(kLogHeadBytes + bytes);
      if (type != kFullRecord && type != kLastRecord) continue;
      uint64_t first = 0;
      uint32_t count = 0;
      coding::Reader batch(head);
      if (batch.Take(&first) && batch.Take(&count) && first + count > sequence) return true;
    }
  }
  return false;
}

bool LogsReach(const std::string& folder, SyncedPoint point) {
  std::error_code error;
  const std::string log = LogPath(folder, point.log);
  if (!std::filesystem::exists(log, error) || LogReaches(log, point.sequence)) return true;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    uint64_t number = 0;
    const bool is_log = it->path().extension() == ".log" && absl::SimpleAtoi(it->path().stem().string(), &number);
    if (is_log && number > point.log && LogReaches(it->path().string(), point.sequence)) return true;
  }
  return false;
}

std::optional<SyncedPoint> ReadSyncedPoint(const std::string& folder) {
  const auto bytes = ReadFile(PathIn(folder), kBytesMax);
  if (!bytes.ok() || !bytes->starts_with(kMagic)) return std::nullopt;
  coding::Reader reader(std::string_view(*bytes).substr(kMagic.size()));
  SyncedPoint point;
  uint32_t checksum = 0;
  const bool whole = reader.Take(&point.sequence) && reader.Take(&point.log) && reader.Take(&checksum);
  if (!whole || *bytes != Encoded(point)) return std::nullopt;
  return point;
}

SyncedFile::~SyncedFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status SyncedFile::Open(const std::string& folder, SyncedPoint point) {
  const std::string path = PathIn(folder);
  LC_RETURN_IF_ERROR(WriteFileAtomically(path, Encoded(point)));
  fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return fd_ >= 0 ? absl::OkStatus() : ErrnoStatus(errno, "open", path);
}

void SyncedFile::Note(SyncedPoint point) {
  const std::string bytes = Encoded(point);
  if (fd_ >= 0) (void)!::pwrite(fd_, bytes.data(), bytes.size(), 0);
}

void LogWatch::ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& log_of_family,
                                        const std::map<std::string, uint32_t>&) {
  first_log_ = log_of_family.empty() ? 0 : UINT64_MAX;
  for (const auto& [family, log] : log_of_family) first_log_ = std::min(first_log_, log);
}

rocksdb::WalFilter::WalProcessingOption LogWatch::LogRecordFound(unsigned long long, const std::string&,
                                                                 const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                                                 bool*) {
  uint64_t first = 0;
  uint32_t count = 0;
  coding::Reader head(batch.Data());  // RocksDB's layout: sequence of the first operation, number of operations
  if (!head.Take(&first) || !head.Take(&count)) return WalProcessingOption::kCorruptedRecord;
  if (last_ != 0 && first != last_ + 1) return WalProcessingOption::kCorruptedRecord;
  last_ = first + count - 1;
  return WalProcessingOption::kContinueProcessing;
}

}  // namespace lightcone

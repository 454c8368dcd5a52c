#include "server/audit/audit_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/status.h"

namespace lightcone::server::audit {
namespace {

constexpr absl::Duration kLogEvery = absl::Seconds(10);
constexpr size_t kTextBytesMax = 512;
constexpr size_t kListMax = 1'024;  // names of one list

std::string Cut(std::string_view text) { return std::string(text.substr(0, kTextBytesMax)); }

// A name that is repeated takes the place of no other one.
void AddList(std::span<const std::string> names, nlohmann::ordered_json* line) {
  const std::set<std::string_view> known(names.begin(), names.end());
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string_view name : known) {
    if (list.size() == kListMax) break;
    list.push_back(Cut(name));
  }
  (*line)["collections"] = std::move(list);
  if (known.size() > kListMax) (*line)["collections_left_out"] = known.size() - kListMax;
}

std::string LineOf(const AuditRecord& record) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime(absl::RFC3339_full, record.time, absl::UTCTimeZone());
  line["caller"] = Cut(record.caller);
  line["method"] = Cut(record.method);
  line["collection"] = Cut(record.collection);
  if (!record.source.empty()) line["source"] = Cut(record.source);
  if (!record.collections.empty()) AddList(record.collections, &line);
  line["code"] = Cut(record.code);
  line["request_id"] = Cut(record.request_id);
  line["peer"] = Cut(record.peer);
  // Texts of callers may hold any bytes.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string NumberedPath(const std::string& path, int number) { return StrCat(path, ".", number); }

}  // namespace

absl::StatusOr<std::unique_ptr<AuditFile>> AuditFile::Open(const AuditFileOptions& options) {
  std::unique_ptr<AuditFile> self(new AuditFile(options));
  absl::MutexLock lock(&self->mutex_);
  LC_RETURN_IF_ERROR(Annotate(self->OpenFile(), "audit.file"));
  return self;
}

AuditFile::~AuditFile() {
  absl::MutexLock lock(&mutex_);
  if (fd_ >= 0) close(fd_);
}

absl::Status AuditFile::OpenFile() {
  const int fd = ::open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(errno, "open", options_.path);
  struct stat file = {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || (file.st_mode & 077) != 0) {
    close(fd);
    return InvalidArgument(StrCat("'", options_.path, "' must be a file that its owner alone may read (mode 0600)"));
  }
  fd_ = fd;
  bytes_ = file.st_size;
  return absl::OkStatus();
}

absl::Status AuditFile::Rotate() {
  for (int number = options_.kept; number > 0; --number) {
    const std::string from = number == 1 ? options_.path : NumberedPath(options_.path, number - 1);
    const std::string to = NumberedPath(options_.path, number);
    if (std::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "rename", from);
  }
  if (options_.kept == 0 && ::unlink(options_.path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove", options_.path);
  }
  close(std::exchange(fd_, -1));
  return OpenFile();
}

absl::Status AuditFile::Append(const std::string& line) {
  const int64_t size = static_cast<int64_t>(line.size());
  if (fd_ < 0) LC_RETURN_IF_ERROR(OpenFile());
  if (bytes_ > 0 && bytes_ + size > options_.bytes_max) LC_RETURN_IF_ERROR(Rotate());
  ssize_t written = 0;
  do {
    written = ::write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(size)) {
    bytes_ += size;
    return absl::OkStatus();
  }
  const int error = written < 0 ? errno : ENOSPC;
  // A part of a line would spoil the next one.
  if (written > 0 && ::ftruncate(fd_, bytes_) != 0) bytes_ += written;
  return ErrnoStatus(error, "write", options_.path);
}

void AuditFile::Write(const AuditRecord& record) {
  const std::string line = LineOf(record);
  std::string complaint;
  {
    absl::MutexLock lock(&mutex_);
    ++figures_.records_total;
    const absl::Status status = Append(line);
    if (status.ok()) return;
    ++figures_.failures_total;
    if (record.time - logged_ >= kLogEvery) {
      logged_ = record.time;
      complaint = StrCat("an audit record was not written (", figures_.failures_total, " so far): ", MessageOf(status));
    }
  }
  if (!complaint.empty() && options_.log) options_.log(complaint);
}

AuditFigures AuditFile::figures() const {
  absl::MutexLock lock(&mutex_);
  return figures_;
}

}  // namespace lightcone::server::audit

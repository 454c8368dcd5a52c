// The audit file: one JSON object a line for each recorded call. The file belongs to its owner alone, and is renamed to
// FILE.1, FILE.2 and so on when it is full. A line that cannot be written is counted and logged, and stops no call.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server::audit {

struct AuditFileOptions {
  std::string path;
  int64_t bytes_max = int64_t{64} << 20;                  // size above which the file is renamed
  int kept = 10;                                          // renamed files; 0: none, the full file is removed
  std::function<void(const std::string& line)> log = {};  // may be empty; called from any thread
};

struct AuditFigures {
  uint64_t records_total = 0;
  uint64_t failures_total = 0;  // records that could not be written
};

// One finished call. The texts live while it is written.
struct AuditRecord {
  absl::Time time;
  std::string_view caller;      // name of the key, token or certificate; empty: none was asked for
  std::string_view method;      // "Generations/Activate", "POST /api/v1/collections/photos/activate"
  std::string_view collection;  // as the call names it; empty: it names none
  // Collection of a snapshot that the call reads. Empty: the line has no such member.
  std::string_view source = {};
  // Collections that a call chooses by a list. Empty: the line has no such member. Each is written once, and of more
  // than 1,024 the line has the number of those that it leaves out.
  std::span<const std::string> collections = {};
  std::string_view code;        // "OK", "NOT_FOUND"
  std::string_view request_id;  // as the caller states it
  std::string_view peer;        // "ipv4:10.0.0.7:5123"
};

class AuditFile {
 public:
  // INVALID_ARGUMENT or UNAVAILABLE names the file that cannot be opened, or that others may read.
  static absl::StatusOr<std::unique_ptr<AuditFile>> Open(const AuditFileOptions& options);
  ~AuditFile();
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;

  // The line has left the process when this returns: it survives the process, not a loss of power.
  void Write(const AuditRecord& record);
  AuditFigures figures() const;

 private:
  explicit AuditFile(const AuditFileOptions& options) : options_(options) {}
  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AuditFileOptions options_;
  mutable absl::Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time logged_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // time of the last line about a failure
  AuditFigures figures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lightcone::server::audit

#include "store/log_guard.h"

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace lightcone {
namespace {

// A writer may wait for a flush, and that for the sync that failed.
constexpr absl::Duration kOthersMax = absl::Seconds(2);
constexpr absl::Duration kQuietMax = absl::Seconds(10);  // time of AwaitQuiet

thread_local std::optional<LogGuard::Kind> runs;  // what this thread runs, until it has failed

class GuardedEnv final : public rocksdb::EnvWrapper {
 public:
  GuardedEnv(rocksdb::Env* base, std::shared_ptr<rocksdb::FileSystem> files) : EnvWrapper(base) {
    file_system_ = std::move(files);
  }
  const char* Name() const override { return "GuardedEnv"; }
};

}  // namespace

class LogGuard::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile> file, LogGuard* guard)
      : FSWritableFileOwnerWrapper(std::move(file)), guard_(guard) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    return guard_->Check(target()->Append(data, options, context), kAppend);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* context) override {
    return guard_->Check(target()->Append(data, options, info, context), kAppend);
  }
  rocksdb::IOStatus Flush(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    return guard_->Check(target()->Flush(options, context), kAppend);
  }
  rocksdb::IOStatus RangeSync(uint64_t offset, uint64_t bytes, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* context) override {
    return guard_->Check(target()->RangeSync(offset, bytes, options, context), kAppend);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    return Note(target()->Sync(options, context));
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    return Note(target()->Fsync(options, context));
  }
  // DB::SyncWAL asks this of every log before it touches one.
  bool IsSyncThreadSafe() const override { return !sync_failed_ && target()->IsSyncThreadSafe(); }

 private:
  rocksdb::IOStatus Note(const rocksdb::IOStatus& synced) {
    sync_failed_ = !synced.ok();
    return guard_->Check(synced, kSync);
  }

  LogGuard* const guard_;
  std::atomic<bool> sync_failed_{false};
};

class LogGuard::Files final : public rocksdb::FileSystemWrapper {
 public:
  Files(const std::shared_ptr<rocksdb::FileSystem>& base, LogGuard* guard) : FileSystemWrapper(base), guard_(guard) {}
  const char* Name() const override { return "LogGuard"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus made = target()->NewWritableFile(name, options, file, context);
    if (made.ok() && name.ends_with(".log")) *file = std::make_unique<File>(std::move(*file), guard_);
    return made;
  }

 private:
  LogGuard* const guard_;
};

LogGuard::LogGuard(rocksdb::Env* base, std::function<void(const rocksdb::Status& error, std::string_view step)> failed)
    : failed_(std::move(failed)) {
  if (base == nullptr) base = rocksdb::Env::Default();
  env_ = std::make_unique<GuardedEnv>(base, std::make_shared<Files>(base->GetFileSystem(), this));
}

LogGuard::~LogGuard() = default;

rocksdb::Env* LogGuard::env() { return env_.get(); }

rocksdb::Status LogGuard::Begin(Kind kind) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  ++running_[kind];
  runs = kind;
  return rocksdb::Status::OK();
}

rocksdb::Status LogGuard::End(Kind kind, rocksdb::Status status) {
  absl::MutexLock lock(&mutex_);
  runs ? --running_[kind] : --failing_;
  runs.reset();
  return status.IsNotSupported() && !failure_.ok() ? failure_ : std::move(status);
}

rocksdb::IOStatus LogGuard::Check(const rocksdb::IOStatus& status, Kind kind) {
  if (status.ok()) return status;
  const bool of_flush = kind == kSync && runs != kSync;
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = status;
    if (runs) --running_[*runs], ++failing_;
    runs.reset();
  }
  failed_(status, kind == kSync ? "sync" : "write");
  if (of_flush) return status;  // Others may wait for it: File::IsSyncThreadSafe keeps them away.
  const Kind other = kind == kAppend ? kSync : kAppend;
  const auto ended = [this, other]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return running_[other] == 0; };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&ended), kOthersMax);
  return status;
}

bool LogGuard::AwaitQuiet() {
  const auto quiet = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return running_[kAppend] + running_[kSync] + failing_ == 0;
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&quiet), kQuietMax);
}

void LogGuard::Clear() {
  absl::MutexLock lock(&mutex_);
  failure_ = rocksdb::Status::OK();
}

}  // namespace lightcone

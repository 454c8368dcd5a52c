// A disk of RocksDB's whose appends, syncs and reads fail at command, with flushes that begin late. Threads: safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace lightcone {

class FaultyDisk {
 public:
  enum class Fault {
    kNone,
    kFullOnAppend,
    kFullOnSync,
    kBrokenSync,
    kBrokenAppend,
    kBrokenTables,   // appends to tables fail, and those to logs do not
    kBrokenReading,  // reads of files that were opened before the fault fail
  };

  FaultyDisk() : files_(std::make_shared<Files>(this)), env_(std::make_unique<Jobs>(files_, this)) {}
  rocksdb::Env* env() { return env_.get(); }
  void Set(Fault fault) {
    ++age_;
    fault_ = fault;
  }
  // From now on a flush that RocksDB schedules begins so much later.
  void DelayFlushes(absl::Duration late) { flush_delay_ = late; }
  int delayed_flushes() const { return *delayed_flushes_; }  // number of those whose delay is over

 private:
  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, FaultyDisk* disk, bool table)
        : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk), table_(table) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      const rocksdb::IOStatus fault = disk_->OnAppend(table_);
      return fault.ok() ? target()->Append(data, options, context) : fault;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* context) override {
      const rocksdb::IOStatus fault = disk_->OnAppend(table_);
      return fault.ok() ? target()->Append(data, options, info, context) : fault;
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
      const rocksdb::IOStatus fault = disk_->OnSync();
      return fault.ok() ? target()->Sync(options, context) : fault;
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
      const rocksdb::IOStatus fault = disk_->OnSync();
      return fault.ok() ? target()->Fsync(options, context) : fault;
    }

   private:
    FaultyDisk* disk_;
    const bool table_;
  };

  class ReadFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    ReadFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, FaultyDisk* disk)
        : FSRandomAccessFileOwnerWrapper(std::move(file)), disk_(disk), age_(disk->age_) {}
    rocksdb::IOStatus Read(uint64_t offset, size_t bytes, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                           char* scratch, rocksdb::IODebugContext* context) const override {
      if (disk_->fault_ == Fault::kBrokenReading && age_ < disk_->age_) {
        return rocksdb::IOStatus::IOError("injected: read failed");
      }
      return target()->Read(offset, bytes, options, result, scratch, context);
    }

   private:
    FaultyDisk* disk_;
    const int age_;
  };

  class Files : public rocksdb::FileSystemWrapper {
   public:
    explicit Files(FaultyDisk* disk) : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}
    const char* Name() const override { return "FaultyDisk"; }
    rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* context) override {
      std::unique_ptr<rocksdb::FSWritableFile> made;
      rocksdb::IOStatus status = target()->NewWritableFile(name, options, &made, context);
      if (status.ok()) *file = std::make_unique<File>(std::move(made), disk_, name.ends_with(".sst"));
      return status;
    }
    rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                          rocksdb::IODebugContext* context) override {
      std::unique_ptr<rocksdb::FSRandomAccessFile> made;
      rocksdb::IOStatus status = target()->NewRandomAccessFile(name, options, &made, context);
      if (status.ok()) *file = std::make_unique<ReadFile>(std::move(made), disk_);
      return status;
    }

   private:
    FaultyDisk* disk_;
  };

  class Jobs : public rocksdb::EnvWrapper {
   public:
    Jobs(const std::shared_ptr<Files>& files, FaultyDisk* disk)
        : EnvWrapper(rocksdb::NewCompositeEnv(files)), disk_(disk) {
      file_system_ = files;
    }
    const char* Name() const override { return "FaultyDisk"; }
    void Schedule(void (*run)(void*), void* argument, Priority priority, void* tag, void (*cancel)(void*)) override {
      if (priority != HIGH || disk_->flush_delay_.load() == absl::ZeroDuration()) {
        return EnvWrapper::Schedule(run, argument, priority, tag, cancel);
      }
      EnvWrapper::Schedule(&Run, new Late{run, cancel, argument, disk_->flush_delay_, disk_->delayed_flushes_},
                           priority, tag, &Cancel);
    }

   private:
    struct Late {
      void (*run)(void*);
      void (*cancel)(void*);
      void* argument;
      absl::Duration delay;
      std::shared_ptr<std::atomic<int>> begun;  // which may outlive the disk
    };
    static void Run(void* raw) {
      const std::unique_ptr<Late> late(static_cast<Late*>(raw));
      absl::SleepFor(late->delay);
      ++*late->begun;
      late->run(late->argument);
    }
    static void Cancel(void* raw) {
      const std::unique_ptr<Late> late(static_cast<Late*>(raw));
      late->cancel(late->argument);
    }

    FaultyDisk* disk_;
  };

  rocksdb::IOStatus OnAppend(bool table) const {
    if (fault_ == Fault::kFullOnAppend) return rocksdb::IOStatus::NoSpace("no space left on device");
    if (fault_ == Fault::kBrokenAppend || (table && fault_ == Fault::kBrokenTables)) {
      return rocksdb::IOStatus::IOError("injected: write failed");
    }
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus OnSync() const {
    if (fault_ == Fault::kFullOnSync) return rocksdb::IOStatus::NoSpace("no space left on device");
    if (fault_ == Fault::kBrokenSync) return rocksdb::IOStatus::IOError("injected: fsync failed");
    return rocksdb::IOStatus::OK();
  }

  std::atomic<Fault> fault_{Fault::kNone};
  std::atomic<int> age_{0};  // number of faults that were set
  std::atomic<absl::Duration> flush_delay_{absl::ZeroDuration()};
  const std::shared_ptr<std::atomic<int>> delayed_flushes_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<Files> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace lightcone

// Calls back when files change: their time, size or identity, so that a renamed file and a changed link count as well.
// Threads: the callbacks run on the watch's own thread, one at a time, and never after the destructor has returned.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server::auth {

struct WatchedFiles {
  std::vector<std::string> paths;
  std::function<void()> changed;  // called again after the next look where a file had changed within the second before
};

class FileWatch {
 public:
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(250);

  explicit FileWatch(std::vector<WatchedFiles> watched);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Run();

  const std::vector<WatchedFiles> watched_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lightcone::server::auth

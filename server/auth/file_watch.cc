#include "server/auth/file_watch.h"

#include <sys/stat.h>

#include <utility>

#include "absl/time/clock.h"
#include "base/strings.h"

namespace lightcone::server::auth {
namespace {

struct Look {
  std::string stamp;    // identity, size and time of each file
  bool recent = false;  // A file changed less than a second ago: its next change may have the same time.
};

Look LookAt(const std::vector<std::string>& paths) {
  Look look;
  for (const std::string& path : paths) {
    struct stat file = {};
    if (stat(path.c_str(), &file) != 0) {
      look.stamp += "absent\n";
      continue;
    }
    look.stamp += StrCat(file.st_dev, " ", file.st_ino, " ", file.st_size, " ", file.st_mtim.tv_sec, " ",
                         file.st_mtim.tv_nsec, "\n");
    look.recent |= absl::Now() - absl::TimeFromTimespec(file.st_mtim) < absl::Seconds(1);
  }
  return look;
}

}  // namespace

FileWatch::FileWatch(std::vector<WatchedFiles> watched) : watched_(std::move(watched)) {
  thread_ = std::thread([this] { Run(); });
}

FileWatch::~FileWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void FileWatch::Run() {
  // The files may have changed between their first reading and now, so that the first look calls back.
  std::vector<Look> seen(watched_.size());
  for (;;) {
    for (size_t i = 0; i < watched_.size(); ++i) {
      Look now = LookAt(watched_[i].paths);
      const bool changed = now.stamp != seen[i].stamp || seen[i].recent;
      seen[i] = std::move(now);
      if (changed) watched_[i].changed();
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kLookEvery)) return;
  }
}

}  // namespace lightcone::server::auth

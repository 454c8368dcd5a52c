// A process that goes on locked in below folders, tried in a child of the test: what it still does with files, and what
// the kernel refuses it.
#include "base/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "base/files.h"
#include "base/status.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

// Ends this process, a child of the test, as failed.
void Need(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s: errno %d\n", what.c_str(), errno);
  ::_exit(1);
}

void NeedRefused(long result, const std::string& what) {
  Need(result == -1 && (errno == EPERM || errno == EACCES), what);
}

class FolderLock : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"read", "write", "other"}) {
      ASSERT_TRUE(MakeFolders(Path(name)).ok());
      ASSERT_TRUE(WriteFileAtomically(Path(name) + "/file", "content").ok());
    }
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  // What a process that is locked in takes of `check` and ends with.
  void InChild(const std::function<void()>& check) {
    const absl::Status locked = GoOnLockedIn({{Path("read")}, {Path("write")}});
    Need(locked.ok(), MessageOf(locked));
    check();
    ::_exit(0);
  }

  const TemporaryFolder folder_;
};

TEST_F(FolderLock, ReadsAndWritesWhereItMay) {
  if (!CanLockInBelow().ok()) return;  // a build with a sanitizer, or an old kernel
  EXPECT_EXIT(InChild([&] {
                Need(ReadFile(Path("read/file")).value_or("") == "content", "read");
                Need(ReadFile(Path("write/file")).value_or("") == "content", "read what it may write");
                Need(WriteFileAtomically(Path("write/file"), "new").ok(), "replace");
                Need(MakeFolders(Path("write/a/b")).ok(), "folders");
                Need(WriteFileAtomically(Path("write/a/b/c"), "c").ok(), "a new file");
                Need(std::filesystem::remove_all(Path("write/a")) == 3, "remove");
                std::filesystem::directory_iterator at(Path("read"));
                Need(at->path().filename() == "file", "list");
                std::thread([&] { NeedRefused(::open(Path("other/file").c_str(), O_RDONLY), "a thread"); }).join();
              }),
              testing::ExitedWithCode(0), "");
  EXPECT_EQ(ReadFile(Path("write/file")).value_or(""), "new");
}

TEST_F(FolderLock, ReachesNoOtherFile) {
  if (!CanLockInBelow().ok()) return;  // a build with a sanitizer, or an old kernel
  std::filesystem::create_symlink(Path("other/file"), Path("read/link"));
  const int kept = ::open(Path("other/file").c_str(), O_RDONLY);
  EXPECT_EXIT(InChild([&] {
                const std::string other = Path("other/file"), in_read = Path("read/file"),
                                  in_write = Path("write/file");
                Need(::fcntl(kept, F_GETFD) == -1 && errno == EBADF, "a descriptor from before");
                NeedRefused(::open("/etc/passwd", O_RDONLY), "/etc/passwd");
                NeedRefused(::open("/proc/self/environ", O_RDONLY), "the environment of a process");
                NeedRefused(::open(other.c_str(), O_RDONLY), "a file elsewhere");
                NeedRefused(::open(Path("read/link").c_str(), O_RDONLY), "a link that leads out");
                NeedRefused(::open(Path("read/../other/file").c_str(), O_RDONLY), "a path that leads out");
                NeedRefused(::open(in_read.c_str(), O_WRONLY), "write what it may read");
                NeedRefused(::open(in_read.c_str(), O_RDONLY | O_TRUNC), "cut what it may read");
                NeedRefused(::open(Path("read/new").c_str(), O_WRONLY | O_CREAT, 0600), "create where it may read");
                NeedRefused(::unlink(in_read.c_str()), "unlink");
                NeedRefused(::rename(other.c_str(), Path("write/stolen").c_str()), "rename into");
                NeedRefused(::link(other.c_str(), Path("write/stolen").c_str()), "link");
                NeedRefused(::symlink(other.c_str(), Path("write/stolen").c_str()), "symlink");
                NeedRefused(::mkfifo(Path("write/pipe").c_str(), 0600), "a pipe");
                NeedRefused(::chmod(in_write.c_str(), 0777), "chmod");
                NeedRefused(::truncate(other.c_str(), 0), "truncate");
              }),
              testing::ExitedWithCode(0), "");
  ::close(kept);
  EXPECT_EQ(ReadFile(Path("other/file")).value_or(""), "content");
}

TEST_F(FolderLock, StartsNoProgramNoProcessAndNoConnection) {
  if (!CanLockInBelow().ok()) return;  // a build with a sanitizer, or an old kernel
  EXPECT_EXIT(InChild([] {
                char program[] = "/bin/true";
                char* const words[] = {program, nullptr};
                NeedRefused(::execve(program, words, words), "execve");
                NeedRefused(::fork(), "fork");
                NeedRefused(::socket(AF_INET, SOCK_STREAM, 0), "socket");
                NeedRefused(::socket(AF_UNIX, SOCK_STREAM, 0), "socket of this machine");
                NeedRefused(::kill(::getppid(), 0), "kill");
                NeedRefused(::syscall(SYS_ptrace, 16, ::getppid(), 0, 0), "ptrace");
                NeedRefused(::syscall(SYS_ioctl, STDERR_FILENO, 0x5401, nullptr), "ioctl");
              }),
              testing::ExitedWithCode(0), "");
}

TEST_F(FolderLock, EndsAsTheProcessThatIsLockedInEnds) {
  if (!CanLockInBelow().ok()) return;  // a build with a sanitizer, or an old kernel
  EXPECT_EXIT(InChild([] { ::_exit(7); }), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(InChild([] { std::abort(); }), testing::KilledBySignal(SIGABRT), "");
}

TEST_F(FolderLock, IsNotThereForFoldersThatAreNotThere) {
  if (!CanLockInBelow().ok()) return;  // a build with a sanitizer, or an old kernel
  EXPECT_EXIT(
      {
        const absl::Status locked = GoOnLockedIn({{Path("gone")}, {}});
        Need(locked.ok(), MessageOf(locked));
        NeedRefused(::mkdir(Path("gone").c_str(), 0700), "make it");
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lightcone

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "base/cores.h"
#include "base/files.h"
#include "base/json_depth.h"
#include "base/number_text.h"
#include "base/status.h"
#include "base/utf8.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using ::testing::HasSubstr;

TEST(Status, AFieldErrorNamesFieldValueAndRangeAndCarriesThemApart) {
  const absl::Status status = InvalidField("k", "0", "1 .. 10000");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status), "field 'k' is 0; allowed: 1 .. 10000");
  const FieldErrorParts parts = PartsOf(status);
  EXPECT_EQ(parts.field, "k");
  EXPECT_EQ(parts.value, "0");
  EXPECT_EQ(parts.allowed, "1 .. 10000");
}

TEST(Status, AnnotationKeepsTheCodeAndTheParts) {
  const absl::Status status = Annotate(InvalidField("k", "0", "1 .. 5"), "search");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status), "search: field 'k' is 0; allowed: 1 .. 5");
  EXPECT_EQ(PartsOf(status).field, "k");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "search").ok());
  EXPECT_EQ(PartsOf(NotFound("x")).field, "");
}

TEST(JsonDepth, CountsBracketsOutsideOfTexts) {
  EXPECT_FALSE(JsonNestsDeeper("", 0));
  EXPECT_FALSE(JsonNestsDeeper("[[1],{\"a\":[2]}]", 3));
  EXPECT_TRUE(JsonNestsDeeper("[[1],{\"a\":[2]}]", 2));
  EXPECT_FALSE(JsonNestsDeeper("[\"[[[ \\\" [[[\"]", 1));
  EXPECT_TRUE(JsonNestsDeeper(std::string(1'000'000, '['), 64));
}

TEST(Files, Crc32cMeetsThePublishedVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);            // the check value of CRC-32C
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), Crc32c("123456789"));
}

TEST(Files, AnAtomicWriteReplacesTheFileAndLeavesNoTemporaryOne) {
  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  const std::string path = folder + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "two").ok());
  EXPECT_EQ(ReadFile(path).value(), "two");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  std::filesystem::remove_all(folder);
}

TEST(Files, ErrorsNameThePath) {
  const absl::Status missing = ReadFile("/nonexistent/file").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(missing), HasSubstr("'/nonexistent/file'"));
  const absl::Status folder = ReadFile("/tmp").status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write", "x").code(), absl::StatusCode::kResourceExhausted);
}

// Makes one system call fail with an error in the calling thread, for good.
bool LetFail(uint32_t call, uint32_t error) {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(steps), steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Files, AFileThatTheDiskHasLostIsDataLossAtEachStep) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path() + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "one").ok());
  using Code = absl::StatusCode;
  for (const int call : {SYS_openat, SYS_read}) {
    for (const auto& [error, code] :
         {std::pair(EIO, Code::kDataLoss), std::pair(EUCLEAN, Code::kDataLoss), std::pair(EBADMSG, Code::kDataLoss),
          std::pair(EMFILE, Code::kResourceExhausted), std::pair(ELOOP, Code::kInternal)}) {
      bool fails = false;
      absl::Status status;
      std::thread([&, error = error] {
        fails = LetFail(static_cast<uint32_t>(call), static_cast<uint32_t>(error));
        if (fails) status = ReadFile(path).status();
      }).join();
      ASSERT_TRUE(fails) << "no filter of system calls (Linux, CONFIG_SECCOMP_FILTER)";
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_THAT(MessageOf(status), HasSubstr(path));
    }
  }
}

TEST(Files, FoldersAreMadeWithAllThatLeadsToThem) {
  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  for (const char* path : {"/a/b/c", "/a/b/c", "/a/b/d/", "//e//f", "/a/../g"}) {
    EXPECT_TRUE(MakeFolders(folder + path).ok()) << path;
    EXPECT_TRUE(std::filesystem::is_directory(folder + path)) << path;
  }
  std::filesystem::create_directory_symlink("a", folder + "/link");
  EXPECT_TRUE(MakeFolders(folder + "/link/h").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder + "/a/h"));
  EXPECT_TRUE(MakeFolders(".").ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/file", "x").ok());
  for (const char* path : {"/file", "/file/a", "/file/a/b"}) {
    const absl::Status status = MakeFolders(folder + path);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(folder + path));
  }
  std::filesystem::remove_all(folder);
}

// What MakeFolders answers where a system call fails in its thread.
absl::Status MakeFoldersWithout(uint32_t call, uint32_t error, const std::string& folder) {
  bool fails = false;
  absl::Status status;
  std::thread([&] {
    fails = LetFail(call, error);
    if (fails) status = MakeFolders(folder);
  }).join();
  EXPECT_TRUE(fails) << "no filter of system calls (Linux, CONFIG_SECCOMP_FILTER)";
  return status;
}

TEST(Files, AFolderThatIsThereIsMadeDurableWhereItsParentMayBeRead) {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path() + "/a";
  std::filesystem::create_directories(folder + "/b");
  for (const char* path : {"", "/b", "/b/c"}) {
    const absl::Status status = MakeFoldersWithout(SYS_fsync, EIO, folder + path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << path;
    EXPECT_THAT(MessageOf(status), HasSubstr("fsync")) << path;
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/b/c"));
  for (const uint32_t error : {EACCES, EPERM}) {
    EXPECT_TRUE(MakeFoldersWithout(SYS_openat, error, folder).ok());
    EXPECT_FALSE(MakeFoldersWithout(SYS_openat, error, StrCat(folder, "/new-", error)).ok());
  }
  EXPECT_TRUE(MakeFoldersWithout(SYS_fsync, EIO, "/proc").ok());  // a mount point
}

TEST(Files, AFileAboveTheLimitIsRefused) {
  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  ASSERT_TRUE(WriteFileAtomically(folder + "/big", std::string(100, 'x')).ok());
  const absl::Status status = ReadFile(folder + "/big", 99).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("100 bytes; allowed: 0 .. 99"));
  std::filesystem::remove_all(folder);
}

TEST(Cores, ThoseThatTheThreadMayRunOnAreCounted) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(AvailableCores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(AvailableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(NumberText, HasTheFewestDigitsThatReadBackAsTheSameNumber) {
  EXPECT_EQ(NumberText(10), "10");
  EXPECT_EQ(NumberText(100'000), "100000");
  EXPECT_EQ(NumberText(0.0005), "0.0005");
  EXPECT_EQ(NumberText(1e15), "1e+15");
  EXPECT_EQ(NumberText(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(1e-5), "1e-05");
  EXPECT_EQ(NumberText(-0.0), "-0");
  for (const double x : {0.1 + 0.2, 1.0 / 3, 5e-324, std::numeric_limits<double>::max(), 1e-4 / 3,
                         0.00012345678901234567, 123456789012345.67, -999999999999999.9}) {
    EXPECT_EQ(std::strtod(NumberText(x).c_str(), nullptr), x) << NumberText(x);
  }
}

TEST(PercentText, HasThreeDigits) {
  EXPECT_EQ(PercentText(0), "0 %");
  EXPECT_EQ(PercentText(0.5), "50 %");
  EXPECT_EQ(PercentText(1.0 / 3), "33.3 %");
  EXPECT_EQ(PercentText(0.009), "0.9 %");
  EXPECT_EQ(PercentText(1), "100 %");
}

TEST(Utf8, IsCheckedToTheLetter) {
  for (const char* good : {"", "a", "\u00e9", "\u20ac", "\U0001f600", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "a\xff"}) {
    EXPECT_FALSE(IsUtf8(bad));
  }
  EXPECT_EQ(FirstNotUtf8("ab\xe2\x82"), 2u) << "the first byte of the character that is not one";
  EXPECT_EQ(CleanUtf8("ab\xe2\x82 \xc3\xa4\xff"), "ab?? \xc3\xa4?");
}

}  // namespace
}  // namespace lightcone

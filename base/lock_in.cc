#include "base/lock_in.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <vector>

#include "base/call_filter.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr int kDescriptorsMax = 65'536;  // descriptors that are closed one by one on old kernels

void CloseAllBut(std::span<const int> kept) {
  std::vector<int> sorted(kept.begin(), kept.end());
  std::sort(sorted.begin(), sorted.end());
  unsigned int first = STDERR_FILENO + 1;
  const auto close_up_to = [&first](unsigned int end) {  // the first that stays
    if (first < end && ::close_range(first, end - 1, 0) != 0) {
      for (unsigned int fd = first; fd < std::min<unsigned int>(end, kDescriptorsMax); ++fd) {
        ::close(static_cast<int>(fd));
      }
    }
    first = std::max(first, end + 1);
  };
  for (const int fd : sorted) {
    if (fd >= 0) close_up_to(static_cast<unsigned int>(fd));
  }
  close_up_to(UINT_MAX);
}

}  // namespace

absl::Status ParseLockMode(std::string_view name, std::string_view field, LockMode* mode) {
  const auto found = std::find(kLockModeNames.begin(), kLockModeNames.end(), name);
  if (found == kLockModeNames.end()) {
    return InvalidField(std::string(field), StrCat("'", name, "'"), "one of auto, require, off");
  }
  *mode = static_cast<LockMode>(found - kLockModeNames.begin());
  return absl::OkStatus();
}

absl::Status CanLockIn() { return CanFilterCalls(); }

absl::Status LockIn(std::span<const int> kept) {
  CloseAllBut(kept);
  LC_RETURN_IF_ERROR(FilterCalls(CallsAllowed::kOpenDescriptors));
  const int opened = ::open("/", O_RDONLY | O_CLOEXEC);
  if (opened < 0 && errno == EPERM) return absl::OkStatus();
  if (opened >= 0) ::close(opened);
  return FailedPrecondition("the kernel took a filter of system calls and goes by none");
}

}  // namespace lightcone

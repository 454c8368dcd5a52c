#include "base/programs.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr char kWaitPolicy[] = "OMP_WAIT_POLICY";

}  // namespace

std::string ProgramBeside(std::string_view name) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  return (own.parent_path() / name).string();
}

absl::Status BecomeProgram(std::string_view name, const char* const* argv) {
  const std::string path = ProgramBeside(name);
  ::setenv(kWaitPolicy, "passive", /*overwrite=*/0);  // else WaitPassively runs that program twice
  ::execv(path.c_str(), const_cast<char* const*>(argv));
  return NotFound(StrCat("cannot run '", path, "', the program that holds this command: ", std::strerror(errno),
                         "; install ", name, " into the same folder as lightcone"));
}

void WaitPassively(char** argv) {
  if (std::getenv(kWaitPolicy) != nullptr || ::setenv(kWaitPolicy, "passive", /*overwrite=*/0) != 0) return;
  ::execv("/proc/self/exe", argv);
}

}  // namespace lightcone

// Runs command lines and collects what they say. Each runs in a process of its own, forked from the test: all of the
// program but the second that the dynamic linker needs for the tensor library.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "cli/command_line.h"
#include "nlohmann/json.hpp"
#include "tests/store/temporary_folder.h"

namespace lightcone::cli {

inline std::string Binary() { return LIGHTCONE_BINARY_DIR "/bin/lightcone"; }

struct Outcome {
  int exit_code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

// `scratch`: a folder for the outputs. REQUIRES: this process has not used gRPC, which does not survive a fork.
inline Outcome RunProgram(const TemporaryFolder& scratch, std::vector<std::string> words,
                          const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  words.insert(words.begin(), "lightcone");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const std::string out = scratch / "stdout", err = scratch / "stderr";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    const bool redirected =
        std::freopen(out.c_str(), "w", stdout) != nullptr && std::freopen(err.c_str(), "w", stderr) != nullptr;
    const int code = redirected ? RunCommandLine(static_cast<int>(arguments.size()), arguments.data()) : 127;
    std::fflush(nullptr);
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = ReadFile(out).value();
  outcome.err = ReadFile(err).value();
  return outcome;
}

}  // namespace lightcone::cli

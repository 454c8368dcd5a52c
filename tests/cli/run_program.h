// Runs command lines and collects what they say: inside the test's process, which saves each the second that the
// dynamic linker needs for the tensor library, or, where a command wants a process of its own, with the built program.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "cli/research/commands.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/temporary_folder.h"

namespace lightcone::cli {

inline std::string Binary() { return LIGHTCONE_BINARY_DIR "/bin/lightcone"; }

struct Outcome {
  int exit_code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

// Sends what is written to a file descriptor into a file, until it goes.
class Redirection {
 public:
  Redirection(int fd, const std::string& path) : fd_(fd), saved_(::dup(fd)) {
    Flush();
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    EXPECT_GE(::dup2(file, fd_), 0) << path;
    ::close(file);
  }
  ~Redirection() {
    Flush();
    ::dup2(saved_, fd_);
    ::close(saved_);
  }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

 private:
  static void Flush() {
    std::fflush(nullptr);
    std::cout.flush();
    std::cerr.flush();
  }

  const int fd_;
  const int saved_;
};

// `scratch`: a folder for the outputs. For commands that neither serve nor change the process they run in.
inline Outcome RunHere(const TemporaryFolder& scratch, std::vector<std::string> words) {
  words.insert(words.begin(), "lightcone");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  Outcome outcome;
  {
    const Redirection out(STDOUT_FILENO, scratch / "stdout"), err(STDERR_FILENO, scratch / "stderr");
    outcome.exit_code = RunCommandLine(static_cast<int>(arguments.size()), arguments.data(), {ResearchCommands()});
  }
  outcome.out = ReadFile(scratch / "stdout").value();
  outcome.err = ReadFile(scratch / "stderr").value();
  return outcome;
}

// Waits for the end of a process and kills it when that takes longer than `limit`, which fails the test.
inline int AwaitExit(pid_t child, absl::Duration limit) {
  int status = 0;
  const absl::Time end = absl::Now() + limit;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (absl::Now() > end) {
      ADD_FAILURE() << "a command did not end within " << limit;
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The built program, or another one, in a process of its own; `environment` comes before what the test's has.
inline Outcome RunBinary(const TemporaryFolder& scratch, std::vector<std::string> words,
                         std::vector<std::string> environment = {}, absl::Duration limit = absl::Seconds(120),
                         const std::string& binary = Binary()) {
  words.insert(words.begin(), binary);
  for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  const std::string out = scratch / "stdout", err = scratch / "stderr";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t child = -1;
  const int error =
      ::posix_spawn(&child, binary.c_str(), &actions, nullptr, pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  Outcome outcome;
  EXPECT_EQ(error, 0) << "cannot start " << binary;
  if (error != 0) return outcome;
  outcome.exit_code = AwaitExit(child, limit);
  outcome.out = ReadFile(out).value();
  outcome.err = ReadFile(err).value();
  return outcome;
}

}  // namespace lightcone::cli

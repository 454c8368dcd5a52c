// Runs the real `lightcone` binary and collects what it says.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "tests/store/temporary_folder.h"

namespace lightcone::cli {

inline std::string Binary() { return LIGHTCONE_BINARY_DIR "/bin/lightcone"; }

struct Outcome {
  int exit_code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

inline std::string ShellQuoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// `scratch`: a folder for the outputs.
inline Outcome RunProgram(const TemporaryFolder& scratch, const std::vector<std::string>& words,
                          const std::string& environment = "") {
  std::string command = environment + " " + ShellQuoted(Binary());
  for (const std::string& word : words) command += " " + ShellQuoted(word);
  const std::string out = scratch / "stdout", err = scratch / "stderr";
  const int status = std::system((command + " >" + out + " 2>" + err + " </dev/null").c_str());
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = ReadFile(out).value();
  outcome.err = ReadFile(err).value();
  return outcome;
}

}  // namespace lightcone::cli

// A program in a process of its own that works for this one: at low priority, the first to go where memory runs out,
// and gone when the thread that started it is. Threads: the functions are safe from any thread; a TalkingChild belongs
// to one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lightcone {

struct ChildProgram {
  std::vector<std::string> words;  // [0]: its path
  // "NAME=VALUE", besides or in place of what it has of this process's own: search paths, language, temporary folder,
  // and what its libraries read. Secrets of this process's environment do not reach it.
  std::vector<std::string> environment;
  std::string output;            // file for what the program prints; written anew
  int niceness = 19;             // 0 .. 19: how far it stands back; 19: the idle class of sched(7)
  int64_t memory_bytes_max = 0;  // limit of its own writable memory; 0: no limit
  int64_t file_bytes_max = 0;    // length of a file that it writes, beyond which SIGXFSZ ends it; 0: no limit
};

// Runs the program to its end. Its exit code; 128 + the number of the signal that ended it. CANCELLED once `cancelled`
// says so: it is dead then. UNAVAILABLE when it cannot be started; errors of the output file.
// This process's memory is neither copied nor shared with it: starting it costs the same however much that is.
absl::StatusOr<int> RunChild(const ChildProgram& program, const std::function<bool()>& cancelled);

// A program that is talked with: its standard input and output are one connection to this process, and what it writes
// to its standard error stream goes into the output file.
class TalkingChild {
 public:
  // Errors as those of RunChild.
  static absl::StatusOr<std::unique_ptr<TalkingChild>> Start(const ChildProgram& program);
  ~TalkingChild() { End(absl::ZeroDuration()); }
  TalkingChild(const TalkingChild&) = delete;
  TalkingChild& operator=(const TalkingChild&) = delete;

  // How long all that follows may take together. Time in which its threads waited for a core, summed, counts for
  // nothing: a low priority on a busy machine is no fault of the program. REQUIRED before Write and Read.
  void Allow(absl::Duration limit, std::function<bool()> cancelled);
  // All of `bytes`. CANCELLED; DEADLINE_EXCEEDED; ABORTED: it has ended, or closed its side.
  absl::Status Write(std::string_view bytes);
  // Exactly so many. Errors as those of Write.
  absl::Status Read(char* out, size_t bytes);
  // Whether it has ended or closed its side, and left nothing to be read.
  bool Gone() const;
  // Gives it so long to end by itself, then ends it. How it ended, as RunChild says it; the same again when asked
  // again.
  int End(absl::Duration patience);

 private:
  TalkingChild(int pid, int end, int socket) : pid_(pid), end_(end), socket_(socket) {}
  // OK once the connection is ready for `events`.
  absl::Status Await(short events);

  int pid_;  // -1: reaped
  int end_;  // descriptor that is readable once the program has ended; -1 on old kernels
  int socket_;
  int code_ = -1;
  std::chrono::steady_clock::time_point begun_;
  absl::Duration limit_;
  std::function<bool()> cancelled_;
  // By thread, nanoseconds, when it was first waited for in vain.
  std::optional<std::map<std::string, int64_t>> starved_;
};

// The last line that is in a program's output, at most 500 bytes of it, as UTF-8 whatever it printed; empty where there
// is none.
std::string LastWords(const std::string& output);

}  // namespace lightcone

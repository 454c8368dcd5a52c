// Sequential reading and atomic writing of files that may be larger than memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::cli {

// Reads a regular file from start to end. Threads: one at a time.
class InputFile {
 public:
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads up to `count` bytes; fewer only at the end of the file.
  absl::StatusOr<size_t> Read(void* out, size_t count);
  // The next line without its line feed (and carriage return) into `line`; false at the end. A line longer than
  // `bytes_max` is INVALID_ARGUMENT.
  absl::StatusOr<bool> ReadLine(std::string* line, size_t bytes_max = size_t{1} << 28);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  int64_t bytes_read() const { return bytes_read_; }

 private:
  InputFile(std::string path, std::FILE* file, int64_t bytes);

  const std::string path_;
  std::FILE* const file_;
  const int64_t bytes_;
  int64_t bytes_read_ = 0;
};

// Writes PATH.partial; Commit renames it to PATH. Dropped without Commit, the partial file is removed.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(std::string_view bytes);
  // Writes over the first bytes of the file, for headers that are known last.
  absl::Status Overwrite(std::string_view bytes);
  // Flushes, fsyncs, renames, fsyncs the folder.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string partial, std::FILE* file);

  const std::string path_, partial_;
  std::FILE* file_;
};

}  // namespace lightcone::cli

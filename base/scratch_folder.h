// A folder for temporary files, which is removed with its content when the object is destroyed.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace lightcone {

// Threads: immutable.
class ScratchFolder {
 public:
  // Makes a folder whose name begins with lightcone-PURPOSE-. Errors of mkdtemp, with the path.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make(const std::string& purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace lightcone

// The file of `import --skip-invalid`: a JSON object a line for each row that was left out. Threads: one at a time.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::cli {

class SkippedRows {
 public:
  // `append`: the rows of an import that goes on are added to the file.
  static absl::StatusOr<std::unique_ptr<SkippedRows>> Open(const std::string& path, bool append);
  // `text`: the row's line, where the imported file has lines.
  absl::Status Write(int64_t row, const absl::Status& why, std::string_view text);
  int64_t count() const { return count_; }

 private:
  explicit SkippedRows(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::ofstream file_;
  int64_t count_ = 0;
};

}  // namespace lightcone::cli

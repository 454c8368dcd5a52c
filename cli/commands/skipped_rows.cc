#include "cli/commands/skipped_rows.h"

#include <cerrno>

#include "base/files.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {

absl::StatusOr<std::unique_ptr<SkippedRows>> SkippedRows::Open(const std::string& path, bool append) {
  auto skipped = std::unique_ptr<SkippedRows>(new SkippedRows(path));
  skipped->file_.open(path, append ? std::ios::app : std::ios::trunc);
  if (!skipped->file_) return ErrnoStatus(errno, "open", path);
  return skipped;
}

absl::Status SkippedRows::Write(int64_t row, const absl::Status& why, std::string_view text) {
  nlohmann::ordered_json json = {{"row", row}, {"reason", MessageOf(why)}};
  if (!text.empty()) json["text"] = std::string(text);
  file_ << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << std::endl;
  if (!file_) return ErrnoStatus(errno, "write", path_);
  ++count_;
  return absl::OkStatus();
}

}  // namespace lightcone::cli

// The readers behind OpenRows, one a format. Internal to cli/formats.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/formats/binary_file.h"
#include "cli/formats/rows.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {

absl::StatusOr<std::unique_ptr<RowReader>> OpenNpyRows(std::unique_ptr<InputFile> file);
// `element_bytes`: 4 (fvecs) or 1 (bvecs).
absl::StatusOr<std::unique_ptr<RowReader>> OpenVecsRows(std::unique_ptr<InputFile> file, int element_bytes);
absl::StatusOr<std::unique_ptr<RowReader>> OpenJsonlRows(std::unique_ptr<InputFile> file, const ReadOptions& options);

absl::StatusOr<std::unique_ptr<IdReader>> OpenIdLines(std::unique_ptr<InputFile> file, const ReadOptions& options);

// UTF-8 of U+FEFF.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// INVALID_ARGUMENT names the column and what is wrong there.
absl::StatusOr<nlohmann::json> ParseJsonLine(const std::string& line, int depth_max);

// Parses one jsonl line with "vector", and perhaps "id", "generation", "payload" and other fields. INVALID_ARGUMENT
// names the field.
absl::Status ParseJsonRow(const std::string& line, const ReadOptions& options, Row* row);
// Parses one line of an ids file.
absl::Status ParseIdLine(const std::string& line, const ReadOptions& options, Row* row);

// The text of a value of bounded depth, cut to a length that fits a message.
std::string Shown(const nlohmann::json& value);

// INVALID_ARGUMENT "vector[3] is NaN" when a value is not finite.
absl::Status CheckFinite(const std::vector<float>& vector);

}  // namespace lightcone::cli

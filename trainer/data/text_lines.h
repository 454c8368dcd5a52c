// Lists of data sets: lines of fields. Every error names the file and the line, as path:line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// One line of a list, valid during a visit.
struct TextLine {
  std::string_view what;  // path of the file
  int64_t number = 0;     // number of the line, from 1
  std::vector<std::string_view> fields;

  // DATA_LOSS "path:line: field 'F' is 'V'; allowed: A".
  absl::Status Error(std::string_view field, std::string_view value, std::string_view allowed) const;
  // Field `i` as a whole number in low .. high; `name` is for the message.
  absl::StatusOr<int64_t> Integer(size_t i, std::string_view name, int64_t low, int64_t high) const;
  // Field `i` as a path below a data folder: relative, without "..".
  absl::StatusOr<std::string> Path(size_t i, std::string_view name) const;
};

// Visits each line that is not blank, in order, up to the first error. The separator ' ' means any run of blanks and
// tabs; any other character separates exactly. A line with fewer than `fields_min` fields is an error.
absl::Status ForEachLine(std::string_view text, std::string_view what, char separator, size_t fields_min,
                         const std::function<absl::Status(const TextLine&)>& visit);

}  // namespace lightcone

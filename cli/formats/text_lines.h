// A line of a file of labelled texts. Threads: all functions are safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lightcone::cli {

struct TextLine {
  std::string id;     // id as people type it (ids.h)
  std::string label;  // label as JSON has it, without the quotes of a text
  std::string text;
};

// {"id": 7 or "a", "label": "cat" or 3, "text": "..."}; other fields are passed over. INVALID_ARGUMENT names the field
// and what is allowed.
absl::StatusOr<TextLine> ParseTextLine(const std::string& line);

}  // namespace lightcone::cli

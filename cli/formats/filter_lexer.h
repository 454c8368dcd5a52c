// Splits the text form of a filter into tokens. Used by filter_parser.cc only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::cli {

enum class TokenKind { kWord, kQuotedField, kText, kInteger, kNumber, kSymbol, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;       // text as written, unquoted for kText and kQuotedField
  std::string path = {};  // the path that the token is where a field stands; not of other kinds and single quotes
  size_t position = 0;    // byte offset in the source
  int64_t integer = 0;    // kInteger
  double number = 0;      // kNumber
};

// The error at byte `position` of `text`: `what`, the column, and the text with a caret.
absl::Status FilterError(std::string_view text, size_t position, std::string_view what);

// The tokens of `text`, the last of them kEnd. INVALID_ARGUMENT (FilterError) for a text without its closing quote, an
// unknown escape or character, hexadecimal numbers, integers beyond int64, numbers beyond double.
absl::StatusOr<std::vector<Token>> LexFilter(std::string_view text);

}  // namespace lightcone::cli

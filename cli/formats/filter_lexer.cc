#include "cli/formats/filter_lexer.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/status.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
// Bytes of UTF-8 letters count as letters: field names of every language go without quotes.
bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c) || c == '-' || c == '.'; }

// A key of a payload as a path of the wire quotes it.
std::string QuotedKey(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> Run() {
    if (const auto bad = FirstNotUtf8(text_)) {  // The message shows the text up to that byte.
      return FilterError(text_.substr(0, *bad), *bad, "a byte that is not UTF-8");
    }
    std::vector<Token> tokens;
    for (;;) {
      while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
      if (at_ == text_.size()) break;
      LC_ASSIGN_OR_RETURN(Token token, Next());
      tokens.push_back(std::move(token));
    }
    Token end;
    end.position = text_.size();
    tokens.push_back(std::move(end));
    return tokens;
  }

 private:
  absl::StatusOr<Token> Next() {
    const char c = text_[at_];
    if (IsWordStart(c)) return Word();
    if (IsDigit(c) || c == '-' || c == '+' || c == '.') return Number();
    if (c == '"' || c == '\'') return TextOrPath(c);
    if (c == '`') return Quoted(c, TokenKind::kQuotedField);
    for (const std::string_view symbol : {"==", "!=", "<=", ">=", "=", "<", ">", "(", ")", ","}) {
      if (text_.substr(at_).starts_with(symbol)) return Take(TokenKind::kSymbol, symbol.size());
    }
    return FilterError(text_, at_, StrCat("unexpected character '", std::string(1, c), "'"));
  }

  Token Take(TokenKind kind, size_t bytes) {
    Token token;
    token.kind = kind;
    token.position = at_;
    token.text = text_.substr(at_, bytes);
    at_ += bytes;
    return token;
  }

  // A word, and the parts in double quotes that dots join to it.
  absl::StatusOr<Token> Word() {
    size_t end = at_ + 1;
    while (end < text_.size() && IsWordPart(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.find("..") != std::string_view::npos) return EmptyPart(word);
    if (word.back() != '.') {
      Token token = Take(TokenKind::kWord, word.size());
      token.path = token.text;
      return token;
    }
    if (end == text_.size() || text_[end] != '"') return EmptyPart(word);
    return PathFrom(at_, std::string(word), end);
  }

  absl::Status EmptyPart(std::string_view word) const {
    return FilterError(text_, at_,
                       StrCat("'", word, "' is no field: a part of its path is empty (an empty key is \"\")"));
  }

  // The rest of a path with parts in double quotes. `path` was read from `start` on; the next part begins at `next`.
  absl::StatusOr<Token> PathFrom(size_t start, std::string path, size_t next) {
    for (at_ = next;;) {
      if (at_ < text_.size() && text_[at_] == '"') {
        LC_ASSIGN_OR_RETURN(const Token part, Quoted('"', TokenKind::kText));
        path += part.path;
      } else {
        const size_t begin = at_;
        while (at_ < text_.size() && IsWordPart(text_[at_]) && text_[at_] != '.') ++at_;
        const std::string_view word = text_.substr(begin, at_ - begin);
        if (word.empty()) return FilterError(text_, begin, "expected a part of a path behind the dot");
        path += word;
      }
      if (at_ == text_.size() || text_[at_] != '.') break;
      path += '.';
      ++at_;
    }
    Token token = {.kind = TokenKind::kQuotedField, .text = path, .position = start};
    token.path = std::move(path);
    return token;
  }

  // A number is everything up to the next character that cannot belong to one, so that "12abc" and "0x10" are refused
  // as a whole instead of being read up to the first odd letter.
  absl::StatusOr<Token> Number() {
    size_t end = at_ + 1;
    while (end < text_.size() && (IsWordPart(text_[end]) || (text_[end] == '+' && (text_[end - 1] | 0x20) == 'e')))
      ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    const std::string_view digits = word.starts_with('-') ? word.substr(1) : word;
    const auto refuse = [&](std::string_view why) { return FilterError(text_, at_, StrCat("'", word, "' ", why)); };
    if (digits.size() > 1 && digits[0] == '0' && (digits[1] | 0x20) == 'x') {
      return refuse("is hexadecimal; write numbers in decimal");
    }
    if (digits.empty() || !IsDigit(digits[0])) return refuse("is no number");
    if (digits.size() > 1 && digits[0] == '0' && IsDigit(digits[1])) return refuse("begins with a zero");
    Token token = {.kind = TokenKind::kInteger, .text = std::string(word), .position = at_};
    const char* last = word.data() + word.size();
    const auto integer = std::from_chars(word.data(), last, token.integer);
    if (integer.ptr == last && integer.ec == std::errc::result_out_of_range) {
      return refuse("is beyond a 64-bit integer; allowed: -9223372036854775808 .. 9223372036854775807");
    }
    if (integer.ptr != last || integer.ec != std::errc()) {
      token.kind = TokenKind::kNumber;
      const auto number = std::from_chars(word.data(), last, token.number);
      if (number.ptr != last || word.back() == '.') return refuse("is no number");
      if (number.ec != std::errc() || !std::isfinite(token.number)) return refuse("is beyond a 64-bit float");
    }
    at_ = end;
    return token;
  }

  // A text, or a path that begins with a part in double quotes and goes on behind a dot.
  absl::StatusOr<Token> TextOrPath(char quote) {
    const size_t start = at_;
    LC_ASSIGN_OR_RETURN(Token token, Quoted(quote, TokenKind::kText));
    if (quote != '"' || at_ == text_.size() || text_[at_] != '.') return token;
    return PathFrom(start, token.path + ".", at_ + 1);
  }

  // Backslash escapes are JSON's; in single quotes and backquotes that quote may be escaped too.
  absl::StatusOr<Token> Quoted(char quote, TokenKind kind) {
    const size_t start = at_;
    std::string json = "\"";
    size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != quote; ++i) {
      if (text_[i] == '\\' && i + 1 < text_.size()) {
        if (text_[i + 1] != quote || quote == '"') json += '\\';
        json += text_[++i];
      } else {
        if (text_[i] == '"') json += '\\';
        json += text_[i];
      }
    }
    if (i >= text_.size()) return FilterError(text_, start, "a text without its closing quote");
    json += '"';
    const nlohmann::json value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!value.is_string()) return FilterError(text_, start, "a text with an unknown escape or broken UTF-8");
    Token token = {.kind = kind, .text = value.get<std::string>(), .position = start};
    if (kind == TokenKind::kQuotedField && token.text.empty()) return FilterError(text_, start, "an empty field name");
    at_ = i + 1;
    if (kind == TokenKind::kQuotedField) token.path = token.text;
    if (quote == '"') token.path = QuotedKey(token.text);
    return token;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::Status FilterError(std::string_view text, size_t position, std::string_view what) {
  size_t column = 1;
  for (size_t i = 0; i < position && i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++column;
  }
  std::string shown(text);
  for (char& c : shown) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return InvalidArgument(
      StrCat("filter, column ", column, ": ", what, "\n  ", shown, "\n  ", std::string(column - 1, ' '), "^"));
}

absl::StatusOr<std::vector<Token>> LexFilter(std::string_view text) { return Lexer(text).Run(); }

}  // namespace lightcone::cli

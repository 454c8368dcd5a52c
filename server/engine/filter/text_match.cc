#include "server/engine/filter/text_match.h"

#include <algorithm>
#include <cstdint>

#include "base/dcheck.h"

namespace lightcone::server {
namespace {

struct CodeRange {
  uint32_t first = 0, last = 0;
};

// What separates words beyond ASCII: the blocks of punctuation, spaces and symbols that texts commonly hold.
constexpr CodeRange kSeparators[] = {
    {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},     {0xbb, 0xbf},     {0xd7, 0xd7},       {0xf7, 0xf7},
    {0x2000, 0x206f}, {0x20a0, 0x20cf}, {0x2190, 0x2bff}, {0x3000, 0x3004}, {0x3008, 0x3020},   {0xfe30, 0xfe4f},
    {0xff00, 0xff0f}, {0xff1a, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xff65}, {0x1f000, 0x1faff},
};

bool IsAsciiWordPart(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The code point at `at` and its bytes; broken UTF-8 is a separator of one byte.
std::pair<uint32_t, size_t> CodeAt(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (bytes == 0 || at + bytes > text.size()) return {' ', 1};
  uint32_t code = bytes == 1 ? lead : lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xc0) != 0x80) return {' ', 1};
    code = code << 6 | (next & 0x3f);
  }
  return {code, bytes};
}

bool IsWordPartAt(uint32_t code) {
  if (code < 0x80) return IsAsciiWordPart(static_cast<unsigned char>(code));
  return std::none_of(std::begin(kSeparators), std::end(kSeparators),
                      [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

// Calls visit(word) for one word after the other until it says false.
template <typename Visit>
void ForEachWord(std::string_view text, const Visit& visit) {
  std::string word;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = CodeAt(text, at);
    if (IsWordPartAt(code)) {
      for (size_t i = 0; i < bytes; ++i) {
        const char c = text[at + i];
        word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
    } else if (!word.empty()) {
      if (!visit(word)) return;
      word.clear();
    }
    at += bytes;
  }
  if (!word.empty()) visit(word);
}

}  // namespace

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  ForEachWord(text, [&](const std::string& word) {
    words.push_back(word);
    return true;
  });
  return words;
}

bool HasAllWords(std::string_view text, std::span<const std::string> words) {
  LC_DCHECK(std::is_sorted(words.begin(), words.end()));
  std::vector<std::string> there = WordsOf(text);
  std::sort(there.begin(), there.end());
  there.erase(std::unique(there.begin(), there.end()), there.end());
  return std::includes(there.begin(), there.end(), words.begin(), words.end());
}

bool HasAnyWord(std::string_view text, std::span<const std::string> words) {
  LC_DCHECK(std::is_sorted(words.begin(), words.end()));
  bool any = false;
  ForEachWord(text, [&](const std::string& word) {
    any = std::binary_search(words.begin(), words.end(), word);
    return !any;
  });
  return any;
}

bool HasPhrase(std::string_view text, std::span<const std::string> words) {
  const std::vector<std::string> there = WordsOf(text);
  return std::search(there.begin(), there.end(), words.begin(), words.end()) != there.end();
}

}  // namespace lightcone::server

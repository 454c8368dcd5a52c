// Texts of others, without the secrets that they may repeat. Threads: pure function.
#pragma once

#include <string>
#include <string_view>

namespace lightcone {

// `text` with "[key]" in place of the key; unchanged where the key is empty. Takes time in proportion to the text,
// which others may make as long and as full of keys as they like.
inline std::string WithoutKey(std::string text, std::string_view key) {
  constexpr std::string_view kMark = "[key]";
  if (key.empty() || text.find(key) == std::string::npos) return text;
  std::string out;
  size_t begin = 0;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, begin)) {
    out.append(text, begin, at - begin).append(kMark);
    begin = at + key.size();
  }
  out.append(text, begin);
  return out;
}

}  // namespace lightcone

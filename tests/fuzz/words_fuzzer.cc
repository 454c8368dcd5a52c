// Any bytes as a text and, behind the first line, as the words that a condition asks for: a word is one word, and the
// three ways to compare agree with the list of words.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine/filter/text_match.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;  // NOLINT: a file of one function
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  const std::string_view text = bytes.substr(0, line);
  const std::vector<std::string> there = WordsOf(text);
  std::string joined;
  for (const std::string& word : there) joined += word + " ";
  if (joined.size() > 2 * text.size() + 1 || WordsOf(joined) != there) std::abort();
  if (!there.empty() && !HasPhrase(text, there)) std::abort();
  std::vector<std::string> words = WordsOf(bytes.substr(line));
  const bool phrase = !words.empty() && HasPhrase(text, words);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  const auto is_there = [&](const std::string& word) {
    return std::find(there.begin(), there.end(), word) != there.end();
  };
  const bool all = HasAllWords(text, words);
  if (all != std::all_of(words.begin(), words.end(), is_there) || (phrase && !all)) std::abort();
  if (HasAnyWord(text, words) != std::any_of(words.begin(), words.end(), is_there)) std::abort();
  return 0;
}

// Words of texts, as conditions on texts compare them: runs of letters and digits, where letters of ASCII are equal in
// both cases. Beyond ASCII, everything but punctuation, spaces and symbols counts as a letter.
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lightcone::server {

// The words of a text in UTF-8, with letters of ASCII in lower case.
std::vector<std::string> WordsOf(std::string_view text);

// Whether all of the words, or any of them, or all of them one behind the other, are in the text.
// REQUIRES: `words` are of WordsOf; for the first two ascending, each once.
bool HasAllWords(std::string_view text, std::span<const std::string> words);
bool HasAnyWord(std::string_view text, std::span<const std::string> words);
bool HasPhrase(std::string_view text, std::span<const std::string> words);

}  // namespace lightcone::server

// The functions, classes and trailing comments of a C++ file, found by its braces: enough for rules of size, no
// compiler. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lightcone::tidy {

struct Function {
  std::string head;       // the signature, white space folded
  size_t first_line = 0;  // of the signature; lines count from 1
  size_t last_line = 0;   // of the closing brace

  size_t Lines() const { return last_line - first_line + 1; }
};

struct Class {
  std::string name;
  size_t line = 0;            // of its opening brace
  size_t methods = 0;         // declared or defined in the class, constructors and operators included
  size_t guarded_fields = 0;  // fields with ABSL_GUARDED_BY
};

struct TrailingComment {
  std::string text;
  size_t line = 0;
};

struct Outline {
  std::vector<Function> functions;  // free ones and methods, wherever their bodies stand; lambdas are part of them
  std::vector<Class> classes;
  std::vector<TrailingComment> comments;  // those that stand behind code on its line
};

Outline OutlineOf(std::string_view text);

// Whether a trailing comment is neither a noun phrase with its noun nor a sentence with its subject: it begins with a
// preposition, a conjunction, a relative word or a bare pronoun, or ends with one that stands for a noun elsewhere.
bool IsFragment(std::string_view comment);

}  // namespace lightcone::tidy

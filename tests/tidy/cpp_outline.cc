#include "tests/tidy/cpp_outline.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

namespace lightcone::tidy {
namespace {

// The text with comments, strings, characters and preprocessor lines blanked, of the same length and lines.
struct Blanked {
  std::string code;
  std::vector<TrailingComment> comments;
};

class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), code_(text) {}

  Blanked Run() {
    while (at_ < text_.size()) Step();
    return {std::move(code_), std::move(comments_)};
  }

 private:
  void Step() {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
      line_has_code_ = false;
    } else if (!line_has_code_ && c == '#') {
      Directive();
    } else if (text_.substr(at_, 2) == "//") {
      Comment();
    } else if (text_.substr(at_, 2) == "/*") {
      Blank(std::min(text_.find("*/", at_), text_.size() - 2) + 2);
    } else if (text_.substr(at_, 2) == "R\"") {
      const size_t open = text_.find('(', at_);
      const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
      Blank(text_.find(close, open) + close.size());
    } else if (c == '"' || (c == '\'' && !IsDigitSeparator())) {
      Quoted(c);
    } else {
      if (!std::isspace(static_cast<unsigned char>(c))) line_has_code_ = true;
      ++at_;
    }
  }

  bool IsDigitSeparator() const {
    return at_ > 0 && std::isxdigit(static_cast<unsigned char>(text_[at_ - 1])) && at_ + 1 < text_.size() &&
           std::isxdigit(static_cast<unsigned char>(text_[at_ + 1])) &&
           (at_ + 2 >= text_.size() || text_[at_ + 2] != '\'');
  }

  void Directive() {
    size_t end = at_;
    while (end < text_.size() && (text_[end] != '\n' || text_[end - 1] == '\\')) ++end;
    Blank(end);
  }

  void Comment() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    if (line_has_code_ && text_.substr(at_, 12) != "// namespace" && text_.substr(at_, 9) != "// NOLINT") {
      std::string words(text_.substr(at_ + 2, end - at_ - 2));
      words.erase(0, words.find_first_not_of(' '));
      comments_.push_back({std::move(words), line_});
    }
    Blank(end);
  }

  void Quoted(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    line_has_code_ = true;
    Blank(std::min(end + 1, text_.size()));
  }

  // Blanks up to `end`; what is in the place of a string stays a word, so that an argument remains one.
  void Blank(size_t end) {
    for (; at_ < end; ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        line_has_code_ = false;
      } else {
        code_[at_] = ' ';
      }
    }
  }

  const std::string_view text_;
  std::string code_;
  std::vector<TrailingComment> comments_;
  size_t at_ = 0, line_ = 1;
  bool line_has_code_ = false;
};

std::string Folded(std::string_view text) {
  std::string folded;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) {
      folded += c;
    } else if (!folded.empty() && folded.back() != ' ') {
      folded += ' ';
    }
  }
  while (!folded.empty() && folded.back() == ' ') folded.pop_back();
  return folded;
}

// A head without macros of lock annotations and without template arguments, whose parentheses are no parameter list.
std::string Bare(std::string head) {
  static const std::regex annotation(
      R"((ABSL_[A-Z_]+|alignas|__attribute__|decltype|explicit)\s*\([^()]*(\([^()]*\))*[^()]*\))");
  head = std::regex_replace(head, annotation, " ");
  std::string bare;
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    const char c = head[i];
    const bool operator_name = bare.ends_with("operator") || bare.ends_with("operator<") || bare.ends_with("operator-");
    if (c == '<' && !operator_name) {
      ++depth;
    } else if (c == '>' && depth > 0) {
      --depth;
    } else if (depth == 0) {
      bare += c;
    }
  }
  return bare;
}

enum class Kind { kNamespace, kClass, kFunction, kOther };

struct Scope {
  Kind kind = Kind::kOther;
  size_t index = 0;        // the class in the outline
  std::string outer_head;  // what stood before the brace, for a brace that turns out to be an initialiser
  size_t outer_line = 0;
};

class Outliner {
 public:
  explicit Outliner(std::string_view text) {
    Blanked blanked = Blanker(text).Run();
    code_ = std::move(blanked.code);
    outline_.comments = std::move(blanked.comments);
  }

  Outline Run() {
    for (at_ = 0; at_ < code_.size(); ++at_) Step(code_[at_]);
    return std::move(outline_);
  }

 private:
  void Step(char c) {
    if (c == '\n') ++line_;
    if (c == '(') ++parentheses_;
    if (c == ')') --parentheses_;
    if (c == '{') return Open();
    if (c == '}') return Close();
    if (!Declares()) return;
    if (c == ';' && parentheses_ == 0) return EndDeclaration();
    if (c == ':' && IsAccess()) return StartHead();
    if (head_.empty() && !std::isspace(static_cast<unsigned char>(c))) head_line_ = line_;
    if (!head_.empty() || !std::isspace(static_cast<unsigned char>(c))) head_ += c;
  }

  // Whether declarations stand here, and not a function's statements.
  bool Declares() const { return scopes_.empty() || scopes_.back().kind <= Kind::kClass; }

  bool IsAccess() const {
    const std::string head = Folded(head_);
    return head == "public" || head == "private" || head == "protected";
  }

  void StartHead() {
    head_.clear();
    head_line_ = line_;
  }

  Kind KindOfBrace() const {
    static const std::regex space(R"(^(inline )?(namespace\b|extern *$))"),
        type(R"(^(typedef )?(class|struct|union|enum)\b)");
    const std::string bare = Folded(std::regex_replace(Bare(head_), std::regex(R"(^\s*template\s*)"), ""));
    if (parentheses_ > 0) return Kind::kOther;
    if (std::regex_search(bare, space)) return Kind::kNamespace;
    if (std::regex_search(bare, type) && bare.find('(') == std::string::npos) return Kind::kClass;
    const size_t open = bare.find('('), equals = bare.find('=');
    const bool named_operator = bare.find("operator") != std::string::npos;
    if (open != std::string::npos && (equals == std::string::npos || equals > open || named_operator))
      return Kind::kFunction;
    return Kind::kOther;
  }

  void Open() {
    Scope scope;
    scope.outer_head = head_;
    scope.outer_line = head_line_;
    if (Declares()) {
      scope.kind = KindOfBrace();
      if (scope.kind == Kind::kFunction) {
        outline_.functions.push_back({Folded(head_), head_line_, line_});
        CountMethod();
      } else if (scope.kind == Kind::kClass) {
        scope.index = outline_.classes.size();
        outline_.classes.push_back({Folded(head_), line_, 0, 0});
      }
    }
    scopes_.push_back(std::move(scope));
    parentheses_stack_.push_back(parentheses_);
    parentheses_ = 0;
    StartHead();
  }

  void Close() {
    if (scopes_.empty()) return;
    const Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    parentheses_ = parentheses_stack_.back();
    parentheses_stack_.pop_back();
    const size_t next = code_.find_first_not_of(" \n\t", at_ + 1);
    const char after = next == std::string::npos ? ' ' : code_[next];
    StartHead();
    if (scope.kind == Kind::kFunction) {
      if (after == ',' || after == '{') {  // the brace was an initialiser of a constructor's member
        outline_.functions.pop_back();
        UncountMethod();
        Restore(scope);
      } else {
        outline_.functions.back().last_line = line_;
      }
    } else if (scope.kind == Kind::kOther && Declares()) {
      Restore(scope);  // a field's or variable's initialiser: the declaration goes on
      head_ += " {} ";
    }
  }

  void Restore(const Scope& scope) {
    head_ = scope.outer_head;
    head_line_ = scope.outer_line;
  }

  Class* Enclosing() {
    if (scopes_.empty() || scopes_.back().kind != Kind::kClass) return nullptr;
    return &outline_.classes[scopes_.back().index];
  }

  void CountMethod() {
    if (Class* const inside = Enclosing()) ++inside->methods;
  }
  void UncountMethod() {
    if (Class* const inside = Enclosing()) --inside->methods;
  }

  void EndDeclaration() {
    if (Class* const inside = Enclosing()) {
      const std::string bare = Folded(Bare(head_));
      const size_t open = bare.find('('), equals = bare.find('=');
      const bool declares_function = open != std::string::npos && (equals == std::string::npos || equals > open ||
                                                                   bare.find("operator") != std::string::npos);
      if (head_.find("ABSL_GUARDED_BY") != std::string::npos) {
        ++inside->guarded_fields;
      } else if (declares_function && !bare.starts_with("using") && !bare.starts_with("static_assert")) {
        ++inside->methods;
      }
    }
    StartHead();
  }

  std::string code_;
  Outline outline_;
  std::vector<Scope> scopes_;
  std::vector<int> parentheses_stack_;
  std::string head_;  // of the declaration at hand
  size_t head_line_ = 1, line_ = 1, at_ = 0;
  int parentheses_ = 0;
};

}  // namespace

Outline OutlineOf(std::string_view text) { return Outliner(text).Run(); }

bool IsFragment(std::string_view comment) {
  static const std::set<std::string> begins = {
      "of",      "that",    "which",   "who",      "whose",   "whom",   "in",     "by",     "for",      "from",
      "with",    "without", "to",      "at",       "on",      "as",     "since",  "until",  "till",     "when",
      "where",   "while",   "if",      "unless",   "because", "after",  "before", "than",   "it",       "its",
      "them",    "they",    "their",   "one",      "ones",    "those",  "these",  "this",   "and",      "or",
      "but",     "so",      "then",    "nor",      "only",    "also",   "again",  "both",   "neither",  "beside",
      "besides", "beyond",  "between", "among",    "below",   "above",  "under",  "over",   "into",     "onto",
      "out",     "off",     "about",   "against",  "along",   "around", "per",    "like",   "such",     "once",
      "what",    "how",     "why",     "likewise", "same",    "here",   "lest",   "though", "although", "except"};
  static const std::regex word("^[A-Za-z']+");
  static const std::regex ending(
      R"(\b(of|for|by|with|to|from|in|at|on|than|beside) (it|them|this|that|those|these|one|its|both)[.;,]?$)");
  const std::string text(comment);
  std::smatch first;
  if (std::regex_search(text, first, word)) {
    std::string lower = first[0];
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (begins.contains(lower)) return true;
  }
  return std::regex_search(text, ending);
}

}  // namespace lightcone::tidy

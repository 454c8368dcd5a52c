#include "cli/formats/filter_parser.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/formats/filter_lexer.h"

namespace lightcone::cli {
namespace {

// The server takes filters 32 deep; the parser stops a little later, before its own recursion could hurt.
constexpr int kFilterDepthMax = 40;

constexpr std::string_view kComparisons[] = {"=", "==", "!=", "<", "<=", ">", ">="};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Recursive descent:  or := and { "or" and }   and := unary { "and" unary }   unary := "not" unary | condition
class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens) : text_(text), tokens_(std::move(tokens)) {}

  absl::StatusOr<v1::Filter> Run() {
    if (Here().kind == TokenKind::kEnd) return FilterError(text_, 0, "an empty filter; expected a condition");
    LC_ASSIGN_OR_RETURN(v1::Filter filter, ParseOr(0));
    if (Here().kind != TokenKind::kEnd) return Unexpected("'and', 'or' or the end");
    return filter;
  }

 private:
  const Token& Here() const { return tokens_[at_]; }
  bool IsKeyword(std::string_view word) const { return Here().kind == TokenKind::kWord && Lower(Here().text) == word; }
  bool IsSymbol(std::string_view symbol) const { return Here().kind == TokenKind::kSymbol && Here().text == symbol; }
  bool TakeKeyword(std::string_view word) { return IsKeyword(word) && ++at_ > 0; }
  bool TakeSymbol(std::string_view symbol) { return IsSymbol(symbol) && ++at_ > 0; }

  absl::Status Unexpected(std::string_view expected) const {
    const Token& token = Here();
    const std::string found = token.kind == TokenKind::kEnd ? "the end" : StrCat("'", token.text, "'");
    return FilterError(text_, token.position, StrCat("expected ", expected, ", found ", found));
  }

  absl::StatusOr<v1::Filter> ParseOr(int depth) {
    LC_ASSIGN_OR_RETURN(v1::Filter first, ParseAnd(depth));
    if (!IsKeyword("or")) return first;
    v1::Filter filter;
    *filter.mutable_or_()->add_of() = std::move(first);
    while (TakeKeyword("or")) {
      LC_ASSIGN_OR_RETURN(*filter.mutable_or_()->add_of(), ParseAnd(depth));
    }
    return filter;
  }

  absl::StatusOr<v1::Filter> ParseAnd(int depth) {
    LC_ASSIGN_OR_RETURN(v1::Filter first, ParseUnary(depth));
    if (!IsKeyword("and")) return first;
    v1::Filter filter;
    *filter.mutable_and_()->add_of() = std::move(first);
    while (TakeKeyword("and")) {
      LC_ASSIGN_OR_RETURN(*filter.mutable_and_()->add_of(), ParseUnary(depth));
    }
    return filter;
  }

  absl::StatusOr<v1::Filter> ParseUnary(int depth) {
    if (depth > kFilterDepthMax)
      return FilterError(text_, Here().position, "the filter is nested too deeply; allowed: 32");
    if (TakeKeyword("not")) {
      LC_ASSIGN_OR_RETURN(v1::Filter inner, ParseUnary(depth + 1));
      return Not(std::move(inner));
    }
    if (TakeSymbol("(")) {
      LC_ASSIGN_OR_RETURN(v1::Filter inner, ParseOr(depth + 1));
      if (!TakeSymbol(")")) return Unexpected("'and', 'or' or ')'");
      return inner;
    }
    return ParseCondition(depth);
  }

  static v1::Filter Not(v1::Filter inner) {
    v1::Filter filter;
    *filter.mutable_not_() = std::move(inner);
    return filter;
  }

  absl::StatusOr<std::string> TakeField() {
    const Token& token = Here();
    if (token.kind == TokenKind::kWord) {
      for (const char* word : {"and", "or", "not", "in", "exists", "true", "false", "null"}) {
        if (Lower(token.text) == word) return Unexpected("a field");
      }
    } else if (token.path.empty()) {
      return Unexpected(token.kind == TokenKind::kText ? "a field (keys with odd characters go in \"double quotes\")"
                                                       : "a field");
    }
    ++at_;
    return token.path;
  }

  // A keyword with its argument in brackets. Without the bracket the word is a field.
  bool IsFunction(std::string_view name) const {
    const Token& next = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    return IsKeyword(name) && next.kind == TokenKind::kSymbol && next.text == "(";
  }

  absl::StatusOr<std::string> TakeArgument() {
    at_ += 2;
    LC_ASSIGN_OR_RETURN(std::string field, TakeField());
    if (!TakeSymbol(")")) return Unexpected("')'");
    return field;
  }

  // The field of a function that has more arguments.
  absl::StatusOr<std::string> TakeFirstArgument() {
    at_ += 2;
    LC_ASSIGN_OR_RETURN(std::string field, TakeField());
    if (!TakeSymbol(",")) return Unexpected("','");
    return field;
  }

  absl::StatusOr<v1::Filter> ParseCondition(int depth) {
    v1::Filter filter;
    if (IsFunction("exists")) {
      LC_ASSIGN_OR_RETURN(*filter.mutable_exists()->mutable_field(), TakeArgument());
      return filter;
    }
    if (IsKeyword("exists")) return ++at_, Unexpected("'(' after 'exists'");
    if (IsFunction("is_null")) {
      LC_ASSIGN_OR_RETURN(*filter.mutable_is_null()->mutable_field(), TakeArgument());
      return filter;
    }
    if (IsFunction("is_empty")) {
      LC_ASSIGN_OR_RETURN(*filter.mutable_is_empty()->mutable_field(), TakeArgument());
      return filter;
    }
    if (IsFunction("values_count")) return ParseCount();
    if (IsFunction("has_id")) return ParseIds();
    if (IsFunction("nested")) return ParseNested(depth);
    if (IsFunction("geo_polygon")) return ParsePolygon();
    if (IsFunction("geo_radius") || IsFunction("geo_box")) return ParsePlace();
    for (const std::string_view name : {"words", "prefix", "any_word", "phrase"}) {
      if (IsFunction(name)) return ParseText(name);
    }
    LC_ASSIGN_OR_RETURN(const std::string field, TakeField());
    const bool negated = TakeKeyword("not");
    if (TakeKeyword("in")) {
      LC_RETURN_IF_ERROR(ParseMembers(field, filter.mutable_in()));
      return negated ? Not(std::move(filter)) : filter;
    }
    if (negated) return Unexpected("'in' after 'not'");
    if (TakeSymbol("=") || TakeSymbol("==") || IsSymbol("!=")) {
      const bool differs = TakeSymbol("!=");
      filter.mutable_equals()->set_field(field);
      LC_ASSIGN_OR_RETURN(*filter.mutable_equals()->mutable_value(), TakeValue());
      return differs ? Not(std::move(filter)) : filter;
    }
    return ParseRange(field);
  }

  absl::Status ParseMembers(const std::string& field, v1::FilterIn* in) {
    in->set_field(field);
    if (!TakeSymbol("(")) return Unexpected("'(' after 'in'");
    do {
      LC_ASSIGN_OR_RETURN(*in->add_values(), TakeValue());
    } while (TakeSymbol(","));
    return TakeSymbol(")") ? absl::OkStatus() : Unexpected("',' or ')'");
  }

  absl::StatusOr<v1::Filter> ParseRange(const std::string& field) {
    v1::Filter filter;
    v1::FilterRange* range = filter.mutable_range();
    range->set_field(field);
    v1::FilterValue* bound = nullptr;
    if (TakeSymbol(">=")) {
      bound = range->mutable_greater_equal();
    } else if (TakeSymbol(">")) {
      bound = range->mutable_greater();
    } else if (TakeSymbol("<=")) {
      bound = range->mutable_less_equal();
    } else if (TakeSymbol("<")) {
      bound = range->mutable_less();
    } else {
      return Unexpected("one of = != < <= > >= in");
    }
    const size_t position = Here().position;
    LC_ASSIGN_OR_RETURN(*bound, TakeValue());
    if (bound->kind_case() == v1::FilterValue::kBoolean) {
      return FilterError(text_, position, "true and false have no order; compare them with = or !=");
    }
    return filter;
  }

  absl::StatusOr<v1::Filter> ParseCount() {
    v1::Filter filter;
    v1::FilterValuesCount* count = filter.mutable_values_count();
    LC_ASSIGN_OR_RETURN(*count->mutable_field(), TakeArgument());
    const Token& symbol = Here();
    const auto is = [this](std::string_view one) { return IsSymbol(one); };
    if (std::none_of(std::begin(kComparisons), std::end(kComparisons), is)) {
      return Unexpected("one of = != < <= > >=");
    }
    ++at_;
    if (Here().kind != TokenKind::kInteger || Here().integer < 0) return Unexpected("a number of values from 0 on");
    const auto number = static_cast<uint64_t>(tokens_[at_++].integer);
    if (symbol.text == ">") {
      count->set_greater(number);
    } else if (symbol.text == "<") {
      count->set_less(number);
    } else {
      if (symbol.text != "<=") count->set_greater_equal(number);
      if (symbol.text != ">=") count->set_less_equal(number);
    }
    return symbol.text == "!=" ? Not(std::move(filter)) : filter;
  }

  // has_id(1, "a")
  absl::StatusOr<v1::Filter> ParseIds() {
    v1::Filter filter;
    at_ += 2;
    do {
      v1::ItemId* id = filter.mutable_has_id()->add_ids();
      if (Here().kind == TokenKind::kText) {
        id->set_name(tokens_[at_++].text);
      } else if (Here().kind == TokenKind::kInteger && Here().integer >= 0) {
        id->set_number(static_cast<uint64_t>(tokens_[at_++].integer));
      } else {
        return Unexpected("an id: a \"text\" or a whole number from 0 on");
      }
    } while (TakeSymbol(","));
    if (!TakeSymbol(")")) return Unexpected("',' or ')'");
    return filter;
  }

  // nested(field, condition)
  absl::StatusOr<v1::Filter> ParseNested(int depth) {
    v1::Filter filter;
    LC_ASSIGN_OR_RETURN(*filter.mutable_nested()->mutable_field(), TakeFirstArgument());
    LC_ASSIGN_OR_RETURN(*filter.mutable_nested()->mutable_filter(), ParseOr(depth + 1));
    if (!TakeSymbol(")")) return Unexpected("'and', 'or' or ')'");
    return filter;
  }

  // words(field, "text") and its like
  absl::StatusOr<v1::Filter> ParseText(std::string_view name) {
    v1::Filter filter;
    v1::FilterText* text = filter.mutable_text();
    LC_ASSIGN_OR_RETURN(*text->mutable_field(), TakeFirstArgument());
    if (Here().kind != TokenKind::kText) return Unexpected("a \"text\"");
    const std::string& given = tokens_[at_++].text;
    if (name == "words") text->set_words(given);
    if (name == "prefix") text->set_prefix(given);
    if (name == "any_word") text->set_any_word(given);
    if (name == "phrase") text->set_phrase(given);
    if (!TakeSymbol(")")) return Unexpected("')'");
    return filter;
  }

  absl::StatusOr<double> TakeNumber() {
    const Token& token = Here();
    if (token.kind != TokenKind::kNumber && token.kind != TokenKind::kInteger) return Unexpected("a number");
    ++at_;
    return token.kind == TokenKind::kNumber ? token.number : static_cast<double>(token.integer);
  }

  // geo_polygon(field, lon, lat, lon, lat, ...), without holes
  absl::StatusOr<v1::Filter> ParsePolygon() {
    v1::Filter filter;
    LC_ASSIGN_OR_RETURN(*filter.mutable_geo_polygon()->mutable_field(), TakeFirstArgument());
    v1::GeoRing& ring = *filter.mutable_geo_polygon()->mutable_exterior();
    do {
      v1::GeoPoint& point = *ring.add_points();
      LC_ASSIGN_OR_RETURN(const double lon, TakeNumber());
      if (!TakeSymbol(",")) return Unexpected("',' and a latitude");
      LC_ASSIGN_OR_RETURN(const double lat, TakeNumber());
      point.set_lon(lon);
      point.set_lat(lat);
    } while (TakeSymbol(","));
    if (!TakeSymbol(")")) return Unexpected("',' or ')'");
    return filter;
  }

  // geo_radius(field, lon, lat, metres) or geo_box(field, left, top, right, bottom)
  absl::StatusOr<v1::Filter> ParsePlace() {
    v1::Filter filter;
    const bool box = IsKeyword("geo_box");
    LC_ASSIGN_OR_RETURN(const std::string field, TakeFirstArgument());
    std::vector<double> numbers;
    do {
      LC_ASSIGN_OR_RETURN(numbers.emplace_back(), TakeNumber());
    } while (numbers.size() < (box ? 4u : 3u) && TakeSymbol(","));
    if (numbers.size() < (box ? 4u : 3u)) {
      return Unexpected(box ? "four numbers: left, top, right, bottom" : "three numbers: lon, lat, metres");
    }
    if (!TakeSymbol(")")) return Unexpected("')'");
    const auto set = [](double lon, double lat, v1::GeoPoint* point) {
      point->set_lon(lon);
      point->set_lat(lat);
    };
    if (box) {
      filter.mutable_geo_box()->set_field(field);
      set(numbers[0], numbers[1], filter.mutable_geo_box()->mutable_top_left());
      set(numbers[2], numbers[3], filter.mutable_geo_box()->mutable_bottom_right());
    } else {
      filter.mutable_geo_radius()->set_field(field);
      set(numbers[0], numbers[1], filter.mutable_geo_radius()->mutable_center());
      filter.mutable_geo_radius()->set_radius(numbers[2]);
    }
    return filter;
  }

  absl::StatusOr<v1::FilterValue> TakeValue() {
    const Token& token = Here();
    v1::FilterValue value;
    switch (token.kind) {
      case TokenKind::kText:
        value.set_text(token.text);
        break;
      case TokenKind::kInteger:
        value.set_integer(token.integer);
        break;
      case TokenKind::kNumber:
        value.set_number(token.number);
        break;
      case TokenKind::kWord:
        if (!IsKeyword("true") && !IsKeyword("false")) {
          return Unexpected(IsKeyword("null") ? "a value (write is_null(field), or not exists(field) for an absent one)"
                                              : "a value (texts go in \"quotes\")");
        }
        value.set_boolean(IsKeyword("true"));
        break;
      default:
        return Unexpected("a value: a \"text\", a number, true or false");
    }
    ++at_;
    return value;
  }

  const std::string_view text_;
  const std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<v1::Filter> ParseFilter(std::string_view text) {
  LC_ASSIGN_OR_RETURN(std::vector<Token> tokens, LexFilter(text));
  return Parser(text, std::move(tokens)).Run();
}

}  // namespace lightcone::cli

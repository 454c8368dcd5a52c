#include "cli/formats/filter_parser.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;

v1::Filter Parsed(std::string_view text) {
  const absl::StatusOr<v1::Filter> filter = ParseFilter(text);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter.ok() ? *filter : v1::Filter();
}

// The filter in protobuf's text format, on one line.
std::string Shape(std::string_view text) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string shape;
  printer.PrintToString(Parsed(text), &shape);
  while (!shape.empty() && shape.back() == ' ') shape.pop_back();
  return shape;
}

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<v1::Filter> filter = ParseFilter(text);
  if (filter.ok()) return "(parsed)";
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
  return MessageOf(filter.status());
}

TEST(FilterParser, ReadsEveryKindOfCondition) {
  EXPECT_EQ(Shape("class = \"cat\""), R"(equals { field: "class" value { text: "cat" } })");
  EXPECT_EQ(Shape("n == -7"), R"(equals { field: "n" value { integer: -7 } })");
  EXPECT_EQ(Shape("ok = true"), R"(equals { field: "ok" value { boolean: true } })");
  EXPECT_EQ(Shape("x != 'a'"), R"(not { equals { field: "x" value { text: "a" } } })");
  EXPECT_EQ(Shape("x > 1"), R"(range { field: "x" greater { integer: 1 } })");
  EXPECT_EQ(Shape("x >= 1.5"), R"(range { field: "x" greater_equal { number: 1.5 } })");
  EXPECT_EQ(Shape("x < \"m\""), R"(range { field: "x" less { text: "m" } })");
  EXPECT_EQ(Shape("x <= 1e3"), R"(range { field: "x" less_equal { number: 1000 } })");
  EXPECT_EQ(Shape("exists(a.b)"), R"(exists { field: "a.b" })");
  EXPECT_EQ(Shape("c in (\"red\", 2)"), R"(in { field: "c" values { text: "red" } values { integer: 2 } })");
  EXPECT_EQ(Shape("c not in (1)"), R"(not { in { field: "c" values { integer: 1 } } })");
  EXPECT_EQ(Shape("$generation = 2"), R"(equals { field: "$generation" value { integer: 2 } })");
  EXPECT_EQ(Shape("`odd name` = 1"), R"(equals { field: "odd name" value { integer: 1 } })");
}

TEST(FilterParser, ReadsIdsObjectsTextsAndPlaces) {
  EXPECT_EQ(Shape("has_id(7, \"x\")"), R"(has_id { ids { number: 7 } ids { name: "x" } })");
  EXPECT_EQ(Shape("nested(a.b, c = 1 or exists(d))"),
            R"(nested { field: "a.b" filter { or { of { equals { field: "c" value { integer: 1 } } } )"
            R"(of { exists { field: "d" } } } } })");
  EXPECT_EQ(Shape("words(t, 'red car')"), R"(text { field: "t" words: "red car" })");
  EXPECT_EQ(Shape("PREFIX(t, \"r\")"), R"(text { field: "t" prefix: "r" })");
  EXPECT_EQ(Shape("any_word(t, \"r\")"), R"(text { field: "t" any_word: "r" })");
  EXPECT_EQ(Shape("phrase(t, \"r\")"), R"(text { field: "t" phrase: "r" })");
  EXPECT_EQ(Shape("geo_radius(at, 13.5, 52, 2000)"),
            R"(geo_radius { field: "at" center { lon: 13.5 lat: 52 } radius: 2000 })");
  EXPECT_EQ(Shape("geo_box(at, 170, 10, -170, -10)"),
            R"(geo_box { field: "at" top_left { lon: 170 lat: 10 } bottom_right { lon: -170 lat: -10 } })");
  EXPECT_EQ(Shape("words = 1"), R"(equals { field: "words" value { integer: 1 } })");
  EXPECT_THAT(ErrorOf("has_id(-1)"), HasSubstr("column 8: expected an id"));
  EXPECT_THAT(ErrorOf("words(t, 3)"), HasSubstr("column 10: expected a \"text\""));
  EXPECT_THAT(ErrorOf("geo_box(at, 1, 2)"), HasSubstr("four numbers"));
  EXPECT_EQ(Shape("geo_polygon(at, 1, 2, 1.5, 2, 1, 3, 1, 2)"),
            R"(geo_polygon { field: "at" exterior { points { lon: 1 lat: 2 } points { lon: 1.5 lat: 2 } )"
            R"(points { lon: 1 lat: 3 } points { lon: 1 lat: 2 } } })");
  EXPECT_THAT(ErrorOf("geo_polygon(at, 0, 0, 1)"), HasSubstr("a latitude"));
  EXPECT_THAT(ErrorOf("geo_polygon(at, 0, 0, x)"), HasSubstr("a number"));
  EXPECT_THAT(ErrorOf("nested(a b = 1)"), HasSubstr("column 10: expected ','"));
}

TEST(FilterParser, ReadsKeysInDoubleQuotes) {
  EXPECT_EQ(Parsed(R"("a.b".c = 1)").equals().field(), R"("a.b".c)");
  EXPECT_EQ(Parsed(R"(a."b.c".d = 1)").equals().field(), R"(a."b.c".d)");
  EXPECT_EQ(Parsed(R"("" = 1)").equals().field(), R"("")");
  EXPECT_EQ(Parsed(R"("and" = 1)").equals().field(), R"("and")");
  EXPECT_EQ(Parsed(R"("x\u0041\"" = 1)").equals().field(), R"("xA\"")");
  EXPECT_EQ(Parsed(R"(exists("a.b"))").exists().field(), R"("a.b")");
  EXPECT_EQ(Parsed(R"("a" = "b")").equals().value().text(), "b");
}

TEST(FilterParser, ReadsConditionsOnNullAndNumbersOfValues) {
  EXPECT_EQ(Shape("is_null(a.b)"), R"(is_null { field: "a.b" })");
  EXPECT_EQ(Shape("IS_EMPTY(a) and b = 1"),
            R"(and { of { is_empty { field: "a" } } of { equals { field: "b" value { integer: 1 } } } })");
  EXPECT_EQ(Shape("values_count(a) >= 2"), R"(values_count { field: "a" greater_equal: 2 })");
  EXPECT_EQ(Shape("values_count(a) > 2"), R"(values_count { field: "a" greater: 2 })");
  EXPECT_EQ(Shape("values_count(a) < 2"), R"(values_count { field: "a" less: 2 })");
  EXPECT_EQ(Shape("values_count(a) = 2"), R"(values_count { field: "a" greater_equal: 2 less_equal: 2 })");
  EXPECT_EQ(Shape("values_count(a) != 0"), R"(not { values_count { field: "a" greater_equal: 0 less_equal: 0 } })");
  EXPECT_EQ(Shape("is_null = 1"), R"(equals { field: "is_null" value { integer: 1 } })") << "without brackets a field";
}

TEST(FilterParser, AndBindsTighterThanOrAndNotTightest) {
  const v1::Filter filter = Parsed("a = 1 or b = 2 and not c = 3 or exists(d)");
  ASSERT_EQ(filter.or_().of_size(), 3);
  ASSERT_EQ(filter.or_().of(1).and_().of_size(), 2);
  EXPECT_EQ(filter.or_().of(1).and_().of(1).not_().equals().field(), "c");
}

TEST(FilterParser, ReadsTheExampleOfTheManual) {
  const v1::Filter filter = Parsed(
      "class = \"cat\" and (year >= 2020 or not exists(flag)) and color in (\"red\",\"blue\") and $generation = 2");
  ASSERT_EQ(filter.and_().of_size(), 4);
  EXPECT_EQ(filter.and_().of(1).or_().of(1).not_().exists().field(), "flag");
}

TEST(FilterParser, KeywordsAreCaseInsensitiveAndFieldsAreNot) {
  EXPECT_EQ(Shape("NOT Exists(A) AND b = TRUE"),
            R"(and { of { not { exists { field: "A" } } } of { equals { field: "b" value { boolean: true } } } })");
}

TEST(FilterParser, ReadsIntegersExactlyToTheirLimits) {
  EXPECT_EQ(Parsed("x = 9223372036854775807").equals().value().integer(), INT64_MAX);
  EXPECT_EQ(Parsed("x = -9223372036854775808").equals().value().integer(), INT64_MIN);
  EXPECT_THAT(ErrorOf("x = 9223372036854775808"), HasSubstr("beyond a 64-bit integer"));
}

TEST(FilterParser, ReadsEscapesInTexts) {
  EXPECT_EQ(Parsed(R"(x = "a\"b\u00e9\n")").equals().value().text(), "a\"b\u00e9\n");
  EXPECT_EQ(Parsed(R"(x = 'it\'s "so"')").equals().value().text(), "it's \"so\"");
}

TEST(FilterParser, RefusesNumbersThatAreNone) {
  EXPECT_THAT(ErrorOf("x = 0x10"), HasSubstr("'0x10' is hexadecimal"));
  EXPECT_THAT(ErrorOf("x = -0XfF"), HasSubstr("is hexadecimal"));
  EXPECT_THAT(ErrorOf("x = 12abc"), HasSubstr("'12abc' is no number"));
  EXPECT_THAT(ErrorOf("x = 1.2.3"), HasSubstr("is no number"));
  EXPECT_THAT(ErrorOf("x = 1e"), HasSubstr("is no number"));
  EXPECT_THAT(ErrorOf("x = 5."), HasSubstr("is no number"));
  EXPECT_THAT(ErrorOf("x = 007"), HasSubstr("begins with a zero"));
  EXPECT_THAT(ErrorOf("x = 1e999"), HasSubstr("beyond a 64-bit float"));
  EXPECT_THAT(ErrorOf("x = +1"), HasSubstr("is no number"));
  EXPECT_THAT(ErrorOf("x = nan"), HasSubstr("texts go in \"quotes\""));
  EXPECT_THAT(ErrorOf("x = inf"), HasSubstr("texts go in \"quotes\""));
}

TEST(FilterParser, ShowsWhereWithACaret) {
  EXPECT_EQ(ErrorOf("class = foo and"),
            "filter, column 9: expected a value (texts go in \"quotes\"), found 'foo'\n"
            "  class = foo and\n"
            "          ^");
  // Columns count characters, not bytes.
  EXPECT_THAT(ErrorOf("\u00e4\u00f6 ! 1"), HasSubstr("column 4: unexpected character '!'"));
}

TEST(FilterParser, RefusesWhatCannotTravel) {
  EXPECT_EQ(ErrorOf("c\xefl = 1"), "filter, column 2: a byte that is not UTF-8\n  c\n   ^");
}

TEST(FilterParser, SaysWhatWasExpected) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("an empty filter"));
  EXPECT_THAT(ErrorOf("   "), HasSubstr("an empty filter"));
  EXPECT_THAT(ErrorOf("a = 1 b = 2"), HasSubstr("column 7: expected 'and', 'or' or the end, found 'b'"));
  EXPECT_THAT(ErrorOf("a = 1 and"), HasSubstr("expected a field, found the end"));
  EXPECT_THAT(ErrorOf("(a = 1"), HasSubstr("expected 'and', 'or' or ')', found the end"));
  EXPECT_THAT(ErrorOf("a"), HasSubstr("expected one of = != < <= > >= in"));
  EXPECT_THAT(ErrorOf("a in 1"), HasSubstr("expected '(' after 'in'"));
  EXPECT_THAT(ErrorOf("a in ()"), HasSubstr("expected a value"));
  EXPECT_THAT(ErrorOf("a in (1"), HasSubstr("expected ',' or ')'"));
  EXPECT_THAT(ErrorOf("a not 1"), HasSubstr("expected 'in' after 'not'"));
  EXPECT_THAT(ErrorOf("exists a"), HasSubstr("expected '(' after 'exists'"));
  EXPECT_THAT(ErrorOf("and = 1"), HasSubstr("expected a field, found 'and'"));
  EXPECT_THAT(ErrorOf("'a' = 1"), HasSubstr("\"double quotes\""));
  EXPECT_THAT(ErrorOf("\"a\".b. = 1"), HasSubstr("a part of a path behind the dot"));
  EXPECT_THAT(ErrorOf("values_count(a) in (1)"), HasSubstr("expected one of = != < <= > >=, found 'in'"));
  EXPECT_THAT(ErrorOf("values_count(a) = -1"), HasSubstr("a number of values from 0 on"));
  EXPECT_THAT(ErrorOf("is_null(a"), HasSubstr("expected ')'"));
  EXPECT_THAT(ErrorOf("a = null"), HasSubstr("not exists(field)"));
  EXPECT_THAT(ErrorOf("a < true"), HasSubstr("have no order"));
  EXPECT_THAT(ErrorOf("a = \"open"), HasSubstr("without its closing quote"));
  EXPECT_THAT(ErrorOf(R"(a = "\q")"), HasSubstr("unknown escape"));
  EXPECT_THAT(ErrorOf("a..b = 1"), HasSubstr("a part of its path is empty"));
  EXPECT_THAT(ErrorOf("a. = 1"), HasSubstr("a part of its path is empty"));
  EXPECT_THAT(ErrorOf("`` = 1"), HasSubstr("an empty field name"));
  EXPECT_THAT(ErrorOf("a ; b"), HasSubstr("unexpected character ';'"));
}

TEST(FilterParser, RefusesNestingThatWouldHurt) {
  const std::string deep = std::string(100'000, '(') + "a = 1" + std::string(100'000, ')');
  EXPECT_THAT(ErrorOf(deep), HasSubstr("nested too deeply"));
  std::string nots;
  for (int i = 0; i < 1000; ++i) nots += "not ";
  EXPECT_THAT(ErrorOf(nots + "a = 1"), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace lightcone::cli

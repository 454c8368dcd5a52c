// JSON in the order of its keys, as nlohmann reads it, in less time.
#include "base/ordered_json.h"

#include <string>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

std::string ObjectOf(int first, int count) {
  std::string text = "{";
  for (int i = first; i < first + count; ++i) text += StrCat(i == first ? "" : ",", "\"k", i, "\":", i);
  return text + "}";
}

TEST(OrderedJson, IsReadAsNlohmannReadsIt) {
  std::string repeated = "{";
  for (int i = 0; i < 100; ++i) repeated += StrCat("\"k", i % 40, "\":[", i, ",{\"x\":", i, "}],");
  const std::vector<std::string> texts = {
      repeated + "\"last\":-0.5}",
      R"({"b":1,"a":{"b":null,"b":{"c":true}},"b":[]})",
      "3",
      "[9007199254740993,9223372036854775808,18446744073709551615,18446744073709551616,-9223372036854775809]",
      "[-0,-0.0,5e-324,1e400,0.1,1e14,1.0,100000000000000000000.5]",
      R"({"":1,"":2,"a\u0000b":3,"\u0061":4,"a":5})",
      R"(["\ud800"])",
      R"(["\ud83d\ude00","\n\/"])",
      "[\"\xff\"]",
      "\xef\xbb\xbf{}",
      "{} {}",
      "",
      R"({"a":1)",
      R"({"a":1,})",
      "[NaN]",
      "[[[],{}],{\"a\":{}}]",
  };
  for (const std::string& text : texts) {
    const auto expected = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    const OrderedJson read = ParseOrderedJson(text);
    ASSERT_EQ(read.is_discarded(), expected.is_discarded()) << text;
    if (read.is_discarded()) continue;
    EXPECT_EQ(read.dump(), expected.dump()) << text;
  }
}

TEST(OrderedJson, MembersAreSetAtTheirPlacesAndNewOnesComeLast) {
  for (const int count : {3, 40}) {
    OrderedJson to = ParseOrderedJson(ObjectOf(0, count)), expected = to;
    const OrderedJson from = ParseOrderedJson(ObjectOf(count / 2, count));
    SetMembers(from, &to);
    for (const auto& [key, value] : from.items()) expected[key] = value;
    EXPECT_EQ(to.dump(), expected.dump());
    EXPECT_EQ(to.size(), static_cast<size_t>(count / 2 + count));
  }
}

// A level that grows must move what its first member holds. Each copy would be made of all levels below.
TEST(OrderedJson, LevelsOfManyMembersOverManyElementsAreRead) {
  std::string text = "[";
  for (int i = 0; i < 100'000; ++i) text += i == 0 ? "[]" : ",[]";
  text += "]";
  for (int level = 0; level < 60; ++level) {
    text = "{\"k\":" + text;
    for (int i = 0; i < 129; ++i) text += StrCat(",\"", i, "\":0");
    text += "}";
  }
  const OrderedJson read = ParseOrderedJson(text);
  ASSERT_TRUE(read.is_object());
  EXPECT_EQ(read.dump(), text);
}

}  // namespace
}  // namespace lightcone

// Filters: meaning by example, and against a naive evaluator on random payloads.
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "engine_testing.h"
#include "geometry/uncertainty.h"
#include "naive_filter.h"
#include "nlohmann/json.hpp"
#include "random_filters.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using Kind = FilterNode::Kind;
using Json = nlohmann::json;

FilterNode Equals(std::string field, FilterValue value) { return Leaf(Kind::kEquals, std::move(field), {value}); }
FilterNode Greater(std::string field, FilterValue value) {
  FilterNode node = Leaf(Kind::kRange, std::move(field));
  node.greater = std::move(value);
  return node;
}
FilterNode Not(FilterNode child) { return Branch(Kind::kNot, {std::move(child)}); }

bool Matches(FilterNode node, const std::string& payload) {
  const auto filter = Filter::Make(std::move(node));
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter->Matches({&payload, 3, 0.25});
}

TEST(Filters, NumbersCompareExactlyAcrossKinds) {
  const int64_t big = (int64_t{1} << 53) + 1;  // no double
  EXPECT_TRUE(Matches(Equals("n", big), StrCat("{\"n\":", big, "}")));
  EXPECT_FALSE(Matches(Equals("n", 9007199254740992.0), StrCat("{\"n\":", big, "}")));
  EXPECT_TRUE(Matches(Greater("n", 9007199254740992.0), StrCat("{\"n\":", big, "}")));
  EXPECT_TRUE(Matches(Equals("n", 2.0), R"({"n":2})"));
  EXPECT_TRUE(Matches(Equals("n", int64_t{2}), R"({"n":2.0})"));
  EXPECT_FALSE(Matches(Equals("n", int64_t{2}), R"({"n":2.5})"));
  EXPECT_TRUE(Matches(Greater("n", int64_t{-3}), R"({"n":-2.5})"));
  EXPECT_FALSE(Matches(Greater("n", -2.5), R"({"n":-3})"));
  EXPECT_TRUE(Matches(Greater("n", std::numeric_limits<int64_t>::max()), R"({"n":18446744073709551615})"));
  EXPECT_TRUE(Matches(Equals("n", -0.0), R"({"n":0})"));
  EXPECT_TRUE(Matches(Greater("n", 1e18), R"({"n":1e300})"));
  EXPECT_TRUE(Matches(Equals("n", std::numeric_limits<int64_t>::min()), R"({"n":-9223372036854775808})"));
}

TEST(Filters, KindsDoNotMix) {
  EXPECT_FALSE(Matches(Equals("n", std::string("2")), R"({"n":2})"));
  EXPECT_FALSE(Matches(Equals("n", true), R"({"n":1})"));
  EXPECT_TRUE(Matches(Equals("n", false), R"({"n":false})"));
  EXPECT_FALSE(Matches(Greater("n", std::string("a")), R"({"n":5})"));
  EXPECT_TRUE(Matches(Greater("n", std::string("Z")), R"({"n":"a"})")) << "texts compare by bytes";
  EXPECT_FALSE(Matches(Equals("n", std::string("e\u0301")), "{\"n\":\"\u00e9\"}"));
}

TEST(Filters, PathsGoThroughObjectsAndArrays) {
  EXPECT_TRUE(Matches(Equals("camera.model", std::string("x")), R"({"camera":{"model":"x"}})"));
  EXPECT_TRUE(Matches(Equals("tags", std::string("b")), R"({"tags":["a","b"]})"));
  EXPECT_TRUE(Matches(Equals("boxes.w", int64_t{2}), R"({"boxes":[{"w":1},{"w":2}]})"));
  EXPECT_FALSE(Matches(Equals("camera", std::string("x")), R"({"camera":{"model":"x"}})"));
  EXPECT_FALSE(Matches(Equals("camera.model", std::string("x")), R"({"camera":"x"})"));
  EXPECT_TRUE(Matches(Leaf(Kind::kExists, "a.b"), R"({"a":{"b":null}})"));
  EXPECT_TRUE(Matches(Leaf(Kind::kExists, "a"), R"({"a":[]})"));
  EXPECT_FALSE(Matches(Leaf(Kind::kExists, "a.c"), R"({"a":{"b":null}})"));
}

TEST(Filters, QuotesInAPathNameAnyKey) {
  EXPECT_TRUE(Matches(Equals(R"("a.b")", int64_t{1}), R"({"a.b":1})"));
  EXPECT_FALSE(Matches(Equals(R"("a.b")", int64_t{1}), R"({"a":{"b":1}})"));
  EXPECT_FALSE(Matches(Equals("a.b", int64_t{1}), R"({"a.b":1})"));
  EXPECT_TRUE(Matches(Equals(R"("a.b".c)", int64_t{1}), R"({"a.b":[{"c":1}]})"));
  EXPECT_TRUE(Matches(Equals(R"("")", int64_t{1}), R"({"":1})"));
  EXPECT_TRUE(Matches(Equals(R"(a."")", int64_t{1}), R"({"a":{"":1}})"));
  EXPECT_TRUE(Matches(Equals(R"("$generation")", int64_t{1}), R"({"$generation":1})"));
  EXPECT_TRUE(Matches(Equals(R"("a\"\\")", int64_t{1}), R"({"a\"\\":1})"));
  EXPECT_TRUE(Matches(Equals(R"("a"."b")", int64_t{1}), R"({"a":{"b":1}})"));
  for (const char* wrong : {"\"a", "\"a\"b", "\"a\".", "a.", ".a", R"("\x")"}) {
    EXPECT_TRUE(Fails(Filter::Make(Equals(wrong, true)), Code::kInvalidArgument,
                      {"filter.equals.field", wrong, "double quotes"}));
  }
}

TEST(Filters, NullAbsentAndEmptyAreToldApart) {
  const auto is_null = [](const std::string& payload) { return Matches(Leaf(Kind::kIsNull, "a.b"), payload); };
  EXPECT_TRUE(is_null(R"({"a":{"b":null}})"));
  EXPECT_TRUE(is_null(R"({"a":[{"b":1},{"b":null}]})"));
  EXPECT_TRUE(is_null(R"({"a":{"b":[1,null]}})"));
  EXPECT_FALSE(is_null(R"({"a":{}})"));
  EXPECT_FALSE(is_null(R"({"a":null})"));
  EXPECT_FALSE(is_null(R"({"a":{"b":[]}})"));
  FilterNode empty = Leaf(Kind::kValuesCount, "a.b");
  empty.count_most = 0;
  for (const char* payload :
       {"{}", R"({"a":null})", R"({"a":{"b":null}})", R"({"a":{"b":[]}})", R"({"a":[{"b":[]},{}]})"}) {
    EXPECT_TRUE(Matches(empty, payload)) << payload;
  }
  for (const char* payload : {R"({"a":{"b":0}})", R"({"a":{"b":[null]}})", R"({"a":[{"b":[]},{"b":{}}]})"}) {
    EXPECT_FALSE(Matches(empty, payload)) << payload;
  }
  EXPECT_TRUE(Fails(Filter::Make(Leaf(Kind::kIsNull, "$generation")), Code::kInvalidArgument,
                    {"filter.is_null.field", "$generation"}));
}

TEST(Filters, ValuesAreCountedOverAllEndsOfAPath) {
  const auto count = [](uint64_t n, const std::string& payload) {
    FilterNode node = Leaf(Kind::kValuesCount, "a.b");
    node.count_least = node.count_most = n;
    return Matches(node, payload);
  };
  EXPECT_TRUE(count(1, R"({"a":{"b":"x"}})"));
  EXPECT_TRUE(count(3, R"({"a":{"b":[1,null,[2,3]]}})"));
  EXPECT_TRUE(count(3, R"({"a":[{"b":[1,2]},{"b":null},{"b":{"c":1}}]})"));
  EXPECT_FALSE(count(2, R"({"a":{"b":[1]}})"));
}

TEST(Filters, AMissingFieldIsFalseAndItsNegationTrue) {
  EXPECT_FALSE(Matches(Equals("n", int64_t{1}), "{}"));
  EXPECT_TRUE(Matches(Not(Equals("n", int64_t{1})), "{}"));
  EXPECT_FALSE(Matches(Greater("n", int64_t{1}), R"({"n":null})"));
  EXPECT_TRUE(Matches(Branch(Kind::kAnd), "{}"));
  EXPECT_FALSE(Matches(Branch(Kind::kOr), "{}"));
}

TEST(Filters, GenerationAndUncertaintyAreFields) {
  EXPECT_TRUE(Matches(Equals("$generation", int64_t{3}), "{}"));
  EXPECT_FALSE(Matches(Greater("$generation", int64_t{3}), "{}"));
  EXPECT_TRUE(Matches(Greater("$uncertainty", 0.2), "{}"));
  const auto filter = Filter::Make(Equals("$generation", int64_t{3}));
  EXPECT_FALSE(filter->needs_payload());
  EXPECT_TRUE(filter->Matches({nullptr, 3, 0}));
  EXPECT_TRUE(Filter::Make(Greater("$uncertainty", 0.2))->needs_uncertainty());
}

TEST(Filters, WhatMakesNoSenseIsNamed) {
  EXPECT_TRUE(
      Fails(Filter::Make(Leaf(Kind::kEquals, "a")), Code::kInvalidArgument, {"filter.equals.value", "missing"}));
  EXPECT_TRUE(Fails(Filter::Make(Leaf(Kind::kIn, "a")), Code::kInvalidArgument, {"filter.in.values", "empty"}));
  EXPECT_TRUE(Fails(Filter::Make(Equals("", true)), Code::kInvalidArgument, {"filter.equals.field", "empty"}));
  EXPECT_TRUE(Fails(Filter::Make(Equals("a..b", true)), Code::kInvalidArgument, {"single dots"}));
  EXPECT_TRUE(Fails(Filter::Make(Equals("$foo", true)), Code::kInvalidArgument, {"$foo", "$generation"}));
  EXPECT_TRUE(Fails(Filter::Make(Equals("a", std::nan(""))), Code::kInvalidArgument, {"nan", "finite"}));
  EXPECT_TRUE(Fails(Filter::Make(Greater("a", true)), Code::kInvalidArgument, {"filter.range.greater"}));
  FilterNode mixed = Greater("a", int64_t{1});
  mixed.less = std::string("z");
  EXPECT_TRUE(Fails(Filter::Make(mixed), Code::kInvalidArgument, {"filter.range.less", "all numbers or all texts"}));
  EXPECT_TRUE(Fails(Filter::Make(Branch(Kind::kNot)), Code::kInvalidArgument, {"filter.not", "one"}));
  FilterNode deep = Equals("a", true);
  for (int i = 0; i < 40; ++i) deep = Not(std::move(deep));
  EXPECT_TRUE(Fails(Filter::Make(deep), Code::kInvalidArgument, {"nested", "at most 32"}));
  FilterNode wide = Branch(Kind::kOr);
  for (int i = 0; i < 1100; ++i) wide.children.push_back(Equals("a", true));
  EXPECT_TRUE(Fails(Filter::Make(wide), Code::kInvalidArgument, {"1024"}));
  FilterNode lists = Branch(Kind::kOr);
  for (int i = 0; i < 2; ++i) lists.children.push_back(Leaf(Kind::kIn, "a", std::vector<FilterValue>(32'768, true)));
  EXPECT_TRUE(Filter::Make(lists).ok());
  lists.children.push_back(Equals("a", true));
  EXPECT_TRUE(Fails(Filter::Make(lists), Code::kInvalidArgument, {"filter.or[2].equals.values", "65536"}));
}

TEST(Filters, AgreeWithANaiveEvaluatorOnRandomPayloads) {
  RandomCases cases;
  int matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    const FilterNode node = cases.Node(3);
    const Json payload = cases.Object(2);
    const bool naive = Naive(node, payload);
    ASSERT_EQ(Matches(node, payload.dump()), naive) << payload.dump();
    matched += naive;
  }
  EXPECT_GT(matched, 2'000);
  EXPECT_LT(matched, 18'000);
}

class FilteredSearch : public EngineTest {};

TEST_F(FilteredSearch, FindsTheNearestOfThoseThatPassInEveryKindOfSearch) {
  MakeCollection(2);
  RandomCases cases;
  std::mt19937 random(3);
  std::vector<std::pair<std::vector<float>, Json>> truth;
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 500; ++i) {
    truth.emplace_back(RandomVector(&random, kDimension), cases.Object(2));
    items.push_back(ItemOf(Id(i), truth.back().first, truth.back().second.dump()));
  }
  Write(BatchOf(std::move(items), 1));
  const Space space = engine_->GetGeneration("c", 1)->space;
  for (int round = 0; round < 60; ++round) {
    SearchCall call = SearchFor(RandomVector(&random, kDimension), 8, 1 + static_cast<uint32_t>(round % 2));
    call.exact = round % 3 == 0;
    call.filter = cases.Node(2);
    const auto bound = BoundQuery::Make(space, space, std::get<std::vector<float>>(call.queries[0].content));
    std::vector<std::pair<double, uint64_t>> expected;
    for (uint64_t i = 0; i < truth.size(); ++i) {
      if (Naive(*call.filter, truth[i].second)) expected.emplace_back(bound->Distance(truth[i].first), i);
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(engine_->Count("c", call.filter, {})->count, expected.size());
    expected.resize(std::min<size_t>(expected.size(), 8));
    std::vector<std::pair<double, uint64_t>> found;
    for (const EngineHit& hit : Hits(call)) found.emplace_back(hit.distance, std::get<uint64_t>(hit.id.value));
    EXPECT_EQ(found, expected);
  }
}

TEST_F(FilteredSearch, GenerationAndUncertaintyAreThoseOfTheEmbeddingServed) {
  MakeCollection(2);
  Write(BatchOf({ItemOf(Id("near"), {0.1f, 0, 0, 0}), ItemOf(Id("far"), {1.5f, 0, 0, 0})}, 1));
  Write(BatchOf({ItemOf(Id("far"), {1.4f, 0, 0, 0})}, 2, /*same_content=*/true));
  SearchCall call = SearchFor({0, 0, 0, 0}, 10, 2);
  call.filter = Equals("$generation", int64_t{2});
  EXPECT_THAT(HitNames(call), ::testing::ElementsAre("'far'@2"));
  call.filter = Greater("$uncertainty", 0.5);
  EXPECT_THAT(HitNames(call), ::testing::ElementsAre("'near'@1"));
  EXPECT_EQ(engine_->Count("c", call.filter, {})->count, 1u);
  EXPECT_EQ(engine_->Scroll("c", call.filter, 0, "", false, {})->items.size(), 1u);
}

TEST_F(FilteredSearch, IsPlannedByTheShareThatAFilterOnUncertaintyKeeps) {
  MakeCollection();
  std::mt19937 random(5);
  const Space space = engine_->GetGeneration("c", 1)->space;
  std::vector<UpsertItem> items;
  std::vector<double> uncertainties;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const std::vector<float> z = RandomVector(&random, kDimension, 0.4f);
    uncertainties.push_back(UncertaintyOf(space, z));
    items.push_back(ItemOf(Id(i), z, StrCat("{\"even\":", i % 2 == 0 ? "true" : "false", "}")));
  }
  Write(BatchOf(std::move(items)));
  ASSERT_TRUE(engine_->Rebuild("c", {}, true, "", {}).ok());
  std::sort(uncertainties.begin(), uncertainties.end());
  const FilterNode half = Greater("$uncertainty", uncertainties[5'000]);
  const FilterNode few = Greater("$uncertainty", uncertainties[9'900]);
  const struct {
    FilterNode filter;
    double share;
    SearchPlan plan;
  } cases[] = {{half, 0.5, SearchPlan::kPostFilter},
               {Not(half), 0.5, SearchPlan::kPostFilter},
               {Branch(Kind::kAnd, {half, Equals("even", true)}), 0.25, SearchPlan::kPostFilter},
               {Branch(Kind::kOr, {half, Equals("even", true)}), 0.75, SearchPlan::kPostFilter},
               {few, 0.01, SearchPlan::kScan}};
  for (const auto& [filter, share, plan] : cases) {
    size_t found = 0, wanted = 0;
    for (int q = 0; q < 30; ++q) {
      // Some queries lie where all that is near is left out.
      SearchCall call = SearchFor(RandomVector(&random, kDimension, q % 3 == 0 ? 0.05f : 0.4f), 10);
      call.filter = filter;
      call.profile = true;
      const auto exact = Hits(call);
      call.exact = false;
      const auto answer = engine_->Search(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      const SegmentProfile& segment = answer->profile->legs.at(0).segments.at(0);
      EXPECT_EQ(segment.plan, plan) << share;
      EXPECT_NEAR(segment.passing_share, share, 0.1);
      EXPECT_NEAR(answer->filter_share, share, 0.1);
      std::set<uint64_t> ids;
      for (const EngineHit& hit : exact) ids.insert(std::get<uint64_t>(hit.id.value));
      wanted += ids.size();
      for (const EngineHit& hit : answer->results[0].hits) found += ids.contains(std::get<uint64_t>(hit.id.value));
    }
    EXPECT_GE(static_cast<double>(found) / static_cast<double>(wanted), 0.99) << share;
  }
}

}  // namespace
}  // namespace lightcone::server

// One field's index: values by id, and ranges that are asked of one id after another in place of a set.
#include "server/engine/filter/field_index.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "nlohmann/json.hpp"
#include "server/engine/filter/payload_index.h"
#include "server/engine/filter/payload_path.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/random_filters.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;
using Kind = FilterNode::Kind;

template <typename T>
class ValueColumns : public testing::Test {};
using BothValues = testing::Types<int64_t, double>;
TYPED_TEST_SUITE(ValueColumns, BothValues);

TYPED_TEST(ValueColumns, HoldWhatAMapHoldsAndShowWhatWasThereWhenTheyWereAsked) {
  using Column = ValueColumn<TypeParam>;
  Column column;
  std::map<uint64_t, TypeParam> truth;
  std::mt19937_64 random(3);
  const auto any_id = [&]() -> uint64_t {  // dense, far away, and on both sides of two borders
    switch (random() % 3) {
      case 0:
        return random() % 10'000;
      case 1:
        return (uint64_t{1} << 32) - 50 + random() % 100;
      default:
        return 2'097'152 - 50 + random() % 100;
    }
  };
  for (int step = 0; step < 30'000; ++step) {
    const uint64_t id = any_id();
    if (random() % 3 == 0) {
      column.Clear(id);
      truth.erase(id);
    } else {
      const auto value = static_cast<TypeParam>(random() % 1'000) - 500;
      column.Set(id, value);
      truth[id] = value;
    }
  }
  const auto values = column.Values();
  ASSERT_EQ(column.count(), truth.size());
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t id = any_id();
    const auto at = truth.find(id);
    if (at == truth.end()) {
      ASSERT_TRUE(Column::IsNone(values.At(id))) << id;
    } else {
      ASSERT_EQ(values.At(id), at->second) << id;
    }
  }
  EXPECT_TRUE(Column::IsNone(values.At(uint64_t{1} << 40)));
  EXPECT_TRUE(values.MayLieBetween(0, 10'000, TypeParam{-10}, TypeParam{10}));
  EXPECT_TRUE(values.MayLieBetween(0, uint64_t{1} << 40, TypeParam{-10}, TypeParam{10}));
  EXPECT_FALSE(values.MayLieBetween(0, uint64_t{1} << 40, TypeParam{500}, TypeParam{900}));
  EXPECT_FALSE(values.MayLieBetween(100'000, 1'000'000, TypeParam{-500}, TypeParam{500})) << "no values there";
  EXPECT_FALSE(values.MayLieBetween(uint64_t{1} << 40, uint64_t{1} << 41, TypeParam{-500}, TypeParam{500}));
  // New ids in new chunks are not in the old way to them, and emptied chunks give their memory back.
  column.Set(uint64_t{1} << 33, TypeParam{7});
  EXPECT_TRUE(Column::IsNone(values.At(uint64_t{1} << 33)));
  EXPECT_EQ(column.Values().At(uint64_t{1} << 33), TypeParam{7});
  column.Clear(uint64_t{1} << 33);
  const size_t before = column.bytes();
  for (const auto& [id, value] : truth) column.Clear(id);
  EXPECT_EQ(column.count(), 0u);
  EXPECT_EQ(column.room(), 0u);
  EXPECT_LT(column.bytes(), before);
  const auto none = column.Values();
  for (const auto& [id, value] : truth) ASSERT_TRUE(Column::IsNone(none.At(id)));
}

TEST(ValueColumns, AreReadWhileOtherIdsAreSetAndCleared) {
  ValueColumn<int64_t> column;
  constexpr uint64_t kStable = 5'000;
  for (uint64_t id = 0; id < kStable; ++id) column.Set(2 * id, static_cast<int64_t>(id));
  absl::Mutex mu;  // as that of an index: taken to write, and to begin to read
  std::atomic<bool> stop{false};
  std::atomic<int64_t> wrong{0}, rounds{0};
  uint64_t newest = 0;  // an id that was set last, and is cleared much later; guarded by mu
  const auto value_of = [](uint64_t id) { return static_cast<int64_t>(id) + 1'000'000; };
  std::thread reader([&] {
    while (!stop) {
      uint64_t shown = 0;
      const auto values = [&] {
        absl::ReaderMutexLock lock(&mu);
        shown = newest;
        return column.Values();
      }();
      if (shown != 0) {
        wrong += values.At(shown) != value_of(shown);
        wrong += !values.MayLieBetween(shown - 1, shown, value_of(shown), value_of(shown));
      }
      for (uint64_t id = 0; id < kStable; ++id) wrong += values.At(2 * id) != static_cast<int64_t>(id);
      ++rounds;
    }
  });
  for (int round = 0; round < 5 || rounds < 3; ++round) {  // between the stable ones, and chunks that come and go
    for (const bool set : {true, false}) {
      for (uint64_t i = 0; i < 8 * kStable; ++i) {
        absl::MutexLock lock(&mu);
        const uint64_t id = 2 * i + 1;
        set ? column.Set(id, value_of(id)) : column.Clear(id);
        newest = set ? id : 0;
      }
    }
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(column.count(), kStable);
}

PayloadValues ValuesOf(const Json& value) { return Payload(Json{{"v", value}}.dump()).At(PathKeys{"v"}); }

FilterNode RangeOf(std::optional<FilterValue> least, std::optional<FilterValue> below) {
  FilterNode node = Leaf(Kind::kRange, "v");
  node.greater_equal = std::move(least);
  node.less = std::move(below);
  return node;
}

// The same ids, whether they were put together or are tested.
void ExpectSame(const FieldIndex& index, const FilterNode& node, uint64_t ids, bool tested) {
  const IdBounds set = index.Evaluate(node), test = index.Evaluate(node, /*may_test=*/true);
  EXPECT_TRUE(set.must.tests.empty());
  EXPECT_EQ(!test.must.tests.empty(), tested);
  EXPECT_EQ(set.may.has_value(), test.may.has_value());
  for (uint64_t id = 0; id <= ids + 1; ++id) ASSERT_EQ(set.must.Contains(id), test.must.Contains(id)) << id;
  if (tested) {
    EXPECT_EQ(test.must.tests[0]->Count(), set.must.ids.Count());
  }
}

TEST(FieldIndexes, AskRangesThatVeryManyMeetOneByOneAndPutFewTogether) {
  constexpr uint64_t kIds = 20'000;
  std::mt19937_64 random(5);
  const auto number = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto time = [](int n) {
    char text[32];
    std::snprintf(text, sizeof(text), "2024-01-%02dT%02d:%02d:00Z", n / 1'440 % 28 + 1, n / 60 % 24, n % 60);
    return std::string(text);
  };
  FieldIndex integers(PayloadType::kInteger), floats(PayloadType::kFloat), times(PayloadType::kTime);
  for (uint64_t id = 1; id <= kIds; ++id) {
    if (id % 7 == 0) continue;  // has none
    const int n = number(10'000);
    integers.Add(id, ValuesOf(n - 5'000));
    floats.Add(id, ValuesOf(n * 0.25));
    times.Add(id, ValuesOf(time(n)));
    if (id % 50 == 0) integers.Add(id, ValuesOf(n - 5'000));  // once more
  }
  for (int i = 0; i < 12; ++i) {
    const int least = number(4'000), width = 3'000 + number(3'000);
    ExpectSame(integers, RangeOf(int64_t{least - 5'000}, int64_t{least - 5'000 + width}), kIds, true);
    ExpectSame(integers, RangeOf(least - 5'000.5, least - 5'000.5 + width), kIds, true);
    ExpectSame(integers, RangeOf(std::nullopt, int64_t{least}), kIds, true);
    ExpectSame(floats, RangeOf(least * 0.25, std::nullopt), kIds, true);
    ExpectSame(floats, RangeOf(int64_t{least / 4}, (least + width) / 4 + 0.1), kIds, true);
    ExpectSame(times, RangeOf(time(least), time(least + width)), kIds, true);
    ExpectSame(integers, RangeOf(int64_t{least - 5'000}, int64_t{least - 4'900}), kIds, false);
    ExpectSame(floats, RangeOf(least * 0.25, (least + 100) * 0.25), kIds, false);
    ExpectSame(integers, RangeOf(int64_t{9'000}, std::nullopt), kIds, false);  // none
    ExpectSame(integers, RangeOf(std::string("a"), std::string("b")), kIds, false);
  }
}

// Two conditions on one field are what they have in common, not two that many meet.
TEST(FieldIndexes, JoinRangesOfOneFieldUnlessAnIdHasSeveralValues) {
  constexpr uint64_t kIds = 6'000;
  FieldIndex index(PayloadType::kInteger);
  for (uint64_t id = 1; id <= kIds; ++id) index.Add(id, ValuesOf(id));
  const FilterNode from = RangeOf(int64_t{2'900}, std::nullopt), below = RangeOf(std::nullopt, int64_t{3'000});
  const FilterNode late = RangeOf(int64_t{4'000}, std::nullopt), text = RangeOf(std::string("a"), std::nullopt);
  EXPECT_TRUE(index.CanJoin(from) && index.CanJoin(below));
  EXPECT_FALSE(index.CanJoin(text));
  const auto count = [&](std::vector<const FilterNode*> ranges) {
    const IdBounds bounds = index.EvaluateRanges(ranges, /*may_test=*/true);
    EXPECT_TRUE(bounds.must.tests.empty());
    return bounds.must.ids.Count();
  };
  EXPECT_EQ(count({&from, &below}), 100u);
  EXPECT_EQ(count({&from, &below, &late}), 0u);
  const FilterNode* const broad[] = {&from, &late};
  const IdBounds tested = index.EvaluateRanges(broad, /*may_test=*/true);
  ASSERT_EQ(tested.must.tests.size(), 1u);
  EXPECT_EQ(tested.must.tests[0]->Count(), 2'001u);
  EXPECT_TRUE(tested.must.tests[0]->MayHold(3'000, 6'000));
  EXPECT_FALSE(tested.must.tests[0]->MayHold(6'000 + 4'096, 20'000));
  index.Add(kIds + 1, ValuesOf(Json::array({2'000, 5'000})));  // meets both of two that have nothing in common
  EXPECT_FALSE(index.CanJoin(from));
}

TEST(FieldIndexes, PutSetsTogetherWhereAnIdHasSeveralValuesOrOneThatDoesNotFit) {
  constexpr uint64_t kIds = 6'000;
  const auto filled = [&] {
    auto index = std::make_unique<FieldIndex>(PayloadType::kInteger);
    for (uint64_t id = 1; id <= kIds; ++id) index->Add(id, ValuesOf(id % 1'000));
    return index;
  };
  const FilterNode broad = RangeOf(int64_t{200}, int64_t{700});
  auto index = filled();
  ExpectSame(*index, broad, kIds, true);
  index->Add(kIds + 1, ValuesOf("no number"));  // meets no condition on numbers
  index->Add(kIds + 2, ValuesOf(nullptr));
  index->Add(kIds + 3, ValuesOf(Json::array({300, "and a text"})));
  ExpectSame(*index, broad, kIds + 3, true);
  index->Add(kIds + 4, ValuesOf(300.5));  // its payload has to be read
  ExpectSame(*index, broad, kIds + 4, false);
  const FilterNode above = RangeOf(int64_t{300}, std::nullopt), below = RangeOf(std::nullopt, int64_t{400});
  const FilterNode* const both[] = {&above, &below};
  ASSERT_TRUE(index->CanJoin(above) && index->CanJoin(below));
  const IdBounds joined = index->EvaluateRanges(both, /*may_test=*/true);
  EXPECT_FALSE(joined.must.Contains(kIds + 4));
  EXPECT_TRUE(joined.upper().Contains(kIds + 4) && joined.upper().Contains(1'300) && !joined.upper().Contains(1'400));
  index->Remove(kIds + 4, ValuesOf(300.5));
  ExpectSame(*index, broad, kIds + 4, true);
  for (const Json& value : {Json::array({1, 300}), Json(std::numeric_limits<int64_t>::lowest())}) {
    index->Add(kIds + 5, ValuesOf(value));
    ExpectSame(*index, broad, kIds + 5, false);
    ExpectSame(*index, RangeOf(std::nullopt, int64_t{500}), kIds + 5, false);
    index->Remove(kIds + 5, ValuesOf(value));
    ExpectSame(*index, broad, kIds + 5, true);
  }
}

TEST(FieldIndexes, TakeNoMemoryByIdWhereFewIdsHaveAValue) {
  FieldIndex dense(PayloadType::kInteger), rare(PayloadType::kInteger), old(PayloadType::kInteger);
  constexpr uint64_t kIds = 2'000'000;
  const PayloadValues none = Payload("{}").At(PathKeys{"v"});
  dense.Expect(kIds / 8);
  rare.Expect(kIds / 2);   // most of which have no value
  old.Expect(kIds / 100);  // the other ids are gone
  uint64_t old_bytes = 0;
  for (uint64_t i = 0; i < kIds / 8; ++i) {
    const uint64_t id = 1 + i * 7'919 % kIds;  // in no order
    rare.Add(id, i % 25 == 0 ? ValuesOf(i) : none);
    if (i % 12 == 0) old.Add(id, ValuesOf(i));
    dense.Add(1 + i, ValuesOf(i));
    if (i % 1'000 == 0) old_bytes = std::max<uint64_t>(old_bytes, old.bytes());
  }
  EXPECT_LT(old_bytes, (kIds / 100 * 3 + (1 << 18)) * 8 + kIds / 100 * 100) << "room for so many as were said to come";
  const FilterNode all = RangeOf(int64_t{-1}, std::nullopt);
  const size_t rare_bytes = rare.bytes(), dense_bytes = dense.bytes();
  for (FieldIndex* index : {&dense, &rare, &old}) index->Settle();
  EXPECT_EQ(dense.bytes(), dense_bytes);
  EXPECT_LT(rare.bytes(), rare_bytes - kIds * 7);
  EXPECT_FALSE(dense.Evaluate(all, true).must.tests.empty());
  for (const FieldIndex* index : {&rare, &old}) EXPECT_TRUE(index->Evaluate(all, true).must.tests.empty());
  EXPECT_EQ(rare.Evaluate(all, true).must.ids.Count(), kIds / 8 / 25);
}

class NoPayloads : public PayloadSource {
 public:
  absl::Status ForEachPayload(absl::FunctionRef<absl::Status(uint64_t, std::string_view)>,
                              std::vector<uint64_t>*) override {
    return absl::OkStatus();
  }
  uint64_t Payloads() override { return 0; }
  absl::StatusOr<std::vector<bool>> Gone(std::span<const uint64_t> ids) override {
    return std::vector<bool>(ids.size(), true);
  }
};

// Of a start, which reads payloads in the order of items: no order of internal ids.
class Shuffled : public NoPayloads {
 public:
  static constexpr uint64_t kIds = 300'000;
  explicit Shuffled(uint64_t step) : step_(step) {}
  absl::Status ForEachPayload(absl::FunctionRef<absl::Status(uint64_t, std::string_view)> visit,
                              std::vector<uint64_t>*) override {
    for (uint64_t i = 0; i < kIds; i += step_) {
      const uint64_t id = 1 + i * 7'919 % kIds;
      LC_RETURN_IF_ERROR(visit(id, StrCat("{\"v\":", id, "}")));
    }
    return absl::OkStatus();
  }
  uint64_t Payloads() override { return kIds / step_; }

 private:
  const uint64_t step_;
};

TEST(PayloadIndexes, HoldValuesByIdAfterAStartAsFarAsThereAreMany) {
  for (const uint64_t step : {1, 20}) {
    Shuffled source(step);
    PayloadIndex index(&source);
    index.Declare(std::vector<PayloadField>{{"v", PayloadType::kInteger}});
    ASSERT_TRUE(index.WaitReady({}));
    const FilterNode most = RangeOf(int64_t{10}, std::nullopt);
    EXPECT_EQ(index.Compile(most, 1, /*may_test=*/true).bounds.must.tests.empty(), step > 1);
    EXPECT_TRUE(index.Compile(most, 1, /*may_test=*/false).bounds.must.tests.empty());
  }
}

// Draws payloads, and filters: ranges of all widths with one another, with sets, negated, and with what no index knows.
class MixedFilters {
 public:
  std::string Payload() {
    return Json{{"a", Number(1'000)},
                {"b", Number(1'000) * 0.5},
                {"tag", StrCat("t", Number(1 + Number(200)))},
                {"unknown", Number(3)}}
        .dump();
  }

  FilterNode Any(int depth) {
    switch (Number(depth > 0 ? 8 : 5)) {
      case 0:
      case 1:
        return Range("a", 1);
      case 2:
        return Range("b", 0.5);
      case 3:
        return Leaf(Kind::kEquals, "tag", {StrCat("t", Number(60))});
      case 4:
        return Leaf(Kind::kEquals, "unknown", {int64_t{1}});
      case 5:
        return Branch(Kind::kNot, {Any(depth - 1)});
      case 6:
        return Branch(Kind::kOr, {Any(depth - 1), Any(depth - 1)});
      default:
        return Branch(Kind::kAnd, {Any(depth - 1), Any(depth - 1), Any(depth - 1)});
    }
  }

 private:
  int Number(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  FilterNode Range(const char* field, double scale) {
    FilterNode node = Leaf(Kind::kRange, field);
    const int least = Number(1'000);
    node.greater = least * scale - 1;
    if (Number(3) > 0) node.less_equal = (least + Number(900)) * scale;
    return node;
  }

  std::mt19937_64 random_{17};
};

TEST(PayloadIndexes, CombineTestsAndSetsToWhatReadingEveryPayloadSays) {
  constexpr uint64_t kIds = 12'000;
  MixedFilters draw;
  NoPayloads source;
  PayloadIndex index(&source);
  index.Declare(std::vector<PayloadField>{
      {"a", PayloadType::kInteger}, {"b", PayloadType::kFloat}, {"tag", PayloadType::kKeyword}});
  ASSERT_TRUE(index.WaitReady({}));
  std::vector<std::string> payloads(kIds + 1);
  for (uint64_t id = 1; id <= kIds; ++id) {
    payloads[id] = draw.Payload();
    index.Add(std::vector<PayloadIndex::Entry>{{id, payloads[id]}});
  }
  int tested = 0, of_sets = 0, both = 0;
  for (int round = 0; round < 250; ++round) {
    const FilterNode node = Branch(Kind::kAnd, {draw.Any(2), draw.Any(2)});
    const auto filter = Filter::Make(node);
    ASSERT_TRUE(filter.ok()) << filter.status();
    const CompiledFilter compiled = index.Compile(node, 1, /*may_test=*/true);
    const IdFilter& upper = compiled.bounds.upper();
    (upper.tests.empty() ? of_sets : tested) += 1;
    both += !upper.tests.empty() && !upper.ids.empty();
    uint64_t passing = 0;
    for (uint64_t id = 1; id <= kIds; ++id) {
      const bool passes = filter->Matches({&payloads[id], 1, 0});
      if (compiled.exact()) {
        ASSERT_EQ(compiled.bounds.must.Contains(id), passes) << payloads[id];
      } else {
        ASSERT_LE(compiled.bounds.must.Contains(id), passes) << payloads[id];
        ASSERT_LE(passes, upper.Contains(id)) << payloads[id];
      }
      passing += upper.Contains(id);
    }
    if (upper.tests.empty()) {
      EXPECT_NEAR(upper.Share(kIds), static_cast<double>(passing) / kIds, 1e-9);
    }
    const CompiledFilter sets = index.Compile(node, 1, /*may_test=*/false);
    EXPECT_TRUE(sets.bounds.upper().tests.empty());
    if (compiled.exact()) {
      EXPECT_NEAR(sets.bounds.upper().Share(kIds), static_cast<double>(passing) / kIds, 1e-9);
    }
  }
  EXPECT_GT(tested, 30);
  EXPECT_GT(of_sets, 30);
  EXPECT_GT(both, 10);
}

}  // namespace
}  // namespace lightcone::server

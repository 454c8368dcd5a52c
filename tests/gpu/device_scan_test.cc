// Scans of the kernels' own source, on the emulated device and on a real one where there is one: what they find is a
// superset of the exact top k, with true errors, or is said to be incomplete.
#include <functional>

#include "gmock/gmock.h"
#include "tests/gpu/device_testing.h"

namespace lightcone::gpu {
namespace {

using testing::HasSubstr;

class DeviceScan : public testing::TestWithParam<std::tuple<std::string, DeviceStorage>> {
 protected:
  void SetUp() override {
    auto machine = MakeMachine(std::get<0>(GetParam()));
    emulated_ = dynamic_cast<EmulatedMachine*>(machine.get());
    auto device = ScanDevice::Open(std::move(machine), SmallOptions(storage()));
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = std::move(*device);
  }

  DeviceStorage storage() const { return std::get<1>(GetParam()); }
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  Space RandomSpace(int dimension) {
    Space space{static_cast<Metric>(Below(4)), dimension, 1.0, 1.0};
    if (space.metric == Metric::kLorentz) {
      space.curvature = 0.1 + 0.01 * static_cast<double>(Below(140));
      space.clip_radius = 0.5 + 0.01 * static_cast<double>(Below(300));
    }
    return space;
  }

  // `grid`: few different numbers, so that many scores are the same.
  std::vector<float> Vector(int dimension, bool grid, float size = 1) {
    std::vector<float> z(static_cast<size_t>(dimension));
    std::normal_distribution<float> normal(0, size);
    for (float& x : z) x = grid ? size * (static_cast<float>(Below(3)) - 1) : normal(random_);
    if (NormOf(z) == 0) z[0] = size;
    return z;
  }

  HostRows RandomRows(const Space& space, int64_t count, bool grid = false) {
    HostRows rows;
    rows.space = space;
    for (int64_t i = 0; i < count; ++i) {
      // Norms apart by powers of ten, each row on its own.
      const float size = Below(4) == 0 ? std::pow(10.0f, static_cast<float>(Below(7)) - 3) : 0.3f;
      rows.Add(Vector(space.dimension, grid, size));
    }
    return rows;
  }

  std::vector<BoundQuery> Queries(const Space& space, int count) {
    std::vector<BoundQuery> bound;
    for (int i = 0; i < count; ++i) {
      bound.push_back(BoundQuery::Make(space, space, Vector(space.dimension, Below(3) == 0, 0.5f)).value());
    }
    return bound;
  }

  std::shared_ptr<const DeviceRows> Copy(const HostRows& rows) {
    auto copied = rows.CopyTo(*device_);
    EXPECT_TRUE(copied.ok()) << copied.status();
    return std::move(*copied);
  }

  // Rows that are to be met in the first launch, which has room for all of them; those of later ones.
  static bool Early(int64_t row, int64_t rows) {
    const uint32_t tiles = static_cast<uint32_t>((rows + kTileRows - 1) / kTileRows), step = TileStep(tiles);
    for (uint64_t position = 0; position < kFoundMin / kTileRows; ++position) {
      if (position * step % tiles == static_cast<uint64_t>(row) / kTileRows) return true;
    }
    return false;
  }

  std::mt19937 random_{7};
  EmulatedMachine* emulated_ = nullptr;  // nullptr: a real one
  std::shared_ptr<ScanDevice> device_;
};

INSTANTIATE_TEST_SUITE_P(All, DeviceScan,
                         testing::Combine(testing::ValuesIn(Machines()),
                                          testing::Values(DeviceStorage::kFloat32, DeviceStorage::kHalf)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::string(DeviceStorageName(std::get<1>(info.param)));
                         });

TEST_P(DeviceScan, FindsASupersetOfTheTopKInRandomWorlds) {
  static constexpr int kDimensions[] = {1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 100, 128, 257, 520};
  static constexpr int64_t kRows[] = {1, 2, 31, 127, 128, 129, 500, 1300};
  static constexpr int kTogether[] = {1, 1, 2, 4, 5, 66};
  static constexpr int64_t kNearest[] = {1, 2, 10, 100, kDeviceKMax};
  for (int world = 0; world < 40; ++world) {
    const Space space = RandomSpace(kDimensions[Below(std::size(kDimensions))]);
    const HostRows rows = RandomRows(space, kRows[Below(std::size(kRows))], Below(3) == 0);
    const std::shared_ptr<const DeviceRows> copied = Copy(rows);
    const size_t modulus = 2 + Below(5);
    auto bits = copied->BitsOf(std::make_shared<StateCounts>(), 1, [&](uint32_t row) { return row % modulus != 0; });
    ASSERT_TRUE(bits.ok()) << bits.status();
    const std::vector<BoundQuery> bound = Queries(space, kTogether[Below(std::size(kTogether))]);
    std::vector<DeviceQuery> queries;
    for (const BoundQuery& one : bound) {
      queries.push_back({&one, kNearest[Below(std::size(kNearest))], kNoFloor, {}});
      queries.back().parts.push_back({copied, Below(2) == 0 ? *bits : nullptr});
    }
    const std::vector<DeviceAnswer> answers = device_->Scan(queries);
    for (size_t q = 0; q < queries.size(); ++q) {
      const bool all = queries[q].parts[0].allowed == nullptr;
      ExpectSuperset(
          rows, bound[q], queries[q].k, [&](int64_t row) { return all || static_cast<size_t>(row) % modulus != 0; },
          answers[q],
          StrCat("world ", world, ", ", MetricName(space.metric), ", d ", space.dimension, ", query ", q, " of ",
                 queries.size()));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(DeviceScan, LetsFewRowsOfManyThrough) {
  const Space space{Metric::kLorentz, 24, 1.0, 1.2};
  const HostRows rows = RandomRows(space, 20'000);
  const std::shared_ptr<const DeviceRows> copied = Copy(rows);
  for (const int together : {1, 9}) {
    const std::vector<BoundQuery> bound = Queries(space, together);
    std::vector<DeviceQuery> queries;
    for (const BoundQuery& one : bound) queries.push_back({&one, 10, kNoFloor, {{copied, nullptr}}});
    const std::vector<DeviceAnswer> answers = device_->Scan(queries);
    for (size_t q = 0; q < queries.size(); ++q) {
      ExpectSuperset(
          rows, bound[q], 10, [](int64_t) { return true; }, answers[q], StrCat("query ", q));
      EXPECT_LT(answers[q].rows.size(), 200u);
    }
  }
}

TEST_P(DeviceScan, AFloorIsObeyed) {
  const Space space{Metric::kInnerProduct, 12, 1.0, 1.0};
  const HostRows rows = RandomRows(space, 300);
  const std::vector<BoundQuery> bound = Queries(space, 1);
  const double floor = 0.4;
  const auto answers = device_->Scan(std::vector<DeviceQuery>{{&bound[0], 300, floor, {{Copy(rows), nullptr}}}});
  ASSERT_TRUE(answers[0].complete);
  size_t above = 0;
  for (int64_t i = 0; i < rows.count(); ++i) above += bound[0].Distance(rows.row(i)) <= -floor;
  EXPECT_GE(answers[0].rows.size(), above);
  EXPECT_LT(answers[0].rows.size(), 300u);
  for (const FoundRow& row : answers[0].rows) EXPECT_GE(double{row.score} + row.error, floor - 1e-6);
}

// The first launch meets far rows alone, the next one thousands of near ones, more than there are places.
TEST_P(DeviceScan, WhatFindsMoreThanHasRoomIsTriedAgain) {
  constexpr int64_t kRows = 12'000;
  HostRows rows;
  rows.space = {Metric::kEuclidean, 4, 1.0, 1.0};
  for (int64_t i = 0; i < kRows; ++i) {
    const float x = static_cast<float>(i) / kRows;
    rows.Add({Early(i, kRows) ? 50.0f + 50.0f * x : x, 0, 0, 0});
  }
  const BoundQuery query = BoundQuery::Make(rows.space, rows.space, std::vector<float>{0, 0, 0, 0}).value();
  const std::shared_ptr<const DeviceRows> copied = Copy(rows);
  const int64_t before = emulated_ == nullptr ? 0 : emulated_->launches();
  const auto answers = device_->Scan(std::vector<DeviceQuery>{{&query, 10, kNoFloor, {{copied, nullptr}}}});
  ExpectSuperset(
      rows, query, 10, [](int64_t) { return true; }, answers[0], "after another try");
  if (emulated_ != nullptr) {
    EXPECT_EQ(emulated_->launches() - before, 4);  // two launches a try
  }
}

TEST_P(DeviceScan, TiesThatHaveNoRoomAreLeftToTheCpu) {
  HostRows rows;
  rows.space = {Metric::kLorentz, 6, 1.0, 1.2};
  const std::vector<float> same = Vector(6, false, 0.3f);
  for (int i = 0; i < 9'000; ++i) rows.Add(same);
  const std::vector<BoundQuery> bound = Queries(rows.space, 2);
  const std::shared_ptr<const DeviceRows> copied = Copy(rows);
  const HostRows few = RandomRows(rows.space, 100);
  const auto answers = device_->Scan(std::vector<DeviceQuery>{{&bound[0], 10, kNoFloor, {{copied, nullptr}}},
                                                              {&bound[1], 10, kNoFloor, {{Copy(few), nullptr}}}});
  EXPECT_FALSE(answers[0].complete);
  ExpectSuperset(
      few, bound[1], 10, [](int64_t) { return true; }, answers[1], "beside");
  EXPECT_FALSE(device_->lost());
  EXPECT_EQ(device_->Stats().incomplete, 1);
  EXPECT_EQ(device_->Stats().scans, 1);
}

TEST_P(DeviceScan, LegsOfOtherSpacesGoInOneLaunch) {
  std::vector<HostRows> legs;
  std::vector<BoundQuery> bound;
  for (const int dimension : {5, 64, 130}) {
    const Space space = RandomSpace(dimension);
    legs.push_back(RandomRows(space, 600));
    bound.push_back(std::move(Queries(space, 1)[0]));
  }
  std::vector<DeviceQuery> queries;
  for (size_t i = 0; i < legs.size(); ++i) {
    queries.push_back({&bound[i], 7, kNoFloor, {{Copy(legs[i]), nullptr}}});
  }
  const int64_t before = emulated_ == nullptr ? 0 : emulated_->launches();
  const auto answers = device_->Scan(queries);
  for (size_t i = 0; i < legs.size(); ++i) {
    ExpectSuperset(
        legs[i], bound[i], 7, [](int64_t) { return true; }, answers[i], StrCat("leg ", i));
  }
  if (emulated_ != nullptr) {
    EXPECT_EQ(emulated_->launches() - before, 1);
  }
}

// One query over several segments: the k nearest of all of them, each by its part.
TEST_P(DeviceScan, ThePartsOfAQueryShareAFloor) {
  const Space space{Metric::kCosine, 20, 1.0, 1.0};
  const HostRows first = RandomRows(space, 900), second = RandomRows(space, 900);
  const std::vector<BoundQuery> bound = Queries(space, 6);
  const auto a = Copy(first), b = Copy(second);
  std::vector<DeviceQuery> queries;
  for (const BoundQuery& one : bound) queries.push_back({&one, 5, kNoFloor, {{a, nullptr}, {b, nullptr}}});
  const auto answers = device_->Scan(queries);
  for (size_t q = 0; q < queries.size(); ++q) {
    ASSERT_TRUE(answers[q].complete);
    std::vector<std::tuple<double, uint32_t, uint32_t>> exact;
    for (uint32_t i = 0; i < 900; ++i) {
      exact.emplace_back(bound[q].Distance(first.row(i)), 0, i);
      exact.emplace_back(bound[q].Distance(second.row(i)), 1, i);
    }
    std::sort(exact.begin(), exact.end());
    for (int i = 0; i < 5; ++i) {
      const auto [distance, part, row] = exact[static_cast<size_t>(i)];
      EXPECT_TRUE(std::any_of(answers[q].rows.begin(), answers[q].rows.end(),
                              [p = part, r = row](const FoundRow& found) { return found.part == p && found.row == r; }))
          << "query " << q << ", rank " << i;
    }
    EXPECT_LT(answers[q].rows.size(), 100u);  // either part alone would have its own five, and more
  }
}

TEST_P(DeviceScan, MemoryIsAccountedForAndGivenBack) {
  const int64_t before = device_->Stats().bytes;
  const HostRows rows = RandomRows({Metric::kLorentz, 128, 1.0, 1.2}, 100);
  {
    const auto copied = Copy(rows);
    EXPECT_EQ(copied->bytes(), 100 * (storage() == DeviceStorage::kHalf ? 256 + 16 : 512 + 16));
    EXPECT_EQ(device_->Stats().bytes, before + copied->bytes());
    const auto counts = std::make_shared<StateCounts>();
    const auto bits = copied->BitsOf(counts, 1, [](uint32_t) { return true; });
    EXPECT_EQ(copied->BitsOf(counts, 1, [](uint32_t) { return false; }).value(), *bits);
    EXPECT_NE(copied->BitsOf(std::make_shared<StateCounts>(), 1, [](uint32_t) { return true; }).value(), *bits);
  }
  EXPECT_EQ(device_->Stats().bytes, before);
}

TEST_P(DeviceScan, ARowThatIsNotFiniteIsNamed) {
  HostRows rows = RandomRows({Metric::kEuclidean, 7, 1.0, 1.0}, 50);
  rows.numbers[33 * 7 + 6] = std::numeric_limits<float>::quiet_NaN();
  const auto copied = rows.CopyTo(*device_);
  EXPECT_EQ(copied.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(copied.status()), HasSubstr("row 33"));
}

TEST_P(DeviceScan, AQueryThatNobodyWaitsForIsLeftOut) {
  const HostRows rows = RandomRows({Metric::kCosine, 8, 1.0, 1.0}, 200);
  const std::vector<BoundQuery> bound = Queries(rows.space, 2);
  const auto copied = Copy(rows);
  std::vector<DeviceQuery> queries = {{&bound[0], 5, kNoFloor, {{copied, nullptr}}},
                                      {&bound[1], 5, kNoFloor, {{copied, nullptr}}}};
  queries[0].gave_up = [] { return true; };
  queries[1].gave_up = [] { return false; };
  const auto answers = device_->Scan(queries);
  EXPECT_FALSE(answers[0].complete);
  ExpectSuperset(
      rows, bound[1], 5, [](int64_t) { return true; }, answers[1], "beside");
}

// What runs are told has a part of the budget; queries that need more of it go one group after another.
TEST_P(DeviceScan, MoreQueriesThanFitGoInGroups) {
  DeviceOptions options = SmallOptions(storage());
  options.memory_bytes_max = 16 << 20;
  device_ = ScanDevice::Open(MakeMachine(std::get<0>(GetParam())), options).value();
  const HostRows rows = RandomRows({Metric::kCosine, 1'000, 1.0, 1.0}, 60);
  const std::vector<BoundQuery> bound = Queries(rows.space, 300);
  const auto copied = Copy(rows);
  std::vector<DeviceQuery> queries;
  for (const BoundQuery& one : bound) queries.push_back({&one, 5, kNoFloor, {{copied, nullptr}}});
  const auto answers = device_->Scan(queries);
  for (size_t q = 0; q < queries.size(); ++q) {
    ExpectSuperset(
        rows, bound[q], 5, [](int64_t) { return true; }, answers[q], StrCat("query ", q));
  }
}

TEST_P(DeviceScan, VisibleRowsAreNotAskedAboutWhereTheyHaveNoRoom) {
  const HostRows rows = RandomRows({Metric::kCosine, 8, 1.0, 1.0}, 200);
  const auto copied = Copy(rows);
  int asked = 0;
  const auto visible = [&asked](uint32_t) { return ++asked > 0; };
  auto all = device_->budget()->Take(device_->Stats().bytes_max - device_->Stats().bytes).value();
  const auto counts = std::make_shared<StateCounts>();
  EXPECT_EQ(device_->BitsOf(*copied, counts, 1, visible), nullptr);
  all = DeviceMemory();
  EXPECT_EQ(device_->BitsOf(*copied, counts, 1, visible), nullptr);  // kept, until rows go
  EXPECT_EQ(asked, 0);
  device_->budget()->CountRowsGone();
  EXPECT_NE(device_->BitsOf(*copied, counts, 1, visible), nullptr);
  EXPECT_EQ(asked, 200);
  EXPECT_FALSE(device_->lost());
}

TEST_P(DeviceScan, OnlyWholeRowsThatGoLetOthersTryAgain) {
  const uint64_t before = device_->budget()->state().rows_gone;
  HostRows rows = RandomRows({Metric::kEuclidean, 7, 1.0, 1.0}, 50);
  Copy(rows).reset();
  EXPECT_EQ(device_->budget()->state().rows_gone, before + 1);
  rows.numbers[9] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(rows.CopyTo(*device_).ok());
  EXPECT_EQ(device_->budget()->state().rows_gone, before + 1);
}

TEST(CopyOfASegment, IsWantedAgainOnlyWhereThatMayHelp) {
  DeviceCopy copy;
  EXPECT_TRUE(copy.Want({1, 0, 500}));
  EXPECT_FALSE(copy.Want({1, 0, 500}));
  copy.Refuse({1, 0, 500}, 600);
  EXPECT_FALSE(copy.Want({1, 0, 1'000}));  // nothing went but what is not counted
  EXPECT_FALSE(copy.Want({1, 1, 599}));
  EXPECT_TRUE(copy.Want({1, 1, 600}));
  copy.Refuse({1, 1, 600}, 600);
  EXPECT_TRUE(copy.Want({2, 0, 0}));  // another device
  copy.Refuse({1, 2, 600}, 600);      // of the first one, too late
  EXPECT_FALSE(copy.Want({2, 5, 900}));
  copy.RefuseForEver();
  EXPECT_FALSE(copy.Want({2, 6, 900}));
  EXPECT_FALSE(copy.Want({3, 0, 900}));
}

TEST(OpenDevice, OneWithWrongScoresIsRefused) {
  auto machine = std::make_unique<EmulatedMachine>();
  machine->set_wrong(1e-2f);
  const auto device = ScanDevice::Open(std::move(machine), SmallOptions(DeviceStorage::kHalf));
  EXPECT_EQ(device.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(device.status()), testing::AllOf(HasSubstr("emulated device"), HasSubstr("lorentz score")));
}

TEST(OpenDevice, TheReasonForNoneIsSaid) {
  const auto machine = OpenCudaMachine();
  if (machine.ok()) {
    EXPECT_THAT((*machine)->name(), HasSubstr("compute capability"));
  } else {
    EXPECT_THAT(MessageOf(machine.status()),
                testing::AnyOf(HasSubstr("no CUDA device: "), HasSubstr("built without CUDA: ")));
  }
}

TEST(OpenDevice, OptionsNameTheFieldAndWhatIsAllowed) {
  DeviceOptions options;
  options.memory_bytes_max = 5;
  EXPECT_THAT(MessageOf(options.Validate()),
              testing::AllOf(HasSubstr("engine.gpu_memory_bytes_max' is 5"), HasSubstr("16777216 .. ")));
  EXPECT_FALSE(ParseDeviceStorage("int8").has_value());
  EXPECT_EQ(ParseDeviceStorage("fp16"), DeviceStorage::kHalf);
}

TEST(LostDevice, NoAnswerIsWrongWhereverItHappens) {
  const Space space{Metric::kLorentz, 16, 1.0, 1.2};
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.3f);
  HostRows rows;
  rows.space = space;
  for (int i = 0; i < 300; ++i) {
    std::vector<float> z(16);
    for (float& x : z) x = normal(random);
    rows.Add(z);
  }
  const BoundQuery query = BoundQuery::Make(space, space, rows.row(5)).value();
  int lost = 0;
  for (int64_t calls = 0; calls < 9; ++calls) {
    auto machine = std::make_unique<EmulatedMachine>();
    EmulatedMachine* const raw = machine.get();
    const auto device = ScanDevice::Open(std::move(machine), SmallOptions(DeviceStorage::kFloat32)).value();
    const auto copied = rows.CopyTo(*device).value();
    raw->FailAfter(calls);
    const auto answers = device->Scan(std::vector<DeviceQuery>{{&query, 3, kNoFloor, {{copied, nullptr}}}});
    EXPECT_EQ(device->lost(), !answers[0].complete) << calls;
    lost += device->lost();
    if (answers[0].complete)
      ExpectSuperset(
          rows, query, 3, [](int64_t) { return true; }, answers[0], "not lost");
    EXPECT_EQ(device->Stats().lost, device->lost());
  }
  EXPECT_GE(lost, 4);  // write, scan, select and read
  EXPECT_LT(lost, 9);
}

TEST(LostDevice, WhatDoesNotFitIsRefusedAndNoLoss) {
  DeviceOptions options = SmallOptions(DeviceStorage::kFloat32);
  options.memory_bytes_max = 16 << 20;
  const auto device = ScanDevice::Open(std::make_unique<EmulatedMachine>(), options).value();
  HostRows rows;
  rows.space = {Metric::kEuclidean, 512, 1.0, 1.0};
  for (int i = 0; i < 9'000; ++i) rows.Add(std::vector<float>(512, 1.0f));
  const auto copied = rows.CopyTo(*device);
  EXPECT_EQ(copied.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(copied.status()), HasSubstr("engine.gpu_memory_bytes_max is 16777216"));
  EXPECT_FALSE(device->lost());
}

}  // namespace
}  // namespace lightcone::gpu

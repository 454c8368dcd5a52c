#include "research/experiment/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/status.h"
#include "tests/trainer/tiny_set.h"

namespace lightcone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 12 classes of 20 training images each.
const Dataset& TwelveClasses() {
  static const Dataset dataset = TinyDataset(12);
  return dataset;
}

Scenario Make(const std::string& name, const ScenarioOptions& options = {}) {
  auto scenario = MakeScenario(name, TwelveClasses(), options);
  EXPECT_TRUE(scenario.ok()) << MessageOf(scenario.status());
  return *std::move(scenario);
}

std::map<int32_t, int> PerClass(const ScenarioStep& step) {
  std::map<int32_t, int> count;
  for (const int64_t row : step.rows) ++count[TwelveClasses().train.labels[static_cast<size_t>(row)]];
  return count;
}

std::set<int64_t> Shared(const ScenarioStep& a, const ScenarioStep& b) {
  const std::set<int64_t> rows(a.rows.begin(), a.rows.end());
  std::set<int64_t> shared;
  for (const int64_t row : b.rows) {
    if (rows.contains(row)) shared.insert(row);
  }
  return shared;
}

TEST(Scenario, ExtDataTakesThreeTenthsOfEachClassFromTheSeed) {
  const Scenario scenario = Make("ext-data");
  ASSERT_EQ(scenario.steps.size(), 2u);
  EXPECT_EQ(scenario.steps[0].classes.size(), 12u);
  for (const auto& [label, count] : PerClass(scenario.steps[0])) EXPECT_EQ(count, 6) << label;
  EXPECT_EQ(scenario.steps[1].rows.size(), 240u);
  EXPECT_TRUE(std::is_sorted(scenario.steps[0].rows.begin(), scenario.steps[0].rows.end()));
  EXPECT_FALSE(scenario.steps[1].architecture_changes);
  ScenarioOptions other;
  other.seed = 2;
  EXPECT_NE(Make("ext-data", other).steps[0].rows, scenario.steps[0].rows);
  EXPECT_EQ(Make("ext-data").steps[0].rows, scenario.steps[0].rows);
  other.old_share = 0.5;
  EXPECT_EQ(Make("ext-data", other).steps[0].rows.size(), 120u);
}

TEST(Scenario, ExtClassTakesTheFirstHalfOfTheClasses) {
  const Scenario scenario = Make("ext-class");
  EXPECT_THAT(scenario.steps[0].classes, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(scenario.steps[0].rows.size(), 120u);
  EXPECT_EQ(scenario.steps[1].classes.size(), 12u);
  ScenarioOptions lexicographic;
  lexicographic.class_order = "lexicographic";
  const Scenario by_digits = Make("ext-class", lexicographic);
  EXPECT_THAT(by_digits.steps[0].classes, ElementsAre(0, 1, 10, 11, 2, 3));
  EXPECT_TRUE(std::equal(by_digits.steps[0].classes.begin(), by_digits.steps[0].classes.end(),
                         by_digits.steps[1].classes.begin()));
}

TEST(Scenario, OpenDataSharesNoImageAndOpenClassNoClass) {
  const Scenario data = Make("open-data");
  EXPECT_TRUE(Shared(data.steps[0], data.steps[1]).empty());
  EXPECT_EQ(data.steps[0].rows.size() + data.steps[1].rows.size(), 240u);
  for (const ScenarioStep& step : data.steps) {
    EXPECT_EQ(step.classes.size(), 12u);
    for (const auto& [label, count] : PerClass(step)) EXPECT_EQ(count, 10) << label;
  }
  ScenarioOptions third;
  third.old_share = 0.25;
  const Scenario classes = Make("open-class", third);
  EXPECT_THAT(classes.steps[0].classes, ElementsAre(0, 1, 2));
  EXPECT_THAT(classes.steps[1].classes, ElementsAre(3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_TRUE(Shared(classes.steps[0], classes.steps[1]).empty());
}

TEST(Scenario, NewArchAndBothChangeTheArchitecture) {
  const Scenario same = Make("new-arch"), both = Make("both");
  EXPECT_EQ(same.steps[0].rows, same.steps[1].rows);
  EXPECT_EQ(both.steps[0].rows, Make("ext-class").steps[0].rows);
  for (const Scenario* scenario : {&same, &both}) {
    EXPECT_FALSE(scenario->steps[0].architecture_changes);
    EXPECT_TRUE(scenario->steps[1].architecture_changes);
  }
}

TEST(Scenario, SequentialGrowsByAFifthAndChangesTheArchitectureOnce) {
  const Scenario scenario = Make("sequential");
  std::vector<size_t> classes;
  std::vector<bool> changes;
  for (const ScenarioStep& step : scenario.steps) {
    classes.push_back(step.classes.size());
    changes.push_back(step.architecture_changes);
    EXPECT_EQ(step.rows.size(), 20 * step.classes.size());
  }
  EXPECT_THAT(classes, ElementsAre(2, 5, 7, 10, 12));
  EXPECT_THAT(changes, ElementsAre(false, false, true, false, false));
  ScenarioOptions options;
  options.chain_shares = {0.5, 1};
  options.chain_change = 0;
  EXPECT_EQ(Make("sequential", options).steps.size(), 2u);
  EXPECT_FALSE(Make("sequential", options).steps[1].architecture_changes);
}

TEST(Scenario, StepDatasetNumbersItsClassesInTheirOrder) {
  ScenarioOptions options;
  options.class_order = "lexicographic";
  const Scenario scenario = Make("ext-class", options);
  const Dataset old = StepDataset(TwelveClasses(), scenario.steps[0]);
  EXPECT_THAT(old.class_names, ElementsAre("class0", "class1", "class10", "class11", "class2", "class3"));
  EXPECT_EQ(old.train.size(), 120);
  EXPECT_EQ(old.test.size(), 48);
  const Dataset& all = TwelveClasses();
  for (int64_t i = 0; i < old.train.size(); ++i) {
    const int64_t row = scenario.steps[0].rows[static_cast<size_t>(i)];
    EXPECT_EQ(scenario.steps[0].classes[static_cast<size_t>(old.train.labels[i])], all.train.labels[row]);
    EXPECT_EQ(old.train.image(i)[3], all.train.image(row)[3]);
  }
  const Dataset fresh = StepDataset(all, scenario.steps[1]);
  for (size_t c = 0; c < old.class_names.size(); ++c) EXPECT_EQ(fresh.class_names[c], old.class_names[c]);
}

TEST(Scenario, EveryDefectIsNamed) {
  const auto message = [](const std::string& name, const ScenarioOptions& options, const Dataset& dataset) {
    const auto scenario = MakeScenario(name, dataset, options);
    EXPECT_EQ(scenario.status().code(), absl::StatusCode::kInvalidArgument) << name;
    return MessageOf(scenario.status());
  };
  const Dataset& all = TwelveClasses();
  EXPECT_THAT(message("open", {}, all),
              HasSubstr("field 'scenario' is 'open'; allowed: ext-data, ext-class, open-data"));
  ScenarioOptions options;
  options.old_share = 1;
  EXPECT_THAT(message("ext-data", options, all), HasSubstr("field 'old_share' is 1; allowed: above 0 and below 1"));
  options.old_share = 0.5;
  EXPECT_THAT(message("new-arch", options, all),
              HasSubstr("'old_share' is 0.5; allowed: 0: scenario 'new-arch' takes"));
  options.old_share = 0.05;
  EXPECT_THAT(message("ext-class", options, all), HasSubstr("step 0 of scenario 'ext-class'' is 1 classes"));
  options.old_share = 0.95;
  EXPECT_THAT(message("open-class", options, all), HasSubstr("step 1 of scenario 'open-class'' is 1 classes"));
  EXPECT_THAT(message("ext-class", {0.99}, all), HasSubstr("is 240 images; allowed: more than the 240"));
  EXPECT_THAT(message("open-data", {0.99}, all), HasSubstr("training images of class 'class0'' is too few"));
  EXPECT_THAT(message("sequential", {}, TinyDataset(3)), HasSubstr("step 0 of scenario 'sequential'' is 1 classes"));
  options = {};
  options.class_order = "random";
  EXPECT_THAT(message("ext-class", options, all), HasSubstr("'class_order' is 'random'; allowed: ascending"));
  options = {};
  options.chain_shares = {0.5, 0.4};
  EXPECT_THAT(message("sequential", options, all), HasSubstr("'chain_shares[1]' is 0.4; allowed: above 0.5, up to 1"));
  options.chain_shares = {1};
  EXPECT_THAT(message("sequential", options, all), HasSubstr("'chain_shares' is 1 numbers"));
  options = {};
  options.chain_change = 5;
  EXPECT_THAT(message("sequential", options, all), HasSubstr("'chain_change' is 5; allowed: 0 .. 4"));
}

ImageSet MakeSet(int64_t n, int side, int channels) {
  ImageSet set{side, side, channels, {}, {}};
  Rng rng(5);
  for (int64_t i = 0; i < n * set.bytes_per_image(); ++i) set.pixels.push_back(static_cast<uint8_t>(rng.Below(256)));
  for (int64_t i = 0; i < n; ++i) set.labels.push_back(static_cast<int32_t>(i % 5));
  return set;
}

TEST(Split, HoldsOutAShareOfEachClassAndLosesNoImage) {
  Dataset dataset;
  dataset.class_names = {"a", "b", "c", "d", "e"};
  dataset.train = MakeSet(50, 2, 1);
  dataset.test = MakeSet(5, 2, 1);
  dataset.protocol.emplace();
  const std::vector<uint8_t> all = dataset.train.pixels;
  Dataset again = dataset;
  ASSERT_TRUE(HoldOut(0.3, 1, &dataset).ok());
  EXPECT_EQ(dataset.test.size(), 15);
  EXPECT_EQ(dataset.train.size(), 35);
  EXPECT_FALSE(dataset.protocol.has_value());
  for (int label = 0; label < 5; ++label) {
    EXPECT_EQ(std::count(dataset.test.labels.begin(), dataset.test.labels.end(), label), 3) << label;
  }
  std::vector<uint8_t> both = dataset.train.pixels;
  both.insert(both.end(), dataset.test.pixels.begin(), dataset.test.pixels.end());
  EXPECT_TRUE(std::is_permutation(both.begin(), both.end(), all.begin(), all.end()));
  ASSERT_TRUE(HoldOut(0.3, 1, &again).ok());
  EXPECT_EQ(again.test.pixels, dataset.test.pixels);
}

TEST(Split, TwoOfAClassAreHeldOutWhereOneIsLeftSoThatEachFindsAnother) {
  Dataset dataset;
  dataset.class_names = {"two", "three", "many"};
  dataset.train = MakeSet(15, 2, 1);
  dataset.train.labels = {0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  ASSERT_TRUE(HoldOut(0.05, 1, &dataset).ok());
  EXPECT_EQ(dataset.test.labels, (std::vector<int32_t>{0, 1, 1, 2, 2}));
}

TEST(Split, HoldingOutRefusesAClassOfOneImage) {
  Dataset dataset;
  dataset.class_names = {"many", "lonely"};
  dataset.train = MakeSet(3, 2, 1);
  dataset.train.labels = {0, 0, 1};
  const absl::Status status = HoldOut(0.5, 1, &dataset);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), testing::HasSubstr("lonely"));
  EXPECT_EQ(dataset.train.size(), 3) << "untouched";
}

}  // namespace
}  // namespace lightcone

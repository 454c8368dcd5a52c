// A method of one's own: the example of docs/internals/HACKING.md, and options that a method's file declares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/number_text.h"
#include "base/status.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/config_rows.h"
#include "trainer/methods/method_torch.h"
#include "trainer/train.h"

namespace lightcone {

MethodEntry PullMethod();

namespace {

using testing::HasSubstr;

TEST(OwnMethod, TheExampleOfTheDocsIsTheFileThatIsCompiledHere) {
  const std::string source = LIGHTCONE_SOURCE_DIR;
  const std::string file = ReadFile(source + "/tests/trainer/own_method_example.cc").value();
  const std::string code = file.substr(file.find("#include"));
  EXPECT_THAT(ReadFile(source + "/docs/internals/HACKING.md").value(), HasSubstr("```cpp\n" + code + "```\n"));
}

TEST(OwnMethod, ItsOptionsAreReadSetAndCheckedLikeAllOthers) {
  const OwnOption option = PullMethod().info.options.at(0);
  const internal::Row row = internal::OwnRow(option);
  EXPECT_EQ(row.name, "pull.lambda");
  EXPECT_EQ(row.allowed, StrCat("0 .. ", NumberText(1000)));
  TrainConfig config;
  EXPECT_EQ(option.Of(config), 1);
  EXPECT_EQ(row.get(config), 1.0);
  EXPECT_THAT(MessageOf(row.set(config, "much")), HasSubstr("field 'pull.lambda' is much; allowed: " + row.allowed));
  EXPECT_EQ(option.Of(config), 1) << "nothing was set";
  ASSERT_TRUE(row.set(config, 2.5).ok());
  EXPECT_EQ(option.Of(config), 2.5);
  EXPECT_EQ(row.get(config), 2.5);
  EXPECT_TRUE(row.in_range(config));
  ASSERT_TRUE(row.set(config, 1001).ok());
  EXPECT_FALSE(row.in_range(config));
}

TEST(OwnMethod, TheExampleAddsItsWeightedLossToTheBaseLoss) {
  const std::string folder = StrCat(testing::TempDir(), "/own_method_test_", ::getpid());
  const Dataset data = TinyDataset();
  TrainConfig config = TwoSteps();
  ASSERT_TRUE(Train(data, config, folder).ok());
  config.encoder.height = data.train.height;
  config.encoder.width_px = data.train.width;
  config.encoder.channels = data.train.channels;
  const auto old_model = OldModel::Load(folder, config, data.normalisation);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(old_model.ok()) << MessageOf(old_model.status());
  config.own["pull.lambda"] = 3;
  const Classifier classifier(data.classes(), 8, /*lorentz=*/false, 1, 1, /*seed=*/1, HeadOptionsOf(config));
  const auto method = PullMethod().make({config, data, classifier, old_model->get()});
  ASSERT_TRUE(method.ok()) << MessageOf(method.status());
  StepBatch batch;
  batch.images = torch::rand({4, data.train.channels, data.train.height, data.train.width});
  batch.labels = torch::tensor({0, 1, 2, 3}, torch::kInt64);
  batch.rows = torch::arange(4);
  const LossTerms apart = (*method)->Loss(batch, -(*old_model)->Embed(batch.images));
  ASSERT_EQ(apart.parts.size(), 2u);
  const double base = apart.parts[0].second.item<double>();
  EXPECT_NEAR(apart.parts[1].second.item<double>(), 2, 1e-5) << "1 - cos of opposite vectors";
  EXPECT_NEAR(apart.total.item<double>(), base + 3 * 2, 1e-4);
}

}  // namespace
}  // namespace lightcone

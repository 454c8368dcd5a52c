#include "trainer/data/loader.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"
#include "base/status.h"
#include "tests/trainer/data_files.h"
#include "trainer/data/augment.h"
#include "trainer/data/raw.h"
#include "trainer/data/split.h"

namespace lightcone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ImageSet MakeSet(int64_t n, int side, int channels) {
  ImageSet set{side, side, channels, {}, {}};
  Rng rng(5);
  for (int64_t i = 0; i < n * set.bytes_per_image(); ++i) set.pixels.push_back(static_cast<uint8_t>(rng.Below(256)));
  for (int64_t i = 0; i < n; ++i) set.labels.push_back(static_cast<int32_t>(i % 5));
  return set;
}

std::vector<Batch> RunAll(const ImageSet& set, const LoaderOptions& options) {
  auto loader = BatchLoader::Create(&set, MeasureNormalisation(set), options);
  EXPECT_TRUE(loader.ok()) << MessageOf(loader.status());
  std::vector<Batch> batches;
  for (Batch batch; (*loader)->Next(&batch);) batches.push_back(batch);
  return batches;
}

LoaderOptions Options() {
  LoaderOptions options;
  options.batch_size = 8;
  options.epochs = 3;
  options.seed = 11;
  options.augment = AugmentKind::kPhoto;
  return options;
}

TEST(Rng, GivesTheNumbersOfThePublishedGenerators) {
  // splitmix64 from state 0 gives e220a8397b1dcdaf, 6e789e6aa1b965f4 ...
  EXPECT_EQ(Mixed(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(Mixed(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
  EXPECT_NE(MixSeed({1, 2}), MixSeed({2, 1}));
  Rng rng(1);
  double sum = 0, squares = 0;
  std::set<uint32_t> seen;
  for (int i = 0; i < 20000; ++i) {
    const double value = rng.Normal();
    sum += value;
    squares += value * value;
    seen.insert(rng.Below(7));
  }
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.03);
  EXPECT_EQ(seen.size(), 7);
}

TEST(BatchLoader, EachEpochVisitsEveryImageOnceInAnotherOrder) {
  const ImageSet set = MakeSet(40, 8, 3);
  const std::vector<Batch> batches = RunAll(set, Options());
  ASSERT_EQ(batches.size(), 15);
  std::vector<std::vector<int64_t>> orders(3);
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].epoch, i / 5);
    EXPECT_EQ(batches[i].step, i % 5);
    EXPECT_EQ(batches[i].images.size(), 8 * set.bytes_per_image());
    for (int64_t j = 0; j < 8; ++j) EXPECT_EQ(batches[i].labels[j], set.labels[batches[i].indices[j]]);
    orders[i / 5].insert(orders[i / 5].end(), batches[i].indices.begin(), batches[i].indices.end());
  }
  EXPECT_NE(orders[0], orders[1]);
  for (const auto& order : orders) EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 40);
}

TEST(BatchLoader, ImagesOfOneClassComeInRunsWhenAskedFor) {
  const ImageSet set = MakeSet(43, 4, 1);  // three classes of 9, two of 8
  LoaderOptions options = Options();
  options.same_class = 2;
  options.drop_last = false;
  std::vector<std::vector<int64_t>> orders(3);
  for (const Batch& batch : RunAll(set, options)) {
    std::vector<int64_t>& order = orders[static_cast<size_t>(batch.epoch)];
    order.insert(order.end(), batch.indices.begin(), batch.indices.end());
  }
  for (const std::vector<int64_t>& order : orders) {
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 43);
    std::set<int32_t> rest;
    for (size_t i = 0; i < 40; i += 2) EXPECT_EQ(set.labels[order[i]], set.labels[order[i + 1]]) << i;
    for (size_t i = 40; i < 43; ++i) rest.insert(set.labels[order[i]]);
    EXPECT_EQ(rest.size(), 3) << "one image of each odd class comes last";
  }
  EXPECT_NE(orders[0], orders[1]);
  options.same_class = 0;
  EXPECT_THAT(MessageOf(options.Validate(43)), HasSubstr("field 'same_class' is 0; allowed: 1 .. 1024"));
}

TEST(BatchLoader, ContentDoesNotDependOnThreadsOrQueue) {
  const ImageSet set = MakeSet(40, 8, 3);
  const std::vector<Batch> expected = RunAll(set, Options());
  for (const auto& [workers, queue] : std::vector<std::pair<int, int>>{{2, 1}, {4, 3}, {3, 16}}) {
    LoaderOptions options = Options();
    options.workers = workers;
    options.queue_batches = queue;
    const std::vector<Batch> batches = RunAll(set, options);
    ASSERT_EQ(batches.size(), expected.size());
    for (size_t i = 0; i < batches.size(); ++i) {
      EXPECT_EQ(batches[i].indices, expected[i].indices);
      EXPECT_EQ(batches[i].images, expected[i].images);
    }
  }
}

TEST(BatchLoader, ResumesInTheMiddleOfAnEpochWithTheSameBatches) {
  const ImageSet set = MakeSet(40, 8, 1);
  LoaderOptions options = Options();
  options.augment = AugmentKind::kDrawing;
  const std::vector<Batch> expected = RunAll(set, options);
  options.start_epoch = 1;
  options.start_step = 3;
  const std::vector<Batch> batches = RunAll(set, options);
  ASSERT_EQ(batches.size(), 7);
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].step, expected[8 + i].step);
    EXPECT_EQ(batches[i].images, expected[8 + i].images);
  }
}

TEST(BatchLoader, AnIncompleteBatchIsKeptOnlyWhenAskedFor) {
  const ImageSet set = MakeSet(20, 8, 1);
  LoaderOptions options = Options();
  options.epochs = 1;
  options.shuffle = false;
  EXPECT_EQ(RunAll(set, options).size(), 2);
  options.drop_last = false;
  const std::vector<Batch> batches = RunAll(set, options);
  ASSERT_EQ(batches.size(), 3);
  EXPECT_THAT(batches[2].indices, ElementsAre(16, 17, 18, 19));
}

TEST(BatchLoader, StopsAtOnceWithBatchesUnread) {
  const ImageSet set = MakeSet(40, 8, 3);
  for (int i = 0; i < 50; ++i) {
    LoaderOptions options = Options();
    options.epochs = 1'000'000;
    options.workers = 3;
    auto loader = BatchLoader::Create(&set, MeasureNormalisation(set), options);
    ASSERT_TRUE(loader.ok());
    Batch batch;
    if (i % 2 == 1) {
      EXPECT_TRUE((*loader)->Next(&batch));
    }
  }
}

TEST(BatchLoader, OptionsThatDoNotFitAreNamed) {
  const ImageSet set = MakeSet(40, 8, 3);
  const auto expect = [&](const LoaderOptions& options, const std::string& text) {
    const auto loader = BatchLoader::Create(&set, MeasureNormalisation(set), options);
    EXPECT_EQ(loader.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(loader.status()), HasSubstr(text));
  };
  LoaderOptions options = Options();
  options.batch_size = 41;
  expect(options, "field 'batch_size' is 41; allowed: 1 .. 40");
  options = Options();
  options.workers = 0;
  expect(options, "field 'workers' is 0; allowed: 1 .. 64");
  options = Options();
  options.start_step = 6;
  expect(options, "field 'start_step' is 6; allowed: 0 .. 5");
}

TEST(AugmentImage, WithoutAugmentationNormalisesIntoPlanes) {
  const uint8_t pixels[] = {0, 51, 255, 102, 204, 153};  // two pixels of three channels
  const Normalisation normalisation{{0.0f, 0.2f, 0.5f}, {1.0f, 0.5f, 0.25f}};
  float out[6];
  AugmentImage(AugmentKind::kNone, pixels, 1, 2, 3, 9, normalisation, out);
  const float expected[] = {0.0f, 0.4f, 0.0f, 1.2f, 2.0f, 0.4f};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6) << i;
}

TEST(AugmentImage, APhotoIsAShiftedOrMirroredWindowOfItsBlackPaddedSelf) {
  const ImageSet set = MakeSet(1, 16, 1);
  const Normalisation plain{{0.0f}, {1.0f}};
  std::set<std::vector<float>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> out(256);
    AugmentImage(AugmentKind::kPhoto, set.image(0), 16, 16, 1, seed, plain, out.data());
    bool found = false;
    for (int top = -2; top <= 2 && !found; ++top) {
      for (int left = -2; left <= 2 && !found; ++left) {
        for (const bool mirror : {false, true}) {
          bool equal = true;
          for (int i = 0; i < 256 && equal; ++i) {
            const int y = i / 16 + top, x = (mirror ? 15 - i % 16 : i % 16) + left;
            const bool inside = y >= 0 && y < 16 && x >= 0 && x < 16;
            equal = std::abs(out[i] * 255 - (inside ? set.pixels[y * 16 + x] : 0)) < 1e-3;
          }
          found = found || equal;
        }
      }
    }
    EXPECT_TRUE(found) << seed;
    seen.insert(out);
  }
  EXPECT_GT(seen.size(), 40);  // of 5 x 5 x 2
}

TEST(AugmentImage, APhotoOf64PixelsIsPaddedByFour) {
  const std::vector<uint8_t> white(64 * 64, 255);
  const Normalisation plain{{0.0f}, {1.0f}};
  int black_rows_max = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<float> out(64 * 64);
    AugmentImage(AugmentKind::kPhoto, white.data(), 64, 64, 1, seed, plain, out.data());
    int black_rows = 0;
    for (int y = 0; y < 64; ++y) black_rows += *std::max_element(&out[y * 64], &out[y * 64] + 64) == 0;
    black_rows_max = std::max(black_rows_max, black_rows);
  }
  EXPECT_EQ(black_rows_max, 4);
}

TEST(AugmentImage, ADrawingKeepsAnEvenPaperAndMovesItsInk) {
  std::vector<uint8_t> pixels(28 * 28, 200);
  const Normalisation plain{{0.0f}, {1.0f}};
  std::vector<float> out(28 * 28);
  AugmentImage(AugmentKind::kDrawing, pixels.data(), 28, 28, 1, 3, plain, out.data());
  for (const float value : out) EXPECT_NEAR(value, 200 / 255.0, 1e-5);
  for (int i = 10; i < 18; ++i) pixels[14 * 28 + i] = 0;
  std::vector<float> first(28 * 28), again(28 * 28);
  AugmentImage(AugmentKind::kDrawing, pixels.data(), 28, 28, 1, 3, plain, first.data());
  AugmentImage(AugmentKind::kDrawing, pixels.data(), 28, 28, 1, 3, plain, again.data());
  EXPECT_EQ(first, again);
  EXPECT_NE(first, out);
}

TEST(Split, SelectsClassesRowsAndShares) {
  const ImageSet set = MakeSet(50, 2, 1);
  const ImageSet first = SelectClasses(set, 2);
  EXPECT_EQ(first.size(), 20);
  EXPECT_EQ(*std::max_element(first.labels.begin(), first.labels.end()), 1);
  EXPECT_TRUE(std::equal(first.image(2), first.image(3), set.image(5)));
  const ImageSet half = SelectFraction(set, 0.3, 1);
  EXPECT_EQ(half.size(), 15);
  EXPECT_EQ(SelectFraction(set, 0.3, 1).pixels, half.pixels);
  EXPECT_NE(SelectFraction(set, 0.3, 2).pixels, half.pixels);
  EXPECT_EQ(SelectFraction(set, 0.001, 1).size(), 5);
  EXPECT_EQ(SelectFraction(set, 1.0, 1).pixels, set.pixels);
}

}  // namespace
}  // namespace lightcone

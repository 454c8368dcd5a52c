// What a failure head reads of an item, against the definitions of research/notes/uncertainty.md spelled out.
#include "stats/failure_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lightcone {
namespace {

double EntropyOf(const std::vector<double>& distances, double tau) {
  double sum = 0, entropy = 0;
  for (const double d : distances) sum += std::exp(-d / tau);
  for (const double d : distances) entropy -= std::exp(-d / tau) / sum * std::log(std::exp(-d / tau) / sum);
  return entropy;
}

TEST(ClassEvidence, IsOfTheCosinesToTheMeans) {
  const ClassMeans means{2, {1, 0, 0, 1, 0, 0}};  // two classes, and one without images
  const std::vector<float> z = {0.6f, 1.8f};
  const double norm = std::sqrt(0.6 * 0.6 + 1.8 * 1.8);
  const std::vector<double> distances = {1 - 0.6 / norm, 1 - 1.8 / norm, 1};
  const ClassEvidence evidence = EvidenceOf(means, z);
  EXPECT_EQ(evidence.nearest, 1);
  EXPECT_NEAR(evidence.cosine, distances[1], 1e-6);
  EXPECT_NEAR(evidence.margin, distances[1] - distances[0], 1e-6);
  EXPECT_NEAR(evidence.entropy, EntropyOf(distances, 0.1), 1e-6);
  EXPECT_NEAR(evidence.sharp, EntropyOf(distances, 0.05), 1e-6);
  EXPECT_EQ(EvidenceOf({2, {1, 0}}, z).margin, 0) << "of one class";
  EXPECT_TRUE(std::isfinite(EvidenceOf(means, std::vector<float>{0, 0}).entropy)) << "at the origin";
}

TEST(HeadFeatures, AreTheNumbersOfTheirNames) {
  std::vector<double> distances;
  for (int i = 1; i <= 30; ++i) distances.push_back(0.1 * i);
  const ClassEvidence classes{.entropy = 9, .sharp = 0.3, .cosine = 0.2, .margin = -0.1, .nearest = 4};
  const HeadFeatures features = HeadFeaturesOf({distances, 0.5, 1.7, classes, 3, 2});
  const std::vector<double> first16(distances.begin(), distances.begin() + 16);
  EXPECT_NEAR(features[0], EntropyOf(first16, 0.15), 1e-9);
  EXPECT_NEAR(features[1], EntropyOf(distances, 0.075), 1e-9);
  EXPECT_NEAR(features[2], (0.25 - 1.2) / 0.5, 1e-9) << "the 4 nearest against 5 .. 19";
  EXPECT_NEAR(features[3], 0.2, 1e-9);
  EXPECT_EQ(features[4], 3);
  EXPECT_EQ(features[5], 1.7);
  EXPECT_EQ(features[6], 0.2);
  EXPECT_EQ(features[7], -0.1);
  EXPECT_EQ(features[8], 0.3);
  EXPECT_EQ(features[9], 2);
  EXPECT_EQ(WithNeighbours(HeadFeaturesOf({distances, 0.5, 1.7, classes, 0, 0}), 3, 2), features);
  EXPECT_EQ(Steepness(std::vector<double>{1, 2, 3, 4}), 0);
}

TEST(FailureHead, ScoresLimitedStandardisedFeaturesAndTheirProducts) {
  FailureHead head;
  head.deviation.fill(2);
  head.mean.fill(1);
  head.weights[0] = 0.5;                      // of the first feature
  head.weights[kHeadFeatures + 1] = 3;        // of the product of the first and the second
  head.weights[FailureHead::kTerms - 1] = 1;  // of the last one's square
  head.bias = -1;
  HeadFeatures features;
  features.fill(1);
  EXPECT_EQ(head.Score(features), -1);
  features[0] = 5;     // 2
  features[1] = -3;    // -2
  features[9] = 1000;  // 5, the limit
  EXPECT_NEAR(head.Score(features), -1 + 0.5 * 2 + 3 * (2 * -2 / 3.0) + 25 / 3.0, 1e-12);
  EXPECT_TRUE(head.Validate().ok());
  head.deviation[2] = 0;
  EXPECT_FALSE(head.Validate().ok());
  head.deviation[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(head.Validate().ok());
  head.deviation[2] = 1;
  head.weights[64] = -1e300;  // with another of 1e300 a score would be no number
  EXPECT_FALSE(head.Validate().ok());
  head.weights[64] = 0;
  EXPECT_TRUE(head.Validate().ok());
  head.bias = 1e7;
  EXPECT_FALSE(head.Validate().ok());
}

}  // namespace
}  // namespace lightcone

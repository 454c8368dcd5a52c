#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stats/metrics.h"

namespace lightcone {
namespace {

using ::testing::HasSubstr;

TEST(PComMatrix, HoldsEveryPairOfAChainBelowTheDiagonal) {
  // Three models; rows query, columns gallery.
  const std::vector<double> measures = {0.40, 0.00, 0.00,  //
                                        0.45, 0.60, 0.00,  //
                                        0.50, 0.55, 0.80};
  const auto matrix = PComMatrix(measures, std::vector<double>{0.40, 0.60, 0.80});
  ASSERT_TRUE(matrix.ok()) << MessageOf(matrix.status());
  ASSERT_EQ(matrix->size(), 9u);
  EXPECT_NEAR(*(*matrix)[1 * 3 + 0], 0.05 / 0.20, 1e-15);
  EXPECT_NEAR(*(*matrix)[2 * 3 + 0], 0.10 / 0.40, 1e-15);
  EXPECT_NEAR(*(*matrix)[2 * 3 + 1], -0.05 / 0.20, 1e-15);
  for (const int place : {0, 1, 2, 4, 5, 8}) EXPECT_FALSE((*matrix)[place].has_value()) << place;
}

TEST(PComMatrix, IsEmptyWhereAModelAloneIsAsGoodAsTheOldOneAndRefusesOtherSizes) {
  const auto matrix = PComMatrix(std::vector<double>{0.5, 0, 0.4, 0.6}, std::vector<double>{0.5, 0.5});
  EXPECT_FALSE((*matrix)[2].has_value());
  const auto bad = PComMatrix(std::vector<double>{0.5, 0, 0.4}, std::vector<double>{0.5, 0.5});
  EXPECT_THAT(MessageOf(bad.status()), HasSubstr("field 'measures' is 3 numbers; allowed: exactly 2 x 2"));
}

TEST(RelevantRanks, BreaksTiesByIndexOnBothSidesOfARelevantItem) {
  const std::vector<std::int64_t> labels = {1, 7, 1, 7, 1, 7};
  // Distance 2 three times: index 0 goes before the relevant 1, and 2 between 1 and 3.
  const std::vector<double> distances = {2, 2, 2, 2, 1, 5};
  EXPECT_EQ(RelevantRanks(7, distances, labels, std::nullopt), (std::vector<std::size_t>{3, 5, 6}));
  EXPECT_EQ(RelevantRanks(7, distances, labels, 1), (std::vector<std::size_t>{4, 5}));
  EXPECT_TRUE(RelevantRanks(9, distances, labels, std::nullopt).empty());
}

}  // namespace
}  // namespace lightcone

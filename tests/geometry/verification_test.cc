#include "stats/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

using ::testing::HasSubstr;
using Subjects = std::vector<std::int64_t>;

constexpr float kInfiniteScore = std::numeric_limits<float>::infinity();

struct Pairs {
  std::vector<float> scores;
  std::vector<std::uint8_t> same;

  ScoreSource InBlocksOf(std::size_t block) const {
    return [this, block](const ScoreSink& sink) {
      for (std::size_t begin = 0; begin < scores.size(); begin += block) {
        const std::size_t n = std::min(block, scores.size() - begin);
        sink(std::span(scores).subspan(begin, n), std::span(same).subspan(begin, n));
      }
    };
  }
};

// The definition, by sorting.
VerificationPoint BruteForce(const Pairs& pairs, double rate) {
  std::vector<float> impostors, genuine;
  for (std::size_t i = 0; i < pairs.scores.size(); ++i) {
    (pairs.same[i] != 0 ? genuine : impostors).push_back(pairs.scores[i]);
  }
  std::sort(impostors.begin(), impostors.end(), std::greater<>());
  const double product = rate * static_cast<double>(impostors.size());
  const float threshold = impostors[static_cast<std::size_t>(product + 1e-9)];
  const auto share = [&](const std::vector<float>& values) {
    const auto above = std::count_if(values.begin(), values.end(), [&](float v) { return v > threshold; });
    return static_cast<double>(above) / static_cast<double>(values.size());
  };
  return {rate, threshold, share(impostors), share(genuine)};
}

TEST(VerifyPairs, GivesTheFiguresOfAHandMadeList) {
  // Ten impostors 0.1 .. 1.0, four genuine pairs.
  Pairs pairs;
  for (int i = 1; i <= 10; ++i) pairs.scores.push_back(0.1f * static_cast<float>(i));
  pairs.same.assign(10, 0);
  for (const float score : {0.05f, 0.75f, 0.95f, 2.0f}) pairs.scores.push_back(score);
  pairs.same.resize(14, 1);
  const std::vector<double> rates = {0, 0.1, 0.3};
  const auto figures = VerifyPairs(pairs.InBlocksOf(3), rates);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_EQ(figures->genuine, 4);
  EXPECT_EQ(figures->impostor, 10);
  EXPECT_EQ(figures->points[0].threshold, 0.1f * 10);
  EXPECT_EQ(figures->points[0].far, 0);
  EXPECT_EQ(figures->points[0].tar, 0.25);
  EXPECT_EQ(figures->points[1].threshold, 0.1f * 9);
  EXPECT_EQ(figures->points[1].far, 0.1);
  EXPECT_EQ(figures->points[1].tar, 0.5);
  EXPECT_EQ(figures->points[2].threshold, 0.1f * 7);
  EXPECT_EQ(figures->points[2].far, 0.3);
  EXPECT_EQ(figures->points[2].tar, 0.75);
}

TEST(VerifyPairs, TiesAtTheThresholdAreRejectedOnBothSides) {
  const Pairs pairs{{5, 5, 5, 1, 5, 6}, {0, 0, 0, 0, 1, 1}};
  const auto figures = VerifyPairs(pairs.InBlocksOf(6), std::vector<double>{0.5, 0.75});
  EXPECT_EQ(figures->points[0].threshold, 5);
  EXPECT_EQ(figures->points[0].far, 0);  // one of three equal ones cannot be let in
  EXPECT_EQ(figures->points[0].tar, 0.5);
  EXPECT_EQ(figures->points[1].far, 0.75);
  EXPECT_EQ(figures->points[1].tar, 1);
}

TEST(VerifyPairs, AgreesWithSortingOnRandomScoresOfBothSigns) {
  std::mt19937_64 random(3);
  const std::vector<double> rates = {0, 1e-3, 0.01, 0.05, 0.29, 0.5, 0.999};
  for (const bool coarse : {false, true}) {
    Pairs pairs;
    for (int i = 0; i < 5000; ++i) {
      const double value = static_cast<double>(random() % 100000) / 1000 - 60;
      pairs.scores.push_back(static_cast<float>(coarse ? std::round(value) : value));
      pairs.same.push_back(random() % 10 == 0);
    }
    pairs.scores[7] = -0.0f;
    pairs.scores[8] = 0.0f;
    pairs.scores[9] = kInfiniteScore;
    pairs.scores[10] = -kInfiniteScore;
    for (const std::size_t block : {1, 64, 5000}) {
      const auto figures = VerifyPairs(pairs.InBlocksOf(block), rates);
      ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
      for (std::size_t f = 0; f < rates.size(); ++f) {
        const VerificationPoint expected = BruteForce(pairs, rates[f]);
        EXPECT_EQ(figures->points[f].threshold, expected.threshold) << rates[f];
        EXPECT_EQ(figures->points[f].far, expected.far) << rates[f];
        EXPECT_EQ(figures->points[f].tar, expected.tar) << rates[f];
        EXPECT_LE(figures->points[f].far, rates[f]);
      }
    }
  }
}

TEST(VerifyPairs, EveryDefectIsNamed) {
  const Pairs good{{1, 2}, {0, 1}}, nan{{1, 2, std::nanf("")}, {0, 1, 0}}, alike{{1, 2}, {1, 1}}, other{{1}, {0}};
  const auto message = [](const Pairs& pairs, double rate) {
    return MessageOf(VerifyPairs(pairs.InBlocksOf(2), std::vector<double>{rate}).status());
  };
  EXPECT_THAT(message(good, 1), HasSubstr("field 'far' is 1; allowed: 0 or more and below 1"));
  EXPECT_THAT(message(good, std::nan("")), HasSubstr("field 'far' is nan"));
  EXPECT_THAT(message(nan, 0.5), HasSubstr("field 'score of pair 2' is nan"));
  EXPECT_THAT(message(alike, 0.5), HasSubstr("field 'impostor pairs' is 0"));
  EXPECT_THAT(message(other, 0.5), HasSubstr("field 'genuine pairs' is 0"));
  int runs = 0;
  const auto fickle = VerifyPairs(
      [&](const ScoreSink& sink) {
        const std::vector<float> scores = {runs++ == 0 ? 1.0f : 9.0f, 2.0f};
        sink(scores, std::vector<std::uint8_t>{0, 1});
      },
      std::vector<double>{0.5});
  EXPECT_EQ(fickle.status().code(), absl::StatusCode::kInternal);
}

struct Search {
  Subjects probes, gallery;
  std::vector<float> scores;  // probes x gallery

  absl::StatusOr<IdentificationFigures> Run(std::vector<double> rates, Impostors impostors) const {
    return IdentifyProbes(
        [this](std::size_t probe, std::span<float> out) {
          std::copy_n(scores.begin() + static_cast<std::ptrdiff_t>(probe * gallery.size()), gallery.size(),
                      out.begin());
        },
        probes, gallery, rates, impostors);
  }
};

TEST(IdentifyProbes, CountsMatesThatAreFirstAndAboveTheThresholdOfTheNonMated) {
  // Gallery: subjects 1, 2, 2. Probes: 1 (found), 2 (found, weak), 1 (a stranger is first), 8 and 9 (not enrolled).
  const Search search{{1, 2, 1, 8, 9},
                      {1, 2, 2},
                      {0.9f, 0.1f, 0.2f,  //
                       0.1f, 0.2f, 0.5f,  //
                       0.6f, 0.1f, 0.7f,  //
                       0.3f, 0.4f, 0.1f,  //
                       0.55f, 0.2f, 0.1f}};
  const auto figures = search.Run({0, 0.5}, Impostors::kNonMatedProbes);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_EQ(figures->mated, 3);
  EXPECT_EQ(figures->non_mated, 2);
  EXPECT_EQ(figures->points[0].threshold, 0.55f);
  EXPECT_EQ(figures->points[0].fpir, 0);
  EXPECT_DOUBLE_EQ(figures->points[0].tpir, 1.0 / 3);
  EXPECT_EQ(figures->points[1].threshold, 0.4f);
  EXPECT_EQ(figures->points[1].fpir, 0.5);
  EXPECT_DOUBLE_EQ(figures->points[1].tpir, 2.0 / 3);
}

TEST(IdentifyProbes, AmongEqualScoresTheLowerIndexIsFirst) {
  const Search search{{1, 2, 9}, {1, 2}, {5, 5, 5, 5, 0, 0}};
  const auto figures = search.Run({0}, Impostors::kNonMatedProbes);
  EXPECT_EQ(figures->points[0].tpir, 0.5);  // subject 1 stands before 2
}

TEST(IdentifyProbes, CanTakeTheThresholdFromAllPairsOfDifferentSubjects) {
  const Search search{{1, 2}, {1, 2, 3}, {0.9f, 0.8f, 0.1f, 0.7f, 0.75f, 0.6f}};
  // Other pairs: .8 .7 .6 .1; two mated probes: f = .5 allows the first, f = .99 the second.
  const auto figures = search.Run({0.5, 0.99}, Impostors::kAllOtherPairs);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_EQ(figures->points[0].threshold, 0.8f);
  EXPECT_EQ(figures->points[0].tpir, 0.5);
  EXPECT_EQ(figures->points[1].threshold, 0.7f);
  EXPECT_EQ(figures->points[1].tpir, 1);
  EXPECT_EQ(figures->points[1].fpir, 0.5);
}

TEST(IdentifyProbes, AgreesWithSortingOnRandomScores) {
  std::mt19937_64 random(9);
  Search search;
  for (int i = 0; i < 40; ++i) search.gallery.push_back(static_cast<std::int64_t>(random() % 30));
  for (int i = 0; i < 200; ++i) search.probes.push_back(static_cast<std::int64_t>(random() % 45));
  for (int i = 0; i < 200 * 40; ++i) search.scores.push_back(static_cast<float>(random() % 500));  // ties
  for (const double rate : {0.0, 0.01, 0.1, 0.5}) {
    std::vector<float> strangers;
    std::vector<std::pair<float, bool>> mates;
    for (std::size_t p = 0; p < search.probes.size(); ++p) {
      const float* row = search.scores.data() + p * search.gallery.size();
      std::size_t best = 0;
      float mate = -1;
      for (std::size_t g = 0; g < search.gallery.size(); ++g) {
        if (row[g] > row[best]) best = g;
        if (search.gallery[g] == search.probes[p]) mate = std::max(mate, row[g]);
      }
      if (mate < 0) {
        strangers.push_back(row[best]);
      } else {
        mates.emplace_back(mate, search.gallery[best] == search.probes[p]);
      }
    }
    std::sort(strangers.begin(), strangers.end(), std::greater<>());
    const float threshold = strangers[static_cast<std::size_t>(rate * static_cast<double>(strangers.size()))];
    const auto found =
        std::count_if(mates.begin(), mates.end(), [&](const auto& m) { return m.second && m.first > threshold; });
    const auto figures = search.Run({rate}, Impostors::kNonMatedProbes);
    ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
    EXPECT_EQ(figures->points[0].threshold, threshold);
    EXPECT_DOUBLE_EQ(figures->points[0].tpir, static_cast<double>(found) / static_cast<double>(mates.size()));
    EXPECT_LE(figures->points[0].fpir, rate);
  }
}

TEST(IdentifyProbes, EveryDefectIsNamed) {
  const auto message = [](const Search& search, double rate, Impostors impostors) {
    return MessageOf(search.Run({rate}, impostors).status());
  };
  const Search good{{1, 9}, {1}, {1, 0}};
  EXPECT_THAT(message(good, 1, Impostors::kNonMatedProbes), HasSubstr("field 'fpir' is 1; allowed: 0 or more"));
  EXPECT_THAT(message(good, 0, Impostors::kAllOtherPairs), HasSubstr("field 'fpir' is 0; allowed: above 0"));
  EXPECT_THAT(message({{1}, {}, {}}, 0.5, Impostors::kNonMatedProbes), HasSubstr("field 'gallery' is 0 entries"));
  EXPECT_THAT(message({{1}, {2}, {0}}, 0.5, Impostors::kNonMatedProbes), HasSubstr("field 'mated probes' is 0"));
  EXPECT_THAT(message({{1}, {1}, {0}}, 0.5, Impostors::kNonMatedProbes), HasSubstr("field 'non-mated probes' is 0"));
  EXPECT_THAT(message({{1, 9}, {1}, {1, std::nanf("")}}, 0.5, Impostors::kNonMatedProbes),
              HasSubstr("field 'scores[1][0]' is nan"));
}

}  // namespace
}  // namespace lightcone

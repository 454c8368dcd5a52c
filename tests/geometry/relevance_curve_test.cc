// The chance and the quantiles that distances tell, on distances whose truth is known.
#include "stats/relevance_curve.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace lightcone {
namespace {

// Distances of relevant items are drawn around `centre`; others lie evenly over 0 .. 10.
struct Drawn {
  DistanceCounts nearest, relevant;
};
Drawn Draw(double centre, double scale, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> near(centre, 0.8);
  std::uniform_real_distribution<double> wide(0, 10);
  Drawn drawn;
  for (int i = 0; i < count; ++i) {
    const double distance = std::abs(near(random)) * scale;
    drawn.nearest.Add(distance, true);
    drawn.relevant.Add(distance, true);
    for (int j = 0; j < 3; ++j) drawn.nearest.Add(wide(random) * scale, false);
  }
  return drawn;
}
RelevanceCurve Learnt(const Drawn& drawn) {
  const auto curve = LearnRelevance(drawn.nearest, drawn.relevant);
  EXPECT_TRUE(curve.ok()) << curve.status();
  return curve.ok() ? *curve : RelevanceCurve();
}

TEST(RelevanceCurve, TellsTheChanceOfItsDistances) {
  const RelevanceCurve curve = Learnt(Draw(1, 1, 20'000, 1));
  ASSERT_TRUE(curve.Validate().ok());
  const Drawn fresh = Draw(1, 1, 20'000, 3);
  for (const double at : {2.0, 2.5, 3.0, 6.0}) {
    double relevant = 0, all = 0;
    for (const auto& [bits, kinds] : fresh.nearest.bins()) {
      const double count = static_cast<double>(kinds[0].count + kinds[1].count);
      const double mean = (kinds[0].distance + kinds[1].distance) / count;
      if (std::abs(mean - at) > 0.1) continue;
      relevant += static_cast<double>(kinds[1].count);
      all += count;
    }
    EXPECT_NEAR(curve.ChanceAt(at), relevant / all, 0.05) << at;
  }
  for (double d = -1; d < 12; d += 0.01) ASSERT_LE(curve.ChanceAt(d + 0.01), curve.ChanceAt(d));
}

TEST(RelevanceCurve, TranslatesToTheSameShareOfTheRelevant) {
  const Drawn a = Draw(1, 1, 20'000, 1), b = Draw(2, 7, 20'000, 2);
  const RelevanceCurve from = Learnt(a), to = Learnt(b);
  for (const double d : {0.2, 0.9, 1.5, 2.6}) {
    const auto share = [](const DistanceCounts& counts, double within) {
      double inside = 0, all = 0;
      for (const auto& [bits, kinds] : counts.bins()) {
        const auto count = static_cast<double>(kinds[1].count);
        all += count;
        if (kinds[1].distance / count <= within) inside += count;
      }
      return inside / all;
    };
    EXPECT_NEAR(share(a.relevant, d), share(b.relevant, from.Translate(d, to)), 0.01) << d;
    EXPECT_NEAR(to.Translate(from.Translate(d, to), from), d, 1e-9) << d;
    EXPECT_NEAR(from.Translate(d, from), d, 1e-12) << d;
  }
  double before = -INFINITY;
  for (double d = -5; d < 20; d += 0.01) {
    const double now = from.Translate(d, to);
    ASSERT_GE(now, before) << d;
    before = now;
  }
}

TEST(RelevanceCurve, DistancesThatAreAllAlikeTellOneChance) {
  Drawn drawn;
  for (int i = 0; i < 100; ++i) {
    drawn.nearest.Add(0.5, i % 4 == 0);
    drawn.relevant.Add(0.5, true);
  }
  const RelevanceCurve curve = Learnt(drawn);
  EXPECT_NEAR(curve.ChanceAt(0.5), 0.25, 0.01);
  EXPECT_EQ(curve.ChanceAt(0), curve.ChanceAt(9));
  EXPECT_EQ(curve.Translate(0.5, curve), 0.5);
  EXPECT_LT(curve.Translate(0.4, curve), 0.5);
  EXPECT_GT(curve.Translate(0.6, curve), 0.5);
}

TEST(RelevanceCurve, TooLittleIsNoCurve) {
  Drawn drawn = Draw(1, 1, 49, 1);
  EXPECT_NE(LearnRelevance(drawn.nearest, drawn.relevant).status().message().find("50 are needed"), std::string::npos);
  EXPECT_FALSE(LearnRelevance({}, {}).ok());
  EXPECT_FALSE(LearnRelevance({}, Draw(1, 1, 100, 1).relevant).ok());
}

TEST(RelevanceCurve, ADamagedOneIsRefused) {
  const RelevanceCurve good = Learnt(Draw(1, 1, 5'000, 1));
  const auto bad = [&](auto change) {
    RelevanceCurve curve = good;
    change(&curve);
    return !curve.Validate().ok();
  };
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->points.clear(); }));
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->points[1].chance = 2; }));
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->points[1].chance = std::nan(""); }));
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->points[1].distance = c->points[0].distance; }));
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->quantiles.pop_back(); }));
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->quantiles[3] = INFINITY; }));
  EXPECT_TRUE(bad([](RelevanceCurve* c) { c->quantiles[3] = c->quantiles[4] + 1; }));
}

}  // namespace
}  // namespace lightcone

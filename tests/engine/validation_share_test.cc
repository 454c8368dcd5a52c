// From which share embedded anew the gate passes, how long such a pass holds, and what the record keeps of it.
#include "engine_testing.h"
#include "server/engine/validation/validation.h"
#include "server/engine/validation/verdict.h"
#include "validation_reports.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

// A way that loses 0.1 in the whole gallery, and the gains of its mixtures by share.
WayReport LosingWay(AdapterMode mode, std::vector<std::pair<double, double>> gains) {
  WayReport way = WayWith(mode, 0.5, -0.1, -0.11);
  for (const auto& [share, gain] : gains) {
    ShareGains& at = way.by_share.emplace_back();
    at.share = share;
    at.cmc1_gain = at.map_gain = {gain, gain - 0.01, gain + 0.01, 100};
  }
  return way;
}
PairReport DecidedOf(std::vector<WayReport> ways, double embedded_share = 0, const GateMeasure& measure = {}) {
  PairReport pair = PairWith(std::move(ways));
  pair.item_generation = 1;
  Decide(0.02, measure, &pair, embedded_share);
  return pair;
}
std::optional<double> PassesFrom(WayReport way) { return DecidedOf({std::move(way)}).passes_from_share; }

TEST(GateShares, TheFirstIsNamedFromWhichOnAWayPassesAtEveryMeasuredOne) {
  const auto from = [](std::vector<std::pair<double, double>> gains) {
    return PassesFrom(LosingWay(AdapterMode::kNone, std::move(gains)));
  };
  EXPECT_EQ(from({{0, -0.1}, {0.25, -0.05}, {0.5, 0.01}, {0.75, 0.1}, {1, 0.2}}), 0.5);
  EXPECT_EQ(from({{0, -0.1}, {0.25, 0.1}, {0.5, -0.05}, {0.75, 0.1}, {1, 0.2}}), 0.75) << "above the last failure";
  EXPECT_EQ(from({{0, -0.1}, {0.5, -0.05}, {1, -0.01}}), std::nullopt) << "it passes nowhere";
  EXPECT_EQ(from({{0, -0.1}, {0.5, 0.1}, {1, -0.01}}), std::nullopt) << "the whole backfill would be worse";
  EXPECT_EQ(from({}), std::nullopt) << "no mixture was measured";
}

TEST(GateShares, WhatTheCommonItemsHideOfTheGallerysLossIsChargedForTheShareThatIsLeft) {
  // Nothing is lost on the common items, and 0.1 in the gallery.
  const WayReport way = LosingWay(AdapterMode::kNone, {{0, 0}, {0.25, 0.06}, {0.5, 0.055}, {0.75, 0.03}, {1, 0.01}});
  EXPECT_EQ(PassesFrom(way), 0.5) << "0.06 - 0.75 * 0.1 is a loss, and 0.055 - 0.5 * 0.1 is none";
  WayReport unsure = way;
  unsure.by_share[2].map_gain.low = 0.025;
  EXPECT_EQ(PassesFrom(unsure), 0.75) << "0.025 - 0.5 * 0.1 is below the tolerance";
  WayReport harder = LosingWay(AdapterMode::kNone, {{0, -0.2}, {0.5, 0}, {1, 0.1}});
  EXPECT_EQ(PassesFrom(harder), 0.5) << "nothing is credited where the common items lose more";
  EXPECT_EQ(PassesFrom(LosingWay(AdapterMode::kNone, {{0, 0.1}, {0.01, 0.1}, {1, 0.1}})), 1.0);
}

TEST(GateShares, TheHiddenLossIsThatOfEachMeasure) {
  WayReport way = LosingWay(AdapterMode::kNone, {{0, -0.1}, {0.5, 0.05}, {1, 0.2}});
  EXPECT_EQ(PassesFrom(way), 0.5);
  way.by_share[0].cmc1_gain.value = 0.1;  // hides 0.2
  EXPECT_EQ(PassesFrom(way), 1.0);
  way.by_share[0].cmc1_gain.value = -0.1;
  way.measure_gain = Estimate{-0.3, -0.4, -0.2, 100};
  for (ShareGains& at : way.by_share) at.measure_gain = Estimate{0.05, 0.04, 0.06, 100};
  EXPECT_EQ(DecidedOf({way}, 0, *ParseGateMeasure("ndcg10")).passes_from_share, 1.0);
}

TEST(GateShares, NoneIsNamedWhereProbesHaveNothingToFindAmongTheCommonItems) {
  WayReport way = LosingWay(AdapterMode::kNone, {{0, -0.1}, {0.5, 0.1}, {1, 0.2}});
  const auto measured = [&way](int64_t samples) {
    for (ShareGains& at : way.by_share) at.cmc1_gain.samples = at.map_gain.samples = samples;
    return DecidedOf({way}, 0.6);
  };
  // The tolerance is 0.02.
  EXPECT_EQ(measured(98).passes_from_share, 0.5);
  EXPECT_EQ(measured(98).verdict, Verdict::kPassed);
  EXPECT_EQ(measured(97).passes_from_share, std::nullopt);
  EXPECT_EQ(measured(97).verdict, Verdict::kWorse);
}

TEST(GateShares, TheShareOfAPassIsThatOfTheWayThatServes) {
  WayReport early = LosingWay(AdapterMode::kNone, {{0, -0.1}, {0.5, 0.1}, {0.75, 0.1}, {1, 0.2}});
  WayReport better = LosingWay(AdapterMode::kQuery, {{0, -0.1}, {0.5, -0.1}, {0.75, 0.1}, {1, 0.2}});
  better.figures.map.value = early.figures.map.value + 0.1;
  EXPECT_EQ(DecidedOf({early, better}, 0.2).passes_from_share, 0.5);
  EXPECT_EQ(DecidedOf({early, better}, 0.6).chosen, AdapterMode::kNone);
  const PairReport pair = DecidedOf({early, better}, 0.8);
  EXPECT_EQ(pair.chosen, AdapterMode::kQuery);
  EXPECT_EQ(pair.passes_from_share, 0.75) << "below it the way that serves would be worse";
}

TEST(GateShares, NoneIsNamedForAnAdapterThatMayBeFittedFromTheCommonItems) {
  for (const AdapterMode mode : {AdapterMode::kNone, AdapterMode::kQuery, AdapterMode::kItem}) {
    PairReport pair = PairWith({LosingWay(mode, {{0, -0.1}, {0.5, 0.1}, {1, 0.2}})});
    Decide(0.02, {}, &pair, 0.6);
    EXPECT_EQ(pair.verdict, Verdict::kPassed);
    pair.common_fitted = true;
    Decide(0.02, {}, &pair, 0.6);
    EXPECT_EQ(pair.verdict, mode == AdapterMode::kNone ? Verdict::kPassed : Verdict::kWorse);
    EXPECT_EQ(pair.passes_from_share.has_value(), mode == AdapterMode::kNone);
  }
}

TEST(GateShares, NoneIsNamedWhereNothingEmbeddedAnewPasses) {
  WayReport way = LosingWay(AdapterMode::kNone, {{0, 0.1}, {0.5, 0.2}, {1, 0.3}});
  way.cmc1_gain = way.map_gain = {0.1, 0.05, 0.2, 100};
  const PairReport pair = DecidedOf({way}, 0.5);
  EXPECT_EQ(pair.verdict, Verdict::kPassed);
  EXPECT_EQ(pair.judged_share, 0);
  EXPECT_EQ(pair.passes_from_share, std::nullopt);
}

TEST(GateShares, APairThatIsUnmeasuredWasJudgedAtNone) {
  WayReport way = LosingWay(AdapterMode::kNone, {{0, 0}, {0.5, 0}, {1, 0}});
  way.cmc1_gain = way.map_gain = {};
  for (ShareGains& at : way.by_share) at.cmc1_gain = at.map_gain = {};
  const PairReport pair = DecidedOf({way}, 0.5);
  EXPECT_EQ(pair.verdict, Verdict::kUnmeasured);
  EXPECT_EQ(pair.judged_share, 0);
  EXPECT_EQ(pair.passes_from_share, std::nullopt);
}

TEST(GateShares, AMixturesMeasureIntervalAndDipsAreJudgedAsThoseOfAWay) {
  WayReport way = LosingWay(AdapterMode::kNone, {{0, -0.1}, {0.25, 0.1}, {0.5, 0.1}, {1, 0.2}});
  way.by_share[1].map_gain.low = -0.03;
  EXPECT_EQ(PassesFrom(way), 0.5) << "the interval does not exclude a loss beyond the tolerance";
  way.by_share[2].dips = true;
  EXPECT_EQ(PassesFrom(way), 1.0);
  way.by_share[2].dips = false;
  way.in_reach = false;
  EXPECT_EQ(PassesFrom(way), std::nullopt);
  way.in_reach = true;
  way.measure_gain = Estimate{-0.1, -0.2, 0, 100};
  for (ShareGains& at : way.by_share) {
    at.measure_gain = at.share < 1 ? Estimate{-0.1, -0.2, 0, 100} : Estimate{0.1, 0.05, 0.2, 100};
  }
  EXPECT_EQ(DecidedOf({way}, 0, *ParseGateMeasure("ndcg10")).passes_from_share, 1.0)
      << "the named measure alone counts";
}

TEST(GateShares, AGalleryPassesThatIsEmbeddedAnewToTheShareOfAWay) {
  const std::vector<WayReport> ways = {
      LosingWay(AdapterMode::kNone, {{0, -0.1}, {0.25, -0.1}, {0.5, -0.1}, {0.75, 0.1}, {1, 0.2}}),
      LosingWay(AdapterMode::kQuery, {{0, -0.1}, {0.25, -0.1}, {0.5, 0.1}, {0.75, 0.1}, {1, 0.2}})};
  PairReport pair = DecidedOf(ways, 0.25);
  EXPECT_EQ(pair.verdict, Verdict::kWorse);
  EXPECT_EQ(pair.judged_share, 0.25);
  EXPECT_EQ(pair.passes_from_share, 0.5) << "the first of both";
  EXPECT_THAT(TextOf(pair), HasSubstr("with 25 % of the items of generation 1 embedded anew, as then, it does not pass "
                                      "either; it would pass from 50 % of the items of generation 1 embedded anew on"));
  pair = DecidedOf(ways, 0.5);
  EXPECT_EQ(pair.verdict, Verdict::kPassed);
  EXPECT_EQ(pair.chosen, AdapterMode::kQuery);
  EXPECT_EQ(pair.judged_share, 0.5);
  EXPECT_THAT(TextOf(pair), HasSubstr("passed by its query adapter, with 50 % of the items of generation 1 embedded "
                                      "anew, as then"));
}

TEST(GateShares, AnItemAdapterIsLeftToCandidatesByItsGainAtTheShareThatItPassedAt) {
  const auto every_item = [](double low, double embedded) {
    WayReport way = LosingWay(AdapterMode::kItem, {{0, -0.1}, {0.5, 0.1}, {1, 0.2}});
    way.missed = 0.001;
    way.by_share[1].cmc1_gain.low = low;
    const PairReport pair = DecidedOf({way}, embedded);
    EXPECT_EQ(pair.verdict, Verdict::kPassed);
    return pair.every_item;
  };
  EXPECT_FALSE(every_item(0.05, 0.5)) << "what it loses with nothing embedded anew is another gallery's";
  EXPECT_FALSE(every_item(0.05, 0.501)) << "the same mixture";
  EXPECT_TRUE(every_item(-0.0195, 0.5)) << "the tolerance is not given twice";
}

TEST(GateShares, AReportNamesTheOneFromWhichOnAllPairsPass) {
  ValidationReport report;
  EXPECT_EQ(report.passes_from_share(), std::nullopt);
  for (const double share : {0.75, 0.5}) {
    PairReport& pair = report.pairs.emplace_back();
    pair.verdict = Verdict::kWorse;
    pair.passes_from_share = share;
  }
  EXPECT_EQ(report.passes_from_share(), 0.75);
  report.pairs.emplace_back().verdict = Verdict::kUncertain;
  EXPECT_EQ(report.passes_from_share(), std::nullopt) << "one pair passes at no share";
  for (PairReport& pair : report.pairs) pair.verdict = Verdict::kPassed;
  EXPECT_EQ(report.passes_from_share(), std::nullopt);
}

TEST(GateShares, TheGallerysIsOfTheItemsThatTheOlderGenerationEmbedded) {
  ProgressRecord progress;
  EXPECT_EQ(EmbeddedShare(progress, 2, 1), 1) << "nothing is served by the older one";
  progress.items = {{{1}, 10}, {{1, 2}, 10}, {{2}, 7}, {{1, 3}, 5}};
  EXPECT_EQ(EmbeddedShare(progress, 2, 1), 0.4);
  EXPECT_EQ(EmbeddedShare(progress, 3, 1), 5.0 / 25) << "what 2 took over is not embedded anew by 3";
  progress.items = {{{1}, 400}, {{1, 2}, 300}, {{1, 2, 3}, 300}};
  EXPECT_EQ(EmbeddedShare(progress, 3, 1), 0.3);
  EXPECT_EQ(EmbeddedShare(progress, 3, 2), 0.5);
}

// A report of generation 2 that passed at a share of the items of generation 1.
ValidationReport PassedFrom(double share) {
  ValidationReport report;
  report.passed = true;
  PairReport& pair = report.pairs.emplace_back();
  pair.item_generation = 1;
  pair.verdict = Verdict::kPassed;
  pair.judged_share = share + 0.1;
  pair.passes_from_share = share;
  return report;
}
// `anew` of a thousand items of generation 1 are embedded by 2, too.
ProgressRecord ProgressOf(uint64_t anew) {
  ProgressRecord progress;
  progress.items = {{{1}, 1'000 - anew}, {{1, 2}, anew}};
  return progress;
}

TEST(GateShares, APassHoldsWhileAboutTheNamedShareIsEmbeddedAnew) {
  CollectionState state = StateOf(2);
  state.record.active_generation = 1;
  const auto check = [&](double share, uint64_t anew) {
    return CheckCurrent(state, ProgressOf(anew), 2, PassedFrom(share));
  };
  EXPECT_TRUE(check(0.5, 600).ok());
  EXPECT_TRUE(check(0.5, 900).ok());
  EXPECT_TRUE(check(0.5, 491).ok()) << "a fiftieth may come in while an operator decides";
  EXPECT_TRUE(Fails(check(0.5, 480), Code::kFailedPrecondition,
                    {"needs 50 % of the items of generation 1", "48 % are now", "validate it again"}));
  EXPECT_TRUE(check(0.01, 10).ok());
  EXPECT_TRUE(Fails(check(0.01, 9), Code::kFailedPrecondition, {"needs 1 %", "0.9 % are now"}));
  EXPECT_TRUE(Fails(check(0.01, 0), Code::kFailedPrecondition, {"needs 1 %", "0 % are now"})) << "everything is gone";
  state.record.active_generation = 2;
  EXPECT_TRUE(check(0.5, 480).ok()) << "it serves already";
}

TEST(GateShares, TheNamedOnesAreReachedOnceAsMuchIsEmbeddedAnewOfEveryPairThatFailed) {
  ValidationReport report = PassedFrom(0.5);
  EXPECT_FALSE(ReachesNamedShares(ProgressOf(900), 2, report)) << "nothing failed";
  report.passed = false;
  report.pairs[0].verdict = Verdict::kWorse;
  EXPECT_FALSE(ReachesNamedShares(ProgressOf(499), 2, report));
  EXPECT_TRUE(ReachesNamedShares(ProgressOf(500), 2, report));
  report.pairs.emplace_back().verdict = Verdict::kWorse;
  EXPECT_FALSE(ReachesNamedShares(ProgressOf(900), 2, report)) << "no share helps the other pair";
}

TEST(GateShares, TheRecordKeepsTheVerdictByThemAndARecordWithoutItReads) {
  ValidationReport report;
  report.pairs.push_back(PairWith({LosingWay(AdapterMode::kQuery, {{0, -0.125}, {0.5, 0.25}})}));
  PairReport& pair = report.pairs[0];
  pair.verdict = Verdict::kWorse;
  const std::string plain = Encode(report);
  EXPECT_THAT(plain, Not(HasSubstr("share\":"))) << "it is as an older server writes it";
  const auto of_old = DecodeValidation(plain);
  ASSERT_TRUE(of_old.ok()) << of_old.status();
  EXPECT_EQ(of_old->pairs.at(0).judged_share, 0);
  EXPECT_EQ(of_old->passes_from_share(), std::nullopt);
  pair.judged_share = 0.25;
  pair.passes_from_share = 0.5;
  const std::string bytes = Encode(report);
  EXPECT_THAT(bytes, Not(HasSubstr("by_share"))) << "nothing reads the gains again";
  const auto read = DecodeValidation(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Encode(*read), bytes);
  EXPECT_EQ(read->passes_from_share(), 0.5);
  EXPECT_EQ(read->pairs.at(0).judged_share, 0.25);
  std::string bad = bytes;
  bad.replace(bad.find("\"judged_share\":0.25"), 19, "\"judged_share\":1.25");
  EXPECT_TRUE(Fails(DecodeValidation(bad), Code::kDataLoss, {"pairs"}));
}

}  // namespace
}  // namespace lightcone::server

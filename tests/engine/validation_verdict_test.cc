// What a validation's figures decide, how long that holds, and its record. The figures themselves: validation_test.cc.
#include "engine_testing.h"
#include "server/engine/validation/validation.h"
#include "server/engine/validation/verdict.h"
#include "validation_reports.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

TEST(Decide, TakesTheBestWayThatIsSureAndDoesNotDip) {
  PairReport pair =
      PairWith({WayWith(AdapterMode::kNone, 0.5, 0.01, -0.01), WayWith(AdapterMode::kQuery, 0.6, 0.1, 0.05),
                WayWith(AdapterMode::kItem, 0.7, 0.2, 0.1, /*dips=*/true)});
  Decide(0.02, {}, &pair);
  EXPECT_EQ(pair.verdict, Verdict::kPassed);
  EXPECT_EQ(pair.chosen, AdapterMode::kQuery);
}

TEST(Decide, AnItemAdapterCarriesEveryItemWhereItsCandidatesMissMoreThanTheTolerance) {
  const auto every_item = [](std::optional<double> missed, AdapterMode mode, double low = 0.05) {
    WayReport way = WayWith(mode, 0.7, 0.1, low);
    way.missed = missed;
    PairReport pair = PairWith({WayWith(AdapterMode::kNone, 0.1, -0.5, -0.6), std::move(way)});
    Decide(0.02, {}, &pair);
    EXPECT_EQ(pair.chosen, mode);
    return pair.every_item;
  };
  EXPECT_TRUE(every_item(0.021, AdapterMode::kItem));
  EXPECT_FALSE(every_item(0.02, AdapterMode::kItem));
  EXPECT_FALSE(every_item(std::nullopt, AdapterMode::kItem)) << "no other way finds candidates";
  EXPECT_FALSE(every_item(0.5, AdapterMode::kQuery));
  EXPECT_TRUE(every_item(0.01, AdapterMode::kItem, -0.015)) << "the tolerance is not given twice";
  EXPECT_FALSE(every_item(0.004, AdapterMode::kItem, -0.015));
  EXPECT_FALSE(every_item(0, AdapterMode::kItem, -0.02));
}

TEST(Decide, AsksForTheNamedMeasureAloneAndOrdersWaysByIt) {
  const GateMeasure ndcg = *ParseGateMeasure("ndcg10");
  const auto way = [](AdapterMode mode, double ndcg10, double gain, double low) {
    WayReport way = WayWith(mode, /*map=*/1 - ndcg10, /*gain=*/-0.1, /*low=*/-0.2);  // worse in CMC@1 and mAP
    way.figures.ndcg10 = {ndcg10, ndcg10, ndcg10, 100};
    way.measure_gain = {gain, low, gain, 100};
    return way;
  };
  PairReport pair = PairWith({way(AdapterMode::kNone, 0.5, 0.1, 0.05), way(AdapterMode::kQuery, 0.7, 0.3, 0.2),
                              way(AdapterMode::kItem, 0.6, 0.2, 0.1)});
  Decide(0.02, ndcg, &pair);
  EXPECT_EQ(pair.verdict, Verdict::kPassed);
  EXPECT_EQ(pair.chosen, AdapterMode::kQuery);
  pair = PairWith({way(AdapterMode::kQuery, 0.7, -0.01, -0.02)});
  Decide(0.02, ndcg, &pair);
  EXPECT_EQ(pair.verdict, Verdict::kWorse);
  pair = PairWith({way(AdapterMode::kQuery, 0.7, 0.01, -0.03)});
  Decide(0.02, ndcg, &pair);
  EXPECT_EQ(pair.verdict, Verdict::kUncertain);
}

TEST(GateMeasureText, IsReadWithItsWeightsAndMistakesAreNamed) {
  EXPECT_FALSE(ParseGateMeasure("")->named());
  EXPECT_EQ(TextOf(GateMeasure()), "CMC@1 and mAP");
  EXPECT_EQ(TextOf(*ParseGateMeasure("mrr")), "mrr");
  const auto both = ParseGateMeasure("map:1,cmc1:3");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(TextOf(*both), "0.75 cmc1 + 0.25 map");
  EXPECT_EQ(ParseGateMeasure(ParsableText(*both))->weights, both->weights);
  EXPECT_EQ(ParsableText(*ParseGateMeasure("recall10:7")), "recall10");
  for (const char* const text : {"map@10", "map,", ",", "map:0", "map:-1", "map:x", "map:", "map:inf",
                                 "map:1e308,mrr:1e308", "map:1e300,mrr:1e-300", "map,map", "MAP"}) {
    EXPECT_TRUE(Fails(ParseGateMeasure(text), Code::kInvalidArgument, {"'measure'", text, "ndcg10"})) << text;
  }
}

TEST(ValidationText, SaysSoWhereTheNewModelItselfIsNoBetter) {
  PairReport pair = PairWith({WayWith(AdapterMode::kQuery, 0.5, -0.1, -0.2)});
  pair.verdict = Verdict::kWorse;
  pair.old_self.cmc1 = pair.old_self.map = {0.6, 0.5, 0.7, 100};
  pair.common_items = 200;
  const std::string says = "the new model itself is no better than the old one here";
  EXPECT_EQ(TextOf(pair).find(says), std::string::npos) << "nothing was measured";
  pair.own_cmc1_gain = pair.own_map_gain = Estimate();
  EXPECT_EQ(TextOf(pair).find(says), std::string::npos) << "no probe measured it";
  pair.own_cmc1_gain = Estimate{-0.05, -0.1, 0.01, 100};
  pair.own_map_gain = Estimate{0.05, 0.01, 0.1, 100};
  EXPECT_NE(TextOf(pair).find(says + " in one measure: its own queries on 200 items"), std::string::npos);
  pair.own_map_gain = Estimate{0, -0.1, 0.1, 100};
  EXPECT_NE(TextOf(pair).find(says + ": its own queries"), std::string::npos);
  pair.own_cmc1_gain = pair.own_map_gain = Estimate{0.1, 0.05, 0.2, 100};
  EXPECT_EQ(TextOf(pair).find(says), std::string::npos);
  pair.own_measure_gain = Estimate{-0.01, -0.05, 0.2, 100};
  EXPECT_NE(TextOf(pair).find(says), std::string::npos) << "the named measure counts alone";
}

TEST(CheckCurrent, AReportOfAnEmptyGalleryCountsWhileItIsEmpty) {
  CollectionState state = StateOf(2);
  ValidationReport report;
  report.passed = true;
  ProgressRecord progress;
  state.record.active_generation = 1;
  EXPECT_TRUE(CheckCurrent(state, progress, 2, report).ok());
  progress.items = {{{2}, 5}};
  EXPECT_TRUE(Fails(CheckCurrent(state, progress, 2, report), Code::kFailedPrecondition, {"nothing to measure"}));
  state.record.active_generation = 2;
  EXPECT_TRUE(CheckCurrent(state, progress, 2, report).ok()) << "it serves already";
}

TEST(CheckCurrent, AComparisonWithWhatServedCountsWhileThatServes) {
  CollectionState state = StateOf(3);
  ValidationReport report;
  report.passed = true;
  PairReport& pair = report.pairs.emplace_back();
  pair.item_generation = 1;
  pair.replaced = true;
  ProgressRecord progress;
  progress.items = {{{1, 2, 3}, 5}};
  state.record.active_generation = 1;
  EXPECT_TRUE(CheckCurrent(state, progress, 3, report).ok());
  state.record.active_generation = 2;
  EXPECT_TRUE(Fails(CheckCurrent(state, progress, 3, report), Code::kFailedPrecondition,
                    {"against generation 1", "2 serves now"}));
  state.record.active_generation = 3;
  EXPECT_TRUE(CheckCurrent(state, progress, 3, report).ok()) << "it serves already";
}

TEST(Decide, SaysWhyNoWayPasses) {
  const auto verdict = [](std::vector<WayReport> ways) {
    PairReport pair = PairWith(std::move(ways));
    Decide(0.02, {}, &pair);
    return pair.verdict;
  };
  EXPECT_EQ(verdict({}), Verdict::kUnmeasured);
  EXPECT_EQ(verdict({WayWith(AdapterMode::kNone, 0.5, -0.001, -0.01)}), Verdict::kWorse);
  EXPECT_EQ(verdict({WayWith(AdapterMode::kNone, 0.5, 0.03, -0.021)}), Verdict::kUncertain);
  EXPECT_EQ(verdict({WayWith(AdapterMode::kItem, 0.5, 0.03, 0.01, /*dips=*/true)}), Verdict::kDips);
  EXPECT_EQ(verdict({WayWith(AdapterMode::kNone, 0.5, 0.03, 0.01, false, /*in_reach=*/false)}), Verdict::kWorse);
}

TEST(ValidationRecord, AReportComesBackAsItWasAndDamageIsNamed) {
  ValidationReport report;
  report.passed = true;
  report.time = absl::FromUnixMicros(77);
  report.tolerance = 0.03;
  report.probe_sets = {{"daily", 5}};
  report.adapters = {{{1, 2}, 9}};
  report.new_self = RankingFigures{{0.5, 0.4, 0.6, 10}, {}, {}};
  PairReport pair = PairWith({WayWith(AdapterMode::kItem, 0.7, 0.2, 0.1)});
  pair.ways[0].mixture = {{0, 0.1, 0.2}};
  pair.verdict = Verdict::kPassed;
  pair.chosen = AdapterMode::kItem;
  pair.ways[0].missed = 0.25;
  pair.every_item = true;
  report.measure = *ParseGateMeasure("ndcg10:1,map:2");
  pair.ways[0].measure_gain = Estimate{0.25, 0.125, 0.5, 9};
  pair.ways[0].figures.ndcg10 = {0.5, 0.25, 0.75, 9};
  pair.own_cmc1_gain = Estimate{0.5, 0.25, 0.75, 9};
  pair.p_com_map = 0.4;
  pair.p_com_map_interval = {0.4, 0.3, 0.55, 9};
  RelevanceCurve curve;
  curve.points = {{0.5, 0.75}, {1, 0.25}};
  for (size_t i = 0; i < RelevanceCurve::kQuantiles; ++i) curve.quantiles.push_back(0.1 * static_cast<double>(i));
  report.new_relevance = pair.old_relevance = pair.ways[0].relevance = curve;
  report.kept_relevance[7] = curve;
  report.pairs.push_back(pair);
  const std::string bytes = Encode(report);
  const auto read = DecodeValidation(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Encode(*read), bytes);
  EXPECT_TRUE(read->pairs.at(0).every_item);
  EXPECT_EQ(read->pairs.at(0).ways.at(0).missed, 0.25);
  EXPECT_EQ(TextOf(read->measure), "0.667 map + 0.333 ndcg10");
  EXPECT_EQ(read->pairs.at(0).ways.at(0).figures.ndcg10.value, 0.5);
  EXPECT_EQ(read->pairs.at(0).ways.at(0).figures.mrr.samples, 0);
  EXPECT_EQ(read->pairs.at(0).own_cmc1_gain->high, 0.75);
  EXPECT_EQ(read->new_relevance, curve);
  EXPECT_EQ(read->kept_relevance, report.kept_relevance);
  EXPECT_EQ(read->pairs.at(0).old_relevance, curve);
  EXPECT_EQ(read->pairs.at(0).ways.at(0).relevance, curve);
  const auto decode_with = [&](const std::string& was, const std::string& is) {
    std::string bad = bytes;
    bad.replace(bad.find(was), was.size(), is);
    return DecodeValidation(bad);
  };
  EXPECT_TRUE(Fails(decode_with("\"passed\":true", "\"passed\":1234"), Code::kDataLoss, {"passed"}));
  EXPECT_EQ(decode_with("[0.75,0.25]", "[0.75,0.85]").status().code(), Code::kDataLoss);
  EXPECT_EQ(decode_with("[0.75,0.25]", "[0.75]").status().code(), Code::kDataLoss);
  EXPECT_EQ(decode_with("\"item\"", "\"both\"").status().code(), Code::kDataLoss);
  EXPECT_TRUE(Fails(decode_with("\"every_item\":true", "\"every_item\":1234"), Code::kDataLoss, {"pairs"}));
  EXPECT_TRUE(Fails(decode_with("\"missed\":0.25", "\"missed\":true"), Code::kDataLoss, {"pairs"}));
}

}  // namespace
}  // namespace lightcone::server

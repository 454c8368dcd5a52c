// How results are told: means and deviations, Markdown, LaTeX, plots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "base/svg.h"
#include "research/experiment/measure.h"
#include "research/experiment/result.h"

namespace lightcone {
namespace {

using testing::HasSubstr;
using testing::Not;

ExperimentResult TwoSeeds() {
  ExperimentResult result;
  result.name = "r";
  result.title = "A & B";
  result.data = "glyphs";
  result.scenario = "ext-class";
  result.seeds = {1, 2};
  ExperimentRow row;
  row.name = "a_b";
  row.title = "a_b | c";
  row.kind = "row";
  row.paper = {{"p_com.cmc1", 0.495}};
  row.values = {{{"self.map", 0.4}, {"p_com.cmc1", -0.5}}, {{"self.map", 0.6}}};
  row.p_com_cmc1 = row.p_com_map = {GainMatrix(4), GainMatrix(4)};
  row.seconds = {10, 30};
  row.images_per_second = {100, 100};
  result.rows = {row};
  return result;
}

// Every tag is closed in order; nothing but elements, attributes and text.
void ExpectWellFormed(const std::string& svg) {
  std::vector<std::string> open;
  static const std::regex tag(R"(<(/?)([a-z]+)([^<>]*?)(/?)>)");
  std::string rest = svg;
  for (std::smatch match; std::regex_search(rest, match, tag); rest = match.suffix()) {
    EXPECT_THAT(match.prefix().str(), Not(HasSubstr("<")));
    if (match[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), match[2]);
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_TRUE(svg.starts_with("<svg xmlns='http://www.w3.org/2000/svg'"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
}

TEST(Summary, IsMeanAndDeviationOfASample) {
  const MeanDeviation s = Summarise(std::vector<double>{1, 2, 6}).value();
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(7.0));
  EXPECT_EQ(Summarise(std::vector<double>{5}).value().deviation, 0);
  EXPECT_FALSE(Summarise(std::vector<double>()).has_value());
}

TEST(Table, MarkdownHasDeviationsAndThePapersRow) {
  const std::string table = TableMarkdown(TwoSeeds());
  EXPECT_THAT(table, HasSubstr("| a_b \\| c | 0.500 ± 0.141 | -0.500 (1 of 2) |"));
  EXPECT_THAT(table, HasSubstr("| *paper* |  | 0.495 |"));
  EXPECT_THAT(table, Not(HasSubstr("CMC@5"))) << "a measure that nothing has";
  EXPECT_THAT(table, Not(HasSubstr("10.0"))) << "times are in cost.md";
  EXPECT_THAT(CostMarkdown(TwoSeeds()), HasSubstr("20.0 ± 14.1 | 100.0 ± 0.0 |"));
}

TEST(Table, ValuesStandInTheOrderOfTheSeedsAndOneThatIsNotDefinedIsNull) {
  ExperimentResult result = TwoSeeds();
  std::swap(result.rows[0].values[0], result.rows[0].values[1]);
  result.rows[0].p_com_map[1][2] = 0.25;
  const auto row = nlohmann::json::parse(TableJson(result))["rows"][0];
  EXPECT_EQ(row["measures"]["p_com.cmc1"]["values"], nlohmann::json({nullptr, -0.5}));
  EXPECT_EQ(row["measures"]["p_com.cmc1"]["mean"], -0.5);
  EXPECT_EQ(row["measures"]["self.map"]["values"], nlohmann::json({0.6, 0.4}));
  EXPECT_EQ(row["p_com_matrix"]["map"][1][0]["values"], nlohmann::json({nullptr, 0.25}));
  EXPECT_EQ(MeanCell({0.5, std::nullopt, 0.5}), "0.500 ± 0.000 (2 of 3)");
}

TEST(Table, ATarSaysAtWhichFalseAcceptRate) {
  ExperimentResult result = TwoSeeds();
  result.far = 1e-4;
  for (auto& seed : result.rows[0].values) seed["self.tar"] = 0.9;
  EXPECT_THAT(TableMarkdown(result), HasSubstr("| self TAR@FAR=0.0001 |"));
  EXPECT_THAT(TableLatex(result), HasSubstr("& self TAR@FAR=0.0001 &"));
  EXPECT_EQ(nlohmann::json::parse(TableJson(result))["far"], 1e-4);
}

TEST(Table, SaysHowManyQueriesCountWhereNotAllDo) {
  ExperimentResult result = TwoSeeds();
  result.queries = {{18, 18}, {18, 18}};
  EXPECT_THAT(TableMarkdown(result), Not(HasSubstr("queries")));
  EXPECT_FALSE(nlohmann::json::parse(TableJson(result)).contains("queries"));
  result.queries = {{18, 12}, {18, 12}};
  EXPECT_THAT(TableMarkdown(result), HasSubstr("(mean ± standard deviation). 12 of 18 queries count;"));
  EXPECT_THAT(TableLatex(result), HasSubstr("; 12 of 18 queries count;"));
  result.queries = {{18, 12}, {18, 18}};
  EXPECT_THAT(TableMarkdown(result), HasSubstr(". 12 of 18, 18 of 18 queries count (by seed);"));
  EXPECT_EQ(nlohmann::json::parse(TableJson(result))["queries"][0]["counted"], 12);
}

TEST(Figures, OfAnotherVersionOfTheMeasuresHaveAnotherKeyAndThoseOfTheFirstTheOldOne) {
  const nlohmann::ordered_json key = {{"format", 1}};
  EXPECT_EQ(FigureKey(key, 1), key);
  EXPECT_NE(FigureKey(key, 2), key);
  EXPECT_NE(FigureKey(key, 3), FigureKey(key, 2));
}

TEST(Table, LatexEscapesWhatLatexReads) {
  const std::string table = TableLatex(TwoSeeds());
  EXPECT_THAT(table, HasSubstr("a\\_b | c & 0.500$\\pm$0.141 & -0.500 (1 of 2) \\\\"));
  EXPECT_THAT(table, HasSubstr("P\\_com CMC@1"));
  ExperimentResult odd = TwoSeeds();
  odd.rows[0].title = "d^2 ~ \\half {1}";
  EXPECT_THAT(TableLatex(odd), HasSubstr("d\\textasciicircum{}2 \\textasciitilde{} \\textbackslash{}half \\{1\\} & "));
}

TEST(Table, AChainsGainsStandInLatexAsInMarkdown) {
  ExperimentResult result = TwoSeeds();
  EXPECT_THAT(TableLatex(result), Not(HasSubstr("row = generation"))) << "two generations have one pair";
  result.steps = 3;
  GainMatrix one(9), two(9);
  one[3] = 0.25, one[6] = 0.5, one[7] = 1, two[3] = 0.75;
  result.rows[0].p_com_cmc1 = {one, two};
  result.rows[0].p_com_map = {one, one};
  EXPECT_THAT(TableMarkdown(result), HasSubstr("| 1 | 0.500 ± 0.354 / 0.250 ± 0.000 |  |\n"));
  const std::string table = TableLatex(result);
  EXPECT_THAT(table, HasSubstr("\\begin{tabular}{lrr}\n\\hline\na\\_b | c & 0 & 1 \\\\\n"));
  EXPECT_THAT(table, HasSubstr("\n1 & 0.500$\\pm$0.354 / 0.250$\\pm$0.000 &  \\\\\n"));
  EXPECT_THAT(table, HasSubstr("\n2 & 0.500 (1 of 2) / 0.500$\\pm$0.000 & 1.000 (1 of 2) / 1.000$\\pm$0.000 \\\\\n"));
}

TEST(Svg, EveryPlotIsWellFormedAndEscapesItsTexts) {
  ExperimentResult result = TwoSeeds();
  result.plots.norms_seen = {0.2, 0.9, 1.4};
  result.plots.norms_unseen = {0.1};
  result.plots.confusions = {{"a <b>", {0.5, 0.5, 0, 1}}};
  const auto plots = Plots(result);
  ASSERT_EQ(plots.size(), 3u);
  for (const auto& [name, svg] : plots) ExpectWellFormed(svg);
  EXPECT_THAT(plots[0].second, HasSubstr("A &amp; B"));
  EXPECT_THAT(plots[2].second, HasSubstr("a &lt;b&gt;"));
}

// Boxes of this colour that have a height, as "x y height".
std::vector<std::string> BoxesOf(const std::string& svg, const std::string& color) {
  std::vector<std::string> boxes;
  const std::regex box("<rect x='([0-9.]+)' y='([0-9.]+)' width='(?:28|200)[.]0' height='([0-9.]+)' fill='" + color +
                       "'");
  for (std::sregex_iterator it(svg.begin(), svg.end(), box), end; it != end; ++it) {
    if ((*it)[3] != "0.0") boxes.push_back((*it)[1].str() + " " + (*it)[2].str() + " " + (*it)[3].str());
  }
  return boxes;
}

TEST(Svg, KnownAndUnknownClassesAndTheClassesOfNeighboursStandWhereTheirNamesSay) {
  ExperimentResult result = TwoSeeds();
  result.plots.norms_seen = {0.83, 0.83, 2.0, 2.0};
  result.plots.norms_unseen = {0.2};
  result.plots.confusions = {{"a", {0, 1, 0, 0}}};  // what is of class 0 finds class 1
  const auto plots = Plots(result);
  ASSERT_EQ(plots.size(), 3u);
  const std::string seen = "#2463c4", unseen = "#d08a2e";
  const std::string& histograms = plots[1].second;
  EXPECT_THAT(histograms, HasSubstr("fill='" + seen +
                                    "' fill-opacity='.55'/><text x='80.0' y='244.0' "
                                    "text-anchor='start'>classes the old model was trained on</text>"));
  EXPECT_THAT(histograms, HasSubstr("fill='" + unseen +
                                    "' fill-opacity='.55'/><text x='520.0' y='244.0' "
                                    "text-anchor='start'>classes it never saw</text>"));
  // 30 bins from the least to the largest number of both. First: the radius, .2 .. 1, where 2 is clipped to 1 and .83
  // lies in bin 23; second: the uncertainty, which falls with it; third and fourth: before the clip, .2 .. 2, where .83
  // lies in bin 10.
  const std::vector<std::string> known = BoxesOf(histograms, seen), unknown = BoxesOf(histograms, unseen);
  ASSERT_EQ(known.size(), 8u);
  EXPECT_EQ(known[0], "736.9 110.0 90.0");
  EXPECT_EQ(known[1], "918.7 110.0 90.0");
  EXPECT_EQ(known[2], "40.0 110.0 90.0");
  EXPECT_EQ(known[4].substr(0, 5), "343.0");
  EXPECT_EQ(known[5], "918.7 110.0 90.0");
  EXPECT_EQ(known[6], "40.0 110.0 90.0");
  EXPECT_EQ(unknown,
            (std::vector<std::string>{"40.0 20.0 180.0", "918.7 20.0 180.0", "40.0 20.0 180.0", "918.7 20.0 180.0"}));
  EXPECT_EQ(BoxesOf(plots[2].second, "#1c4f9c"), std::vector<std::string>{"400.0 20.0 200.0"});
  EXPECT_THAT(plots[2].second, HasSubstr("text-anchor='end' class='s' fill='#5d6b7c'>class of the query</text>"));
  EXPECT_THAT(plots[2].second, HasSubstr(">class of its nearest old item</text>"));
}

TEST(Svg, BarsGrowFromZeroAndWhiskersSpanTheDeviation) {
  BarPlot plot;
  plot.groups = {"g"};
  plot.series = {{"up", "red"}, {"down", "blue"}, {"none", "green"}};
  plot.values = {{BarValue{0.5, 0.25}, BarValue{-0.5, 0}, std::nullopt}};
  plot.low = -1;
  const std::string svg = BarsSvg(plot);
  ExpectWellFormed(svg);
  // The axis runs from y = 230 (-1) to y = 30 (1): zero is at 130.
  EXPECT_THAT(svg, HasSubstr("y='80.0' width='45.8' height='50.0' fill='red'"));
  EXPECT_THAT(svg, HasSubstr("y='130.0' width='45.8' height='50.0' fill='blue'"));
  EXPECT_THAT(svg, HasSubstr("y1='55.0'"));
  EXPECT_THAT(svg, HasSubstr("y2='105.0'"));
  EXPECT_EQ(HistogramSvg({"empty", {{"a", "red", {}}}}), "");
}

TEST(Svg, CurvesHaveALogarithmicAxisAndLeaveOutWhatHasNoPlaceOnIt) {
  CurvePlot plot{"speed", "recall", "searches/s", {{"ours & theirs", "red", {}}}};
  plot.series[0].points = {{0.9, 1000, "16"}, {0.95, 100, "64"}, {0.99, 0, "never"}, {1.0, 10, "<512>"}};
  const std::string svg = CurveSvg(plot);
  ExpectWellFormed(svg);
  EXPECT_THAT(svg, HasSubstr("&lt;512&gt;"));
  EXPECT_THAT(svg, HasSubstr(">1000</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("never")));
  EXPECT_EQ(std::count(svg.begin(), svg.end(), 'L'), 2) << "a line through three points";
  EXPECT_EQ(CurveSvg({"empty", "x", "y", {{"a", "red", {{0.5, 0, ""}}}}}), "");
}

}  // namespace
}  // namespace lightcone

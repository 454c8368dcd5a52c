#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "trainer/experiment/pair_study.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

// One value a seed.
template <typename Member>
std::vector<double> Values(const ExperimentResult& result, size_t predictor, Member member) {
  std::vector<double> values;
  for (const UncertaintyStudy& study : result.studies) values.push_back(study.predictors[predictor].*member);
  return values;
}

// Positions of the predictors, the best mean AUROC first.
std::vector<size_t> BestFirst(const ExperimentResult& result) {
  std::vector<size_t> order(result.studies.front().predictors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto auroc = [&](size_t p) { return Summarise(Values(result, p, &PredictorFigures::auroc))->mean; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return auroc(a) > auroc(b); });
  return order;
}

std::string ShareWrong(const ExperimentResult& result) {
  std::vector<double> shares;
  for (const UncertaintyStudy& s : result.studies) {
    shares.push_back(static_cast<double>(s.items_wrong) / static_cast<double>(std::max<int64_t>(1, s.items)));
  }
  return MeanCell(shares);
}

ordered_json JsonOf(const std::vector<double>& values) {
  const std::optional<MeanDeviation> summary = Summarise(values);
  return {{"mean", summary->mean}, {"deviation", summary->deviation}, {"values", values}};
}

ordered_json CurvesOf(const ExperimentResult& result, BackfillCurve UncertaintyStudy::*curve) {
  ordered_json seeds = ordered_json::array();
  for (const UncertaintyStudy& study : result.studies) {
    seeds.push_back({{"cmc1", (study.*curve).cmc1}, {"map", (study.*curve).map}});
  }
  return seeds;
}

}  // namespace

std::string PredictorsMarkdown(const ExperimentResult& result) {
  std::string text =
      StrCat("# Which number tells a badly placed item: `", result.name, "`\n\n", result.studies[0].items, " items, ",
             ShareWrong(result),
             " of them retrieved wrongly by the new model. Areas: 0 a random order, 1 the oracle.\n\n"
             "| predictor | AUROC | area, mAP | area, CMC@1 | needs |\n| --- | ---: | ---: | ---: | --- |\n");
  for (const size_t p : BestFirst(result)) {
    const PredictorFigures& first = result.studies.front().predictors[p];
    text += StrCat("| ", first.name, " | ", MeanCell(Values(result, p, &PredictorFigures::auroc)), " | ",
                   MeanCell(Values(result, p, &PredictorFigures::area_map)), " | ",
                   MeanCell(Values(result, p, &PredictorFigures::area_cmc1)), " | ", first.needs, " |\n");
  }
  return text;
}

std::string PredictorsJson(const ExperimentResult& result) {
  ordered_json predictors = ordered_json::array();
  for (const size_t p : BestFirst(result)) {
    const PredictorFigures& first = result.studies.front().predictors[p];
    predictors.push_back({{"name", first.name},
                          {"needs", first.needs},
                          {"auroc", JsonOf(Values(result, p, &PredictorFigures::auroc))},
                          {"area_map", JsonOf(Values(result, p, &PredictorFigures::area_map))},
                          {"area_cmc1", JsonOf(Values(result, p, &PredictorFigures::area_cmc1))}});
  }
  return DumpJson({{"recipe", result.name},
                   {"seeds", result.seeds},
                   {"items", result.studies.front().items},
                   {"random", CurvesOf(result, &UncertaintyStudy::random)},
                   {"oracle", CurvesOf(result, &UncertaintyStudy::oracle)},
                   {"predictors", std::move(predictors)}});
}

}  // namespace lightcone

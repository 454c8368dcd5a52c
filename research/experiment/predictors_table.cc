#include <algorithm>
#include <numeric>

#include "base/dcheck.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "research/experiment/pair_study.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

// One value a seed; a seed where it is not defined has none.
SeedValues Aurocs(const ExperimentResult& result, size_t predictor) {
  SeedValues values;
  for (const UncertaintyStudy& study : result.studies) values.push_back(study.predictors[predictor].auroc);
  return values;
}

SeedValues SharesWrong(const ExperimentResult& result) {
  SeedValues shares;
  for (const UncertaintyStudy& study : result.studies) {
    const int64_t counted = std::max<int64_t>(1, study.items - study.items_left_out);
    shares.push_back(static_cast<double>(study.items_wrong) / static_cast<double>(counted));
  }
  return shares;
}

// Positions of the predictors, the best mean AUROC first.
std::vector<size_t> BestFirst(const ExperimentResult& result) {
  std::vector<size_t> order(PredictorList().size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto mean = [&](size_t p) {
    const std::optional<MeanDeviation> auroc = Summarise(Aurocs(result, p));
    return auroc.has_value() ? auroc->mean : 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return mean(a) > mean(b); });
  return order;
}

// The curves of one predictor, one a seed.
ordered_json CurvesOf(const ExperimentResult& result, size_t predictor) {
  ordered_json seeds = ordered_json::array();
  for (const UncertaintyStudy& study : result.studies) seeds.push_back(CurveJson(study.predictors[predictor].curve));
  return seeds;
}

std::string ShareCell(const std::optional<double>& share) { return MeanCell({share}); }

}  // namespace

std::string PredictorsMarkdown(const ExperimentResult& result) {
  LC_DCHECK(!result.studies.empty());
  const UncertaintyStudy& first = result.studies.front();
  std::string text = TableHead(result, "Which number tells a badly placed item");
  text += StrCat("Row `", result.studied_row, "`: its oldest model's gallery, its newest one's queries. ", first.items,
                 " items");
  if (first.items_left_out > 0) text += StrCat(", ", first.items_left_out, " of them of classes too small to judge");
  text += StrCat("; share retrieved wrongly: ", MeanCell(SharesWrong(result)),
                 ". Area under mAP while the gallery is embedded anew, worst first: 0 a random order, 1 the oracle.\n\n"
                 "| predictor | AUROC | area | needs |\n| --- | ---: | ---: | --- |\n");
  for (const size_t p : BestFirst(result)) {
    const PredictorInfo& info = PredictorList()[p];
    text += StrCat("| ", info.name, " | ", MeanCell(Aurocs(result, p)), " | ", ShareCell(AreaShare(result.studies, p)),
                   " | ", info.needs, " |\n");
  }
  return text;
}

std::string PredictorsJson(const ExperimentResult& result) {
  LC_DCHECK(!result.studies.empty());
  ordered_json predictors = ordered_json::array(), random = ordered_json::array(), oracle = ordered_json::array();
  for (const size_t p : BestFirst(result)) {
    const std::optional<double> share = AreaShare(result.studies, p);
    predictors.push_back({{"name", PredictorList()[p].name},
                          {"needs", PredictorList()[p].needs},
                          {"auroc", SummaryJson(Aurocs(result, p))},
                          {"area", share.has_value() ? ordered_json(*share) : ordered_json(nullptr)},
                          {"curves", CurvesOf(result, p)}});
  }
  ordered_json items = ordered_json::array();
  for (const UncertaintyStudy& study : result.studies) {
    ordered_json curves = ordered_json::array();
    for (const BackfillCurve& curve : study.random) curves.push_back(CurveJson(curve));
    random.push_back(std::move(curves));
    oracle.push_back(CurveJson(study.oracle));
    items.push_back({{"all", study.items}, {"left_out", study.items_left_out}, {"wrong", study.items_wrong}});
  }
  return DumpJson({{"recipe", result.name},
                   {"row", result.studied_row},
                   {"data", result.data},
                   {"scenario", result.scenario},
                   {"seeds", result.seeds},
                   {"validation", result.validation},
                   {"items", std::move(items)},
                   {"random", std::move(random)},
                   {"oracle", std::move(oracle)},
                   {"predictors", std::move(predictors)}});
}

}  // namespace lightcone

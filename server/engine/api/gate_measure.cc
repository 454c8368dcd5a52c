#include "server/engine/api/gate_measure.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/strings.h"

namespace lightcone::server {
namespace {

constexpr char kAllowed[] =
    "cmc1, cmc5, map, mrr, ndcg10 or recall10, or several with weights above 0, such as cmc1:2,map:1";

std::string_view NameOf(RankingMeasure measure) { return kRankingMeasures[static_cast<size_t>(measure)].second; }

}  // namespace

absl::StatusOr<GateMeasure> ParseGateMeasure(std::string_view text) {
  GateMeasure measure;
  if (text.empty()) return measure;
  const absl::Status wrong = InvalidField("measure", StrCat("'", text, "'"), kAllowed);
  for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(part, absl::MaxSplits(':', 1));
    const auto known = std::find_if(kRankingMeasures.begin(), kRankingMeasures.end(),
                                    [&](const auto& one) { return ToAbsl(one.second) == words.first; });
    double weight = 1;
    const bool weighed = part.find(':') == absl::string_view::npos || absl::SimpleAtod(words.second, &weight);
    if (known == kRankingMeasures.end() || !weighed || !std::isfinite(weight) || weight <= 0) return wrong;
    for (const auto& [other, unused] : measure.weights) {
      if (other == known->first) return wrong;
    }
    measure.weights.emplace_back(known->first, weight);
  }
  std::sort(measure.weights.begin(), measure.weights.end());
  double sum = 0;
  for (const auto& [unused, weight] : measure.weights) sum += weight;
  if (!std::isfinite(sum)) return wrong;
  for (auto& [unused, weight] : measure.weights) {
    weight /= sum;
    if (weight == 0) return wrong;  // It is too small beside the others to count.
  }
  return measure;
}

std::string ParsableText(const GateMeasure& measure) {
  if (measure.weights.size() == 1) return std::string(NameOf(measure.weights[0].first));
  std::string text;
  for (const auto& [of, weight] : measure.weights) {
    text += StrCat(text.empty() ? "" : ",", NameOf(of), ":", absl::StrFormat("%.17g", weight));
  }
  return text;
}

std::string TextOf(const GateMeasure& measure) {
  if (!measure.named()) return "CMC@1 and mAP";
  if (measure.weights.size() == 1) return std::string(NameOf(measure.weights[0].first));
  std::string text;
  for (const auto& [of, weight] : measure.weights) {
    text += StrCat(text.empty() ? "" : " + ", absl::StrFormat("%.3g ", weight), NameOf(of));
  }
  return text;
}

}  // namespace lightcone::server

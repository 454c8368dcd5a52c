// The measure by which a validation compares generations. Threads: plain values and pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::server {

// Measures of one probe's ranking, each in [0, 1] (docs/reference/evaluation.md).
enum class RankingMeasure { kCmc1, kCmc5, kMap, kMrr, kNdcg10, kRecall10 };
inline constexpr std::array<std::pair<RankingMeasure, std::string_view>, 6> kRankingMeasures = {
    {{RankingMeasure::kCmc1, "cmc1"},
     {RankingMeasure::kCmc5, "cmc5"},
     {RankingMeasure::kMap, "map"},
     {RankingMeasure::kMrr, "mrr"},
     {RankingMeasure::kNdcg10, "ndcg10"},
     {RankingMeasure::kRecall10, "recall10"}}};

// A weighted mean of measures. Without weights the gate asks for CMC@1 and for mAP, each for itself.
struct GateMeasure {
  std::vector<std::pair<RankingMeasure, double>> weights;  // positive, in the order of kRankingMeasures, sum 1

  bool named() const { return !weights.empty(); }
};

// "ndcg10", or "cmc1:2,map:1" with weights, which are scaled to the sum 1; empty: no weights. INVALID_ARGUMENT at
// `measure`.
absl::StatusOr<GateMeasure> ParseGateMeasure(std::string_view text);

// What ParseGateMeasure reads as the same measure.
std::string ParsableText(const GateMeasure& measure);
// For people: "ndcg10", "0.667 cmc1 + 0.333 map", or "CMC@1 and mAP".
std::string TextOf(const GateMeasure& measure);

}  // namespace lightcone::server

#include "trainer/evaluate_faces.h"

#include <torch/torch.h>

#include <algorithm>

#include "base/status.h"
#include "trainer/distance_blocks_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kPairsAtOnce = 8192;

Tensor Scores(const RetrievalSpace& space, const Tensor& order) {
  return DistancesOf(space, order).neg().to(torch::kFloat32).contiguous();
}

std::span<const float> Numbers(const Tensor& scores) {
  return {scores.data_ptr<float>(), static_cast<size_t>(scores.numel())};
}

}  // namespace

absl::StatusOr<VerificationFigures> EvaluatePairs(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                  const LabelledEmbeddings& gallery,
                                                  std::span<const TemplatePair> pairs,
                                                  std::span<const double> far_wanted) {
  LC_RETURN_IF_ERROR(CheckComparison(space, queries, gallery, /*same_items=*/true));
  const int64_t rows = static_cast<int64_t>(queries.labels.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (const int64_t row : {pairs[i].first, pairs[i].second}) {
      if (row < 0 || row >= rows) {
        return InvalidField(StrCat("pairs[", i, "]"), StrCat(row), StrCat("0 .. ", rows - 1));
      }
    }
  }
  torch::NoGradGuard no_grad;
  const PreparedSide q = PrepareSide(space, queries, false), g = PrepareSide(space, gallery, true);
  const ScoreSource source = [&](const ScoreSink& sink) {
    std::vector<int64_t> first, second;
    std::vector<uint8_t> same;
    for (size_t begin = 0; begin < pairs.size(); begin += kPairsAtOnce) {
      const auto block = pairs.subspan(begin, std::min<size_t>(kPairsAtOnce, pairs.size() - begin));
      first.clear();
      second.clear();
      same.clear();
      for (const TemplatePair& pair : block) {
        first.push_back(pair.first);
        second.push_back(pair.second);
        same.push_back(pair.same ? 1 : 0);
      }
      const Tensor scores = Scores(space, OrderPairs(q, g, torch::tensor(first), torch::tensor(second)));
      sink(Numbers(scores), same);
    }
  };
  return VerifyPairs(source, far_wanted);
}

absl::StatusOr<VerificationFigures> EvaluateAllPairs(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                                     const LabelledEmbeddings& gallery, bool same_items,
                                                     std::span<const double> far_wanted) {
  LC_RETURN_IF_ERROR(CheckComparison(space, queries, gallery, same_items));
  torch::NoGradGuard no_grad;
  const PreparedSide q = PrepareSide(space, queries, false), g = PrepareSide(space, gallery, true);
  const int64_t count = static_cast<int64_t>(queries.labels.size());
  const size_t columns = gallery.labels.size();
  const int64_t block_rows = BlockRows(static_cast<int64_t>(columns));
  const ScoreSource source = [&](const ScoreSink& sink) {
    std::vector<uint8_t> same(columns);
    for (int64_t begin = 0; begin < count; begin += block_rows) {
      const int64_t n = std::min(block_rows, count - begin);
      const Tensor scores = Scores(space, OrderBlock(q, g, begin, n));
      for (int64_t i = 0; i < n; ++i) {
        const size_t row = static_cast<size_t>(begin + i);
        for (size_t c = 0; c < columns; ++c) same[c] = gallery.labels[c] == queries.labels[row];
        const auto line = Numbers(scores).subspan(static_cast<size_t>(i) * columns, columns);
        const std::span<const uint8_t> line_same(same);
        if (!same_items) {
          sink(line, line_same);
        } else {
          sink(line.first(row), line_same.first(row));
          sink(line.subspan(row + 1), line_same.subspan(row + 1));
        }
      }
    }
  };
  return VerifyPairs(source, far_wanted);
}

absl::StatusOr<IdentificationFigures> EvaluateIdentification(const RetrievalSpace& space,
                                                             const LabelledEmbeddings& probes,
                                                             const LabelledEmbeddings& gallery,
                                                             std::span<const double> fpir_wanted, Impostors impostors) {
  LC_RETURN_IF_ERROR(CheckComparison(space, probes, gallery, /*same_items=*/false));
  torch::NoGradGuard no_grad;
  const PreparedSide q = PrepareSide(space, probes, false), g = PrepareSide(space, gallery, true);
  const std::vector<int64_t> probe_subjects(probes.labels.begin(), probes.labels.end());
  const std::vector<int64_t> gallery_subjects(gallery.labels.begin(), gallery.labels.end());
  const int64_t count = static_cast<int64_t>(probe_subjects.size());
  const int64_t block_rows = BlockRows(static_cast<int64_t>(gallery_subjects.size()));
  Tensor block;  // scores of the probes begin .. begin + block_rows
  const auto fill = [&](size_t probe, std::span<float> out) {
    const int64_t within = static_cast<int64_t>(probe) % block_rows, begin = static_cast<int64_t>(probe) - within;
    if (within == 0) block = Scores(space, OrderBlock(q, g, begin, std::min(block_rows, count - begin)));
    const auto line = Numbers(block).subspan(static_cast<size_t>(within) * out.size(), out.size());
    std::copy(line.begin(), line.end(), out.begin());
  };
  return IdentifyProbes(fill, probe_subjects, gallery_subjects, fpir_wanted, impostors);
}

}  // namespace lightcone

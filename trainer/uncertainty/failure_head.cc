#include "trainer/uncertainty/failure_head.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/rng.h"
#include "base/status.h"
#include "geometry/metric.h"
#include "trainer/distance_blocks_torch.h"
#include "trainer/uncertainty/class_evidence.h"

namespace lightcone {
namespace {

constexpr double kRidge = 0.01;
constexpr int kNewtonSteps = 50;
constexpr uint64_t kSampleStream = 0x5a3e1e;

// Up to `most` rows: one of each class, then another, until there are enough; ascending.
std::vector<int64_t> EvenSample(std::span<const int32_t> labels, int64_t most) {
  std::map<int32_t, std::vector<int64_t>> of_class;
  for (size_t i = 0; i < labels.size(); ++i) of_class[labels[i]].push_back(static_cast<int64_t>(i));
  Rng rng(MixSeed({kSampleStream, labels.size()}));
  for (auto& [label, rows] : of_class) rng.Shuffle(&rows);
  std::vector<int64_t> sample;
  for (size_t round = 0; std::cmp_less(sample.size(), std::min<int64_t>(most, std::ssize(labels))); ++round) {
    for (const auto& [label, rows] : of_class) {
      if (round < rows.size() && std::cmp_less(sample.size(), most)) sample.push_back(rows[round]);
    }
  }
  std::sort(sample.begin(), sample.end());
  return sample;
}

void Standardise(const std::vector<HeadFeatures>& rows, FailureHead* head) {
  const double n = static_cast<double>(rows.size());
  for (size_t f = 0; f < kHeadFeatures; ++f) {
    double sum = 0, squares = 0;
    for (const HeadFeatures& row : rows) sum += row[f];
    head->mean[f] = sum / n;
    for (const HeadFeatures& row : rows) squares += (row[f] - head->mean[f]) * (row[f] - head->mean[f]);
    head->deviation[f] = std::max(std::sqrt(squares / n), 1e-9);
  }
}

// Minimises mean logistic loss + ridge/2 |w|^2 by Newton's method. A step that does not lower the loss is halved. The
// bias has no ridge.
torch::Tensor FitLogistic(const torch::Tensor& x, const torch::Tensor& y) {
  const int64_t n = x.size(0), columns = x.size(1);
  torch::Tensor ridge = torch::full({columns}, kRidge, torch::kFloat64);
  ridge[columns - 1] = 0;
  const auto loss = [&](const torch::Tensor& w) {
    return (torch::binary_cross_entropy_with_logits(torch::mv(x, w), y) + 0.5 * (ridge * w * w).sum()).item<double>();
  };
  torch::Tensor w = torch::zeros({columns}, torch::kFloat64);
  double now = loss(w);
  for (int step = 0; step < kNewtonSteps; ++step) {
    const torch::Tensor p = torch::sigmoid(torch::mv(x, w));
    const torch::Tensor slope = torch::mv(x.t(), p - y) / n + ridge * w;
    const torch::Tensor bend =
        torch::mm(x.t() * (p * (1 - p)), x) / n + torch::diag(ridge) + 1e-9 * torch::eye(columns, torch::kFloat64);
    torch::Tensor move = torch::linalg_solve(bend, slope);
    double next = loss(w - move);
    for (int half = 0; half < 20 && !(next < now); ++half) next = loss(w - (move = move / 2));
    if (!(next < now)) break;
    w = w - move;
    if (now - next < 1e-12) break;
    now = next;
  }
  return w;
}

}  // namespace

absl::StatusOr<Failures> FailuresOf(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                    const LabelledEmbeddings& gallery) {
  LC_ASSIGN_OR_RETURN(const std::vector<int> own, OwnAmongNearest(space, queries, gallery, /*same_items=*/true));
  std::map<int32_t, int> images;
  for (const int32_t label : gallery.labels) ++images[label];
  Failures failures;
  for (size_t i = 0; i < own.size(); ++i) {
    failures.wrong.push_back(own[i] < kOwnClassNeeded);
    failures.findable.push_back(images[gallery.labels[i]] > kOwnClassNeeded);
  }
  return failures;
}

std::vector<HeadFeatures> HeadFeaturesOf(const RetrievalSpace& space, const LabelledEmbeddings& items,
                                         const Neighbourhood& near, const std::vector<ClassEvidence>& classes) {
  const Scores returned = Returned(near, kHeadFew);
  std::vector<HeadFeatures> rows(items.labels.size());
  const size_t d = static_cast<size_t>(space.dimension);
  for (size_t i = 0; i < rows.size(); ++i) {
    double alike = 0;
    for (const int32_t id : near.lists.FirstOf(i, kHeadFew)) {
      alike += classes[static_cast<size_t>(id)].nearest == classes[i].nearest;
    }
    const std::span<const double> distances = near.lists.DistancesOf(i);
    rows[i] = HeadFeaturesOf({distances.first(std::min(kHeadNeighbours, distances.size())), near.d1,
                              NormOf(items.z.subspan(i * d, d)), classes[i], returned[i], alike});
  }
  return rows;
}

absl::StatusOr<std::optional<FittedHead>> FitFailureHead(const RetrievalSpace& space, const ClassMeans& means,
                                                         const LabelledEmbeddings& old,
                                                         const LabelledEmbeddings& queries, int64_t most) {
  LC_RETURN_IF_ERROR(CheckComparison(space, queries, old, /*same_items=*/true, {"head.queries", "head.old"}));
  const std::vector<int64_t> rows = EvenSample(old.labels, most);
  const OwnedEmbeddings items = SelectRows(space, old, rows), asking = SelectRows(space, queries, rows);
  LC_ASSIGN_OR_RETURN(const Failures failures, FailuresOf(space, asking.View(), items.View()));
  LC_ASSIGN_OR_RETURN(
      const Neighbourhood near,
      NeighbourhoodOf(space, {"head.old", items.View()}, {"head.old", items.View()}, true, int64_t{kHeadNeighbours}));
  const std::vector<HeadFeatures> all =
      HeadFeaturesOf(space, items.View(), near, EvidenceOf(space, items.View(), means));
  std::vector<HeadFeatures> kept;
  std::vector<double> wrong;
  for (size_t i = 0; i < all.size(); ++i) {
    if (failures.findable[i] == 0) continue;
    kept.push_back(all[i]);
    wrong.push_back(failures.wrong[i]);
  }
  const int64_t count = std::count(wrong.begin(), wrong.end(), 1.0);
  if (count == 0 || count == std::ssize(wrong)) return std::optional<FittedHead>();
  FailureHead head;
  Standardise(kept, &head);
  torch::NoGradGuard no_grad;
  constexpr size_t kColumns = FailureHead::kTerms + 1;  // terms, and a 1 for the bias
  torch::Tensor x = torch::ones({std::ssize(kept), static_cast<int64_t>(kColumns)}, torch::kFloat64);
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto terms = head.TermsOf(kept[i]);
    std::copy(terms.begin(), terms.end(), x.data_ptr<double>() + i * kColumns);
  }
  const torch::Tensor w = FitLogistic(x, torch::tensor(wrong, torch::kFloat64));
  std::copy_n(w.data_ptr<double>(), FailureHead::kTerms, head.weights.begin());
  head.bias = w[static_cast<int64_t>(FailureHead::kTerms)].item<double>();
  return std::optional<FittedHead>({head, std::ssize(kept), count});
}

}  // namespace lightcone

#include "trainer/adapt/fit.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/exceptions.h"
#include "base/rng.h"
#include "base/status.h"
#include "trainer/adapt/closed_form_torch.h"
#include "trainer/adapt/error_head_torch.h"
#include "trainer/adapt/kernel_ridge_torch.h"
#include "trainer/adapt/losses_torch.h"
#include "trainer/adapt/network_torch.h"
#include "trainer/losses/lorentz_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

const int64_t kFittedMin = FittedAtMost(kAdaptPairsMin, 0);
constexpr int64_t kEvaluationBank = 2048, kEvaluationQueries = 512;  // sizes of the batch for the held-out loss

// Rows of the pairs, in an order drawn by item: the first ones are fitted, the others held out.
struct Split {
  std::vector<int64_t> rows;
  int64_t fitted = 0;

  int64_t held_out() const { return static_cast<int64_t>(rows.size()) - fitted; }
};

absl::StatusOr<Split> SplitPairs(const EmbeddingPairs& pairs, const AdaptOptions& options) {
  const size_t n = pairs.source.size() / static_cast<size_t>(options.source.dimension);
  const auto item = [&](int64_t row) {
    return pairs.items.empty() ? row : int64_t{pairs.items[static_cast<size_t>(row)]};
  };
  std::vector<std::pair<uint64_t, int64_t>> keyed(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t row = static_cast<int64_t>(i);
    keyed[i] = {MixSeed({options.seed, 0x5b117u, static_cast<uint64_t>(item(row))}), row};
  }
  std::sort(keyed.begin(), keyed.end());
  if (options.pairs_max != 0 && static_cast<int64_t>(n) > options.pairs_max) {
    keyed.resize(static_cast<size_t>(options.pairs_max));
  }
  Split split;
  for (const auto& [key, row] : keyed) split.rows.push_back(row);
  if (!pairs.items.empty()) {  // pairs_max may have left fewer items
    absl::flat_hash_set<int64_t> items;
    for (const int64_t row : split.rows) items.insert(item(row));
    const int64_t different = std::ssize(items);
    if (different < kAdaptItemsMin) {
      return InvalidField("pairs.items", StrCat(different, " different items in ", split.rows.size(), " pairs"),
                          StrCat("at least ", kAdaptItemsMin));
    }
  }
  const int64_t count = static_cast<int64_t>(split.rows.size());
  split.fitted = FittedAtMost(count, options.held_out);
  // All pairs of the item at the border are held out.
  const auto at = [&](int64_t i) { return item(split.rows[static_cast<size_t>(i)]); };
  while (split.fitted > 0 && at(split.fitted - 1) == at(split.fitted)) --split.fitted;
  if (split.fitted < kFittedMin) {
    return InvalidField("pairs.items", StrCat(split.fitted, " pairs of items that are not held out"),
                        StrCat("at least ", kFittedMin, ": views of more different items"));
  }
  return split;
}

// The chosen rows of a row-major matrix, [rows, d] float32.
Tensor Gather(std::span<const float> values, int dimension, const std::vector<int64_t>& rows) {
  const size_t d = static_cast<size_t>(dimension);
  Tensor out = torch::empty({static_cast<int64_t>(rows.size()), dimension}, torch::kFloat32);
  float* to = out.data_ptr<float>();
  for (const int64_t row : rows) {
    const std::span<const float> from = values.subspan(static_cast<size_t>(row) * d, d);
    to = std::copy(from.begin(), from.end(), to);
  }
  return out;
}

// The chosen numbers, int64; undefined for no numbers.
Tensor GatherNumbers(std::span<const int32_t> values, const std::vector<int64_t>& rows) {
  if (values.empty()) return {};
  std::vector<int64_t> numbers;
  for (const int64_t row : rows) numbers.push_back(values[static_cast<size_t>(row)]);
  return torch::tensor(numbers, torch::kInt64);
}

// The target of the least-squares start: the part of an embedding that the metric sees.
Tensor Aim(const Space& space, const Tensor& z) {
  return space.metric == Metric::kLorentz ? ClipNorm(z, space.clip_radius) : LiftTo(space, z).space;
}

// Unit rows for a cosine space, else the rows themselves. Adapters from a cosine space do the same
// (AdapterSpec::unit_input).
Tensor WithoutLength(const Space& space, Tensor z) {
  constexpr int64_t kRowsAtOnce = 8192;
  for (int64_t begin = 0; begin < z.size(0) && space.metric == Metric::kCosine; begin += kRowsAtOnce) {
    const Tensor rows = z.narrow(0, begin, std::min(kRowsAtOnce, z.size(0) - begin)), exact = rows.to(torch::kFloat64);
    rows.copy_(exact / torch::sqrt(exact.square().sum(1, /*keepdim=*/true)));
  }
  return z;
}

// A batch of the rows that `take` takes from each of its tensors.
template <typename Take>
AdaptBatch TakeRows(const AdaptBatch& all, int64_t queries, const Take& take) {
  return {take(all.source), take(all.target), all.labels.defined() ? take(all.labels) : Tensor(), queries,
          all.items.defined() ? take(all.items) : Tensor()};
}

AdaptBatch Narrow(const AdaptBatch& all, int64_t begin, int64_t n, int64_t queries) {
  return TakeRows(all, queries, [&](const Tensor& t) { return t.narrow(0, begin, n); });
}

// Distance of f(z) to its partner for each row of `batch`, float64.
template <typename Map>
Tensor Errors(const Map& map, const Space& target, const AdaptBatch& batch) {
  torch::NoGradGuard no_grad;
  return MetricRowDistances(target, LiftTo(target, map(batch.source).to(torch::kFloat64)),
                            LiftTo(target, batch.target.to(torch::kFloat64)));
}

std::vector<float> Numbers(const Tensor& values) {
  const Tensor flat = values.to(torch::kFloat32).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

AdapterSpec SpecOf(const KernelMap& map, const AdaptOptions& options) {
  AdapterSpec spec;
  spec.direction = options.direction;
  spec.kind = options.kind;
  spec.input_dimension = options.source.dimension;
  spec.target = options.target;
  spec.width = options.width;
  spec.input_radius = static_cast<float>(map.radius);
  spec.sharpness = static_cast<float>(map.sharpness);
  spec.linear = Numbers(map.linear.w);
  spec.offset = Numbers(map.linear.c);
  spec.hidden = Numbers(map.centres);
  spec.output = Numbers(map.output);
  return spec;
}

class Fit {
 public:
  Fit(const EmbeddingPairs& pairs, const AdaptOptions& options, const AdaptLoss& loss, const Split& split)
      : options_(options), objective_(loss, options), fitted_(split.fitted), rng_(MixSeed({options.seed, 0xf17u})) {
    all_.source = WithoutLength(options.source, Gather(pairs.source, options.source.dimension, split.rows));
    all_.target = WithoutLength(options.target, Gather(pairs.target, options.target.dimension, split.rows));
    all_.labels = GatherNumbers(pairs.labels, split.rows);
    all_.items = GatherNumbers(pairs.items, split.rows);
    order_.resize(static_cast<size_t>(fitted_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    const int64_t held_out = split.held_out();
    held_out_ = Narrow(all_, fitted_, held_out, held_out);
    evaluation_ = Narrow(held_out_, 0, std::min(held_out, kEvaluationBank), std::min(held_out, kEvaluationQueries));
    evaluation_.source = evaluation_.source.to(torch::kFloat64);
    evaluation_.target = evaluation_.target.to(torch::kFloat64);
  }

  absl::StatusOr<AdapterFile> Run(const AdaptCallback& callback, const std::atomic<bool>* stop) {
    if (options_.kind == AdapterKind::kKernel) return RunKernel(stop);
    const Tensor x = all_.source.narrow(0, 0, fitted_), y = Aim(options_.target, all_.target.narrow(0, 0, fitted_));
    const LinearMap linear = FitRidge(x, y);
    AdapterNetwork network(options_, linear, x, y);
    AdapterFile file;
    if (!network.parameters().empty()) {
      LC_ASSIGN_OR_RETURN(file.fit.steps, Train(network, callback, stop));
    }
    file.spec = network.Export();
    file.fit.loss = network.parameters().empty() ? "closed-form" : options_.loss;
    const Tensor hidden = options_.kind == AdapterKind::kResidualMlp ? Hidden(network) : Tensor();
    file.fit.ridge = linear.lambda;
    const auto start = [&](const Tensor& z) { return torch::matmul(z.to(torch::kFloat64), linear.w.t()) + linear.c; };
    LC_RETURN_IF_ERROR(Finish(start, network, hidden, file));
    return file;
  }

 private:
  // Kernel ridge regression, a closed form with a ridge chosen by the held-out pairs.
  absl::StatusOr<AdapterFile> RunKernel(const std::atomic<bool>* stop) {
    LC_RETURN_IF_ERROR(CheckCentres("width", options_.kind, options_.width, fitted_));
    const bool lorentz = options_.source.metric == Metric::kLorentz;
    LC_ASSIGN_OR_RETURN(KernelMap map, FitKernel(all_.source.narrow(0, 0, fitted_),
                                                 Aim(options_.target, all_.target.narrow(0, 0, fitted_)),
                                                 held_out_.source, Aim(options_.target, held_out_.target),
                                                 options_.width, lorentz ? options_.source.clip_radius : 1.0, stop));
    const KernelMap start = map;
    map.Lengthen(Shortening(map));
    AdapterFile file;
    file.spec = SpecOf(map, options_);
    file.fit.loss = "closed-form";
    file.fit.ridge = map.lambda;
    LC_RETURN_IF_ERROR(Finish([&](const Tensor& z) { return start.Linear(z); }, map, Tensor(), file));
    return file;
  }

  // Ratio of mean lengths of the held-out partners and the map's points, limited to 1 .. 2. Least squares shorten what
  // they cannot tell, and a point nearer to the origin is nearer to every query: adapted items would precede others in
  // a mixed gallery.
  double Shortening(const KernelMap& map) const {
    torch::NoGradGuard no_grad;
    if (options_.target.metric != Metric::kLorentz) return 1;      // cosines do not depend on lengths
    if (options_.direction == AdapterDirection::kQuery) return 1;  // the effect on queries is not measured
    const auto length = [&](const Tensor& z) {
      return Aim(options_.target, z.to(torch::kFloat64)).norm(2, 1).mean().item<double>();
    };
    return std::clamp(length(held_out_.target) / std::max(length(map(held_out_.source)), 1e-6), 1.0, 2.0);
  }

  Tensor Hidden(const AdapterNetwork& network) const {
    torch::NoGradGuard no_grad;
    return network.Hidden(held_out_.source);
  }

  // Sets all of the file but the map: figures on the held-out pairs and the regression of the error, which may read
  // `hidden` units of these pairs. `start` is the linear map whose error is the baseline.
  template <typename Start, typename Map>
  absl::Status Finish(const Start& start, const Map& map, const Tensor& hidden, AdapterFile& file) const {
    file.spec.unit_input = options_.source.metric == Metric::kCosine;
    file.from = options_.from;
    file.to = options_.to;
    file.from_crc32c = options_.from_crc32c;
    file.to_crc32c = options_.to_crc32c;
    file.source = options_.source;
    file.fit.pairs = fitted_;
    file.fit.held_out_pairs = held_out_.source.size(0);
    file.fit.seed = options_.seed;
    file.fit.baseline_error = Errors(start, options_.target, held_out_).mean().template item<double>();
    const Tensor errors = Errors(map, options_.target, held_out_);
    file.fit.held_out_error = errors.mean().template item<double>();
    if (options_.error_head) AddHead(hidden, errors, file);
    const absl::Status valid = file.spec.Validate();
    if (!valid.ok()) return FailedPrecondition(StrCat("the fit left the allowed weights: ", MessageOf(valid)));
    return absl::OkStatus();
  }

  // Distinct random rows of the fitted ones: a bank whose first rows are the queries.
  AdaptBatch Draw() {
    const int64_t m = std::min<int64_t>(options_.bank, fitted_);
    for (size_t i = 0; i < static_cast<size_t>(m); ++i) {
      std::swap(order_[i], order_[i + rng_.Below(static_cast<uint32_t>(order_.size() - i))]);
    }
    const Tensor rows = torch::from_blob(order_.data(), {m}, torch::kInt64);
    return TakeRows(all_, std::min<int64_t>(options_.batch, m),
                    [&](const Tensor& t) { return t.index_select(0, rows); });
  }

  double HeldOutLoss(const AdapterNetwork& network) const {
    torch::NoGradGuard no_grad;
    const auto map = [&](const Tensor& z) { return network(z.to(torch::kFloat32)).to(torch::kFloat64); };
    return objective_(map, evaluation_).item<double>();
  }

  absl::Status NotFinite(double loss, int64_t step) const {
    return FailedPrecondition(
        StrCat("loss '", options_.loss, "' is ", loss, " at step ", step, "; a smaller learning rate may help"));
  }

  // Leaves the network at its best held-out state; returns the steps done.
  absl::StatusOr<int64_t> Train(AdapterNetwork& network, const AdaptCallback& callback, const std::atomic<bool>* stop) {
    torch::optim::AdamW optimiser(
        network.parameters(), torch::optim::AdamWOptions(options_.learning_rate).weight_decay(options_.weight_decay));
    const auto begin = std::chrono::steady_clock::now();
    AdaptProgress progress;
    progress.steps = options_.steps;
    progress.best_loss = HeldOutLoss(network);
    if (!std::isfinite(progress.best_loss)) return NotFinite(progress.best_loss, 0);
    std::vector<Tensor> best = network.Snapshot();
    for (int looks = 0; progress.step < options_.steps && looks < options_.patience;) {
      if (stop != nullptr && stop->load()) return absl::CancelledError("fitting was stopped");
      const double share = static_cast<double>(progress.step) / static_cast<double>(options_.steps);
      optimiser.param_groups()[0].options().set_lr(options_.learning_rate * 0.5 *
                                                   (1 + std::cos(std::numbers::pi * share)));
      optimiser.zero_grad();
      const Tensor loss = objective_(network, Draw());
      progress.loss = loss.item<double>();
      if (!std::isfinite(progress.loss)) return NotFinite(progress.loss, progress.step);
      loss.backward();
      optimiser.step();
      ++progress.step;
      if (progress.step % options_.evaluate_every != 0 && progress.step != options_.steps) continue;
      progress.held_out_loss = HeldOutLoss(network);
      if (!std::isfinite(progress.held_out_loss)) return NotFinite(progress.held_out_loss, progress.step);
      ++looks;
      if (progress.held_out_loss < progress.best_loss) {
        progress.best_loss = progress.held_out_loss;
        best = network.Snapshot();
        looks = 0;
      }
      progress.finished = progress.step == options_.steps || looks == options_.patience;
      progress.elapsed_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (callback) callback(progress);
    }
    network.Restore(best);
    return progress.step;
  }

  void AddHead(const Tensor& hidden, const Tensor& errors, AdapterFile& file) const {
    torch::NoGradGuard no_grad;
    const ErrorHead head = FitErrorHead(held_out_.source, hidden, errors);
    file.spec.head = head.head;
    file.spec.head_weights = head.weights;
    file.spec.head_bias = head.bias;
    file.fit.head_r2 = head.r2;
  }

  const AdaptOptions options_;
  const AdaptObjective objective_;
  const int64_t fitted_;
  Rng rng_;
  AdaptBatch all_;         // chosen pairs: fitted ones, then held-out ones
  AdaptBatch held_out_;    // views of all_
  AdaptBatch evaluation_;  // first held-out pairs, float64
  std::vector<int64_t> order_;
};

}  // namespace

absl::StatusOr<AdapterFile> FitAdapter(const EmbeddingPairs& pairs, const AdaptOptions& options,
                                       const AdaptCallback& callback, const std::atomic<bool>* stop) {
  LC_RETURN_IF_ERROR(options.Validate());
  LC_RETURN_IF_ERROR(CheckPairs(pairs, options));
  LC_ASSIGN_OR_RETURN(const AdaptLoss loss, ParseAdaptLoss(options.loss, !pairs.labels.empty()));
  LC_ASSIGN_OR_RETURN(const Split split, SplitPairs(pairs, options));
  AdaptOptions named = options;
  if (options.loss == "auto") named.loss = pairs.labels.empty() ? kAutoLossUnlabelled : kAutoLossLabelled;
  if (options.width == 0) {
    named.width = WidthFor(options.kind, options.direction);
    if (options.kind == AdapterKind::kKernel) {
      named.width = static_cast<int>(std::min<int64_t>(named.width, split.fitted));
    }
  }
  try {
    return Fit(pairs, named, loss, split).Run(callback, stop);
  } catch (...) {
    return Annotate(StatusOfException(), "fit adapter");
  }
}

}  // namespace lightcone

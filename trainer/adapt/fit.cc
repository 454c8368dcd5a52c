#include "trainer/adapt/fit.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>
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
constexpr int64_t kChosenKernelRows = 20'000;  // most rows of the kernel that takes part in a choice: memory and time
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
    keyed[i] = {PlaceInFit(options.seed, static_cast<uint64_t>(item(row))), row};
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
  spec.kind = AdapterKind::kKernel;
  spec.input_dimension = options.source.dimension;
  spec.target = options.target;
  spec.width = static_cast<int>(map.centres.size(0));
  spec.input_radius = static_cast<float>(map.radius);
  spec.sharpness = static_cast<float>(map.sharpness);
  spec.linear = Numbers(map.linear.w);
  spec.offset = Numbers(map.linear.c);
  spec.hidden = Numbers(map.centres);
  spec.output = Numbers(map.output);
  return spec;
}

// Steps of training the network that a choice of maps has time for: some seconds of one core for 2,000 pairs, up to
// five times that for more. 0 where they are too few to be worth it. A count of products and no clock, so that the same
// pairs give the same adapter.
int64_t MlpStepsWithin(const AdaptOptions& options, int64_t fitted) {
  constexpr double kProducts = 2e11, kPairs = 2'000, kSharesMost = 5;
  constexpr int64_t kStepsLeast = 200;
  const double in = options.source.dimension, out = options.target.dimension, width = options.width;
  const double rows = static_cast<double>(std::min<int64_t>(options.bank, fitted));
  const double step = 6 * rows * (in * out + in * width + width * out);
  const double share = std::clamp(static_cast<double>(fitted) / kPairs, 1.0, kSharesMost);
  const auto steps = static_cast<int64_t>(std::min(kProducts * share / step, static_cast<double>(options.steps)));
  return steps >= std::min<int64_t>(kStepsLeast, options.steps) ? steps : 0;
}

// Maps that were fitted to the same pairs, and the best of them so far.
struct MapChoice {
  std::vector<ComparedMap> compared;
  std::function<absl::StatusOr<AdapterFile>()> best;  // the file of the best map; empty: none had a finite loss
  double best_loss = std::numeric_limits<double>::infinity();

  void Offer(AdapterKind kind, double loss, std::function<absl::StatusOr<AdapterFile>()> file) {
    if (!std::isfinite(loss)) return;
    compared.push_back({std::string(AdapterKindName(kind)), loss});
    if (loss >= best_loss) return;
    best = std::move(file);
    best_loss = loss;
  }
};

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
    if (options_.choose) return RunEvery(callback, stop);
    if (options_.kind == AdapterKind::kKernel) return RunKernel(stop);
    const Tensor x = FittedSources(), y = FittedAims();
    const LinearMap linear = FitRidge(x, y);
    AdapterNetwork network(options_, linear, x, y);
    int64_t steps = 0;
    if (!network.parameters().empty()) {
      LC_ASSIGN_OR_RETURN(steps, Train(network, options_.steps, callback, stop));
    }
    return FileOf(network, linear, steps);
  }

 private:
  Tensor FittedSources() const { return all_.source.narrow(0, 0, fitted_); }
  Tensor FittedAims() const { return Aim(options_.target, all_.target.narrow(0, 0, fitted_)); }

  absl::StatusOr<AdapterFile> FileOf(const AdapterNetwork& network, const LinearMap& linear, int64_t steps) const {
    AdapterFile file;
    file.spec = network.Export();
    file.fit.steps = steps;
    file.fit.loss = steps == 0 ? "closed-form" : options_.loss;
    file.fit.ridge = linear.lambda;
    const Tensor hidden = file.spec.kind == AdapterKind::kResidualMlp ? Hidden(network) : Tensor();
    const auto start = [&](const Tensor& z) { return torch::matmul(z.to(torch::kFloat64), linear.w.t()) + linear.c; };
    LC_RETURN_IF_ERROR(Finish(start, network, hidden, file));
    return file;
  }

  absl::StatusOr<AdapterFile> FileOf(const KernelMap& map, const KernelMap& start) const {
    AdapterFile file;
    file.spec = SpecOf(map, options_);
    file.fit.loss = "closed-form";
    file.fit.ridge = map.lambda;
    LC_RETURN_IF_ERROR(Finish([&](const Tensor& z) { return start.Linear(z); }, map, Tensor(), file));
    return file;
  }

  // Fits every map, as far as the time limit allows, and keeps the one with the least held-out loss. The first fitted
  // wins a tie, so that simple maps come first.
  absl::StatusOr<AdapterFile> RunEvery(const AdaptCallback& callback, const std::atomic<bool>* stop) {
    MapChoice choice;
    const Tensor x = FittedSources(), y = FittedAims();
    const LinearMap linear = FitRidge(x, y);
    AdaptOptions one = options_;
    one.rank = std::min({one.rank, one.source.dimension, one.target.dimension});
    for (const AdapterKind kind : {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine}) {
      if (stop != nullptr && stop->load()) return absl::CancelledError("fitting was stopped");
      one.kind = kind;
      const auto network = std::make_shared<AdapterNetwork>(one, linear, x, y);
      choice.Offer(kind, HeldOutLoss(*network), [=, this] { return FileOf(*network, linear, 0); });
    }
    LC_RETURN_IF_ERROR(OfferKernel(choice, callback, stop));
    LC_RETURN_IF_ERROR(OfferMlp(choice, linear, callback, stop));
    if (!choice.best) return FailedPrecondition(StrCat("no map has a finite held-out loss '", options_.loss, "'"));
    LC_ASSIGN_OR_RETURN(AdapterFile file, choice.best());
    file.fit.compared_by = options_.loss;
    file.fit.compared = std::move(choice.compared);
    return file;
  }

  // The kernel map whose settings have the least held-out loss. Equations that cannot be solved are no candidate.
  absl::Status OfferKernel(MapChoice& choice, const AdaptCallback& callback, const std::atomic<bool>* stop) {
    const int64_t rows = std::min(evaluation_.source.size(0), kEvaluationQueries);
    const AdaptBatch held = Narrow(evaluation_, 0, rows, rows);
    const auto loss = [&](const Tensor& outputs) {
      return objective_([&](const Tensor& z) { return outputs.narrow(0, 0, z.size(0)); }, held).item<double>();
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto progress = [&](int64_t done, int64_t most) {
      if (!callback) return;
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      callback({.step = options_.steps * done / (2 * most), .steps = options_.steps, .elapsed_seconds = seconds});
    };
    const double radius = options_.source.metric == Metric::kLorentz ? options_.source.clip_radius : 1.0;
    const int64_t fitted_rows = std::min(fitted_, kChosenKernelRows);
    absl::StatusOr<KernelMap> fitted =
        FitKernelByLoss(FittedSources().narrow(0, 0, fitted_rows), FittedAims().narrow(0, 0, fitted_rows),
                        {.held_z = held.source,
                         .loss = loss,
                         .parts_max = WidthFor(AdapterKind::kKernel, options_.direction),
                         .radius = radius,
                         .progress = progress,
                         .stop = stop});
    if (absl::IsFailedPrecondition(fitted.status())) return absl::OkStatus();
    LC_RETURN_IF_ERROR(fitted.status());
    const auto start = std::make_shared<KernelMap>(*fitted), map = std::make_shared<KernelMap>(*std::move(fitted));
    map->Lengthen(Shortening(*map));
    choice.Offer(AdapterKind::kKernel, HeldOutLoss(*map), [=, this] { return FileOf(*map, *start); });
    return absl::OkStatus();
  }

  // The network, where enough steps fit into the time limit. A training that leaves the finite numbers is no candidate.
  absl::Status OfferMlp(MapChoice& choice, const LinearMap& linear, const AdaptCallback& callback,
                        const std::atomic<bool>* stop) {
    AdaptOptions one = options_;
    one.kind = AdapterKind::kResidualMlp;
    one.width = WidthFor(one.kind, one.direction);
    const int64_t steps = MlpStepsWithin(one, fitted_);
    if (steps == 0) return absl::OkStatus();
    const auto network = std::make_shared<AdapterNetwork>(one, linear, FittedSources(), FittedAims());
    AdaptCallback half;
    if (callback) {
      half = [&](AdaptProgress p) {
        p.step = options_.steps / 2 + (options_.steps - options_.steps / 2) * p.step / p.steps;
        p.steps = options_.steps;
        callback(p);
      };
    }
    const absl::StatusOr<int64_t> done = Train(*network, steps, half, stop);
    if (absl::IsFailedPrecondition(done.status())) return absl::OkStatus();
    LC_RETURN_IF_ERROR(done.status());
    choice.Offer(one.kind, HeldOutLoss(*network),
                 [=, this, trained = *done] { return FileOf(*network, linear, trained); });
    return absl::OkStatus();
  }

  // Kernel ridge regression, a closed form with a ridge chosen by the held-out pairs.
  absl::StatusOr<AdapterFile> RunKernel(const std::atomic<bool>* stop) {
    LC_RETURN_IF_ERROR(CheckCentres("width", options_.kind, options_.width, fitted_));
    const bool lorentz = options_.source.metric == Metric::kLorentz;
    LC_ASSIGN_OR_RETURN(KernelMap map, FitKernel(FittedSources(), FittedAims(), held_out_.source,
                                                 Aim(options_.target, held_out_.target), options_.width,
                                                 lorentz ? options_.source.clip_radius : 1.0, stop));
    const KernelMap start = map;
    map.Lengthen(Shortening(map));
    return FileOf(map, start);
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

  template <typename Map>
  double HeldOutLoss(const Map& map) const {
    torch::NoGradGuard no_grad;
    const auto exact = [&](const Tensor& z) { return map(z.to(torch::kFloat32)).to(torch::kFloat64); };
    return objective_(exact, evaluation_).template item<double>();
  }

  absl::Status NotFinite(double loss, int64_t step) const {
    return FailedPrecondition(
        StrCat("loss '", options_.loss, "' is ", loss, " at step ", step, "; a smaller learning rate may help"));
  }

  // Leaves the network at its best held-out state; returns the steps done.
  absl::StatusOr<int64_t> Train(AdapterNetwork& network, int64_t steps, const AdaptCallback& callback,
                                const std::atomic<bool>* stop) {
    torch::optim::AdamW optimiser(
        network.parameters(), torch::optim::AdamWOptions(options_.learning_rate).weight_decay(options_.weight_decay));
    const auto begin = std::chrono::steady_clock::now();
    AdaptProgress progress;
    progress.steps = steps;
    progress.best_loss = HeldOutLoss(network);
    if (!std::isfinite(progress.best_loss)) return NotFinite(progress.best_loss, 0);
    std::vector<Tensor> best = network.Snapshot();
    for (int looks = 0; progress.step < steps && looks < options_.patience;) {
      if (stop != nullptr && stop->load()) return absl::CancelledError("fitting was stopped");
      const double share = static_cast<double>(progress.step) / static_cast<double>(steps);
      optimiser.param_groups()[0].options().set_lr(options_.learning_rate * 0.5 *
                                                   (1 + std::cos(std::numbers::pi * share)));
      optimiser.zero_grad();
      const Tensor loss = objective_(network, Draw());
      progress.loss = loss.item<double>();
      if (!std::isfinite(progress.loss)) return NotFinite(progress.loss, progress.step);
      loss.backward();
      optimiser.step();
      ++progress.step;
      if (progress.step % options_.evaluate_every != 0 && progress.step != steps) continue;
      progress.held_out_loss = HeldOutLoss(network);
      if (!std::isfinite(progress.held_out_loss)) return NotFinite(progress.held_out_loss, progress.step);
      ++looks;
      if (progress.held_out_loss < progress.best_loss) {
        progress.best_loss = progress.held_out_loss;
        best = network.Snapshot();
        looks = 0;
      }
      progress.finished = progress.step == steps || looks == options_.patience;
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
  if (options.width == 0 && !options.choose) {
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

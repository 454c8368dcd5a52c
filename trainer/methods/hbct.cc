// HBCT (docs/internals/training-methods.md): L = L_base + lambda (L_entail + L_contrast). New embeddings are pulled
// into the entailment cones of the old ones and towards the old embedding of the same image, the less so the less sure
// the old model was.
#include <algorithm>
#include <limits>
#include <optional>

#include "base/status.h"
#include "trainer/losses/contrast_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

constexpr double kClipUntil = 0.5;  // share of the steps after which hbct.clip_from has come to clip_radius

LossDistance DistanceOf(const std::string& name) {
  if (name == "inner") return LossDistance::kInner;
  if (name == "squared") return LossDistance::kSquared;
  return LossDistance::kGeodesic;
}

torch::Tensor QOf(const HbctConfig& config, double curvature, const Embedded& old) {
  torch::NoGradGuard no_grad;
  if (config.q_mode == "fixed") {
    return torch::full({old.z.size(0)}, config.q_fixed, old.z.options());
  }
  return torch::clamp(UncertaintyOfClipped(old.clipped, curvature, config.uncertainty == "paper-line3"), config.q_min,
                      1.0);
}

// Old points as the new ones see them: with a learnt K, stored embeddings are lifted at today's K, as a search would
// lift them; scaled by k as Embedded::points is.
LorentzPoints SeenFrom(const Embedded& fresh, const Embedded& old) {
  return fresh.k.defined() ? ExpOrigin(old.clipped * fresh.k, 1.0) : old.points;
}

torch::Tensor Distances(const HbctConfig& config, double curvature, const Embedded& fresh, const Embedded& old) {
  const LossDistance kind = DistanceOf(config.distance);
  const torch::Tensor distances =
      DistanceMatrix(fresh.points, SeenFrom(fresh, old), fresh.k.defined() ? 1.0 : curvature, kind);
  if (!fresh.k.defined()) return distances;
  return kind == LossDistance::kGeodesic ? distances / fresh.k : distances / (fresh.k * fresh.k);
}

torch::Tensor ContrastLoss(const HbctConfig& config, const torch::Tensor& distances, const torch::Tensor& q,
                           const torch::Tensor& labels) {
  if (config.contrast == "distance") return distances.diagonal().mean();
  const torch::Tensor excluded = config.mask_same_class ? SameClassPairs(labels) : torch::Tensor();
  if (config.contrast == "infonce") return InfoNceLoss(distances, config.tau, excluded).mean();
  return RinceLoss(distances, q, {config.tau, config.beta}, excluded).mean();
}

}  // namespace

double HbctWeight(const HbctConfig& config, double progress) {
  if (config.lambda_until == 0) return config.lambda;
  return config.lambda * std::max(0.0, 1.0 - progress / config.lambda_until);
}

LossTerms HbctCompatibility(const HbctConfig& config, double curvature, const HbctSides& sides,
                            const torch::Tensor& labels, const HbctSides* cones) {
  const Embedded& fresh = sides.fresh;
  LossTerms terms;
  if (config.entailment) {
    const HbctSides& seen = cones != nullptr ? *cones : sides;
    const LorentzPoints apexes = SeenFrom(seen.fresh, seen.old);
    const double points_curvature = fresh.k.defined() ? 1.0 : curvature;
    const torch::Tensor angle = ExteriorAngle(apexes, seen.fresh.points, points_curvature);
    const torch::Tensor entail = torch::relu(angle - HalfAperture(apexes, points_curvature, config.epsilon)).mean();
    terms.total = entail;
    terms.parts.emplace_back("entail", entail.detach());
  }
  if (config.contrast != "none") {
    const torch::Tensor contrast =
        ContrastLoss(config, Distances(config, curvature, fresh, sides.old), QOf(config, curvature, sides.old), labels);
    terms.total = terms.total.defined() ? terms.total + contrast : contrast;
    terms.parts.emplace_back("contrast", contrast.detach());
  }
  return terms;
}

torch::Tensor HbctPrototypeLoss(const HbctConfig& config, double curvature, const Embedded& fresh,
                                const Embedded& means, const torch::Tensor& absent, const torch::Tensor& labels) {
  const torch::Tensor logits = -Distances(config, curvature, fresh, means) / config.tau;
  return torch::nn::functional::cross_entropy(
      logits.masked_fill(absent.unsqueeze(0), -std::numeric_limits<double>::infinity()), labels);
}

torch::Tensor HbctSelfLoss(const HbctConfig& config, double curvature, const Embedded& fresh, const Embedded& last) {
  const torch::Tensor known = last.z.ne(0).any(1);
  const torch::Tensor others = ~torch::eye(known.size(0), torch::TensorOptions(known.device()).dtype(torch::kBool));
  const torch::Tensor excluded = torch::logical_and(others, ~known.unsqueeze(0));
  const torch::Tensor each = InfoNceLoss(Distances(config, curvature, fresh, last), config.tau, excluded);
  return torch::where(known, each, torch::zeros_like(each)).sum() / torch::clamp_min(known.sum(), 1);
}

namespace {

// The network's last embedding of each training image; zeros before the first one.
class OwnEmbeddings : public torch::nn::Module {
 public:
  OwnEmbeddings(int64_t images, int64_t dimension) : z_(register_buffer("z", torch::zeros({images, dimension}))) {}

  // What was there for these rows; `z` takes its place.
  torch::Tensor Exchange(const torch::Tensor& rows, const torch::Tensor& z) {
    torch::NoGradGuard no_grad;
    const torch::Tensor at = rows.to(z_.device(), /*non_blocking=*/true);
    torch::Tensor last = z_.index_select(0, at);
    z_.index_copy_(0, at, z.detach());
    return last;
  }

 private:
  torch::Tensor z_;
};

class Hbct : public TrainingMethod {
 public:
  explicit Hbct(const MethodContext& context) : context_(context) {
    if (config().self == 0) return;
    own_ = std::make_shared<OwnEmbeddings>(context.dataset.train.size(), LayoutOf(context.config).network);
  }

  // What the switches need of the old model over the whole set, unaugmented: the embeddings themselves
  // (cached_old_features), or their means by class (prototypes).
  absl::Status ReadOldModel() {
    const HbctConfig& c = config();
    if (!c.cached_old_features && c.prototypes == 0) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const torch::Tensor z, context_.old_model->EmbedAll(context_.dataset.train));
    if (c.cached_old_features) cached_z_ = z;
    if (c.prototypes > 0) {
      const torch::Tensor counts = torch::bincount(Labels(), /*weights=*/{}, context_.dataset.classes());
      means_ = SumsByClass(z) / torch::clamp_min(counts, 1).unsqueeze(1);
      absent_ = counts.eq(0);
    }
    return absl::OkStatus();
  }

  absl::Status Start(Classifier& classifier) override {
    if (config().normals != "old-means") return absl::OkStatus();
    if (means_.defined()) {
      classifier.PointNormals(means_);
      return absl::OkStatus();
    }
    torch::Tensor z = cached_z_;
    if (!z.defined()) {
      LC_ASSIGN_OR_RETURN(z, context_.old_model->EmbedAll(context_.dataset.train));
    }
    classifier.PointNormals(SumsByClass(z));  // sums point where means do
    return absl::OkStatus();
  }

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) override {
    const TrainConfig& c = context_.config;
    const HbctSides sides{context_.classifier.Embed(z, ClipAt(batch.progress)), OldEmbeddings(batch)};
    const torch::Tensor base = context_.classifier.Loss(sides.fresh, batch.labels);
    std::optional<HbctSides> cones;
    if (const double clip = c.hbct.entail_clip; clip > 0) {
      cones = {context_.classifier.Embed(z, clip), EmbedPoints(sides.old.z, true, c.curvature, clip)};
    }
    LossTerms terms = HbctCompatibility(c.hbct, c.curvature, sides, batch.labels, cones ? &*cones : nullptr);
    if (means_.defined()) AddPrototypes(sides.fresh, batch.labels, terms);
    terms.total = terms.total.defined() ? base + HbctWeight(c.hbct, batch.progress) * terms.total : base;
    terms.parts.emplace(terms.parts.begin(), "base", base.detach());
    if (own_ != nullptr) {
      const Embedded last = context_.classifier.Embed(own_->Exchange(batch.rows, z), ClipAt(batch.progress));
      const torch::Tensor self = HbctSelfLoss(c.hbct, c.curvature, sides.fresh, last);
      terms.total = terms.total + c.hbct.self * self;
      terms.parts.emplace_back("self", self.detach());
    }
    return terms;
  }

  std::shared_ptr<torch::nn::Module> module() override { return own_; }

 private:
  const HbctConfig& config() const { return context_.config.hbct; }

  torch::Tensor Labels() const {
    const std::vector<int32_t>& labels = context_.dataset.train.labels;
    return torch::tensor(std::vector<int64_t>(labels.begin(), labels.end()));
  }

  // Of old embeddings, clipped: [classes, d].
  torch::Tensor SumsByClass(const torch::Tensor& z) const {
    const torch::Tensor clipped = ClipNorm(z, context_.old_model->manifest().clip_radius);
    return torch::zeros({context_.dataset.classes(), z.size(1)}).index_add(0, Labels(), clipped);
  }

  double ClipAt(double progress) const {
    const double last = context_.config.clip_radius, first = config().clip_from;
    return first == 0 ? last : first + (last - first) * std::min(1.0, progress / kClipUntil);
  }

  void AddPrototypes(const Embedded& fresh, const torch::Tensor& labels, LossTerms& terms) {
    const TrainConfig& c = context_.config;
    MoveOnce(fresh.z.device(), {&means_, &absent_});
    const Embedded means = EmbedPoints(means_, true, c.curvature, context_.old_model->manifest().clip_radius);
    const torch::Tensor loss = HbctPrototypeLoss(c.hbct, c.curvature, fresh, means, absent_, labels);
    const torch::Tensor weighted = c.hbct.prototypes * loss;
    terms.total = terms.total.defined() ? terms.total + weighted : weighted;
    terms.parts.emplace_back("prototype", loss.detach());
  }

  Embedded OldEmbeddings(const StepBatch& batch) const {
    torch::NoGradGuard no_grad;
    const torch::Tensor z = cached_z_.defined()
                                ? cached_z_.index_select(0, batch.rows).to(batch.images.device(), /*non_blocking=*/true)
                                : context_.old_model->Embed(batch.images);
    return EmbedPoints(z, true, context_.config.curvature, context_.old_model->manifest().clip_radius);
  }

  const MethodContext context_;
  torch::Tensor cached_z_;  // [n, d], undefined unless cached
  torch::Tensor means_;     // [classes, d], of clipped old embeddings; undefined without prototypes
  torch::Tensor absent_;    // bool [classes]: no training image; undefined with means_
  std::shared_ptr<OwnEmbeddings> own_;
};

}  // namespace

MethodEntry HbctMethod() {
  MethodEntry entry;
  entry.info.name = "hbct";
  entry.info.help =
      "hyperbolic compatible training: entailment cones of the old embeddings and uncertainty-weighted RINCE";
  entry.info.source =
      "HBCT eq. 9 - 13; Desai et al. (MERU) for cones, Chuang et al. for RINCE, Franco et al. (HYSP) for q";
  entry.info.needs_old_model = true;
  entry.info.metric = "lorentz";
  entry.info.switches = {"old_model",        "hbct.lambda",      "hbct.lambda_until",    "hbct.entailment",
                         "hbct.epsilon",     "hbct.contrast",    "hbct.distance",        "hbct.tau",
                         "hbct.beta",        "hbct.q_mode",      "hbct.q_fixed",         "hbct.q_min",
                         "hbct.uncertainty", "hbct.normals",     "hbct.mask_same_class", "hbct.cached_old_features",
                         "hbct.prototypes",  "hbct.entail_clip", "hbct.clip_from",       "hbct.self"};
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    auto method = std::make_unique<Hbct>(context);
    LC_RETURN_IF_ERROR(method->ReadOldModel());
    return std::unique_ptr<TrainingMethod>(std::move(method));
  };
  return entry;
}

}  // namespace lightcone

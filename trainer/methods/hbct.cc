// HBCT (docs/internals/training-methods.md): L = L_base + lambda (L_entail + L_contrast). New embeddings are pulled
// into the entailment cones of the old ones and towards the old embedding of the same image. A less certain old
// embedding pulls less.
#include <algorithm>

#include "base/status.h"
#include "trainer/losses/contrast_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

LossDistance DistanceOf(const std::string& name) {
  if (name == "inner") return LossDistance::kInner;
  if (name == "squared") return LossDistance::kSquared;
  return LossDistance::kGeodesic;
}

Tensor QOf(const HbctConfig& config, double curvature, const Embedded& old) {
  torch::NoGradGuard no_grad;
  if (config.q_mode == "fixed") return torch::full({old.z.size(0)}, config.q_fixed, old.z.options());
  return torch::clamp(UncertaintyOfClipped(old.clipped, curvature, config.uncertainty == "paper-line3"), config.q_min,
                      1.0);
}

// Old points on the hyperboloid of the new ones. With a learnt K a search lifts stored embeddings at the current K;
// so does this. The points are scaled by k as Embedded::points is.
LorentzPoints SeenFrom(const Embedded& fresh, const Embedded& old) {
  return fresh.k.defined() ? ExpOrigin(old.clipped * fresh.k, 1.0) : old.points;
}

Tensor DistancesToOld(const HbctConfig& config, double curvature, const Embedded& fresh, const Embedded& old) {
  const LossDistance kind = DistanceOf(config.distance);
  const Tensor distances =
      DistanceMatrix(fresh.points, SeenFrom(fresh, old), fresh.k.defined() ? 1.0 : curvature, kind);
  if (!fresh.k.defined()) return distances;
  return kind == LossDistance::kGeodesic ? distances / fresh.k : distances / (fresh.k * fresh.k);
}

Tensor ContrastLoss(const HbctConfig& config, const Tensor& distances, const Tensor& q, const Tensor& labels) {
  if (config.contrast == "distance") return distances.diagonal().mean();
  const Tensor excluded = config.mask_same_class ? SameClassPairs(labels) : Tensor();
  if (config.contrast == "infonce") return InfoNceLoss(distances, config.tau, excluded).mean();
  return RinceLoss(distances, q, {config.tau, config.beta}, excluded).mean();
}

}  // namespace

double HbctWeight(const HbctConfig& config, double progress) {
  if (config.lambda_until == 0) return config.lambda;
  return config.lambda * std::max(0.0, 1.0 - progress / config.lambda_until);
}

LossTerms HbctCompatibility(const HbctConfig& config, double curvature, const HbctSides& sides, const Tensor& labels) {
  const auto& [fresh, old] = sides;
  LossTerms terms;
  if (config.entailment) {
    const LorentzPoints apexes = SeenFrom(fresh, old);
    const double points_curvature = fresh.k.defined() ? 1.0 : curvature;
    const Tensor angle = ExteriorAngle(apexes, fresh.points, points_curvature);
    terms.total = torch::relu(angle - HalfAperture(apexes, points_curvature, config.epsilon)).mean();
    terms.parts.emplace_back("entail", terms.total.detach());
  }
  if (config.contrast != "none") {
    const Tensor contrast =
        ContrastLoss(config, DistancesToOld(config, curvature, fresh, old), QOf(config, curvature, old), labels);
    terms.total = terms.total.defined() ? terms.total + contrast : contrast;
    terms.parts.emplace_back("contrast", contrast.detach());
  }
  return terms;
}

namespace {

class Hbct : public TrainingMethod {
 public:
  explicit Hbct(const MethodContext& context) : context_(context) {}

  absl::Status ReadOldModel() {
    if (!context_.config.hbct.cached_old_features) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(cached_z_, context_.old_model->EmbedAll(context_.dataset.train));
    return absl::OkStatus();
  }

  absl::Status Start(Classifier& classifier) override {
    if (context_.config.hbct.normals != "old-means") return absl::OkStatus();
    Tensor z = cached_z_;
    if (!z.defined()) {
      LC_ASSIGN_OR_RETURN(z, context_.old_model->EmbedAll(context_.dataset.train));
    }
    const Tensor clipped = ClipNorm(z, context_.old_model->manifest().clip_radius);
    // The sum of a class's embeddings has the direction of their mean.
    classifier.PointNormals(torch::zeros({context_.dataset.classes(), z.size(1)})
                                .index_add(0, LabelTensor(context_.dataset.train), clipped));
    return absl::OkStatus();
  }

  LossTerms Loss(const StepBatch& batch, const Tensor& z) override {
    const TrainConfig& c = context_.config;
    const HbctSides sides{context_.classifier.Embed(z, c.clip_radius), OldEmbeddings(batch)};
    const Tensor base = context_.classifier.Loss(sides.fresh, batch.labels);
    LossTerms terms = HbctCompatibility(c.hbct, c.curvature, sides, batch.labels);
    terms.total = terms.total.defined() ? base + HbctWeight(c.hbct, batch.progress) * terms.total : base;
    terms.parts.emplace(terms.parts.begin(), "base", base.detach());
    return terms;
  }

 private:
  Embedded OldEmbeddings(const StepBatch& batch) const {
    torch::NoGradGuard no_grad;
    const Tensor z = cached_z_.defined()
                         ? cached_z_.index_select(0, batch.rows).to(batch.images.device(), /*non_blocking=*/true)
                         : context_.old_model->Embed(batch.images);
    return EmbedPoints(z, true, context_.config.curvature, context_.old_model->manifest().clip_radius);
  }

  const MethodContext context_;
  Tensor cached_z_;  // old embeddings of the training images, [n, d]; undefined unless they are cached
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
  entry.info.switches = {"old_model",        "hbct.lambda",   "hbct.lambda_until",    "hbct.entailment",
                         "hbct.epsilon",     "hbct.contrast", "hbct.distance",        "hbct.tau",
                         "hbct.beta",        "hbct.q_mode",   "hbct.q_fixed",         "hbct.q_min",
                         "hbct.uncertainty", "hbct.normals",  "hbct.mask_same_class", "hbct.cached_old_features"};
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    auto method = std::make_unique<Hbct>(context);
    LC_RETURN_IF_ERROR(method->ReadOldModel());
    return method;
  };
  return entry;
}

}  // namespace lightcone

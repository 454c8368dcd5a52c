// HBCT (docs/training.md): L = L_base + lambda (L_entail + L_contrast). New embeddings are pulled into the entailment
// cones of the old ones and towards the old embedding of the same image, the less so the less sure the old model was.
#include <algorithm>

#include "base/status.h"
#include "trainer/losses/contrast_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

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

torch::Tensor Distances(const HbctConfig& config, double curvature, const Embedded& fresh, const LorentzPoints& old) {
  const LossDistance kind = DistanceOf(config.distance);
  const torch::Tensor distances = DistanceMatrix(fresh.points, old, curvature, kind);
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

LossTerms HbctCompatibility(const HbctConfig& config, double curvature, const Embedded& fresh, const Embedded& old,
                            const torch::Tensor& labels) {
  LossTerms terms;
  const LorentzPoints apexes = SeenFrom(fresh, old);
  const double points_curvature = fresh.k.defined() ? 1.0 : curvature;
  if (config.entailment) {
    const torch::Tensor angle = ExteriorAngle(apexes, fresh.points, points_curvature);
    const torch::Tensor entail = torch::relu(angle - HalfAperture(apexes, points_curvature, config.epsilon)).mean();
    terms.total = entail;
    terms.parts.emplace_back("entail", entail.detach());
  }
  if (config.contrast != "none") {
    const torch::Tensor contrast =
        ContrastLoss(config, Distances(config, points_curvature, fresh, apexes), QOf(config, curvature, old), labels);
    terms.total = terms.total.defined() ? terms.total + contrast : contrast;
    terms.parts.emplace_back("contrast", contrast.detach());
  }
  return terms;
}

namespace {

class Hbct : public TrainingMethod {
 public:
  explicit Hbct(const MethodContext& context) : context_(context) {}

  // Embeds every training image once, unaugmented, for the switch cached_old_features.
  absl::Status CacheOldFeatures() {
    LC_ASSIGN_OR_RETURN(cached_z_, context_.old_model->EmbedAll(context_.dataset.train));
    return absl::OkStatus();
  }

  absl::Status Start(Classifier& classifier) override {
    const TrainConfig& c = context_.config;
    if (c.hbct.normals == "drawn") return absl::OkStatus();
    const ImageSet& images = context_.dataset.train;
    torch::Tensor z = cached_z_;
    if (!z.defined()) {
      LC_ASSIGN_OR_RETURN(z, context_.old_model->EmbedAll(images));
    }
    const torch::Tensor labels = torch::tensor(std::vector<int64_t>(images.labels.begin(), images.labels.end()));
    const torch::Tensor clipped = ClipNorm(z, context_.old_model->manifest().clip_radius);
    // Sums point where means do.
    classifier.PointNormals(torch::zeros({context_.dataset.classes(), z.size(1)}).index_add(0, labels, clipped));
    return absl::OkStatus();
  }

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) override {
    const TrainConfig& c = context_.config;
    const Embedded fresh = context_.classifier.Embed(z, c.clip_radius);
    const torch::Tensor base = context_.classifier.Loss(fresh, batch.labels);
    const Embedded old = OldEmbeddings(batch);
    LossTerms terms = HbctCompatibility(c.hbct, c.curvature, fresh, old, batch.labels);
    terms.total = terms.total.defined() ? base + HbctWeight(c.hbct, batch.progress) * terms.total : base;
    terms.parts.emplace(terms.parts.begin(), "base", base.detach());
    return terms;
  }

 private:
  Embedded OldEmbeddings(const StepBatch& batch) const {
    torch::NoGradGuard no_grad;
    const torch::Tensor z = cached_z_.defined()
                                ? cached_z_.index_select(0, batch.rows).to(batch.images.device(), /*non_blocking=*/true)
                                : context_.old_model->Embed(batch.images);
    return EmbedPoints(z, true, context_.config.curvature, context_.old_model->manifest().clip_radius);
  }

  const MethodContext context_;
  torch::Tensor cached_z_;  // [n, d], undefined unless cached
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
  entry.info.switches = {
      "old_model",     "hbct.lambda",   "hbct.lambda_until", "hbct.entailment",  "hbct.epsilon",
      "hbct.contrast", "hbct.distance", "hbct.tau",          "hbct.beta",        "hbct.q_mode",
      "hbct.q_fixed",  "hbct.q_min",    "hbct.uncertainty",  "hbct.normals",     "hbct.mask_same_class",
      "hbct.cached_old_features"};
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    auto method = std::make_unique<Hbct>(context);
    if (context.config.hbct.cached_old_features) LC_RETURN_IF_ERROR(method->CacheOldFeatures());
    return std::unique_ptr<TrainingMethod>(std::move(method));
  };
  return entry;
}

}  // namespace lightcone

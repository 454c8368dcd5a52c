#include "trainer/methods/baseline_torch.h"

namespace lightcone {

using torch::Tensor;

absl::Status Baseline::Prepare() {
  if (reads_old_batches() && context_.config.cached_old_features) {
    LC_ASSIGN_OR_RETURN(cached_, OldOfTrainingSet());
  }
  return absl::OkStatus();
}

LossTerms Baseline::Loss(const StepBatch& batch, const Tensor& z) {
  const Tensor base = context_.classifier.Loss(context_.classifier.Embed(z, context_.config.clip_radius), batch.labels);
  LossTerms terms{base * base_weight(), {{"base", base.detach()}}};
  for (const WeightedLoss& part : Compatibility(batch, z)) {
    terms.total = terms.total + part.weight * part.loss;
    terms.parts.emplace_back(part.name, part.loss.detach());
  }
  return terms;
}

Tensor Baseline::OldOf(const StepBatch& batch) const {
  torch::NoGradGuard no_grad;
  if (!cached_.defined()) return context_.old_model->Embed(batch.images);
  return cached_.index_select(0, batch.rows).to(batch.images.device(), /*non_blocking=*/true);
}

absl::StatusOr<Tensor> Baseline::OldOfTrainingSet() const {
  if (cached_.defined()) return cached_;
  return context_.old_model->EmbedAll(context_.dataset.train);
}

MethodEntry BaselineEntry(const char* name, const char* help, const char* source, std::vector<std::string> switches) {
  MethodEntry entry;
  entry.info.name = name;
  entry.info.help = help;
  entry.info.source = source;
  entry.info.needs_old_model = true;
  entry.info.metric = "cosine";
  entry.info.switches = {"old_model"};
  entry.info.switches.insert(entry.info.switches.end(), switches.begin(), switches.end());
  return entry;
}

}  // namespace lightcone

#include "research/uncertainty/head_logits.h"

#include <torch/torch.h>

#include "base/status.h"
#include "trainer/methods/classifier_torch.h"
#include "trainer/old_head_torch.h"

namespace lightcone {

absl::StatusOr<std::vector<float>> HeadLogits(const std::string& folder, const Manifest& manifest,
                                              std::span<const float> z) {
  LC_ASSIGN_OR_RETURN(const StoredHead head, ReadStoredHead(folder));
  const bool lorentz = head.config.metric == "lorentz" && head.offset.defined();
  if (!lorentz || head.weight.size(1) != manifest.dimension) {
    return DataLoss(StrCat(folder, "/checkpoint.bin: a head of metric ", head.config.metric, " and ",
                           head.weight.size(1), " numbers; needed: lorentz and ", manifest.dimension));
  }
  torch::NoGradGuard no_grad;
  const int64_t n = std::ssize(z) / manifest.dimension;
  const torch::Tensor rows = torch::from_blob(const_cast<float*>(z.data()), {n, int64_t{manifest.dimension}});
  const Embedded embedded = EmbedPoints(rows, true, manifest.curvature, manifest.clip_radius);
  const torch::Tensor logits =
      LorentzLogits(embedded.points, head.offset, head.weight, manifest.curvature).contiguous();
  return std::vector<float>(logits.data_ptr<float>(), logits.data_ptr<float>() + logits.numel());
}

}  // namespace lightcone

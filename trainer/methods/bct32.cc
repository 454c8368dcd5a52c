// bct+32 (docs/internals/training-baselines.md): BCT on the leading numbers of a longer vector.
#include "trainer/methods/method_torch.h"

namespace lightcone {

MethodEntry Bct32Method() {
  MethodEntry entry = BctMethod();
  entry.info.name = "bct+32";
  entry.info.help = "bct on the first d numbers of a vector of d + extra_dimensions; new to new compares all of them";
  entry.info.source = "Zhou et al., BT2, ICCV 2023 (a baseline there)";
  entry.info.switches.emplace_back("extra_dimensions");
  entry.layout = [](const TrainConfig& config) {
    const int64_t d = config.encoder.dimension, longer = d + config.extra_dimensions;
    return VectorLayout{.network = longer, .head = longer, .embedding = longer, .prefix = d};
  };
  return entry;
}

}  // namespace lightcone

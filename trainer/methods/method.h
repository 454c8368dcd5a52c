// The training methods by name, for people. No torch here; method_torch.h has what the training loop calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/config.h"

namespace lightcone {

// An option that a method declares in its own file: a number, for every training to set ("METHOD.NAME").
struct OwnOption {
  const char* name;
  double value;  // default value
  double min, max;
  const char* help;

  // As set, else the default.
  double Of(const TrainConfig& config) const {
    const auto set = config.own.find(name);
    return set == config.own.end() ? value : set->second;
  }
};

struct MethodInfo {
  std::string name;    // name, as in TrainConfig::method
  std::string help;    // help text of one sentence
  std::string source;  // paper and equations
  bool needs_old_model = false;
  // Whether an item adapter (docs/internals/adapters.md) belongs to the model. It is fitted to the finished models, not
  // by Train.
  bool ends_with_adapter = false;
  int64_t same_class = 1;  // number of images of one class side by side in a batch
  std::string metric;      // required metric, which ChooseMethod sets; empty: any metric
  std::string base_loss;   // meaning of base_loss "auto"; empty: the metric's loss; "none": no head
  // Options of trainer/config.h that this method reads and some others do not. Experiments and checkpoints ignore the
  // options of other methods (ReadsOption).
  std::vector<std::string> switches;
  std::vector<OwnOption> options;  // options of the method's own file, which are switches too
  // Version of the method. Raise it when trainings with the same options end otherwise: cached models are then old.
  int revision = 0;
  // Options and values that differ from the preset, as SetTrainOption takes them.
  std::vector<std::pair<std::string, std::string>> defaults;
};

// Every method, in the order in which `lightcone train --list` shows them.
const std::vector<MethodInfo>& TrainingMethods();

// Lengths of a training's vectors. `encoder.dimension` is d, the dimension of the space shared with the old model. The
// option `extra_dimensions` is the number of dimensions that a method with MethodEntry::layout appends.
struct VectorLayout {
  int64_t network = 0;    // length of the network's output, z of TrainingMethod::Loss
  int64_t head = 0;       // length of the base loss's input
  int64_t embedding = 0;  // length of an exported embedding, whole in new-to-new comparisons
  int64_t prefix = 0;     // length of the leading part that compares with old embeddings
};

// The layout of `config.method`. An ordinary or unknown method has encoder.dimension everywhere.
VectorLayout LayoutOf(const TrainConfig& config);

// Whether old embeddings compare with the new ones through the adapter alone. The old model may then have any
// dimension.
bool OnlyThroughAdapter(const TrainConfig& config);

// Whether trainings by this method depend on the option: a switch of the method, or an option that is no switch.
bool ReadsOption(const MethodInfo& method, std::string_view option);

// Sets the method with its metric and defaults, which later settings replace. Validate refuses another metric than the
// method's. INVALID_ARGUMENT for an unknown method.
absl::Status ChooseMethod(std::string_view name, TrainConfig& config);

// nullptr when there is no such method.
const MethodInfo* FindTrainingMethod(std::string_view name);

}  // namespace lightcone

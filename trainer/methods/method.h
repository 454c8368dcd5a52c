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
  double value;  // its default
  double min, max;
  const char* help;

  // As set, else the default.
  double Of(const TrainConfig& config) const {
    const auto set = config.own.find(name);
    return set == config.own.end() ? value : set->second;
  }
};

struct MethodInfo {
  std::string name;    // as in TrainConfig::method
  std::string help;    // one sentence
  std::string source;  // paper and equations
  bool needs_old_model = false;
  // An item adapter (docs/internals/adapters.md) belongs to the model. It is fitted to the finished models, not by
  // Train.
  bool ends_with_adapter = false;
  int64_t same_class = 1;  // images of one class side by side in a batch (LoaderOptions::same_class)
  std::string metric;      // the only metric that it works with, which choosing it sets; empty: any
  std::string base_loss;   // what the option base_loss means when it is "auto"; empty: the metric's; "none": no head
  // Every option of trainer/config.h that it reads and that not all methods read: experiments and checkpoints ignore
  // what another method's option says (ReadsOption).
  std::vector<std::string> switches;
  std::vector<OwnOption> options;  // switches too, which TrainingMethods() adds
  // Raised when trainings by it come out otherwise than before with the same options: cached models are old then.
  int revision = 0;
  // What it starts from where it differs from the preset: option and value, as SetTrainOption takes them.
  std::vector<std::pair<std::string, std::string>> defaults;
};

// Every method, in the order in which `lightcone train --list` shows them.
const std::vector<MethodInfo>& TrainingMethods();

// How long the vectors of a training are. `encoder.dimension` is d, that of the space shared with the old model; the
// option `extra_dimensions` is how many a method that extends the vector (MethodEntry::layout) appends to it.
struct VectorLayout {
  int64_t network = 0;    // of the network's own output: z of TrainingMethod::Loss, and what BuildNetwork is asked for
  int64_t head = 0;       // of what the base loss's head takes
  int64_t embedding = 0;  // of an exported embedding: new to new compares the whole vector
  int64_t prefix = 0;     // leading numbers that compare with the old model's; == embedding when nothing was appended
};

// The layout that `config.method` asks for; all are encoder.dimension for an ordinary or an unknown method.
VectorLayout LayoutOf(const TrainConfig& config);

// Whether this training leaves old embeddings comparable with the new ones only through its adapter; the old model's
// dimension may then be any.
bool OnlyThroughAdapter(const TrainConfig& config);

// Whether trainings by this method depend on the option: one of its switches, or one that is nobody's switch.
bool ReadsOption(const MethodInfo& method, std::string_view option);

// Makes `config` one of this method, with the method's metric and defaults; what is set afterwards replaces them, and
// Validate refuses another metric than the method's.
// INVALID_ARGUMENT when there is no such method.
absl::Status ChooseMethod(std::string_view name, TrainConfig& config);

// nullptr when there is no such method.
const MethodInfo* FindTrainingMethod(std::string_view name);

}  // namespace lightcone

// The training methods by name, for people. No torch here; method_torch.h has what the training loop calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lightcone {

struct MethodInfo {
  std::string name;    // as in TrainConfig::method
  std::string help;    // one sentence
  std::string source;  // paper and equations
  bool needs_old_model = false;
  std::vector<std::string> switches;  // options of trainer/config.h that only this method reads
};

// Every method, in the order in which `lightcone train --list` shows them.
const std::vector<MethodInfo>& TrainingMethods();

// nullptr when there is no such method.
const MethodInfo* FindTrainingMethod(std::string_view name);

}  // namespace lightcone

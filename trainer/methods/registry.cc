#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

const std::vector<MethodEntry>& Entries() {
#define LC_CALL_METHOD(name) name(),
  static const auto* const kEntries = new std::vector<MethodEntry>{LC_TRAINING_METHODS(LC_CALL_METHOD)};
#undef LC_CALL_METHOD
  return *kEntries;
}

std::string MethodNames() {
  return absl::StrJoin(Entries(), ", ", [](std::string* out, const MethodEntry& entry) { *out += entry.info.name; });
}

}  // namespace

const std::vector<MethodInfo>& TrainingMethods() {
  static const auto* const kInfos = [] {
    auto* infos = new std::vector<MethodInfo>;
    for (const MethodEntry& entry : Entries()) {
      MethodInfo& info = infos->emplace_back(entry.info);
      for (const OwnOption& option : info.options) info.switches.emplace_back(option.name);
    }
    return infos;
  }();
  return *kInfos;
}

const MethodInfo* FindTrainingMethod(std::string_view name) {
  for (const MethodInfo& info : TrainingMethods()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

absl::Status ChooseMethod(std::string_view name, TrainConfig& config) {
  const MethodInfo* const method = FindTrainingMethod(name);
  if (method == nullptr) return InvalidField("method", StrCat("'", name, "'"), MethodNames());
  config.method = name;
  if (!method->metric.empty()) config.metric = method->metric;
  for (const auto& [option, value] : method->defaults) LC_RETURN_IF_ERROR(SetTrainOption(config, option, value));
  return absl::OkStatus();
}

bool OnlyThroughAdapter(const TrainConfig& config) {
  const MethodInfo* const method = FindTrainingMethod(config.method);
  return method != nullptr && method->ends_with_adapter && config.lightcone.compatible == "none";
}

bool ReadsOption(const MethodInfo& method, std::string_view option) {
  static const auto* const kSwitches = [] {
    auto* all = new std::set<std::string, std::less<>>;
    for (const MethodInfo& info : TrainingMethods()) all->insert(info.switches.begin(), info.switches.end());
    return all;
  }();
  return !kSwitches->contains(option) ||
         std::find(method.switches.begin(), method.switches.end(), option) != method.switches.end();
}

VectorLayout LayoutOf(const TrainConfig& config) {
  for (const MethodEntry& entry : Entries()) {
    if (entry.info.name == config.method && entry.layout) return entry.layout(config);
  }
  const int64_t d = config.encoder.dimension;
  return {d, d, d, d};
}

absl::StatusOr<std::unique_ptr<TrainingMethod>> MakeTrainingMethod(const MethodContext& context) {
  for (const MethodEntry& entry : Entries()) {
    if (entry.info.name == context.config.method) return entry.make(context);
  }
  return NotFound(StrCat("no training method '", context.config.method, "'; there are: ", MethodNames()));
}

}  // namespace lightcone

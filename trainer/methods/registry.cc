#include "base/status.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

const std::vector<MethodEntry>& Entries() {
  static const auto* const kEntries = new std::vector<MethodEntry>{IndependentMethod(), HbctMethod()};
  return *kEntries;
}

}  // namespace

const std::vector<MethodInfo>& TrainingMethods() {
  static const auto* const kInfos = [] {
    auto* infos = new std::vector<MethodInfo>;
    for (const MethodEntry& entry : Entries()) infos->push_back(entry.info);
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

absl::StatusOr<std::unique_ptr<TrainingMethod>> MakeTrainingMethod(const MethodContext& context) {
  std::string names;
  for (const MethodEntry& entry : Entries()) {
    if (entry.info.name == context.config.method) return entry.make(context);
    names += (names.empty() ? "" : ", ") + entry.info.name;
  }
  return NotFound(StrCat("no training method '", context.config.method, "'; there are: ", names));
}

}  // namespace lightcone

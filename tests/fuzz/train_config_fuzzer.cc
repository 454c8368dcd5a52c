// Arbitrary text as the options of a training: parsed or refused; what was parsed must survive a second round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "trainer/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<lightcone::TrainConfig> config = lightcone::ParseTrainConfig(text);
  if (!config.ok()) return 0;
  (void)config->Validate();
  const std::string shown = lightcone::ToJson(*config);
  const absl::StatusOr<lightcone::TrainConfig> again = lightcone::ParseTrainConfig(shown);
  if (!again.ok() || lightcone::ToJson(*again) != shown) std::abort();
  lightcone::TrainConfig changed;
  for (const lightcone::TrainOption& option : lightcone::TrainOptions()) {
    const std::string value = lightcone::GetTrainOption(*config, option.name);
    if (!lightcone::SetTrainOption(changed, option.name, value).ok()) std::abort();
  }
  return 0;
}

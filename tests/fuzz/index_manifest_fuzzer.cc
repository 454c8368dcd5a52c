// Any bytes: the index's JSON documents and state files decode or give DATA_LOSS. Documents are also tried with a valid
// checksum around the fuzzer's content, so that the checks behind it are reached.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.h"
#include "base/strings.h"
#include "index/rows/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto decode = [](std::string_view text) {
    const auto manifest = lightcone::DecodeManifest(text);
    if (manifest.ok() && !lightcone::DecodeManifest(lightcone::EncodeManifest(*manifest)).ok()) std::abort();
    const auto checkpoint = lightcone::DecodeIndexCheckpoint(text);
    if (checkpoint.ok() && !lightcone::DecodeIndexCheckpoint(lightcone::EncodeIndexCheckpoint(*checkpoint)).ok())
      std::abort();
    const auto carried = lightcone::DecodeCarried(text);
    if (carried.ok() && !lightcone::DecodeCarried(lightcone::EncodeCarried(*carried)).ok()) std::abort();
  };
  decode(bytes);
  const nlohmann::json content = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (!content.is_discarded()) {
    const std::string text = content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    decode(lightcone::StrCat("{\"crc32c\":", lightcone::Crc32c(text), ",\"content\":", text, "}"));
  }
  (void)lightcone::DecodeStates(
      bytes, size < lightcone::kStatesHeaderBytes ? 0 : static_cast<int64_t>(size - lightcone::kStatesHeaderBytes) / 4);
  return 0;
}

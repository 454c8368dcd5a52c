// Any bytes as what an endpoint for embeddings answers: vectors of the asked length with finite numbers, or errors. The
// text of a refusal is short, in UTF-8, and without the key.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "server/engine/embed/endpoint_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;  // NOLINT: a file of one function
  constexpr int kDimension = 2;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const size_t texts : {0, 1, 3}) {
    const auto outputs = DecodeEndpointAnswer(body, texts, kDimension);
    if (!outputs.ok()) {
      if (!absl::IsInternal(outputs.status())) std::abort();
      continue;
    }
    if (outputs->size() != texts) std::abort();
    for (const auto& vector : *outputs) {
      if (!vector.ok() && !absl::IsInternal(vector.status())) std::abort();
      if (vector.ok() && vector->size() != kDimension) std::abort();
      for (size_t i = 0; vector.ok() && i < vector->size(); ++i) {
        if (!std::isfinite((*vector)[i])) std::abort();
      }
    }
  }
  const std::string key = "sk-1";
  const std::string text = EndpointErrorText(body, key);
  if (text.size() > 3 * 200 || !lightcone::IsUtf8(text) || text.find(key) != std::string::npos) std::abort();
  return 0;
}

// Decoders of records take any bytes; what they accept encodes to the same bytes again.
#include <cstdlib>

#include "store/envelope.h"
#include "store/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto item = lightcone::DecodeItem(bytes); item.ok() && lightcone::EncodeItem(*item) != bytes) abort();
  if (const auto embedding = lightcone::DecodeEmbedding(bytes); embedding.ok()) {
    if (lightcone::EncodeEmbedding(*embedding) != bytes) abort();
    std::vector<float> z(embedding->z.size());
    if (!lightcone::DecodeEmbeddingInto(bytes, z.data(), z.size()).ok()) abort();
    if (lightcone::DecodeEmbeddingInto(bytes, z.data(), z.size() + 1).ok()) abort();
  }
  if (const auto change = lightcone::DecodeChange(bytes); change.ok() && lightcone::EncodeChange(*change) != bytes) {
    abort();
  }
  (void)lightcone::OpenEnvelope(lightcone::Table::kItems, "key", bytes);
  return 0;
}

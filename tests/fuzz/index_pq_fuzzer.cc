// Any bytes: product-quantised codes are refused, or scoring their rows stays inside them.
#include <cstdint>
#include <cstring>
#include <vector>

#include "index/ivf/pq_codes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(lightcone::PqCodes::Header)) return 0;
  std::vector<uint32_t> aligned(size / 4 + 1);
  std::memcpy(aligned.data(), data, size);
  const uint32_t rows = aligned[2];
  constexpr int kDimension = 6;
  const auto codes = lightcone::PqCodes::Parse({reinterpret_cast<const char*>(aligned.data()), size}, kDimension, rows);
  if (!codes.ok()) return 0;
  const lightcone::Space space{lightcone::Metric::kEuclidean, kDimension};
  const std::vector<float> z = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f, 3.0f};
  const auto query = lightcone::BoundQuery::Make(space, space, z);
  std::vector<float> scores(rows);
  lightcone::PqQuery(*codes, *query).Score(0, rows, 1.0f, 2.0f, scores.data());
  return 0;
}

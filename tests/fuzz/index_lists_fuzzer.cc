// Any bytes: lists are refused, or every range and row of them is inside the segment, and their scores can be sorted.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "index/ivf/lists.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(lightcone::Lists::Header)) return 0;
  std::vector<uint32_t> aligned(size / 4 + 1);
  std::memcpy(aligned.data(), data, size);
  const uint32_t rows = aligned[2];
  constexpr int kDimension = 3;
  const auto lists = lightcone::Lists::Parse({reinterpret_cast<const char*>(aligned.data()), size}, kDimension, rows);
  if (!lists.ok()) return 0;
  int64_t next = 0;
  for (uint32_t list = 0; list < lists->count(); ++list) {
    if (lists->begin(list) != next || lists->end(list) < next) std::abort();
    next = lists->end(list);
  }
  if (next != rows) std::abort();
  for (const uint32_t row : lists->by_id()) {
    if (row >= rows) std::abort();
  }
  const lightcone::Space space{lightcone::Metric::kEuclidean, kDimension};
  const std::vector<float> z = {0.5f, -1.0f, 2.0f};
  std::vector<float> scores(lists->count());
  lists->Score(*lightcone::BoundQuery::Make(space, space, z), scores.data());
  for (const float score : scores) {
    if (std::isnan(score)) std::abort();
  }
  return 0;
}

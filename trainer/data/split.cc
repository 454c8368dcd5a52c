#include "trainer/data/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/dcheck.h"
#include "base/rng.h"

namespace lightcone {

ImageSet SelectRows(const ImageSet& set, const std::vector<int64_t>& rows) {
  ImageSet out{set.height, set.width, set.channels, {}, {}, set.source};
  out.labels.reserve(rows.size());
  if (set.in_memory()) out.pixels.reserve(rows.size() * static_cast<size_t>(set.bytes_per_image()));
  for (const int64_t row : rows) {
    LC_DCHECK(0 <= row && row < set.size());
    out.labels.push_back(set.labels[row]);
    if (!set.in_memory()) {
      out.source_rows.push_back(set.source_rows[row]);
      continue;
    }
    out.pixels.insert(out.pixels.end(), set.image(row), set.image(row) + set.bytes_per_image());
  }
  return out;
}

ImageSet DrawImages(const ImageSet& set, int64_t count, uint64_t seed) {
  LC_DCHECK(count >= 0);
  if (count >= set.size()) return set;
  std::vector<int64_t> rows(static_cast<size_t>(set.size()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  Rng rng(seed);
  rng.Shuffle(&rows);
  rows.resize(static_cast<size_t>(count));
  return SelectRows(set, rows);
}

ImageSet SelectClasses(const ImageSet& set, int classes_first) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < set.size(); ++i) {
    if (set.labels[i] < classes_first) rows.push_back(i);
  }
  return SelectRows(set, rows);
}

std::vector<int64_t> FractionRows(const std::vector<int32_t>& labels, double share, uint64_t seed, int64_t least) {
  std::map<int32_t, std::vector<int64_t>> members;
  for (size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(static_cast<int64_t>(i));
  std::vector<int64_t> rows;
  for (auto& [label, all] : members) {
    Rng rng(MixSeed({seed, 0xf4ac7104, static_cast<uint64_t>(label)}));
    rng.Shuffle(&all);
    const int64_t n = static_cast<int64_t>(all.size());
    const int64_t low = std::max<int64_t>(1, std::min(least, n - 1));
    const int64_t keep = std::clamp<int64_t>(std::llround(share * static_cast<double>(n)), low, n);
    rows.insert(rows.end(), all.begin(), all.begin() + keep);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

ImageSet SelectFraction(const ImageSet& set, double share, uint64_t seed) {
  return SelectRows(set, FractionRows(set.labels, share, seed));
}

}  // namespace lightcone

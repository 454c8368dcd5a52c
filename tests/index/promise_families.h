// Rows of the families that a default search has to cope with. LIGHTCONE_PROMISE_ROWS scales measurements up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "geometry/metric.h"

namespace lightcone {

inline constexpr double kClipRadius = 3;

inline int64_t PromiseRows() {
  const char* text = std::getenv("LIGHTCONE_PROMISE_ROWS");
  return text == nullptr ? 6'000 : std::atoll(text);
}

using Points = std::vector<std::vector<float>>;

// Draws rows and queries of one family: queries are drawn as rows are.
class Family {
 public:
  Family(std::string name, int dimension, uint32_t seed)
      : name_(std::move(name)), dimension_(static_cast<size_t>(dimension)), random_(seed) {
    std::mt19937 centres(42);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 12; ++i) {
      auto& centre = islands_.emplace_back(dimension_);
      for (float& x : centre) x = 1000 * normal(centres);
    }
  }

  Points Draw(int64_t count) {
    Points points(static_cast<size_t>(count));
    for (size_t i = 0; i < points.size(); ++i) points[i] = Point(i);
    return points;
  }

 private:
  std::vector<float> Point(size_t i) {
    std::vector<float> z(dimension_);
    for (float& x : z) x = normal_(random_);
    if (name_ == "offset") {
      for (float& x : z) x += 1e6f;
    } else if (name_ == "rogue_dimension") {
      z[0] = random_() % 2 == 0 ? 1000.0f : -1000.0f;
    } else if (name_ == "outlier_dimensions") {  // as text models have: a large mean and a large spread
      for (size_t d = 0; d < dimension_; d += 7) z[d] = 40 + 8 * z[d];
    } else if (name_ == "long_rows") {
      if (random_() % 1000 == 0) Scale(z, 50);
    } else if (name_ == "log_normal_lengths") {
      Scale(z, std::exp(1.5f * normal_(random_)));
    } else if (name_ == "islands") {
      const auto& island = islands_[random_() % islands_.size()];
      for (size_t d = 0; d < dimension_; ++d) z[d] += island[d];
    } else if (name_ == "small_clusters") {  // of a few dozen rows, whose differences drown in codes
      std::mt19937 centre(static_cast<uint32_t>(random_() % 128));
      for (float& x : z) x = (centre() % 2 == 0 ? 1.0f : -1.0f) + 0.001f * x;
    } else if (name_ == "copies") {
      std::mt19937 same(static_cast<uint32_t>(random_() % 40));
      for (float& x : z) x = normal_(same);
      normal_.reset();
      if (random_() % 2 == 0) z[0] += 0.25f * normal_(random_);
    } else if (name_ == "constants_and_denormals") {
      for (size_t d = 1; d < dimension_; d += 2) z[d] = d % 4 == 1 ? 7.0f : 1e-41f;
    } else if (name_ == "time") {  // seconds of one row after the other
      z[0] = 1.7e5f + static_cast<float>(i % 3'000);
    } else if (name_ == "earth") {  // metres from the centre of the earth, in a few cities
      const double city = 0.7 * (1 + static_cast<double>(random_() % 5)), radius = 6.371e6;
      const double at[3] = {radius * std::cos(city), radius * std::sin(city), radius * 0.3};
      for (size_t d = 0; d < dimension_; ++d) z[d] = static_cast<float>(at[d % 3] + 5'000.0 * z[d]);
    } else if (name_ == "far_mean") {
      for (float& x : z) x = 20 + x;
    }
    return z;
  }
  static void Scale(std::vector<float>& z, float by) {
    for (float& x : z) x *= by;
  }

  const std::string name_;
  const size_t dimension_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  Points islands_;
};

inline const char* const kFamilies[] = {
    "plain",   "offset",   "rogue_dimension",         "outlier_dimensions", "long_rows",
    "islands", "copies",   "constants_and_denormals", "log_normal_lengths", "time",
    "earth",   "far_mean", "small_clusters"};

// Vectors of a Lorentz space end at its clip radius: the longest reaches it.
inline void FitLengths(Metric metric, Points& rows, Points& queries) {
  if (metric != Metric::kLorentz) return;
  double longest = 0;
  for (const auto& z : rows) {
    double square = 0;
    for (const float x : z) square += double{x} * x;
    longest = std::max(longest, std::sqrt(square));
  }
  const float scale = static_cast<float>(kClipRadius / longest);
  for (Points* points : {&rows, &queries}) {
    for (auto& z : *points) {
      for (float& x : z) x *= scale;
    }
  }
}

}  // namespace lightcone

#include "stats/bootstrap.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/dcheck.h"
#include "base/mix.h"

namespace lightcone {
namespace {

constexpr int kResamples = 1'000;
constexpr int kTail = 25;  // resamples beyond each end of the interval: 2.5 %

// A uniform draw from 0 .. n - 1 by splitmix64. The high half of a product spreads 32 random bits over the range; n is
// far below 2^32.
std::size_t Draw(std::uint64_t* state, std::uint64_t n) {
  const std::uint64_t random = Mixed(*state);
  *state += 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(((random >> 32) * n) >> 32);
}

// The largest share of an outcome that none of n probes showed: the rule of three.
double UnseenShare(std::uint64_t n) { return std::min(1.0, 3.0 / static_cast<double>(n)); }

}  // namespace

Estimate BootstrapMean(std::span<const double> values, double least, double most) {
  Estimate estimate;
  if (values.empty()) return estimate;
  const auto n = static_cast<std::uint64_t>(values.size());
  double sum = 0;
  for (const double v : values) sum += v;
  estimate.samples = static_cast<std::int64_t>(n);
  estimate.value = sum / static_cast<double>(n);
  std::array<double, kResamples> means;
  std::uint64_t random = 1;
  for (double& mean : means) {
    double resampled = 0;
    for (std::uint64_t i = 0; i < n; ++i) resampled += values[Draw(&random, n)];
    mean = resampled / static_cast<double>(n);
  }
  std::sort(means.begin(), means.end());
  const double unseen = UnseenShare(n);
  estimate.low = std::min(means[kTail - 1], estimate.value - unseen * (estimate.value - least));
  estimate.high = std::max(means[kResamples - kTail], estimate.value + unseen * (most - estimate.value));
  return estimate;
}

std::optional<Estimate> BootstrapQuotient(std::span<const double> numerators, std::span<const double> denominators,
                                          double least, double most) {
  LC_DCHECK(numerators.size() == denominators.size());
  const auto n = static_cast<std::uint64_t>(numerators.size());
  double above = 0, below = 0;
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    above += numerators[i];
    below += denominators[i];
  }
  std::vector<double> quotients;
  std::uint64_t random = 1;
  for (int resample = 0; resample < kResamples; ++resample) {
    double upper = 0, lower = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::size_t drawn = Draw(&random, n);
      upper += numerators[drawn];
      lower += denominators[drawn];
    }
    if (lower * below > 0) quotients.push_back(upper / lower);
  }
  const auto undefined = kResamples - static_cast<int>(quotients.size());
  if (undefined >= kTail) return std::nullopt;
  std::sort(quotients.begin(), quotients.end());
  // Undefined quotients may lie at either end.
  const auto tail = static_cast<std::size_t>(kTail - 1 - undefined);
  const auto samples = static_cast<double>(n);
  const double unseen = UnseenShare(n), mean = above / samples, base = below / samples;
  const auto [low, high] =
      std::minmax({(mean - unseen * (mean - least)) / base, (mean + unseen * (most - mean)) / base});
  return Estimate{mean / base, std::min(quotients[tail], low), std::max(quotients[quotients.size() - 1 - tail], high),
                  static_cast<std::int64_t>(n)};
}

}  // namespace lightcone

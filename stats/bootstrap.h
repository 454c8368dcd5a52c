// How sure a mean over probes is. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lightcone {

struct Estimate {
  double value = 0;
  double low = 0, high = 0;  // the 95 % interval
  std::int64_t samples = 0;  // 0: nothing was measured, and the rest is 0
};

// The mean of `values`, each in [least, most], with the percentile bootstrap's interval (Efron 1979; 1,000 resamples of
// the values, always the same draws). Where all values agree the bootstrap sees no doubt at all, so the interval also
// holds what an outcome that none of the n values showed could do: its share may be up to 3 / n (the rule of three), at
// the worst value. REQUIRES: no NaN.
Estimate BootstrapMean(std::span<const double> values, double least, double most);

// The mean of `numerators`, each in [least, most], by that of `denominators`, two measures of the same probes, with the
// percentile bootstrap's interval: probes are drawn as above, and keep both values. As above it holds what numerators
// that no probe showed could do. Empty where the interval of the denominators' mean reaches 0, for then the quotient
// may be anything, and without probes. REQUIRES: spans of one length, no NaN.
std::optional<Estimate> BootstrapQuotient(std::span<const double> numerators, std::span<const double> denominators,
                                          double least, double most);

}  // namespace lightcone

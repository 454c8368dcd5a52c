// Confidence intervals of means over probes. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lightcone {

struct Estimate {
  double value = 0;
  double low = 0, high = 0;  // 95 % interval
  std::int64_t samples = 0;  // number of values; the rest is 0 where it is 0
};

// The mean of `values`, each in [least, most], with the percentile bootstrap's interval (Efron 1979). The 1,000
// resamples are the same in each call. The bootstrap sees no doubt where all values agree. The interval therefore also
// allows an outcome that none of the n values showed: a share of 3 / n (the rule of three) of the worst value.
// REQUIRES: no NaN.
Estimate BootstrapMean(std::span<const double> values, double least, double most);

// The mean of `numerators`, each in [least, most], divided by the mean of `denominators`: two measures of the same
// probes. The interval is that of BootstrapMean; a drawn probe keeps both values. Empty without probes, and where the
// interval of the denominators' mean reaches 0, since the quotient may then be anything.
// REQUIRES: spans of one length, no NaN.
std::optional<Estimate> BootstrapQuotient(std::span<const double> numerators, std::span<const double> denominators,
                                          double least, double most);

}  // namespace lightcone

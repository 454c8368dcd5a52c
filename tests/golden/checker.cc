#include "tests/golden/checker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lightcone::golden {

void Checker::Fail(const std::string& line) {
  constexpr int kLinesMax = 8;
  if (++failures_ <= kLinesMax) report_ += "    " + line + "\n";
}

void Checker::Near(std::string_view what, double actual, const Json& expected) {
  Near(what, actual, expected, tolerance_);
}

void Checker::Near(std::string_view what, double actual, const Json& expected, Tolerance tolerance) {
  if (expected.is_null()) return;
  ++comparisons_;
  const double truth = expected.get<double>();
  const double allowed = tolerance.absolute + tolerance.relative * std::abs(truth);
  if (std::abs(actual - truth) <= allowed) return;
  char line[256];
  std::snprintf(line, sizeof line, "%.*s is %.17g; expected %.17g, off by %.3g, allowed %.3g",
                static_cast<int>(what.size()), what.data(), actual, truth, std::abs(actual - truth), allowed);
  Fail(line);
}

void Checker::Near(std::string_view what, std::span<const double> actual, const Json& expected) {
  if (expected.is_null()) return;
  if (actual.size() != expected.size()) {
    ++comparisons_;
    Fail(std::string(what) + " has " + std::to_string(actual.size()) + " numbers; expected " +
         std::to_string(expected.size()));
    return;
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    Near(std::string(what) + "[" + std::to_string(i) + "]", actual[i], expected[i]);
  }
}

void Checker::True(std::string_view what, bool condition) {
  ++comparisons_;
  if (!condition) Fail(std::string(what) + " does not hold");
}

double Dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void NearRows(const std::string& what, const Matrix& actual, const Json& expected, Checker& check) {
  check.True(what + " has the expected number of rows", actual.size() == expected.size());
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    check.Near(what + "[" + std::to_string(i) + "]", actual[i], expected[i]);
  }
}

std::vector<double> Doubles(const Json& array) { return array.get<std::vector<double>>(); }

Matrix Rows(const Json& matrix) { return matrix.get<Matrix>(); }

std::vector<float> Floats(std::span<const double> values) {
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
  return out;
}

std::vector<std::int64_t> Integers(const Json& array) { return array.get<std::vector<std::int64_t>>(); }

}  // namespace lightcone::golden

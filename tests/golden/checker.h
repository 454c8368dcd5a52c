// Compares numbers with the expected ones of one golden file and remembers what differs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace lightcone::golden {

using Json = nlohmann::json;
using Matrix = std::vector<std::vector<double>>;

struct Tolerance {
  double absolute = 0;
  double relative = 0;
};
inline constexpr Tolerance kFloat32 = {1e-5, 1e-4};  // for float32 kernels against float64 truths
inline constexpr double kFloat32RadiusMax = 2.5;     // longer tangent vectors are left out of float32 runs

// Threads: one user.
class Checker {
 public:
  explicit Checker(Tolerance tolerance) : tolerance_(tolerance) {}

  // |actual - expected| <= absolute + relative * |expected|. A null `expected` means undefined: skipped.
  void Near(std::string_view what, double actual, const Json& expected);
  void Near(std::string_view what, double actual, const Json& expected, Tolerance tolerance);

  // Element by element; lengths must agree.
  void Near(std::string_view what, std::span<const double> actual, const Json& expected);

  void True(std::string_view what, bool condition);

  bool ok() const { return failures_ == 0; }
  int comparisons() const { return comparisons_; }
  // The first differences, one a line.
  const std::string& report() const { return report_; }

 private:
  void Fail(const std::string& line);

  Tolerance tolerance_;
  int comparisons_ = 0;
  int failures_ = 0;
  std::string report_;
};

// REQUIRES: one length.
double Dot(std::span<const double> a, std::span<const double> b);
// Row by row; as many of them.
void NearRows(const std::string& what, const Matrix& actual, const Json& expected, Checker& check);
std::vector<double> Doubles(const Json& array);
Matrix Rows(const Json& matrix);
std::vector<float> Floats(std::span<const double> values);
std::vector<std::int64_t> Integers(const Json& array);

}  // namespace lightcone::golden

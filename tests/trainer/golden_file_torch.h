// Golden vectors for tests of torch code: $LIGHTCONE_GOLDEN_DIR, else <source>/../shared/golden, else
// tests/golden/data.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace lightcone {

inline std::filesystem::path GoldenFolder() {
  if (const char* folder = std::getenv("LIGHTCONE_GOLDEN_DIR")) return folder;
  const std::filesystem::path source = LIGHTCONE_SOURCE_DIR;
  if (std::filesystem::exists(source / "../shared/golden")) return source / "../shared/golden";
  return source / "tests/golden/data";
}

inline std::vector<std::filesystem::path> FilesOf(const std::string& prefix) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder())) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && name.ends_with(".json")) files.insert(entry.path());
  }
  EXPECT_FALSE(files.empty()) << "no " << prefix << "* in " << GoldenFolder();
  return {files.begin(), files.end()};
}

// What float32 may be off by; the files say it for float64.
inline constexpr double kFloat32AbsTol = 1e-5, kFloat32RelTol = 1e-4;
inline constexpr double kFloat32AngleTol = 5e-4;  // absolute, of exterior angle and entailment
inline constexpr double kFloat32RadiusMax = 2.5;  // rows further out are left out in float32

class Golden {
 public:
  Golden(const std::filesystem::path& path, torch::ScalarType type) : path_(path), type_(type) {
    std::ifstream in(path);
    file = nlohmann::json::parse(in);
    abs_tol_ = single() ? kFloat32AbsTol : file.at("abs_tol").get<double>();
    rel_tol_ = single() ? kFloat32RelTol : file.at("rel_tol").get<double>();
  }
  bool single() const { return type_ == torch::kFloat32; }
  void AllowAngles() {
    if (single()) abs_tol_ = kFloat32AngleTol;
  }
  // Whether a row is beyond what float32 is asked to do.
  bool Skips(const torch::Tensor& row) const { return single() && row.norm().item<double>() > kFloat32RadiusMax; }

  // Inputs are exact in float32.
  torch::Tensor Vector(const nlohmann::json& values) const {
    return torch::tensor(values.get<std::vector<double>>(), torch::kFloat64).to(type_);
  }
  torch::Tensor Matrix(const nlohmann::json& rows) const {
    std::vector<torch::Tensor> stacked;
    for (const nlohmann::json& row : rows) stacked.push_back(Vector(row));
    return torch::stack(stacked);
  }
  const nlohmann::json& in(const char* key) const { return file.at("inputs").at(key); }
  const nlohmann::json& expected(const char* key) const { return file.at("expected").at(key); }

  void Near(const std::string& what, double actual, const nlohmann::json& truth) const {
    if (truth.is_null()) return;
    const double t = truth.get<double>();
    const double allowed = abs_tol_ + rel_tol_ * std::abs(t);
    EXPECT_LE(std::abs(actual - t), allowed)
        << path_.filename() << " " << what << " is " << actual << ", expected " << t;
  }
  void Near(const std::string& what, const torch::Tensor& actual, const nlohmann::json& truth) const {
    if (truth.is_null()) return;
    if (!truth.is_array()) return Near(what, actual.item<double>(), truth);
    ASSERT_EQ(actual.size(0), static_cast<int64_t>(truth.size())) << path_.filename() << " " << what;
    for (size_t i = 0; i < truth.size(); ++i) {
      Near(what + "[" + std::to_string(i) + "]", actual[static_cast<int64_t>(i)], truth[i]);
    }
  }

  nlohmann::json file;

 private:
  std::filesystem::path path_;
  torch::ScalarType type_;
  double abs_tol_ = 0, rel_tol_ = 0;
};

// The value of a loss and its gradient with respect to `leaf`.
inline torch::Tensor GradientOf(const torch::Tensor& loss, const torch::Tensor& leaf) {
  return torch::autograd::grad({loss}, {leaf}, {}, /*retain_graph=*/true)[0];
}

}  // namespace lightcone

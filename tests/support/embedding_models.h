// Stand-ins for embedding models whose vectors have what those of real text models have: a mean that all share, few
// directions with most of the variance, subjects, and a little noise. All models embed the same contents.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lightcone {

class EmbeddingModel {
 public:
  static constexpr int kSubjects = 40;

  // `kind`: "right", "rotated", "seed" (of other weights), "layer" (behind one more layer), "unnormalised" or "prefix"
  // (as if every text began with the same words).
  EmbeddingModel(const std::string& kind, int dimension)
      : kind_(kind), dimension_(static_cast<size_t>(dimension)), maps_(kind == "seed" ? 17 : 1) {
    for (size_t d = 0; d < dimension_; ++d) mean_.push_back(0.15f * normal_(maps_));
    for (int j = 0; j < kLatent; ++j) {
      const float size = 1.0f / std::sqrt(1.0f + static_cast<float>(j));
      for (size_t d = 0; d < dimension_; ++d) axes_.push_back(size * normal_(maps_));
    }
    std::mt19937 other(5);
    for (size_t i = 0; i < dimension_ * dimension_; ++i) matrix_.push_back(normal_(other));
    if (kind == "rotated") Orthonormalise();
    for (size_t d = 0; d < dimension_; ++d) prefix_.push_back(normal_(other));
  }

  // The vector of content `content` about a subject. Calls agree on what a content is.
  std::vector<float> Embed(int subject, uint32_t content) const {
    std::mt19937 of_subject(static_cast<uint32_t>(1'000 + subject)), random(content * 2'654'435'761u + 7);
    std::normal_distribution<float> normal;
    std::vector<float> z = mean_;
    for (int j = 0; j < kLatent; ++j) {
      const float along = 0.25f * (normal(of_subject) + 0.8f * normal(random));
      for (size_t d = 0; d < dimension_; ++d) z[d] += along * axes_[static_cast<size_t>(j) * dimension_ + d];
    }
    for (float& x : z) x += 0.03f * normal(random);
    Normalise(z);
    if (kind_ == "rotated" || kind_ == "layer") {
      std::vector<float> out(dimension_);
      for (size_t i = 0; i < dimension_; ++i) {
        for (size_t d = 0; d < dimension_; ++d) out[i] += matrix_[i * dimension_ + d] * z[d];
        if (kind_ == "layer") out[i] = std::tanh(out[i]);
      }
      z = std::move(out);
      Normalise(z);
    } else if (kind_ == "unnormalised") {
      const float length = 3 * std::exp(0.2f * normal(random));
      for (float& x : z) x *= length;
    } else if (kind_ == "prefix") {
      const float share = 0.5f / std::sqrt(static_cast<float>(dimension_));
      for (size_t d = 0; d < dimension_; ++d) z[d] += share * prefix_[d];
      Normalise(z);
    }
    return z;
  }

 private:
  static constexpr int kLatent = 24;

  static void Normalise(std::vector<float>& z) {
    double square = 0;
    for (const float x : z) square += double{x} * x;
    for (float& x : z) x = static_cast<float>(x / std::sqrt(square));
  }
  // Gram-Schmidt over the rows of matrix_.
  void Orthonormalise() {
    for (size_t i = 0; i < dimension_; ++i) {
      float* const row = matrix_.data() + i * dimension_;
      for (size_t j = 0; j <= i; ++j) {
        double along = 0;
        for (size_t d = 0; d < dimension_; ++d) along += double{row[d]} * matrix_[j * dimension_ + d];
        for (size_t d = 0; d < dimension_; ++d) {
          row[d] = j < i ? row[d] - static_cast<float>(along) * matrix_[j * dimension_ + d]
                         : static_cast<float>(row[d] / std::sqrt(along));
        }
      }
    }
  }

  const std::string kind_;
  const size_t dimension_;
  std::mt19937 maps_;
  std::normal_distribution<float> normal_;
  std::vector<float> mean_, axes_, matrix_, prefix_;
};

inline const char* const kEmbeddingModels[] = {"right", "rotated", "seed", "layer", "unnormalised", "prefix"};

}  // namespace lightcone

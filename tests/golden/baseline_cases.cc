// The losses of the Euclidean baselines in plain float64 C++ (formulas: docs/internals/training-methods.md): a second
// witness beside the trainer's torch code.
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/golden/cases.h"

namespace lightcone::golden {
namespace {

using Row = std::vector<double>;

Matrix UnitRows(Matrix rows) {
  for (Row& row : rows) {
    const double norm = std::sqrt(Dot(row, row));
    for (double& value : row) value /= norm;
  }
  return rows;
}

struct Batch {
  Matrix fresh, old;  // unit rows
  std::vector<std::int64_t> labels;

  std::size_t size() const { return labels.size(); }
  double Mean(const std::function<double(std::size_t)>& of_sample) const {
    double sum = 0;
    for (std::size_t i = 0; i < size(); ++i) sum += of_sample(i);
    return sum / static_cast<double>(size());
  }
  // Sum of exp(scale <a, row>) over the rows of classes other than that of i.
  double Negatives(std::size_t i, const Row& a, const Matrix& rows, double scale) const {
    double sum = 0;
    for (std::size_t j = 0; j < size(); ++j) {
      if (labels[j] != labels[i]) sum += std::exp(scale * Dot(a, rows[j]));
    }
    return sum;
  }
};

double Contra(const Batch& b, double tau, bool new_to_new) {
  return b.Mean([&](std::size_t i) {
    const double positive = Dot(b.fresh[i], b.old[i]) / tau;
    double sum = std::exp(positive) + b.Negatives(i, b.fresh[i], b.old, 1 / tau);
    if (new_to_new) sum += b.Negatives(i, b.fresh[i], b.fresh, 1 / tau);
    return std::log(sum) - positive;
  });
}

double Hoc(const Batch& b, double mu, bool zeroed) {
  return b.Mean([&](std::size_t i) {
    double sum = b.Negatives(i, b.old[i], b.fresh, mu);
    for (std::size_t j = 0; zeroed && j < b.size(); ++j) sum += b.labels[j] == b.labels[i] ? 1.0 : 0.0;
    return std::log(sum) - mu * Dot(b.old[i], b.fresh[i]);
  });
}

double SquaredDistance(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Cross entropy of the old head on raw embeddings, over the samples of classes that it knows.
double Influence(const Matrix& fresh, const Matrix& head, const std::vector<std::int64_t>& labels) {
  double sum = 0, known = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= static_cast<std::int64_t>(head.size())) continue;
    double partition = 0;
    for (const Row& row : head) partition += std::exp(Dot(fresh[i], row));
    sum += std::log(partition) - Dot(fresh[i], head[static_cast<std::size_t>(labels[i])]);
    known += 1;
  }
  return sum / known;
}

// The number behind `prefix` in a key such as "tau0.5".
double NumberOf(const std::string& key, const std::string& prefix) {
  if (!key.starts_with(prefix)) throw std::invalid_argument("unknown key " + key);
  return std::stod(key.substr(prefix.size()));
}

}  // namespace

void CheckEuclidBaselines(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const Matrix raw = Rows(in.at("new_raw"));
  const Batch batch{UnitRows(raw), UnitRows(Rows(in.at("old_raw"))), Integers(in.at("labels"))};
  for (const auto& [key, value] : expected.at("hot_refresh").items()) {
    check.Near("hot_refresh." + key, Contra(batch, NumberOf(key, "tau"), true), value);
  }
  for (const auto& [key, value] : expected.at("contra_n2o_only").items()) {
    check.Near("contra_n2o_only." + key, Contra(batch, NumberOf(key, "tau"), false), value);
  }
  check.Near("hoc removed", Hoc(batch, 10, false), expected.at("hoc_mu10_same_class_removed"));
  check.Near("hoc zeroed", Hoc(batch, 10, true), expected.at("hoc_mu10_as_coded_same_class_logit_zero"));
  check.Near("bct_influence", Influence(raw, Rows(in.at("old_classifier")), batch.labels),
             expected.at("bct_influence"));
  const auto squared = [&](std::size_t i) { return SquaredDistance(batch.fresh[i], batch.old[i]); };
  check.Near("l2 norm", batch.Mean([&](std::size_t i) { return std::sqrt(squared(i)); }),
             expected.at("l2_norm_mean_mixbct"));
  check.Near("l2 mse", batch.Mean(squared) / static_cast<double>(raw[0].size()), expected.at("l2_mse_opencompatible"));
}

}  // namespace lightcone::golden

// Queries of int8 codes laid side by side for code_kernels.h: a vector register holds four codes' worth of sixteen
// queries, so that rows are read once for all of them and no sum runs across a register.
// Threads: const methods are safe concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "geometry/aligned.h"
#include "geometry/codes.h"

namespace lightcone {

class CodeQueryBatch {
 public:
  static constexpr std::size_t kGroup = 16;    // queries of a group
  static constexpr std::size_t kAloneMax = 2;  // queries outside full groups that are faster alone

  // Does not see later calls of CodeQuery::Bind. REQUIRES: the queries outlive this, have one dimension, and are bound
  // to one block.
  explicit CodeQueryBatch(std::span<const CodeQuery* const> queries);

  std::size_t size() const { return queries_.size(); }
  const CodeQuery& operator[](std::size_t i) const { return *queries_[i]; }

  // The first grouped() queries lie in groups, the last of which is padded with zeros; others, and those of half codes,
  // do not.
  std::size_t grouped() const { return grouped_; }
  std::size_t groups() const { return (grouped_ + kGroup - 1) / kGroup; }
  std::size_t steps() const { return steps_; }  // steps of four codes

  // The two parts of A (CodeQuery::high, low) of a group's queries, four codes of each after one another:
  // 2 * 4 * kGroup bytes a step, high ones first.
  const std::int8_t* parts(std::size_t group) const {
    return reinterpret_cast<const std::int8_t*>(parts_.data()) + group * steps_ * kStepBytes;
  }
  static constexpr std::size_t kStepBytes = 2 * 4 * kGroup;

  // kGroup numbers of each of the queries of a group.
  struct Factors {
    alignas(kVectorAlignment) float sigma[kGroup] = {};
    alignas(kVectorAlignment) float b[kGroup] = {};
    alignas(kVectorAlignment) float c[kGroup] = {};
    alignas(kVectorAlignment) float slack[kGroup] = {};
    alignas(kVectorAlignment) float a_norm[kGroup] = {};
    alignas(kVectorAlignment) std::uint32_t offset[kGroup] = {};
  };
  const Factors& factors(std::size_t group) const { return factors_[group]; }

 private:
  std::vector<const CodeQuery*> queries_;
  std::size_t grouped_ = 0, steps_ = 0;
  AlignedFloats parts_;  // bytes
  std::vector<Factors> factors_;
};

}  // namespace lightcone

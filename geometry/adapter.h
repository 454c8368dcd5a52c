// Adapters: small maps fitted after training that carry the embeddings of one generation into the space of another
// (docs/internals/adapters.md). Inference only, without libtorch; trainer/adapt/ fits them, models/adapter_file.h
// stores them.
//
// Input is an embedding *before the clip*, as encoders give it and the store keeps it. Output is one as well: the
// adapter does NOT clip. Everything that measures in the target space (BoundQuery, FactorsOf, UncertaintyOf) clips
// by the target's zeta itself, and the norm before the clip keeps what it tells.
//
// Threads: values and const objects; every const method is safe concurrently and allocates nothing shared.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "geometry/metric.h"

namespace lightcone {

// Which side of a search is carried over.
//   kItem    the old generation's item embeddings into the new space (FCT, FastFill): run in re-ranking or backfill
//   kQuery   the new generation's query embedding into the old space (Drift-Adapter): run once for an old leg
enum class AdapterDirection { kQuery, kItem };

// The map f: R^in -> R^out.
//   kProcrustes     f(z) = s Q z              Q with orthonormal rows or columns, s > 0 (1 under cosine); `linear`: sQ
//   kAffine         f(z) = W z + c
//   kLowRankAffine  f(z) = z + U V^T z + c    equal dimensions, `linear` empty; else P z + U V^T z + c, `linear`: P
//   kResidualMlp    f(z) = W z + c + B relu(A z + a)
//   kKernel         f(z) = W x + c + B k,  k_j = exp(-gamma |x - a_j|),  x = z min(1, r / |z|)
//                   kernel ridge regression with Laplace kernels at the centres a_j (Nystroem: Williams & Seeger 2001)
// With AdapterSpec::unit_input every one of them takes z / |z| for z, and the predicted error reads what the map reads.
enum class AdapterKind { kProcrustes, kAffine, kLowRankAffine, kResidualMlp, kKernel };

// "query", "item"; "procrustes", "affine", "low-rank-affine", "residual-mlp", "kernel". The reverses are
// kInvalidArgument naming field 'direction' or 'map', the text and the names allowed.
std::string_view AdapterDirectionName(AdapterDirection direction);
std::string_view AdapterKindName(AdapterKind kind);
absl::StatusOr<AdapterDirection> ParseAdapterDirection(std::string_view text);
absl::StatusOr<AdapterKind> ParseAdapterKind(std::string_view text);

// What the regression of an adapter's own error reads besides the norm |z| of the input.
enum class AdapterHead { kNone, kInput, kHidden };  // kHidden: relu(A z + a), residual-mlp only

inline constexpr int kAdapterWidthMax = 16'384;                         // hidden units, or rank
inline constexpr std::size_t kAdapterMatrixMax = std::size_t{1} << 28;  // numbers in one matrix: 1 GiB
inline constexpr float kAdapterWeightMax = 1e6f;  // |weight|; then f of every allowed vector is finite in float32

// An adapter as plain numbers, row major. Unused parts are empty.
struct AdapterSpec {
  AdapterDirection direction = AdapterDirection::kItem;
  AdapterKind kind = AdapterKind::kResidualMlp;
  int input_dimension = 0;  // dimension of z
  Space target;             // space of f(z): metric, dimension, curvature, clip radius
  int width = 0;            // hidden units of residual-mlp, centres of kernel, rank of low-rank-affine; else 0
  float input_radius = 0;   // r of kernel, above 0; 0 for the others
  float sharpness = 0;      // gamma of kernel, above 0; 0 for the others
  bool unit_input = false;  // f(z) = f(z / |z|): of spaces whose distances do not know the length (cosine)

  std::vector<float> linear;         // sQ, W or P, out x in; empty: the identity (low-rank-affine only)
  std::vector<float> offset;         // c, out numbers; empty for procrustes
  std::vector<float> hidden;         // A, V^T or the centres, width x in
  std::vector<float> hidden_offset;  // a, width numbers; residual-mlp only
  std::vector<float> output;         // B or U, out x width

  // log of the predicted error = <head_weights, (features, |z|)> + head_bias, features by `head`: the expected distance
  // in the target space between f(z) and the embedding that the target's own model would give the same item.
  AdapterHead head = AdapterHead::kNone;
  std::vector<float> head_weights;  // features + 1: the last belongs to |z|
  float head_bias = 0;

  int output_dimension() const { return target.dimension; }

  // kInvalidArgument naming the field ("adapter.hidden"), its value and what is allowed: sizes that do not belong to
  // kind and dimensions, a rank above min(in, out), a weight that is not finite or above 1e6 in size.
  absl::Status Validate() const;

  bool operator==(const AdapterSpec&) const = default;
};

// A predicted error (a distance of `target`) as an uncertainty in [0, 1], increasing: Lorentz tanh(k e), cosine e/2,
// inner product and Euclid e / (1 + e). 0 for e <= 0.
double UncertaintyOfError(const Space& target, double error);

// An adapter ready to run: weights packed once for the kernels of adapter_kernels.h.
class Adapter {
 public:
  // Validates and packs. Errors as AdapterSpec::Validate.
  static absl::StatusOr<Adapter> Make(const AdapterSpec& spec);

  Adapter(Adapter&&) noexcept;
  Adapter& operator=(Adapter&&) noexcept;
  ~Adapter();

  // out[i] = f(rows[i]) for i < n. `rows` are `stride` floats apart (>= input_dimension()), `out` `out_stride` (>=
  // output_dimension()); pointers need no alignment; n = 0 does nothing. With `uncertainties` (n floats; null: not
  // wanted) UncertaintyOfError of the predicted error of each row, 0 without a head. One thread; a batch of 48 rows or
  // more runs at full speed, and blocks of any size give the same numbers row for row (to the rounding of float32).
  // REQUIRES: the vectors passed CheckVector; `out` overlaps neither rows nor weights.
  void Apply(const float* rows, std::size_t stride, std::size_t n, float* out, std::size_t out_stride,
             float* uncertainties = nullptr) const;

  // The same for rows side by side. REQUIRES: rows.size() = n * input_dimension(), out.size() = n * output_dimension(),
  // uncertainties.size() = n or 0.
  void Apply(std::span<const float> rows, std::span<float> out, std::span<float> uncertainties = {}) const;

  // One row: what a query costs. Returns its uncertainty (0 without a head). Large query adapters read their weights in
  // half precision: an output is off by at most 2^-11 sum |w| |x| of each layer, x its input (2e-4 of its size about).
  // REQUIRES: z.size() = input_dimension(), out.size() = output_dimension().
  float ApplyOne(std::span<const float> z, std::span<float> out) const;

  AdapterDirection direction() const;
  AdapterKind kind() const;
  int input_dimension() const;
  int output_dimension() const;
  const Space& target() const;
  bool has_uncertainty() const;
  std::size_t bytes() const;  // bytes of the packed weights

 private:
  struct Packed;
  explicit Adapter(std::unique_ptr<const Packed> packed);
  std::unique_ptr<const Packed> packed_;
};

}  // namespace lightcone

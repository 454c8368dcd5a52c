#include "geometry/adapter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/adapter_kernels.h"
#include "geometry/aligned.h"
#include "geometry/kernels.h"

namespace lightcone {
namespace {

constexpr std::size_t kTileRows = 48;       // a multiple of the kernel's six; 48 x 512 hidden units are 100 KiB
constexpr std::size_t kStackFloats = 4096;  // hidden units of small blocks need no allocation
constexpr double kLogErrorMax = 60;         // keeps exp() finite; no distance comes near e^60
constexpr float kSquareMin = 1e-24f;        // least float32 sum of squares whose terms have all their digits

// |z| of any vector that CheckVector allows.
double LengthOf(const float* z, std::size_t n) {
  const float square = Dot(z, z, n);
  return square >= kSquareMin ? std::sqrt(static_cast<double>(square)) : NormOf({z, n});
}

AlignedFloats Padded(const std::vector<float>& values, std::size_t size) {
  AlignedFloats padded((size + kPanelColumns - 1) / kPanelColumns * kPanelColumns);
  std::copy(values.begin(), values.end(), padded.begin());
  return padded;
}

// -|a_j|^2 / 2 of each row: what ApplyLaplace takes with the products.
std::vector<float> HalfSquares(const std::vector<float>& centres, std::size_t width) {
  const std::size_t in = centres.size() / width;
  std::vector<float> halves(width);
  for (std::size_t j = 0; j < width; ++j) {
    double square = 0;
    for (std::size_t k = 0; k < in; ++k) square += static_cast<double>(centres[j * in + k]) * centres[j * in + k];
    halves[j] = static_cast<float>(-square / 2);
  }
  return halves;
}

// P + U V^T (the identity where `linear` is empty), in float64: one dense map is cheaper than three parts.
std::vector<float> MergedLowRank(const AdapterSpec& spec) {
  const std::size_t in = static_cast<std::size_t>(spec.input_dimension), rank = static_cast<std::size_t>(spec.width),
                    out = static_cast<std::size_t>(spec.output_dimension());
  std::vector<float> merged(out * in);
  std::vector<double> row(in);
  for (std::size_t i = 0; i < out; ++i) {
    for (std::size_t j = 0; j < in; ++j) row[j] = spec.linear.empty() ? (i == j ? 1.0 : 0.0) : spec.linear[i * in + j];
    for (std::size_t r = 0; r < rank; ++r) {
      const double u = spec.output[i * rank + r];
      for (std::size_t j = 0; j < in; ++j) row[j] += u * spec.hidden[r * in + j];
    }
    std::transform(row.begin(), row.end(), merged.begin() + static_cast<std::ptrdiff_t>(i * in),
                   [](double x) { return static_cast<float>(x); });
  }
  return merged;
}

}  // namespace

struct Adapter::Packed {
  AdapterDirection direction;
  AdapterKind kind;
  Space target;
  std::size_t in = 0, out = 0;
  std::size_t width = 0, hidden_stride = 0;  // width 0: no hidden layer (any more)
  PackedMatrix linear, hidden, output;       // linear empty: the identity
  AlignedFloats offset, hidden_offset;       // padded to whole panels
  AdapterHead head = AdapterHead::kNone;
  AlignedFloats head_weights;
  float head_bias = 0, norm_weight = 0;
  float input_radius = 0, sharpness = 0;  // kernel only
  bool unit_input = false;

  bool scales_input() const { return unit_input || kind == AdapterKind::kKernel; }

  // Floats that ApplyTile needs for n rows: hidden units and, where rows are scaled, these and their squares.
  std::size_t ScratchFloats(std::size_t n) const { return n * hidden_stride + (scales_input() ? n * (in + 1) : 0); }

  float UncertaintyOf(const float* z, const float* features) const {
    const std::size_t count = head == AdapterHead::kHidden ? width : in;
    const double norm = std::sqrt(static_cast<double>(Dot(z, z, in)));
    const double log_error = Dot(head_weights.data(), features, count) + norm_weight * norm + head_bias;
    return static_cast<float>(UncertaintyOfError(target, std::exp(std::clamp(log_error, -kLogErrorMax, kLogErrorMax))));
  }

  // x = z min(1, r / |z|) of each row, with unit_input of z / |z| in place of z, side by side, then |x|^2 of each.
  void Scale(const float* rows, std::size_t stride, std::size_t n, float* to) const {
    float* squares = to + n * in;
    const double longest = kind == AdapterKind::kKernel ? input_radius : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < n; ++i) {
      const float* z = rows + i * stride;
      const double norm = LengthOf(z, in);
      const double length = unit_input ? std::min(1.0, longest) : std::min(norm, longest);
      const double scale = length == norm || norm == 0 ? 1.0 : length / norm;
      std::transform(z, z + in, to + i * in, [&](float v) { return static_cast<float>(v * scale); });
      squares[i] = static_cast<float>(norm * norm * scale * scale);
    }
  }

  void MapTile(const float* rows, std::size_t stride, std::size_t n, float* out_rows, std::size_t out_stride,
               float* scratch, const float* squares, bool alone) const {
    DenseLayer last{.first = {rows, stride, linear.empty() ? nullptr : &linear, alone && linear.has_halves()},
                    .second = {},
                    .offset = offset.data(),
                    .relu = false,
                    .columns = out};
    if (width != 0) {
      const DenseLayer first{.first = {rows, stride, &hidden, alone && hidden.has_halves()},
                             .second = {},
                             .offset = hidden_offset.data(),
                             .relu = kind == AdapterKind::kResidualMlp,
                             .columns = width};
      ApplyDense(first, n, scratch, hidden_stride);
      if (kind == AdapterKind::kKernel) ApplyLaplace(sharpness, first, squares, n, scratch, hidden_stride);
      last.second = {scratch, hidden_stride, &output, alone && output.has_halves()};
    }
    ApplyDense(last, n, out_rows, out_stride);
    for (std::size_t i = 0; i < n && linear.empty(); ++i) {
      for (std::size_t j = 0; j < out; ++j) out_rows[i * out_stride + j] += rows[i * stride + j];
    }
  }

  void Run(const float* rows, std::size_t stride, std::size_t n, float* to, std::size_t to_stride, float* uncertainties,
           bool alone) const;

  // At most kTileRows rows; `scratch` has ScratchFloats(n) floats. `alone`: as of Run.
  void ApplyTile(const float* rows, std::size_t stride, std::size_t n, float* out_rows, std::size_t out_stride,
                 float* uncertainties, float* scratch, bool alone) const {
    if (scales_input()) {
      float* scaled = scratch + n * hidden_stride;
      Scale(rows, stride, n, scaled);
      MapTile(scaled, in, n, out_rows, out_stride, scratch, scaled + n * in, alone);
      if (unit_input) {
        rows = scaled;
        stride = in;
      }
    } else {
      MapTile(rows, stride, n, out_rows, out_stride, scratch, nullptr, alone);
    }
    if (uncertainties == nullptr) return;
    for (std::size_t i = 0; i < n; ++i) {
      const float* z = rows + i * stride;
      const float* features = head == AdapterHead::kHidden ? scratch + i * hidden_stride : z;
      uncertainties[i] = head == AdapterHead::kNone ? 0.0f : UncertaintyOf(z, features);
    }
  }
};

absl::StatusOr<Adapter> Adapter::Make(const AdapterSpec& spec) {
  LC_RETURN_IF_ERROR(spec.Validate());
  auto packed = std::make_unique<Packed>();
  packed->direction = spec.direction;
  packed->kind = spec.kind;
  packed->target = spec.target;
  const std::size_t in = packed->in = static_cast<std::size_t>(spec.input_dimension);
  const std::size_t out = packed->out = static_cast<std::size_t>(spec.output_dimension());
  const std::size_t width = static_cast<std::size_t>(spec.width);
  packed->offset = Padded(spec.offset, out);
  // z + U V^T z in two thin products is the cheaper way only up to half the dimension.
  const bool merge = spec.kind == AdapterKind::kLowRankAffine && (!spec.linear.empty() || 2 * width >= in);
  if (merge) {
    packed->linear = PackedMatrix(MergedLowRank(spec), out, in);
  } else {
    if (!spec.linear.empty()) packed->linear = PackedMatrix(spec.linear, out, in);
    packed->width = width;
  }
  if (packed->width != 0) {
    packed->hidden = PackedMatrix(spec.hidden, width, in);
    packed->output = PackedMatrix(spec.output, out, width);
    packed->hidden_offset =
        Padded(spec.kind == AdapterKind::kKernel ? HalfSquares(spec.hidden, width) : spec.hidden_offset, width);
    // A line more than needed: rows of 512 units would otherwise fall on the same cache sets.
    packed->hidden_stride = packed->hidden_offset.size() + kPanelColumns;
  }
  if (spec.direction == AdapterDirection::kQuery) {
    packed->linear.AddHalves();
    packed->output.AddHalves();
    // Distances to a kernel's centres need all digits.
    if (spec.kind != AdapterKind::kKernel) packed->hidden.AddHalves();
  }
  packed->input_radius = spec.input_radius;
  packed->sharpness = spec.sharpness;
  packed->unit_input = spec.unit_input;
  packed->head = spec.head;
  if (spec.head != AdapterHead::kNone) {
    packed->norm_weight = spec.head_weights.back();
    packed->head_bias = spec.head_bias;
    packed->head_weights = AlignedFloats(spec.head_weights.size() - 1);
    std::copy(spec.head_weights.begin(), spec.head_weights.end() - 1, packed->head_weights.begin());
  }
  return Adapter(std::move(packed));
}

Adapter::Adapter(std::unique_ptr<const Packed> packed) : packed_(std::move(packed)) {}
Adapter::Adapter(Adapter&&) noexcept = default;
Adapter& Adapter::operator=(Adapter&&) noexcept = default;
Adapter::~Adapter() = default;

// `alone`: a single row that may read the weights in half precision. Rows of one call are never of two precisions.
void Adapter::Packed::Run(const float* rows, std::size_t stride, std::size_t n, float* to, std::size_t to_stride,
                          float* uncertainties, bool alone) const {
  const std::size_t scratch_floats = ScratchFloats(std::min(n, kTileRows));
  alignas(kVectorAlignment) float stack[kStackFloats];
  std::unique_ptr<float[]> heap;
  // Not make_unique, which would write zeros over all of it first.
  if (scratch_floats > kStackFloats) heap.reset(new float[scratch_floats]);
  float* scratch = heap != nullptr ? heap.get() : stack;
  for (std::size_t begin = 0; begin < n; begin += kTileRows) {
    ApplyTile(rows + begin * stride, stride, std::min(kTileRows, n - begin), to + begin * to_stride, to_stride,
              uncertainties == nullptr ? nullptr : uncertainties + begin, scratch, alone);
  }
}

void Adapter::Apply(const float* rows, std::size_t stride, std::size_t n, float* out, std::size_t out_stride,
                    float* uncertainties) const {
  packed_->Run(rows, stride, n, out, out_stride, uncertainties, /*alone=*/false);
}

void Adapter::Apply(std::span<const float> rows, std::span<float> out, std::span<float> uncertainties) const {
  LC_DCHECK(rows.size() % packed_->in == 0 && out.size() == rows.size() / packed_->in * packed_->out);
  LC_DCHECK(uncertainties.empty() || uncertainties.size() == rows.size() / packed_->in);
  Apply(rows.data(), packed_->in, rows.size() / packed_->in, out.data(), packed_->out,
        uncertainties.empty() ? nullptr : uncertainties.data());
}

float Adapter::ApplyOne(std::span<const float> z, std::span<float> out) const {
  LC_DCHECK(z.size() == packed_->in && out.size() == packed_->out);
  float uncertainty = 0;
  packed_->Run(z.data(), packed_->in, 1, out.data(), packed_->out, has_uncertainty() ? &uncertainty : nullptr,
               /*alone=*/true);
  return uncertainty;
}

AdapterDirection Adapter::direction() const { return packed_->direction; }
AdapterKind Adapter::kind() const { return packed_->kind; }
int Adapter::input_dimension() const { return static_cast<int>(packed_->in); }
int Adapter::output_dimension() const { return static_cast<int>(packed_->out); }
const Space& Adapter::target() const { return packed_->target; }
bool Adapter::has_uncertainty() const { return packed_->head != AdapterHead::kNone; }

std::size_t Adapter::bytes() const {
  return packed_->linear.bytes() + packed_->hidden.bytes() + packed_->output.bytes() +
         (packed_->offset.size() + packed_->hidden_offset.size() + packed_->head_weights.size()) * sizeof(float);
}

}  // namespace lightcone

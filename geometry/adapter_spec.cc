#include <algorithm>
#include <cmath>
#include <string>

#include "base/status.h"
#include "geometry/adapter.h"

namespace lightcone {
namespace {

constexpr char kKindNames[] = "procrustes, affine, low-rank-affine, residual-mlp, kernel";

std::string SizeText(std::size_t rows, std::size_t columns) {
  return StrCat("exactly ", rows * columns, " (", rows, " x ", columns, ")");
}

// A part of rows x columns numbers; 0 rows: the part must be absent.
absl::Status CheckPart(std::string_view field, const std::vector<float>& values, std::size_t rows,
                       std::size_t columns) {
  if (rows * columns > kAdapterMatrixMax) {
    return InvalidField(field, StrCat(rows, " x ", columns), StrCat("at most ", kAdapterMatrixMax, " numbers"));
  }
  if (values.size() != rows * columns) {
    return InvalidField(field, StrCat(values.size(), " numbers"),
                        rows == 0 ? std::string("none, for this kind") : SizeText(rows, columns));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i]) <= kAdapterWeightMax)) {
      return InvalidField(StrCat(field, "[", i, "]"), StrCat(values[i]),
                          StrCat("-", kAdapterWeightMax, " .. ", kAdapterWeightMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWidth(const AdapterSpec& spec) {
  switch (spec.kind) {
    case AdapterKind::kProcrustes:
    case AdapterKind::kAffine:
      if (spec.width != 0) return InvalidField("adapter.width", StrCat(spec.width), "0 for this kind");
      return absl::OkStatus();
    case AdapterKind::kLowRankAffine: {
      const int rank_max = std::min({spec.input_dimension, spec.output_dimension(), kAdapterWidthMax});
      if (spec.width >= 1 && spec.width <= rank_max) return absl::OkStatus();
      return InvalidField("adapter.width", StrCat(spec.width),
                          StrCat("1 .. ", rank_max, " (the rank; at most the smaller dimension)"));
    }
    case AdapterKind::kResidualMlp:
    case AdapterKind::kKernel:
      if (spec.width >= 1 && spec.width <= kAdapterWidthMax) return absl::OkStatus();
      return InvalidField("adapter.width", StrCat(spec.width), StrCat("1 .. ", kAdapterWidthMax));
  }
  return InvalidField("adapter.map", StrCat(static_cast<int>(spec.kind)), kKindNames);
}

// Of kernel: above 0 and finite; 0 for every other kind.
absl::Status CheckKernelNumber(const AdapterSpec& spec, std::string_view field, float value) {
  const bool kernel = spec.kind == AdapterKind::kKernel;
  if (kernel ? value > 0 && value <= kAdapterWeightMax : value == 0) return absl::OkStatus();
  return InvalidField(field, StrCat(value), kernel ? StrCat("above 0 .. ", kAdapterWeightMax) : "0 for this kind");
}

absl::Status CheckHead(const AdapterSpec& spec) {
  std::size_t features = 0;
  switch (spec.head) {
    case AdapterHead::kNone:
      return CheckPart("adapter.head_weights", spec.head_weights, 0, 0);
    case AdapterHead::kInput:
      features = static_cast<std::size_t>(spec.input_dimension);
      break;
    case AdapterHead::kHidden:
      if (spec.kind != AdapterKind::kResidualMlp) {
        return InvalidField("adapter.head", "hidden", "none, input (only residual-mlp has a hidden layer)");
      }
      features = static_cast<std::size_t>(spec.width);
      break;
    default:
      return InvalidField("adapter.head", StrCat(static_cast<int>(spec.head)), "none, input, hidden");
  }
  LC_RETURN_IF_ERROR(CheckPart("adapter.head_weights", spec.head_weights, 1, features + 1));
  if (!(std::abs(spec.head_bias) <= kAdapterWeightMax)) {
    return InvalidField("adapter.head_bias", StrCat(spec.head_bias),
                        StrCat("-", kAdapterWeightMax, " .. ", kAdapterWeightMax));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view AdapterDirectionName(AdapterDirection direction) {
  switch (direction) {
    case AdapterDirection::kQuery:
      return "query";
    case AdapterDirection::kItem:
      return "item";
  }
  return "unknown";
}

std::string_view AdapterKindName(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::kProcrustes:
      return "procrustes";
    case AdapterKind::kAffine:
      return "affine";
    case AdapterKind::kLowRankAffine:
      return "low-rank-affine";
    case AdapterKind::kResidualMlp:
      return "residual-mlp";
    case AdapterKind::kKernel:
      return "kernel";
  }
  return "unknown";
}

absl::StatusOr<AdapterDirection> ParseAdapterDirection(std::string_view text) {
  for (const AdapterDirection direction : {AdapterDirection::kQuery, AdapterDirection::kItem}) {
    if (AdapterDirectionName(direction) == text) return direction;
  }
  return InvalidField("direction", StrCat("'", text, "'"), "query, item");
}

absl::StatusOr<AdapterKind> ParseAdapterKind(std::string_view text) {
  for (const AdapterKind kind : {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine,
                                 AdapterKind::kResidualMlp, AdapterKind::kKernel}) {
    if (AdapterKindName(kind) == text) return kind;
  }
  return InvalidField("map", StrCat("'", text, "'"), kKindNames);
}

absl::Status AdapterSpec::Validate() const {
  if (AdapterDirectionName(direction) == "unknown") {
    return InvalidField("adapter.direction", StrCat(static_cast<int>(direction)), "query, item");
  }
  if (input_dimension < 1 || input_dimension > kDimensionMax) {
    return InvalidField("adapter.input_dimension", StrCat(input_dimension), StrCat("1 .. ", kDimensionMax));
  }
  const absl::Status space = target.Validate();
  if (!space.ok()) {
    const FieldErrorParts parts = PartsOf(space);
    return InvalidField(StrCat("adapter.target.", parts.field), parts.value, parts.allowed);
  }
  LC_RETURN_IF_ERROR(CheckWidth(*this));
  LC_RETURN_IF_ERROR(CheckKernelNumber(*this, "adapter.input_radius", input_radius));
  LC_RETURN_IF_ERROR(CheckKernelNumber(*this, "adapter.sharpness", sharpness));
  const std::size_t in = static_cast<std::size_t>(input_dimension), out = static_cast<std::size_t>(output_dimension()),
                    units = static_cast<std::size_t>(width);
  const bool low_rank = kind == AdapterKind::kLowRankAffine, mlp = kind == AdapterKind::kResidualMlp;
  const bool identity = low_rank && in == out && linear.empty();
  LC_RETURN_IF_ERROR(CheckPart("adapter.linear", linear, identity ? 0 : out, in));
  LC_RETURN_IF_ERROR(CheckPart("adapter.offset", offset, kind == AdapterKind::kProcrustes ? 0 : out, 1));
  LC_RETURN_IF_ERROR(CheckPart("adapter.hidden", hidden, units, in));
  LC_RETURN_IF_ERROR(CheckPart("adapter.hidden_offset", hidden_offset, mlp ? units : 0, 1));
  LC_RETURN_IF_ERROR(CheckPart("adapter.output", output, units == 0 ? 0 : out, units));
  return CheckHead(*this);
}

double UncertaintyOfError(const Space& target, double error) {
  if (!(error > 0)) return 0;
  switch (target.metric) {
    case Metric::kLorentz:
      return std::tanh(std::sqrt(target.curvature) * error);
    case Metric::kCosine:
      return std::min(1.0, error / 2);
    case Metric::kInnerProduct:
    case Metric::kEuclidean:
      break;
  }
  return std::isinf(error) ? 1.0 : error / (1 + error);
}

}  // namespace lightcone

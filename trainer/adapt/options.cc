#include "trainer/adapt/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr std::string_view kLossAllowed =
    "auto, or a sum of reg, rel, sup, contra with weights above 0, as in reg+0.3*sup";

constexpr int64_t kHeldOutMin = 16, kHeldOutMax = 4096;

constexpr size_t kLossTextMax = 100;  // limit of a label in the adapter's file

absl::Status CheckInt(const char* field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(min, " .. ", max));
}

absl::Status CheckReal(const char* field, double value, double above, double max) {
  if (value > above && value <= max) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat("above ", above, ", at most ", max));
}

absl::Status CheckFittedSpace(const char* field, const Space& space) {
  LC_RETURN_IF_ERROR(CheckAdapterSpace(field, space));
  return CheckInt(StrCat(field, ".dimension").c_str(), space.dimension, 1, kAdaptDimensionMax);
}

// One side: rows of `space`. The first bad number or row is named.
absl::Status CheckSide(const char* field, std::span<const float> rows, const Space& space) {
  const size_t d = static_cast<size_t>(space.dimension);
  for (size_t i = 0; i * d < rows.size(); ++i) {
    const std::span<const float> row = rows.subspan(i * d, d);
    const double norm = NormOf(row);
    if (std::isfinite(norm) && norm <= kNormMax && (space.metric != Metric::kCosine || norm >= kCosineNormMin))
      continue;
    return CheckVector(space, row, StrCat(field, "[", i, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const char* field, size_t values, int dimension) {
  if (values % static_cast<size_t>(dimension) == 0) return absl::OkStatus();
  return InvalidField(field, StrCat(values, " numbers"), StrCat("a multiple of the dimension ", dimension));
}

}  // namespace

absl::Status CheckAdapterSpace(const std::string& field, const Space& space) {
  if (const absl::Status valid = space.Validate(); !valid.ok()) {
    const FieldErrorParts parts = PartsOf(valid);
    return InvalidField(StrCat(field, ".", parts.field), parts.value, parts.allowed);
  }
  if (space.metric == Metric::kLorentz || space.metric == Metric::kCosine) return absl::OkStatus();
  return InvalidField(StrCat(field, ".metric"), MetricName(space.metric), "lorentz, cosine");
}

absl::StatusOr<AdaptLoss> ParseAdaptLoss(std::string_view text, bool has_labels) {
  AdaptLoss loss;
  if (text == "auto") return ParseAdaptLoss(has_labels ? kAutoLossLabelled : kAutoLossUnlabelled, has_labels);
  const absl::Status wrong = InvalidField("loss", StrCat("'", text, "'"), kLossAllowed);
  if (text.size() > kLossTextMax) return wrong;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find('+', begin), text.size());
    std::string_view term = text.substr(begin, end - begin);
    begin = end + 1;
    double weight = 1;
    const size_t star = term.find('*');
    if (star != std::string_view::npos) {
      const auto [rest, error] = std::from_chars(term.data(), term.data() + star, weight);
      if (error != std::errc() || rest != term.data() + star || !(weight > 0 && weight <= 1e3)) return wrong;
      term.remove_prefix(star + 1);
    }
    double* const slot = term == "reg"      ? &loss.reg
                         : term == "rel"    ? &loss.rel
                         : term == "sup"    ? &loss.sup
                         : term == "contra" ? &loss.contra
                                            : nullptr;
    if (slot == nullptr || *slot != 0) return wrong;
    *slot = weight;
  }
  return loss;
}

int64_t FittedAtMost(int64_t pairs, double held_out) {
  const auto wanted = static_cast<int64_t>(std::llround(held_out * static_cast<double>(pairs)));
  return pairs - std::clamp(wanted, kHeldOutMin, kHeldOutMax);
}

std::string_view MapsThatRead(std::string_view option, AdapterKind kind) {
  const bool closed_form = kind == AdapterKind::kProcrustes || kind == AdapterKind::kKernel;
  if (option == "width" && kind != AdapterKind::kResidualMlp && kind != AdapterKind::kKernel)
    return "residual-mlp and kernel";
  if (option == "rank" && kind != AdapterKind::kLowRankAffine) return "low-rank-affine";
  if ((option == "loss" || option == "steps") && closed_form) return "affine, low-rank-affine and residual-mlp";
  return "";
}

std::string_view MapsThatRead(std::string_view option) {
  if (option == "width") return "residual-mlp and kernel";
  return option == "rank" ? "low-rank-affine" : "";
}

absl::Status CheckCentres(std::string_view field, AdapterKind kind, int64_t width, int64_t fitted) {
  if (kind != AdapterKind::kKernel || width <= fitted) return absl::OkStatus();
  return InvalidField(field, StrCat(width), StrCat("1 .. ", fitted, ", the fitted pairs"));
}

int WidthFor(AdapterKind kind, AdapterDirection direction) {
  if (kind == AdapterKind::kKernel) return 4096;
  if (kind != AdapterKind::kResidualMlp) return 0;
  return direction == AdapterDirection::kItem ? 1024 : 512;
}

absl::Status AdaptOptions::Validate() const {
  LC_RETURN_IF_ERROR(CheckFittedSpace("source", source));
  LC_RETURN_IF_ERROR(CheckFittedSpace("target", target));
  if (AdapterKindName(kind) == "unknown") {
    return InvalidField("map", StrCat(static_cast<int>(kind)),
                        "procrustes, affine, low-rank-affine, residual-mlp, kernel");
  }
  if (AdapterDirectionName(direction) == "unknown") {
    return InvalidField("direction", StrCat(static_cast<int>(direction)), "query, item");
  }
  LC_RETURN_IF_ERROR(ParseAdaptLoss(loss, /*has_labels=*/true).status());
  if (choose && width != 0) return InvalidField("width", StrCat(width), "0 with map auto, which chooses it");
  if (kind == AdapterKind::kResidualMlp || kind == AdapterKind::kKernel) {
    LC_RETURN_IF_ERROR(CheckInt("width", width, 0, kAdapterWidthMax));
  }
  if (kind == AdapterKind::kLowRankAffine && !choose) {
    const int rank_max = std::min(source.dimension, target.dimension);
    if (rank < 1 || rank > rank_max) {
      return InvalidField("rank", StrCat(rank), StrCat("1 .. ", rank_max, " (the smaller dimension)"));
    }
  }
  if (pairs_max != 0) {
    LC_RETURN_IF_ERROR(CheckInt("pairs_max", pairs_max, kAdaptPairsMin, int64_t{1} << 31));
  }
  if (!(held_out >= 0.01 && held_out <= 0.5)) return InvalidField("held_out", StrCat(held_out), "0.01 .. 0.5");
  LC_RETURN_IF_ERROR(CheckInt("steps", steps, 1, 1'000'000));
  LC_RETURN_IF_ERROR(CheckInt("batch", batch, 2, 16'384));
  LC_RETURN_IF_ERROR(CheckInt("bank", bank, batch, 65'536));
  LC_RETURN_IF_ERROR(CheckReal("learning_rate", learning_rate, 0, 1));
  if (!(weight_decay >= 0 && weight_decay <= 1)) return InvalidField("weight_decay", StrCat(weight_decay), "0 .. 1");
  LC_RETURN_IF_ERROR(CheckReal("temperature", temperature, 0, 100));
  LC_RETURN_IF_ERROR(CheckInt("evaluate_every", evaluate_every, 1, 1'000'000));
  return CheckInt("patience", patience, 1, 1'000'000);
}

absl::Status ParseMap(std::string_view text, AdaptOptions& options) {
  options.choose = text == "auto";
  if (options.choose) return absl::OkStatus();
  const absl::StatusOr<AdapterKind> kind = ParseAdapterKind(text);
  if (!kind.ok()) {
    const FieldErrorParts parts = PartsOf(kind.status());
    return InvalidField(parts.field, parts.value, StrCat("auto, ", parts.allowed));
  }
  options.kind = *kind;
  return absl::OkStatus();
}

absl::Status CheckPairs(const EmbeddingPairs& pairs, const AdaptOptions& options) {
  LC_RETURN_IF_ERROR(CheckRows("pairs.source", pairs.source.size(), options.source.dimension));
  LC_RETURN_IF_ERROR(CheckRows("pairs.target", pairs.target.size(), options.target.dimension));
  const size_t n = pairs.source.size() / static_cast<size_t>(options.source.dimension);
  const size_t targets = pairs.target.size() / static_cast<size_t>(options.target.dimension);
  if (targets != n) {
    return InvalidField("pairs.target", StrCat(targets, " rows"),
                        StrCat(n, ", as pairs.source: row i of both is one item"));
  }
  if (static_cast<int64_t>(n) < kAdaptPairsMin) {
    return InvalidField("pairs", StrCat(n, " pairs"), StrCat("at least ", kAdaptPairsMin));
  }
  if (!pairs.labels.empty() && pairs.labels.size() != n) {
    return InvalidField("pairs.labels", StrCat(pairs.labels.size(), " labels"), StrCat(n, ", one a pair, or none"));
  }
  if (!pairs.items.empty() && pairs.items.size() != n) {
    return InvalidField("pairs.items", StrCat(pairs.items.size(), " items"), StrCat(n, ", one a pair, or none"));
  }
  LC_ASSIGN_OR_RETURN(const AdaptLoss loss, ParseAdaptLoss(options.loss, !pairs.labels.empty()));
  const bool closed_form =
      !options.choose && (options.kind == AdapterKind::kProcrustes || options.kind == AdapterKind::kKernel);
  if (!closed_form && loss.needs_labels() && pairs.labels.empty()) {
    return InvalidField("pairs.labels", "absent", StrCat("one a pair: the loss '", options.loss, "' needs labels"));
  }
  LC_RETURN_IF_ERROR(CheckSide("pairs.source", pairs.source, options.source));
  return CheckSide("pairs.target", pairs.target, options.target);
}

}  // namespace lightcone

#include "base/status.h"

#include <utility>

#include "absl/strings/cord.h"
#include "base/dcheck.h"

namespace lightcone {
namespace {

constexpr char kFieldUrl[] = "lightcone/field";
constexpr char kSeparator = '\x1f';

}  // namespace

absl::Status Annotate(const absl::Status& status, std::string_view step) {
  if (status.ok()) return status;
  absl::Status out = MakeStatus(status.code(), StrCat(step, ": ", status.message()));
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

absl::Status FieldError(absl::StatusCode code, std::string_view field, std::string_view value,
                        std::string_view allowed) {
  return WithField(MakeStatus(code, StrCat("field '", field, "' is ", value, "; allowed: ", allowed)),
                   {std::string(field), std::string(value), std::string(allowed)});
}

absl::Status WithField(absl::Status status, const FieldErrorParts& parts) {
  LC_DCHECK(!status.ok());
  const std::string separator(1, kSeparator);
  status.SetPayload(kFieldUrl, absl::Cord(StrCat(parts.field, separator, parts.value, separator, parts.allowed)));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view value, std::string_view allowed) {
  return FieldError(absl::StatusCode::kInvalidArgument, field, value, allowed);
}

FieldErrorParts PartsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldUrl);
  if (!payload.has_value()) return {};
  const std::string text(*payload);
  const size_t first = text.find(kSeparator);
  const size_t second = text.find(kSeparator, first + 1);
  if (first == std::string::npos || second == std::string::npos) return {};
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

}  // namespace lightcone

// Which fields of the payloads a collection keeps an index over, and what a payload holds there.
// Threads: pure functions and plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::server {

// The values that the index holds in order. A value of another type, or one that does not fit, is no error: the index
// knows which items have one, and a search reads their payloads.
enum class PayloadType {
  kKeyword,  // texts
  kInteger,  // -2^63 .. 2^63 - 1
  kFloat,    // numbers that a double holds exactly
  kBoolean,
  kTime,  // texts like 2024-05-01T12:30:00Z or 2024-05-01T12:30:00.250Z, in UTC, eight bytes each
};

struct PayloadField {
  std::string path;  // as in filters: "camera.model"
  PayloadType type = PayloadType::kKeyword;
  friend bool operator==(const PayloadField&, const PayloadField&) = default;
};

struct PayloadIndexStatus {
  PayloadField field;
  bool ready = false;  // else it is being built
  uint64_t items = 0;  // that have the field
  uint64_t bytes = 0;
  absl::Status error;  // of the last attempt to build it, there will be another; where ready: what it leaves out
};

inline constexpr size_t kPayloadFieldsMax = 64;  // of one collection
inline constexpr size_t kPayloadPathBytesMax = 256;

std::string_view PayloadTypeName(PayloadType type);
// INVALID_ARGUMENT lists the types. `field` names it in the error.
absl::StatusOr<PayloadType> ParsePayloadType(std::string_view name, std::string_view field);

// INVALID_ARGUMENT for a path that is none, too long, or there twice, and for too many of them. `list` names them in
// the error: "payload_fields".
absl::Status CheckPayloadFields(std::span<const PayloadField> fields, std::string_view list);

// One text for a list of fields.
std::string TextOf(std::span<const PayloadField> fields);

// What conditions of a filter see at a path: scalars that it leads to, through arrays by any element.
struct PayloadValues {
  bool present = false;  // it leads somewhere: to a scalar, null, an object or an array
  std::vector<std::variant<std::string, int64_t, uint64_t, double, bool>> scalars;  // uint64_t: beyond int64_t
};

// A parsed payload. One that does not parse holds nothing.
class Payload {
 public:
  explicit Payload(std::string_view json);
  Payload(Payload&&) noexcept;
  ~Payload();
  PayloadValues At(std::string_view path) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

// A text of the form of PayloadType::kTime as a number that orders as the texts do by bytes; nullopt for any other.
// At most six digits of a second's fraction. Nobody asks for a calendar: the 31st of February is a time.
std::optional<int64_t> TimeKey(std::string_view text);
std::string TimeText(int64_t key);

}  // namespace lightcone::server

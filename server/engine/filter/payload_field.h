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
#include "server/engine/filter/geo.h"

namespace lightcone::server {

// The values that the index holds. A value of another type, or one that does not fit, is no error: the index
// knows which items have such values, and a search reads their payloads.
enum class PayloadType {
  kKeyword,  // texts
  kInteger,  // -2^63 .. 2^63 - 1
  kFloat,    // numbers that a double holds exactly
  kBoolean,
  kTime,  // instants (filter/instant.h) with at most six digits of a fraction
  kText,  // words of texts (filter/text_match.h), in no order of the texts
  kGeo,   // places (filter/geo.h), in no order
};

struct PayloadField {
  std::string path;  // path as in filters (payload_path.h)
  PayloadType type = PayloadType::kKeyword;
  friend bool operator==(const PayloadField&, const PayloadField&) = default;
};

struct PayloadIndexStatus {
  PayloadField field;
  bool ready = false;  // false: the index is being built
  uint64_t items = 0;  // items that have the field
  uint64_t bytes = 0;
  absl::Status error;  // why the last build failed, which is tried again; if ready: what no condition finds
};

inline constexpr size_t kPayloadFieldsMax = 64;  // most fields of one collection
inline constexpr size_t kPayloadPathBytesMax = 256;

std::string_view PayloadTypeName(PayloadType type);
// INVALID_ARGUMENT lists the types. `field` names it in the error.
absl::StatusOr<PayloadType> ParsePayloadType(std::string_view name, std::string_view field);

// INVALID_ARGUMENT for a wrong path, one that is too long or there already in any spelling, and for too many fields.
// `list` names them in the error: "payload_fields".
absl::Status CheckPayloadFields(std::span<const PayloadField> fields, std::string_view list);

// One text for a list of fields.
std::string TextOf(std::span<const PayloadField> fields);

// Most bytes of a word that an index holds: longer ones are keys, and would fill the memory.
inline constexpr size_t kIndexedWordBytesMax = 64;

// The words of all texts at a path, each once, without those that are too long for an index.
struct TextWords {
  bool several_texts = false, long_words = false;
  std::vector<std::string> words;
};

// What conditions of a filter see at a path, through arrays by any element.
struct PayloadValues {
  bool present = false;  // The path leads to a scalar, null, an object or an array.
  bool null = false;     // null is among the values.
  uint64_t count = 0;    // number of values, as FilterNode::Kind::kValuesCount counts
  std::vector<std::variant<std::string, int64_t, uint64_t, double, bool>> scalars;  // uint64_t: above INT64_MAX
  std::vector<GeoPoint> places;
  TextWords words;  // empty until CutTexts

  // Sets the words of the texts among the scalars.
  void CutTexts();
};

// A parsed payload. Text that does not parse holds nothing.
class Payload {
 public:
  explicit Payload(std::string_view json);
  Payload(Payload&&) noexcept;
  ~Payload();
  PayloadValues At(std::span<const std::string> keys) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace lightcone::server

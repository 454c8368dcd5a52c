// Conditions over payloads, as the engine evaluates them. The wire's Filter message and the command line's text form both
// become this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::server {

using FilterValue = std::variant<std::string, int64_t, double, bool>;

struct FilterNode {
  enum class Kind { kAnd, kOr, kNot, kEquals, kIn, kRange, kExists };
  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children;   // kAnd, kOr: any number; kNot: one
  std::string field;                  // kEquals, kIn, kRange, kExists: path into the payload ("a.b"), "$generation", "$uncertainty"
  std::vector<FilterValue> values;    // kEquals: one; kIn: at least one
  std::optional<FilterValue> greater, greater_equal, less, less_equal;  // kRange: at least one
};

// What a filter is evaluated on.
struct FilterSubject {
  const std::string* payload_json = nullptr;
  uint32_t generation = 0;   // of the embedding served
  double uncertainty = 0;
};

// A checked filter, ready to be evaluated. Immutable: const methods are safe from any thread.
class Filter {
 public:
  // INVALID_ARGUMENT names the node ("filter.and[1].range") and what is allowed: depth <= 32, nodes <= 1024, non-empty
  // fields, values that are finite.
  static absl::StatusOr<Filter> Make(FilterNode root);
  bool Matches(const FilterSubject& subject) const;
  bool needs_payload() const { return needs_payload_; }

 private:
  FilterNode root_;
  bool needs_payload_ = false;
};

}  // namespace lightcone::server

// Conditions over payloads, as the engine evaluates them. The wire and the command line convert their forms to these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::server {

using FilterValue = std::variant<std::string, int64_t, double, bool>;

inline constexpr std::string_view kGenerationField = "$generation";
inline constexpr std::string_view kUncertaintyField = "$uncertainty";

// Most conditions of a filter, groups included.
inline constexpr int kFilterNodesMax = 1024;

struct FilterNode {
  // kValuesCount: the number of values at the path, none of them if the field is absent or null, and one for each
  // element of an array.
  enum class Kind { kAnd, kOr, kNot, kEquals, kIn, kRange, kExists, kIsNull, kValuesCount };
  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children;  // kAnd, kOr: any number; kNot: one
  // Of any other kind: a path into the payload (payload_path.h), or "$generation" or "$uncertainty", which have neither
  // kIsNull nor kValuesCount. Filter::Make gives it its canonical spelling.
  std::string field;
  std::vector<FilterValue> values;                                      // kEquals: one; kIn: at least one
  std::optional<FilterValue> greater, greater_equal, less, less_equal;  // kRange: at least one
  uint64_t count_least = 0, count_most = UINT64_MAX;                    // kValuesCount
  std::vector<std::string> keys;  // keys of a path into the payload; set by Filter::Make
};

// Whether an embedding by `generation` meets the condition. REQUIRES: a leaf over $generation.
bool MatchesGeneration(const FilterNode& leaf, uint32_t generation);

// What a filter is evaluated on.
struct FilterSubject {
  const std::string* payload_json = nullptr;
  uint32_t generation = 0;  // generation of the served embedding
  double uncertainty = 0;
};

// A checked filter, ready to be evaluated. Immutable: const methods are safe from any thread.
// Meaning: numbers compare with numbers exactly (integers and doubles are never rounded to one another), texts with
// texts by bytes, and where the filter's is an instant, by time with instants (instant.h), truth values with truth
// values; anything else differs. A path goes through objects by key and through arrays by any element; a condition on
// an array holds when it holds for one element. A missing field makes a condition false (and its negation true).
// kExists: the field is there, null included. kIsNull: null is among the values. kValuesCount: see FilterNode; through
// arrays on the way the numbers add up. kAnd of none is true, kOr of none false.
class Filter {
 public:
  // INVALID_ARGUMENT names the node ("filter.and[1].range") and what is allowed: depth <= 32, nodes <= 1024, non-empty
  // fields, values that are finite.
  static absl::StatusOr<Filter> Make(FilterNode root);
  bool Matches(const FilterSubject& subject) const;
  const FilterNode& root() const { return root_; }
  bool needs_payload() const { return needs_payload_; }          // false: payload_json may be null
  bool needs_uncertainty() const { return needs_uncertainty_; }  // false: subject.uncertainty is not read
  bool needs_generation() const { return needs_generation_; }    // false: subject.generation is not read

 private:
  FilterNode root_;
  bool needs_payload_ = false;
  bool needs_uncertainty_ = false;
  bool needs_generation_ = false;
};

}  // namespace lightcone::server

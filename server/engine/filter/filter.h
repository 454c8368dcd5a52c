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
#include "server/engine/filter/geo.h"
#include "store/records.h"

namespace lightcone::server {

using FilterValue = std::variant<std::string, int64_t, double, bool>;

inline constexpr std::string_view kGenerationField = "$generation";
inline constexpr std::string_view kUncertaintyField = "$uncertainty";

// Most conditions of a filter, groups included.
inline constexpr int kFilterNodesMax = 1024;
// Most values, and most ids, of all lists of a filter together: a row is compared with each.
inline constexpr size_t kFilterValuesMax = 65'536;
inline constexpr size_t kFilterPointsMax = 10'000;  // most points of all polygons of a filter together
inline constexpr size_t kFilterWordsMax = 1'024;    // most words of one condition

struct FilterNode {
  // kValuesCount: the number of values at the path, none of them if the field is absent or null, and one for each
  // element of an array. kNested: one object at the path fulfils the one child, whose paths begin there.
  enum class Kind {
    kAnd,
    kOr,
    kNot,
    kEquals,
    kIn,
    kRange,
    kExists,
    kIsNull,
    kValuesCount,
    kHasId,
    kNested,
    kText,
    kGeoRadius,
    kGeoBox,
    kGeoPolygon
  };
  enum class TextMatch { kWords, kPrefix, kAnyWord, kPhrase };
  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children;  // kAnd, kOr: any number; kNot, kNested: one
  // Of any other kind but kHasId: a path into the payload (payload_path.h), or for comparisons and kExists
  // "$generation" or "$uncertainty". Filter::Make gives it its canonical spelling.
  std::string field;
  std::vector<FilterValue> values;                                      // kEquals: one; kIn: at least one
  std::optional<FilterValue> greater, greater_equal, less, less_equal;  // kRange: at least one
  uint64_t count_least = 0, count_most = UINT64_MAX;                    // kValuesCount
  std::vector<ItemId> ids = {};                                         // kHasId: at least one
  TextMatch match = TextMatch::kWords;                                  // kText
  std::string text = {};                                                // kText: the words, the phrase or the prefix
  GeoPoint center = {}, top_left = {}, bottom_right = {};               // kGeoRadius, kGeoBox
  double radius = 0;                                                    // kGeoRadius: metres
  std::vector<GeoRing> rings = {};                                      // kGeoPolygon: the outer one, and holes
  std::vector<std::string> keys = {};   // keys of a path into the payload; set by Filter::Make
  std::vector<std::string> words = {};  // words of `text`; set by Filter::Make
};

// Whether a leaf asks for a place.
inline bool IsOfPlaces(FilterNode::Kind kind) { return kind >= FilterNode::Kind::kGeoRadius; }

// Whether an embedding by `generation` meets the condition. REQUIRES: a leaf over $generation.
bool MatchesGeneration(const FilterNode& leaf, uint32_t generation);

// What a filter is evaluated on.
struct FilterSubject {
  const std::string* payload_json = nullptr;
  uint32_t generation = 0;  // generation of the served embedding
  double uncertainty = 0;
  const ItemId* id = nullptr;  // id of the item
};

// A checked filter, ready to be evaluated. Immutable: const methods are safe from any thread.
// Meaning: numbers compare with numbers exactly (integers and doubles are never rounded to one another), texts with
// texts by bytes, and where the filter's is an instant, by time with instants (instant.h), truth values with truth
// values; anything else differs. A path goes through objects by key and through arrays by any element; a condition on
// an array holds when it holds for one element. A missing field makes a condition false (and its negation true).
// kExists: the field is there, null included. kIsNull: null is among the values. kValuesCount: see FilterNode; through
// arrays on the way the numbers add up. kAnd of none is true, kOr of none false. kText: a text at the path, or an
// element of an array there, matches (text_match.h). kGeoRadius, kGeoBox, kGeoPolygon: so does an object with
// numbers `lon` and `lat` in range. kNested: so does an object, for the child with its paths from there on.
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
  bool needs_id() const { return needs_id_; }                    // false: subject.id may be null

 private:
  FilterNode root_;
  bool needs_payload_ = false;
  bool needs_uncertainty_ = false;
  bool needs_generation_ = false;
  bool needs_id_ = false;
};

}  // namespace lightcone::server

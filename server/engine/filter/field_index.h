// The index over one field of the payloads: for a condition of a filter, the ids whose payloads meet it.
//
// A column (value_column.h) also holds numbers and times by id. A range that very many ids meet then becomes a test of
// single ids instead of a set. The index drops the column, until the next start, when fewer than a third of its places
// are taken. It gives no test while any id has several values, or a value that does not fit.
// Threads: none of its own; const methods are safe together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "index/rows/id_set.h"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/id_bounds.h"
#include "server/engine/filter/payload_field.h"
#include "server/engine/filter/place_index.h"
#include "server/engine/filter/value_column.h"
#include "server/engine/filter/value_index.h"
#include "server/engine/filter/word_index.h"

namespace lightcone::server {

// A walk through the values of an index in their order.
struct FieldWalk {
  bool descending = false;
  std::optional<FilterValue> from;  // first value, itself included
  // Pair of value and id behind which the walk begins, in place of `from`.
  std::optional<std::pair<FilterValue, uint64_t>> after;
};

class FieldIndex {
 public:
  explicit FieldIndex(PayloadType type);

  // Adding the payload of an id again, and removing an id that is not there, changes nothing. An id gets another
  // payload by Remove with the old one's values and Add with the new one's. An index of words wants texts that are cut
  // (PayloadValues::CutTexts).
  void Add(uint64_t id, const PayloadValues& values);
  void Remove(uint64_t id, const PayloadValues& values);
  // About how many payloads come before Settle, in any order of ids. Bounds the column's memory until then.
  void Expect(uint64_t payloads);
  // Says that every stored payload has been added.
  void Settle();

  // With `may_test`, the bounds may have a test for all ids that meet the condition. REQUIRES: a leaf over this field.
  IdBounds Evaluate(const FilterNode& leaf, bool may_test = false) const;
  // Whether several ranges can be evaluated as their intersection, because no id has several values.
  bool CanJoin(const FilterNode& range) const;
  IdBounds EvaluateRanges(std::span<const FilterNode* const> ranges, bool may_test) const;

  // Whether a walk may begin at this value: one of the index's kind, and an instant where it holds times.
  bool CanBegin(const FilterValue& value) const;
  // Calls visit(value, id) for the pairs of the index in the order of the values, or from the greatest down, until it
  // says false. The ids of a value ascend. REQUIRES: CanBegin accepts the walk's value.
  void Walk(const FieldWalk& walk, absl::FunctionRef<bool(const FilterValue& value, uint64_t id)> visit) const;
  // Whether a walk shows every value that payloads hold here, as they hold it.
  bool complete() const;

  uint64_t items() const { return present_.Count(); }
  // Ids with a text that is no instant, in an index of times.
  uint64_t no_instants() const { return no_instants_.Count(); }
  size_t bytes() const;

 private:
  // Values of one kind compare with one another.
  enum class Kind { kText, kNumber, kTruth, kNone };

  // Calls `change` with the index, or with the set of ids whose value does not fit there.
  template <typename Change>
  void ForEachValue(const PayloadValues& values, Change&& change);
  static Kind KindOf(const FilterValue& value);
  void CollectEqual(const FilterValue& value, IdPieces* out) const;
  // Collects the ids in the intersection of the ranges, or returns a test that very many ids meet.
  std::shared_ptr<const IdTest> CollectRange(std::span<const FilterNode* const> ranges, bool may_test,
                                             IdPieces* out) const;
  // What the order of the index says of a filter's text. Texts order by bytes, and instants by time.
  struct Doubt {
    bool ordered = true;            // false: nothing
    const IdSet* unsure = nullptr;  // ids of which it says nothing
  };
  Doubt DoubtOf(const FilterValue& bound) const;
  // `met`: ids that meet a condition about values of the index's kind, or of other kinds, but for those in `unsure`,
  // whose payloads must be read.
  IdBounds Bounds(const IdPieces& met, IdSet unsure, bool of_kind, bool of_others) const;
  // Ids with a text that a kText leaf asks for; ids that have the field where the index does not know them.
  IdBounds EvaluateText(const FilterNode& leaf) const;
  // The same of a place that a leaf over places asks for.
  IdBounds EvaluatePlace(const FilterNode& leaf) const;
  // Ids with a number of values in the range of a kValuesCount leaf.
  IdBounds EvaluateCount(const FilterNode& leaf) const;
  // A test of the range between two values that ids have. nullptr: a set is cheaper.
  template <typename T>
  std::shared_ptr<const IdTest> TestOfRange(const ValueIndex<T>& index, const std::pair<T, T>& ends) const;
  void SetColumn(uint64_t id, const PayloadValues& values);
  void ClearColumn(uint64_t id);
  void DropColumn();
  // Drops the column if too few of its places are taken.
  void CheckColumn();
  template <typename Self, typename Call>
  static void OnColumn(Self& self, const Call& call) {
    if (self.integers_) call(*self.integers_);
    if (self.doubles_) call(*self.doubles_);
  }

  const PayloadType type_;
  const Kind kind_;
  std::variant<ValueIndex<std::string>, ValueIndex<int64_t>, ValueIndex<double>> values_;
  std::optional<WordIndex> words_;    // of an index of words, whose values_ stay empty
  std::optional<PlaceIndex> places_;  // of an index of places, whose values_ stay empty
  // At most one column is there: none for texts and truth values, and none after DropColumn.
  std::optional<ValueColumn<int64_t>> integers_;
  std::optional<ValueColumn<double>> doubles_;
  IdSet several_;  // ids with several values, or with a value that the column cannot hold
  bool settled_ = false;
  uint64_t expected_ = 0;

  IdSet present_;                      // the path leads somewhere
  IdSet null_;                         // null is among the values
  std::map<uint64_t, IdSet> counted_;  // present ids by the number of their values, without those that have one
  IdSet odd_;      // ids with values of the kind that do not fit: texts that are no time, numbers that are no integer
  IdSet spelled_;  // ids with an instant in a keyword index; in one of times, spelled otherwise than by TimeText
  IdSet no_instants_;  // ids with a text in an index of times that is no instant
  IdSet other_;        // ids with values of other kinds
};

}  // namespace lightcone::server

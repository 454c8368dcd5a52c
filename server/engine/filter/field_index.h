// The index over one field of the payloads: for a condition of a filter, the ids whose payloads meet it.
//
// Numbers and times are held by id as well (value_column.h), as long as a third of the places there have one; once
// fewer do until the next start. Then a range that very many ids meet is a test of one id after another, and their set
// is not put together. Not while any id has several values, or one that does not fit. Threads: none of its own; const
// methods are safe together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "index/rows/id_set.h"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/id_bounds.h"
#include "server/engine/filter/payload_field.h"
#include "server/engine/filter/value_column.h"
#include "server/engine/filter/value_index.h"

namespace lightcone::server {

class FieldIndex {
 public:
  explicit FieldIndex(PayloadType type);

  // The payload of an id never changes. Adding once more, and removing what is not there, is no change.
  void Add(uint64_t id, const PayloadValues& values);
  void Remove(uint64_t id, const PayloadValues& values);
  // About so many payloads come before Settle, in any order of ids: values by id take no more memory than those need.
  void Expect(uint64_t payloads);
  // Every payload that there was has been added.
  void Settle();

  // REQUIRES: a leaf over this field. With `may_test`, the bounds may have a test: all ids that meet it, then.
  IdBounds Evaluate(const FilterNode& leaf, bool may_test = false) const;
  // What meets several ranges, where that is what meets the range that they have in common: no id has several values.
  bool CanJoin(const FilterNode& range) const;
  IdBounds EvaluateRanges(std::span<const FilterNode* const> ranges, bool may_test) const;

  uint64_t items() const { return present_.Count(); }
  size_t bytes() const;

 private:
  // What values compare with one another.
  enum class Kind { kText, kNumber, kTruth };

  // Into the index, or into the set of what does not fit there.
  template <typename Change>
  void ForEachValue(const PayloadValues& values, Change&& change);
  static Kind KindOf(const FilterValue& value);
  void CollectEqual(const FilterValue& value, IdPieces* out) const;
  // The ids of what ranges have in common, or the test that very many meet.
  std::shared_ptr<const IdTest> CollectRange(std::span<const FilterNode* const> ranges, bool may_test,
                                             IdPieces* out) const;
  // Of a condition about values of the index's kind, or of others, that these ids meet.
  IdBounds Bounds(const IdPieces& met, bool of_kind, bool of_others) const;
  // Of the range between two values that ids have; nullptr: to be put together.
  template <typename T>
  std::shared_ptr<const IdTest> TestOfRange(const ValueIndex<T>& index, const std::pair<T, T>& ends) const;
  void SetColumn(uint64_t id, const PayloadValues& values);
  void ClearColumn(uint64_t id);
  void DropColumn();
  // Drops the column where too few of its places are taken.
  void CheckColumn();
  template <typename Self, typename Call>
  static void OnColumn(Self& self, const Call& call) {
    if (self.integers_) call(*self.integers_);
    if (self.doubles_) call(*self.doubles_);
  }

  const PayloadType type_;
  const Kind kind_;
  std::variant<ValueIndex<std::string>, ValueIndex<int64_t>, ValueIndex<double>> values_;
  // At most one of both; none for texts and truths, and where it was dropped.
  std::optional<ValueColumn<int64_t>> integers_;
  std::optional<ValueColumn<double>> doubles_;
  IdSet several_;  // ids with several values, or with one that the column cannot hold
  bool settled_ = false;
  uint64_t expected_ = 0;

  IdSet present_;  // the path leads somewhere
  IdSet odd_;      // with values of the kind that do not fit: texts that are no time, numbers that are no integer
  IdSet other_;    // with values of the other kinds
};

}  // namespace lightcone::server

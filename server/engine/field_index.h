// The index over one field of the payloads: for a condition of a filter, the ids whose payloads meet it.
//
// Numbers and times are held by id as well (value_column.h), as long as no payload has several of them and there is memory
// well spent on it: then a range that very many ids meet is a test of one id after another, and their set is not put
// together.
// Threads: none of its own; const methods are safe together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "index/id_set.h"
#include "server/engine/filter.h"
#include "server/engine/id_bounds.h"
#include "server/engine/payload_field.h"
#include "server/engine/value_column.h"
#include "server/engine/value_index.h"

namespace lightcone::server {

class FieldIndex {
 public:
  explicit FieldIndex(PayloadType type);

  // The payload of an id never changes. Adding once more, and removing what is not there, is no change.
  void Add(uint64_t id, const PayloadValues& values);
  void Remove(uint64_t id, const PayloadValues& values);
  // Every payload that there was has been added: from now on there are to be some where values by id have room.
  void Settle();

  // REQUIRES: a leaf over this field. With `may_test`, the bounds may have a test: all ids that meet it, then.
  IdBounds Evaluate(const FilterNode& leaf, bool may_test = false) const;

  uint64_t items() const { return present_.Count(); }
  size_t bytes() const;

 private:
  // What values compare with one another.
  enum class Kind { kText, kNumber, kTruth };

  // Into the index, or into the set of what does not fit there.
  template <typename Change>
  void ForEachValue(const PayloadValues& values, Change&& change);
  void CollectEqual(const FilterValue& value, IdPieces* out) const;
  // The ids of a range, or the test that very many meet.
  std::shared_ptr<const IdTest> CollectRange(const FilterNode& leaf, bool may_test, IdPieces* out) const;
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
  bool settled_ = false;
  uint64_t with_ = 0, without_ = 0;  // payloads added with one value, and with none

  IdSet present_;  // the path leads somewhere
  IdSet odd_;      // with values of the kind that do not fit: texts that are no time, numbers that are no integer
  IdSet other_;    // with values of the other kinds
};

}  // namespace lightcone::server

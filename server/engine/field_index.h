// The index over one field of the payloads: for a condition of a filter, the ids whose payloads meet it.
// Threads: none of its own; const methods are safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "index/id_set.h"
#include "server/engine/filter.h"
#include "server/engine/payload_field.h"
#include "server/engine/value_index.h"

namespace lightcone::server {

IdFilter Not(IdFilter a);
IdFilter And(IdFilter a, const IdFilter& b);
IdFilter Or(IdFilter a, const IdFilter& b);

// What is known of a condition without reading a payload.
struct IdBounds {
  IdFilter must;                // these meet it
  std::optional<IdFilter> may;  // only these can; nullopt: the same

  const IdFilter& upper() const { return may ? *may : must; }
  static IdBounds Known(bool truth) { return {{{}, truth}, std::nullopt}; }
  static IdBounds Unknown() { return {{{}, false}, IdFilter{{}, true}}; }
};
IdBounds Not(IdBounds a);
IdBounds And(IdBounds a, const IdBounds& b);
IdBounds Or(IdBounds a, const IdBounds& b);

class FieldIndex {
 public:
  explicit FieldIndex(PayloadType type);

  // The payload of an id never changes. Adding once more, and removing what is not there, is no change.
  void Add(uint64_t id, const PayloadValues& values);
  void Remove(uint64_t id, const PayloadValues& values);

  // REQUIRES: a leaf over this field.
  IdBounds Evaluate(const FilterNode& leaf) const;

  uint64_t items() const { return present_.Count(); }
  size_t bytes() const;

 private:
  // What values compare with one another.
  enum class Kind { kText, kNumber, kTruth };

  // Into the index, or into the set of what does not fit there.
  template <typename Change>
  void ForEachValue(const PayloadValues& values, const Change& change);
  void CollectEqual(const FilterValue& value, IdPieces* out) const;
  void CollectRange(const FilterNode& leaf, IdPieces* out) const;

  const PayloadType type_;
  const Kind kind_;
  std::variant<ValueIndex<std::string>, ValueIndex<int64_t>, ValueIndex<double>> values_;
  IdSet present_;  // the path leads somewhere
  IdSet odd_;      // with values of the kind that do not fit: texts that are no time, numbers that are no integer
  IdSet other_;    // with values of the other kinds
};

}  // namespace lightcone::server

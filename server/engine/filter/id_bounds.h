// What the indexes know of a filter without reading a payload, and how its conditions combine.
// Threads: plain values; pure functions.
#pragma once

#include <optional>

#include "index/rows/id_set.h"

namespace lightcone::server {

// And keeps the tests of both. Not and Or REQUIRE filters without tests.
IdFilter Not(IdFilter a);
IdFilter And(IdFilter a, const IdFilter& b);
IdFilter Or(IdFilter a, const IdFilter& b);

// What the indexes know of a condition.
struct IdBounds {
  IdFilter must;                // ids that meet the condition
  std::optional<IdFilter> may;  // ids that can meet it; nullopt: the same

  const IdFilter& upper() const { return may ? *may : must; }
  static IdBounds Known(bool truth) { return {{{}, truth, {}}, std::nullopt}; }
  static IdBounds Unknown() { return {{{}, false, {}}, IdFilter{{}, true, {}}}; }
};
IdBounds Not(IdBounds a);
IdBounds And(IdBounds a, const IdBounds& b);
IdBounds Or(IdBounds a, const IdBounds& b);
// As And, by testing every id of `a` against `b`. REQUIRES: !a.upper().others.
IdBounds Restrict(IdBounds a, const IdBounds& b);

}  // namespace lightcone::server

// What is known of a filter without reading a payload, and how that is put together from its conditions.
// Threads: plain values; pure functions.
#pragma once

#include <optional>

#include "index/rows/id_set.h"

namespace lightcone::server {

// Not and Or REQUIRE filters without tests; And has those of both.
IdFilter Not(IdFilter a);
IdFilter And(IdFilter a, const IdFilter& b);
IdFilter Or(IdFilter a, const IdFilter& b);

// What is known of a condition without reading a payload.
struct IdBounds {
  IdFilter must;                // these meet it
  std::optional<IdFilter> may;  // only these can; nullopt: the same

  const IdFilter& upper() const { return may ? *may : must; }
  static IdBounds Known(bool truth) { return {{{}, truth, {}}, std::nullopt}; }
  static IdBounds Unknown() { return {{{}, false, {}}, IdFilter{{}, true, {}}}; }
};
IdBounds Not(IdBounds a);
IdBounds And(IdBounds a, const IdBounds& b);
IdBounds Or(IdBounds a, const IdBounds& b);
// As And, with every id of `a` asked about `b`. REQUIRES: !a.upper().others.
IdBounds Restrict(IdBounds a, const IdBounds& b);

}  // namespace lightcone::server

#include "server/engine/filter/id_bounds.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/dcheck.h"

namespace lightcone::server {

IdFilter Not(IdFilter a) {
  LC_DCHECK(a.tests.empty());
  a.others = !a.others;
  return a;
}

IdFilter And(IdFilter a, const IdFilter& b) {
  a.tests.insert(a.tests.end(), b.tests.begin(), b.tests.end());
  if (!a.others && !b.others) {
    a.ids &= b.ids;
  } else if (!a.others) {
    a.ids -= b.ids;
  } else if (!b.others) {
    IdSet those = b.ids;
    those -= a.ids;
    return {std::move(those), false, std::move(a.tests)};
  } else {
    a.ids |= b.ids;
  }
  return a;
}

IdFilter Or(IdFilter a, const IdFilter& b) {
  LC_DCHECK(a.tests.empty() && b.tests.empty());
  if (!a.others && !b.others) {
    a.ids |= b.ids;
  } else if (!a.others) {
    IdSet those = b.ids;
    those -= a.ids;
    return {std::move(those), true, {}};
  } else if (!b.others) {
    a.ids -= b.ids;
  } else {
    a.ids &= b.ids;
  }
  return a;
}

IdBounds Not(IdBounds a) {
  if (!a.may) return {Not(std::move(a.must)), std::nullopt};
  return {Not(*std::move(a.may)), Not(std::move(a.must))};
}

IdBounds And(IdBounds a, const IdBounds& b) {
  std::optional<IdFilter> may;
  if (a.may || b.may) may = And(a.upper(), b.upper());
  return {And(std::move(a.must), b.must), std::move(may)};
}

IdBounds Or(IdBounds a, const IdBounds& b) {
  std::optional<IdFilter> may;
  if (a.may || b.may) may = Or(a.upper(), b.upper());
  return {Or(std::move(a.must), b.must), std::move(may)};
}

IdBounds Restrict(IdBounds a, const IdBounds& b) {
  LC_DCHECK(!a.upper().others);
  const auto restrict = [](IdFilter* listed, const IdFilter& to) {
    std::vector<uint64_t> kept;
    listed->ids.ForEachIn(0, UINT64_MAX, [&](std::span<const uint64_t> ids) {
      std::copy_if(ids.begin(), ids.end(), std::back_inserter(kept), [&to](uint64_t id) { return to.Contains(id); });
      return true;
    });
    listed->ids = IdSet();
    listed->ids.AddMany(kept);
  };
  if (a.may || b.may) {
    IdFilter may = a.upper();
    restrict(&may, b.upper());
    a.may = std::move(may);
  }
  restrict(&a.must, b.must);
  return a;
}

}  // namespace lightcone::server

#include "server/engine/field_index.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "server/engine/numbers.h"

namespace lightcone::server {
namespace {

Number NumberOfValue(const FilterValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return NumberOf(*integer);
  return NumberOf(std::get<double>(value));
}

bool IsNumber(const FilterValue& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

// The double that is exactly this integer.
template <typename Integer>
std::optional<double> ExactDouble(Integer integer) {
  const double d = static_cast<double>(integer);
  if (Compare(NumberOf(integer), NumberOf(d)) != 0) return std::nullopt;
  return d;
}

struct Addition {
  uint64_t id;
  void InSet(IdSet* set) const { set->Add(id); }
  template <typename T>
  void InIndex(ValueIndex<T>* index, const T& value) const {
    index->Add(value, id);
  }
};

struct Removal {
  uint64_t id;
  void InSet(IdSet* set) const { set->Remove(id); }
  template <typename T>
  void InIndex(ValueIndex<T>* index, const T& value) const {
    index->Remove(value, id);
  }
};

}  // namespace

IdFilter Not(IdFilter a) {
  a.others = !a.others;
  return a;
}

IdFilter And(IdFilter a, const IdFilter& b) {
  if (!a.others && !b.others) {
    a.ids &= b.ids;
  } else if (!a.others) {
    a.ids -= b.ids;
  } else if (!b.others) {
    IdSet those = b.ids;
    those -= a.ids;
    return {std::move(those), false};
  } else {
    a.ids |= b.ids;
  }
  return a;
}

IdFilter Or(IdFilter a, const IdFilter& b) {
  if (!a.others && !b.others) {
    a.ids |= b.ids;
  } else if (!a.others) {
    IdSet those = b.ids;
    those -= a.ids;
    return {std::move(those), true};
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

FieldIndex::FieldIndex(PayloadType type)
    : type_(type),
      kind_(type == PayloadType::kKeyword || type == PayloadType::kTime ? Kind::kText
            : type == PayloadType::kBoolean                             ? Kind::kTruth
                                                                        : Kind::kNumber) {
  if (type == PayloadType::kKeyword) {
    values_.emplace<ValueIndex<std::string>>();
  } else if (type == PayloadType::kFloat) {
    values_.emplace<ValueIndex<double>>();
  } else {
    values_.emplace<ValueIndex<int64_t>>();
  }
}

template <typename Change>
void FieldIndex::ForEachValue(const PayloadValues& values, const Change& change) {
  for (const auto& scalar : values.scalars) {
    std::visit(
        [&](const auto& value) {
          using V = std::decay_t<decltype(value)>;
          constexpr Kind kind = std::is_same_v<V, std::string> ? Kind::kText
                                : std::is_same_v<V, bool>      ? Kind::kTruth
                                                               : Kind::kNumber;
          if (kind != kind_) {
            change.InSet(&other_);
          } else if (type_ == PayloadType::kKeyword) {
            if constexpr (kind == Kind::kText) change.InIndex(&std::get<0>(values_), value);
          } else if (type_ == PayloadType::kTime) {
            if constexpr (kind == Kind::kText) {
              const auto key = TimeKey(value);
              key ? change.InIndex(&std::get<1>(values_), *key) : change.InSet(&odd_);
            }
          } else if (type_ == PayloadType::kFloat) {
            if constexpr (std::is_same_v<V, double>) {
              change.InIndex(&std::get<2>(values_), value);
            } else if constexpr (kind == Kind::kNumber) {
              const auto exact = ExactDouble(value);
              exact ? change.InIndex(&std::get<2>(values_), *exact) : change.InSet(&odd_);
            }
          } else if constexpr (std::is_same_v<V, int64_t> || kind == Kind::kTruth) {
            change.InIndex(&std::get<1>(values_), static_cast<int64_t>(value));
          } else {
            change.InSet(&odd_);
          }
        },
        scalar);
  }
}

void FieldIndex::Add(uint64_t id, const PayloadValues& values) {
  if (values.present) present_.Add(id);
  ForEachValue(values, Addition{id});
}

void FieldIndex::Remove(uint64_t id, const PayloadValues& values) {
  present_.Remove(id);
  ForEachValue(values, Removal{id});
}

namespace {

// The order of a value of an index relative to a filter's value of the same kind.
template <typename T>
std::partial_ordering OrderOf(PayloadType type, const T& value, const FilterValue& bound) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.compare(std::get<std::string>(bound)) <=> 0;
  } else {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (type == PayloadType::kTime) return TimeText(value).compare(std::get<std::string>(bound)) <=> 0;
      if (type == PayloadType::kBoolean) return value <=> static_cast<int64_t>(std::get<bool>(bound));
    }
    return Compare(NumberOf(value), NumberOfValue(bound));
  }
}

}  // namespace

void FieldIndex::CollectEqual(const FilterValue& wanted, IdPieces* out) const {
  std::visit(
      [&](const auto& index) {
        index.Collect([&](const auto& value) { return OrderOf(type_, value, wanted) < 0; },
                      [&](const auto& value) { return OrderOf(type_, value, wanted) > 0; }, out);
      },
      values_);
}

void FieldIndex::CollectRange(const FilterNode& leaf, IdPieces* out) const {
  std::visit(
      [&](const auto& index) {
        const auto order = [&](const auto& value, const FilterValue& bound) { return OrderOf(type_, value, bound); };
        index.Collect(
            [&](const auto& value) {
              return (leaf.greater && !(order(value, *leaf.greater) > 0)) ||
                     (leaf.greater_equal && !(order(value, *leaf.greater_equal) >= 0));
            },
            [&](const auto& value) {
              return (leaf.less && !(order(value, *leaf.less) < 0)) ||
                     (leaf.less_equal && !(order(value, *leaf.less_equal) <= 0));
            },
            out);
      },
      values_);
}

IdBounds FieldIndex::Evaluate(const FilterNode& leaf) const {
  if (leaf.kind == FilterNode::Kind::kExists) return {{present_, false}, std::nullopt};
  IdPieces met;
  bool of_kind = false, of_others = false;
  const auto look = [&](const FilterValue& value) {
    const Kind kind = std::holds_alternative<std::string>(value) ? Kind::kText
                      : IsNumber(value)                          ? Kind::kNumber
                                                                 : Kind::kTruth;
    (kind == kind_ ? of_kind : of_others) = true;
    return kind == kind_;
  };
  if (leaf.kind == FilterNode::Kind::kRange) {
    const std::optional<FilterValue>* const bounds[] = {&leaf.greater, &leaf.greater_equal, &leaf.less,
                                                        &leaf.less_equal};
    for (const auto* bound : bounds) {
      if (*bound) look(**bound);  // all of one kind
    }
    if (of_kind) CollectRange(leaf, &met);
  } else {
    for (const FilterValue& value : leaf.values) {
      if (look(value)) CollectEqual(value, &met);
    }
  }
  IdBounds bounds{{met.Union(), false}, std::nullopt};
  // Payloads have to be read of items with a value that the condition may be about, and that is not in the index.
  IdSet unsure;
  if (of_kind) unsure |= odd_;
  if (of_others) unsure |= other_;
  unsure -= bounds.must.ids;
  if (!unsure.empty()) {
    unsure |= bounds.must.ids;
    bounds.may = IdFilter{std::move(unsure), false};
  }
  return bounds;
}

size_t FieldIndex::bytes() const {
  return std::visit([](const auto& index) { return index.bytes(); }, values_) + present_.bytes() + odd_.bytes() +
         other_.bytes();
}

}  // namespace lightcone::server

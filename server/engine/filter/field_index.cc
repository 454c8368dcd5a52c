#include "server/engine/filter/field_index.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "server/engine/filter/instant.h"
#include "server/engine/filter/numbers.h"

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
  void InIndex(auto* index, const auto& value) const { index->Add(value, id); }
};

struct Removal {
  uint64_t id;
  void InSet(IdSet* set) const { set->Remove(id); }
  void InIndex(auto* index, const auto& value) const { index->Remove(value, id); }
};

// The value of an id that has one.
template <typename T>
struct OnlyValue {
  size_t count = 0;
  T value{};
  void InSet(IdSet*) {}
  template <typename V>
  void InIndex(ValueIndex<V>*, const V& v) {
    if constexpr (std::is_same_v<V, T>) value = v;
    ++count;
  }
};

// Testing half a million ids takes a fraction of the time of building their set. With few matches, most tests fail.
constexpr uint64_t kTestedShare = 6;   // A test needs a match in one of so many places of the column.
constexpr uint64_t kPlacesAValue = 3;  // most places for a value, on average
constexpr uint64_t kPlacesFree = 1 << 18;

template <typename T>
class RangeTest final : public IdTest {
 public:
  RangeTest(const ValueColumn<T>& column, std::pair<T, T> ends, uint64_t count)
      : values_(column.Values()),
        least_(ends.first),
        greatest_(ends.second),
        count_(count),
        share_(std::min(1.0, static_cast<double>(count) / static_cast<double>(column.room()))) {}
  bool Holds(uint64_t id) const override {
    const T value = values_.At(id);  // kNone lies in no range.
    return value >= least_ && value <= greatest_;
  }
  bool MayHold(uint64_t first, uint64_t last) const override {
    return values_.MayLieBetween(first, last, least_, greatest_);
  }
  uint64_t Count() const override { return count_; }
  double Share() const override { return share_; }

 private:
  const typename ValueColumn<T>::Snapshot values_;
  const T least_, greatest_;
  const uint64_t count_;
  const double share_;
};

}  // namespace

FieldIndex::FieldIndex(PayloadType type)
    : type_(type),
      kind_(type == PayloadType::kKeyword || type == PayloadType::kTime ? Kind::kText
            : type == PayloadType::kText || type == PayloadType::kGeo   ? Kind::kNone
            : type == PayloadType::kBoolean                             ? Kind::kTruth
                                                                        : Kind::kNumber) {
  if (type == PayloadType::kKeyword) {
    values_.emplace<ValueIndex<std::string>>();
  } else if (type == PayloadType::kText) {
    words_.emplace();
  } else if (type == PayloadType::kGeo) {
    places_.emplace();
  } else if (type == PayloadType::kFloat) {
    values_.emplace<ValueIndex<double>>();
    doubles_.emplace();
  } else {
    values_.emplace<ValueIndex<int64_t>>();
    if (type != PayloadType::kBoolean) integers_.emplace();
  }
}

template <typename Change>
void FieldIndex::ForEachValue(const PayloadValues& values, Change&& change) {
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
            if constexpr (kind == Kind::kText) {
              change.InIndex(&std::get<0>(values_), value);
              if (ParseInstant(value)) change.InSet(&spelled_);
            }
          } else if (type_ == PayloadType::kTime) {
            if constexpr (kind == Kind::kText) {
              const auto key = TimeKey(value);
              key ? change.InIndex(&std::get<1>(values_), *key) : change.InSet(&odd_);
              if (key && TimeText(*key) != value) change.InSet(&spelled_);
              if (!key && !ParseInstant(value)) change.InSet(&no_instants_);
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
  if (values.null) null_.Add(id);
  if (values.present && values.count != 1) counted_[values.count].Add(id);
  ForEachValue(values, Addition{id});
  if (words_) words_->Add(id, values.words);
  if (places_) {
    for (const GeoPoint& place : values.places) places_->Add(place, id);
  }
  SetColumn(id, values);
}

void FieldIndex::Remove(uint64_t id, const PayloadValues& values) {
  present_.Remove(id);
  null_.Remove(id);
  if (const auto counted = counted_.find(values.count); counted != counted_.end()) {
    counted->second.Remove(id);
    if (counted->second.empty()) counted_.erase(counted);
  }
  ForEachValue(values, Removal{id});
  if (words_) words_->Remove(id, values.words);
  if (places_) {
    for (const GeoPoint& place : values.places) places_->Remove(place, id);
  }
  ClearColumn(id);
}

void FieldIndex::SetColumn(uint64_t id, const PayloadValues& values) {
  OnColumn(*this, [&]<typename T>(ValueColumn<T>& column) {
    OnlyValue<T> only;
    ForEachValue(values, only);
    if (only.count == 1 && !column.IsNone(only.value)) {
      column.Set(id, only.value);
    } else if (only.count > 0) {
      several_.Add(id);
    }
  });
  CheckColumn();
}

void FieldIndex::ClearColumn(uint64_t id) {
  several_.Remove(id);
  OnColumn(*this, [id](auto& column) { column.Clear(id); });
  CheckColumn();
}

void FieldIndex::Expect(uint64_t payloads) { expected_ = payloads; }

void FieldIndex::Settle() {
  settled_ = true;
  CheckColumn();
}

void FieldIndex::CheckColumn() {
  bool sparse = false;
  OnColumn(*this, [&](const auto& column) {
    const uint64_t values = settled_ ? column.count() : std::max(expected_, column.count());
    sparse = column.room() > kPlacesAValue * values + kPlacesFree;
  });
  if (sparse) DropColumn();
}

void FieldIndex::DropColumn() {
  integers_.reset();
  doubles_.reset();
}

namespace {

// The order of a value of an index relative to a filter's value of the same kind.
template <typename T>
std::partial_ordering OrderOf(PayloadType type, const T& value, const FilterValue& bound) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.compare(std::get<std::string>(bound)) <=> 0;
  } else {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (type == PayloadType::kTime) return CompareTexts(TimeText(value), std::get<std::string>(bound));
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

namespace {

// Calls visit(below, above): whether a value lies below, or above, any of the ranges.
template <typename Visit>
auto WithSides(PayloadType type, std::span<const FilterNode* const> ranges, const Visit& visit) {
  const auto order = [type](const auto& value, const FilterValue& bound) { return OrderOf(type, value, bound); };
  return visit(
      [&](const auto& value) {
        return std::any_of(ranges.begin(), ranges.end(), [&](const FilterNode* range) {
          return (range->greater && !(order(value, *range->greater) > 0)) ||
                 (range->greater_equal && !(order(value, *range->greater_equal) >= 0));
        });
      },
      [&](const auto& value) {
        return std::any_of(ranges.begin(), ranges.end(), [&](const FilterNode* range) {
          return (range->less && !(order(value, *range->less) < 0)) ||
                 (range->less_equal && !(order(value, *range->less_equal) <= 0));
        });
      });
}

}  // namespace

template <typename T>
std::shared_ptr<const IdTest> FieldIndex::TestOfRange(const ValueIndex<T>& index, const std::pair<T, T>& ends) const {
  std::shared_ptr<const IdTest> test;
  OnColumn(*this, [&]<typename V>(const ValueColumn<V>& column) {
    if constexpr (std::is_same_v<V, T>) {
      if (!odd_.empty() || !several_.empty()) return;
      const uint64_t count = index.Count([&](const T& value) { return value < ends.first; },
                                         [&](const T& value) { return ends.second < value; });
      if (count * kTestedShare >= column.room()) test = std::make_shared<RangeTest<T>>(column, ends, count);
    }
  });
  return test;
}

std::shared_ptr<const IdTest> FieldIndex::CollectRange(std::span<const FilterNode* const> ranges, bool may_test,
                                                       IdPieces* out) const {
  return std::visit(
      [&]<typename T>(const ValueIndex<T>& index) -> std::shared_ptr<const IdTest> {
        // The index's own least and greatest values stand for the bounds, so that no conversion rounds.
        const auto ends =
            WithSides(type_, ranges, [&](const auto& below, const auto& above) { return index.Ends(below, above); });
        if (!ends) return nullptr;
        if (may_test) {
          if (auto test = TestOfRange(index, *ends)) return test;
        }
        index.Collect([&](const T& value) { return value < ends->first; },
                      [&](const T& value) { return ends->second < value; }, out);
        return nullptr;
      },
      values_);
}

FieldIndex::Kind FieldIndex::KindOf(const FilterValue& value) {
  return std::holds_alternative<std::string>(value) ? Kind::kText : IsNumber(value) ? Kind::kNumber : Kind::kTruth;
}

bool FieldIndex::CanJoin(const FilterNode& range) const {
  for (const auto* bound : {&range.greater, &range.greater_equal, &range.less, &range.less_equal}) {
    if (*bound && KindOf(**bound) != kind_) return false;  // all are of one kind
  }
  return (integers_ || doubles_) && several_.empty();
}

FieldIndex::Doubt FieldIndex::DoubtOf(const FilterValue& bound) const {
  const auto* const text = std::get_if<std::string>(&bound);
  if (text == nullptr || kind_ != Kind::kText) return {};
  const bool instant = ParseInstant(*text).has_value();
  if (type_ == PayloadType::kKeyword) return instant ? Doubt{false, &spelled_} : Doubt{};
  if (instant) return {};
  return OrdersTimeTexts(*text) ? Doubt{true, &spelled_} : Doubt{false, &present_};
}

IdBounds FieldIndex::EvaluateRanges(std::span<const FilterNode* const> ranges, bool may_test) const {
  IdPieces met;
  IdSet unsure;
  bool ordered = true;
  for (const FilterNode* range : ranges) {
    for (const auto* bound : {&range->greater, &range->greater_equal, &range->less, &range->less_equal}) {
      const Doubt doubt = *bound ? DoubtOf(**bound) : Doubt();
      ordered = ordered && doubt.ordered;
      if (doubt.unsure != nullptr) unsure |= *doubt.unsure;
    }
  }
  if (ordered) {
    if (auto test = CollectRange(ranges, may_test && unsure.empty(), &met)) {
      return {{{}, true, {std::move(test)}}, std::nullopt};
    }
  }
  return Bounds(met, std::move(unsure), /*of_kind=*/true, /*of_others=*/false);
}

IdBounds FieldIndex::EvaluateCount(const FilterNode& leaf) const {
  const auto within = [&leaf](uint64_t count) { return count >= leaf.count_least && count <= leaf.count_most; };
  IdSet met, missed;
  for (const auto& [count, ids] : counted_) (within(count) ? met : missed) |= ids;
  IdFilter filter;
  filter.others = within(0);  // ids without the field
  if (within(0) && within(1)) {
    filter.ids = std::move(missed);
  } else if (within(0)) {
    filter.ids = present_;
    filter.ids -= met;
  } else if (within(1)) {
    filter.ids = present_;
    filter.ids -= missed;
  } else {
    filter.ids = std::move(met);
  }
  return {std::move(filter), std::nullopt};
}

IdBounds FieldIndex::EvaluateText(const FilterNode& leaf) const {
  const bool of_prefix = leaf.match == FilterNode::TextMatch::kPrefix;
  if (words_ && !of_prefix) return words_->Evaluate(leaf);
  if (type_ != PayloadType::kKeyword || !of_prefix) return {{{}, false, {}}, IdFilter{present_, false, {}}};
  const auto* const texts = std::get_if<ValueIndex<std::string>>(&values_);
  LC_DCHECK(texts != nullptr);
  IdPieces met;
  texts->Collect([&](const std::string& value) { return value < leaf.text; },
                 [&](const std::string& value) { return value > leaf.text && !value.starts_with(leaf.text); }, &met);
  return {{met.Union(), false, {}}, std::nullopt};
}

IdBounds FieldIndex::EvaluatePlace(const FilterNode& leaf) const {
  if (!places_) return {{{}, false, {}}, IdFilter{present_, false, {}}};
  IdPieces met;
  std::vector<uint64_t> part;
  const auto overlap = [&leaf](const GeoRect& rect) {
    if (leaf.kind == FilterNode::Kind::kGeoPolygon) return OverlapWithPolygon(rect, leaf.rings);
    return leaf.kind == FilterNode::Kind::kGeoBox ? OverlapWithBox(rect, leaf.top_left, leaf.bottom_right)
                                                  : OverlapWithCircle(rect, leaf.center, leaf.radius);
  };
  places_->Collect(overlap, &met, &part);
  IdSet unsure;
  unsure.AddMany(part);
  return Bounds(met, std::move(unsure), /*of_kind=*/false, /*of_others=*/false);
}

IdBounds FieldIndex::Evaluate(const FilterNode& leaf, bool may_test) const {
  LC_DCHECK(leaf.children.empty() || leaf.kind == FilterNode::Kind::kNested);
  if (leaf.kind == FilterNode::Kind::kExists) return {{present_, false, {}}, std::nullopt};
  if (leaf.kind == FilterNode::Kind::kIsNull) return {{null_, false, {}}, std::nullopt};
  if (leaf.kind == FilterNode::Kind::kValuesCount) return EvaluateCount(leaf);
  if (leaf.kind == FilterNode::Kind::kText) return EvaluateText(leaf);
  if (IsOfPlaces(leaf.kind)) return EvaluatePlace(leaf);
  if (leaf.kind == FilterNode::Kind::kNested) return {{{}, false, {}}, IdFilter{present_, false, {}}};
  IdPieces met;
  IdSet unsure;
  bool of_kind = false, of_others = false;
  const auto look = [&](const FilterValue& value) {
    const bool ours = KindOf(value) == kind_;
    (ours ? of_kind : of_others) = true;
    return ours;
  };
  if (leaf.kind == FilterNode::Kind::kRange) {
    for (const auto* bound : {&leaf.greater, &leaf.greater_equal, &leaf.less, &leaf.less_equal}) {
      if (*bound) look(**bound);  // all of one kind
    }
    const FilterNode* const only[] = {&leaf};
    if (of_kind) return EvaluateRanges(only, may_test);
  } else {
    for (const FilterValue& value : leaf.values) {
      if (!look(value)) continue;
      const Doubt doubt = DoubtOf(value);
      if (doubt.unsure == nullptr) {
        CollectEqual(value, &met);
      } else if (type_ == PayloadType::kKeyword) {
        unsure |= *doubt.unsure;  // An instant of the index of times equals no other text.
      }
    }
  }
  return Bounds(met, std::move(unsure), of_kind, of_others);
}

IdBounds FieldIndex::Bounds(const IdPieces& met, IdSet unsure, bool of_kind, bool of_others) const {
  IdBounds bounds{{met.Union(), false, {}}, std::nullopt};
  bounds.must.ids -= unsure;
  // The payloads of items must be read if the condition may be about a value that is not in the index.
  if (of_kind) unsure |= odd_;
  if (of_others) unsure |= other_;
  unsure -= bounds.must.ids;
  if (!unsure.empty()) {
    unsure |= bounds.must.ids;
    bounds.may = IdFilter{std::move(unsure), false, {}};
  }
  return bounds;
}

bool FieldIndex::complete() const {
  return odd_.empty() && other_.empty() && (type_ != PayloadType::kTime || spelled_.empty());
}

bool FieldIndex::CanBegin(const FilterValue& value) const {
  if (KindOf(value) != kind_) return false;
  return type_ != PayloadType::kTime || ParseInstant(std::get<std::string>(value)).has_value();
}

void FieldIndex::Walk(const FieldWalk& walk, absl::FunctionRef<bool(const FilterValue&, uint64_t)> visit) const {
  const FilterValue* const bound = walk.after ? &walk.after->first : walk.from ? &*walk.from : nullptr;
  LC_DCHECK(bound == nullptr || CanBegin(*bound));
  const auto skip = [&](const auto& value) {
    if (bound == nullptr) return false;
    const auto order = OrderOf(type_, value, *bound);
    return walk.descending ? order > 0 : order < 0;
  };
  const auto is_first = [&](const auto& value) { return walk.after && OrderOf(type_, value, *bound) == 0; };
  std::visit(
      [&]<typename T>(const ValueIndex<T>& index) {
        index.Walk(walk.descending, skip, is_first, walk.after ? walk.after->second : 0,
                   [&](const T& value, uint64_t id) {
                     if constexpr (std::is_same_v<T, int64_t>) {
                       if (type_ == PayloadType::kTime) return visit(TimeText(value), id);
                       if (type_ == PayloadType::kBoolean) return visit(value != 0, id);
                     }
                     return visit(value, id);
                   });
      },
      values_);
}

size_t FieldIndex::bytes() const {
  size_t bytes = std::visit([](const auto& index) { return index.bytes(); }, values_) + present_.bytes() +
                 null_.bytes() + odd_.bytes() + other_.bytes() + several_.bytes() + spelled_.bytes() +
                 no_instants_.bytes() + (words_ ? words_->bytes() : 0) + (places_ ? places_->bytes() : 0);
  for (const auto& [count, ids] : counted_) bytes += ids.bytes() + sizeof(count) + sizeof(ids);
  OnColumn(*this, [&](const auto& column) { bytes += column.bytes(); });
  return bytes;
}

}  // namespace lightcone::server

#include "base/ordered_json.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/dcheck.h"

namespace lightcone {
namespace {

// The members of one object, found by their keys. Members are added here alone while this lives.
class Members {
 public:
  // REQUIRES: `object` is an object, which outlives this.
  explicit Members(OrderedJson* object) : members_(&object->get_ref<OrderedJson::object_t&>()) {}

  // The value of a key, null where the key is new. It stays where it is until the next call.
  OrderedJson* FindOrAdd(const std::string& key) {
    const size_t place = PlaceOf(key);
    if (place == members_->size()) {
      if (place == members_->capacity()) Grow();
      members_->emplace_back(key, OrderedJson());
    }
    return &(*members_)[place].second;
  }

 private:
  // operator[] of the map itself takes keys. The vector below it takes places.
  using Container = OrderedJson::object_t::Container;
  static constexpr size_t kComparedMax = 16;  // keys of an object that is searched without a table

  // By itself the vector would copy the values, however deep they are: a pair with a constant key may throw as it
  // moves.
  void Grow() {
    Container more;
    more.reserve(std::max<size_t>(1, 2 * members_->capacity()));
    for (auto& [key, value] : *members_) more.emplace_back(key, std::move(value));
    members_->swap(more);
  }

  // The number of members where the key is new.
  size_t PlaceOf(const std::string& key) {
    const size_t count = members_->size();
    if (count < kComparedMax) {
      for (size_t i = 0; i < count; ++i) {
        if ((*members_)[i].first == key) return i;
      }
      return count;
    }
    if (!places_) {
      places_.emplace();
      for (size_t i = 0; i < count; ++i) places_->emplace((*members_)[i].first, i);
    }
    return places_->emplace(key, count).first->second;
  }

  Container* const members_;
  std::optional<absl::flat_hash_map<std::string, size_t>> places_;
};

// Makes a value of what the parser reads.
class Builder final : public OrderedJson::json_sax_t {
 public:
  explicit Builder(OrderedJson* root) : root_(root) {}

  bool null() override { return Put(OrderedJson()) != nullptr; }
  bool boolean(bool value) override { return Put(OrderedJson(value)) != nullptr; }
  bool number_integer(number_integer_t value) override { return Put(OrderedJson(value)) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Put(OrderedJson(value)) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return Put(OrderedJson(value)) != nullptr; }
  bool string(string_t& text) override { return Put(OrderedJson(std::move(text))) != nullptr; }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override {
    OrderedJson* const object = Put(OrderedJson::object());
    open_.push_back({object, std::make_optional<Members>(object)});
    return true;
  }
  bool key(string_t& text) override {
    key_ = std::move(text);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override {
    open_.push_back({Put(OrderedJson::array()), std::nullopt});
    return true;
  }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  struct Open {
    OrderedJson* value;
    std::optional<Members> members;  // only of an object
  };

  OrderedJson* Put(OrderedJson value) {
    if (open_.empty()) return &(*root_ = std::move(value));
    if (open_.back().members) {
      OrderedJson* const member = open_.back().members->FindOrAdd(key_);
      *member = std::move(value);
      return member;
    }
    open_.back().value->push_back(std::move(value));
    return &open_.back().value->back();
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  OrderedJson* const root_;
  std::vector<Open> open_;  // Each is in the one before it.
  std::string key_;
};

}  // namespace

OrderedJson ParseOrderedJson(std::string_view text) {
  OrderedJson root;
  Builder builder(&root);
  if (OrderedJson::sax_parse(text, &builder)) return root;
  return OrderedJson(OrderedJson::value_t::discarded);
}

void SetMembers(const OrderedJson& from, OrderedJson* to) {
  LC_DCHECK(from.is_object() && to->is_object());
  Members members(to);
  for (const auto& [key, value] : from.get_ref<const OrderedJson::object_t&>()) *members.FindOrAdd(key) = value;
}

}  // namespace lightcone

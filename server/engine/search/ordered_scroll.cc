#include "server/engine/search/ordered_scroll.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/answer_bytes.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/item_reader.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/filter/field_index.h"
#include "server/engine/filter/payload_path.h"
#include "server/engine/search/filtered_batch.h"
#include "server/engine/search/scroll_token.h"
#include "server/engine/search/search.h"

namespace lightcone::server {
namespace {

using Place = std::pair<FilterValue, uint64_t>;  // value and internal id

constexpr int64_t kOrderedPage = 1'000;  // items of a page where nobody says
constexpr size_t kPlacesMin = 64;        // places taken from the index at once
constexpr size_t kPlacesMax = 4'096;
constexpr size_t kPlaceBytesMax = 60'000;  // bytes of a place in a token

// A place as the text of a scroll token: the path, the direction, the value and the internal id, in JSON.
std::string TextOfPlace(const std::string& path, bool descending, const Place& place) {
  nlohmann::json json = {path, descending, nullptr, place.second};
  std::visit([&](const auto& value) { json[2] = value; }, place.first);
  return json.dump();
}

absl::StatusOr<Place> PlaceOf(const std::string& text, const std::string& path, bool descending) {
  const auto bad = InvalidField("token", "of another scroll", "the token of an earlier page of this scroll, or empty");
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.size() != 4 || json[0] != path || json[1] != descending ||
      !json[3].is_number_unsigned()) {
    return bad;
  }
  Place place;
  place.second = json[3].get<uint64_t>();
  if (json[2].is_string()) {
    place.first = json[2].get<std::string>();
  } else if (json[2].is_number_float()) {
    place.first = json[2].get<double>();
  } else if (json[2].is_number_integer()) {
    place.first = json[2].get<int64_t>();
  } else {
    return bad;
  }
  return place;
}

absl::Status NoIndex(const OrderBy& order, const std::string& why) {
  return WithField(FailedPrecondition(StrCat("field 'order_by.field': ", why,
                                             "; index it first as keyword, integer, float or time (IndexPayload, or "
                                             "lightcone collection index-payload)")),
                   {"order_by.field", order.field, "a field with a payload index of texts, numbers or times"});
}

class OrderedPage {
 public:
  OrderedPage(const Collection& collection, const OrderBy& order, const Filter* filter, const CallContext& context)
      : collection_(collection), order_(order), filter_(filter), context_(context), reader_(&collection) {}

  absl::Status Begin(const std::optional<ScrollToken>& from);
  absl::Status Read(size_t items, const ItemParts& parts, const PayloadSelector& selector, ScrollPage* page);

 private:
  absl::StatusOr<std::vector<Place>> NextPlaces(size_t count) const;
  // Whether the payload has the item at this place: at no other one before it.
  bool StandsAt(const Place& place, const std::string& payload_json) const;

  const Collection& collection_;
  const OrderBy& order_;
  const Filter* const filter_;
  const CallContext& context_;
  const ItemReader reader_;
  PathKeys keys_;
  std::string path_;
  PayloadType type_ = PayloadType::kKeyword;
  FieldWalk walk_;
  std::optional<CompiledFilter> compiled_;  // of a filter that does not tell generations apart
};

absl::Status OrderedPage::Begin(const std::optional<ScrollToken>& from) {
  LC_ASSIGN_OR_RETURN(keys_, ParsePayloadPath(order_.field, "order_by.field"));
  path_ = PathText(keys_);
  walk_.descending = order_.descending;
  walk_.from = order_.start_from;
  if (from) {
    LC_ASSIGN_OR_RETURN(walk_.after, PlaceOf(from->last_key, path_, order_.descending));
  }
  bool can_begin = true;
  const absl::Status used =
      collection_.payloads().UseField(path_, [&](const PayloadField& field, const FieldIndex& index) {
        type_ = field.type;
        const auto fits = [&](const FilterValue& value) { return index.CanBegin(value); };
        can_begin = (!order_.start_from || fits(*order_.start_from)) && (!walk_.after || fits(walk_.after->first));
      });
  if (absl::IsNotFound(used)) return NoIndex(order_, StrCat("'", order_.field, "' has no payload index"));
  LC_RETURN_IF_ERROR(used);
  if (type_ == PayloadType::kBoolean) {
    return NoIndex(order_, StrCat("'", order_.field, "' has an index of truth values, which have no order"));
  }
  if (type_ == PayloadType::kText || type_ == PayloadType::kGeo) {
    return NoIndex(order_, StrCat("'", order_.field, "' has an index of type ", PayloadTypeName(type_),
                                  ", which keeps no order of the values"));
  }
  if (!can_begin) {
    return InvalidField(walk_.after ? "token" : "order_by.start_from", "of another kind than the index",
                        StrCat("a value that an index of type ", PayloadTypeName(type_), " holds"));
  }
  if (filter_ != nullptr && !filter_->needs_generation()) {
    LC_ASSIGN_OR_RETURN(const IdsOfConditions ids, FindIdsOfConditions(collection_, *filter_));
    compiled_ = collection_.payloads().Compile(filter_->root(), 0, /*may_test=*/false, &ids);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Place>> OrderedPage::NextPlaces(size_t count) const {
  std::vector<Place> places;
  const absl::Status used = collection_.payloads().UseField(path_, [&](const PayloadField&, const FieldIndex& index) {
    index.Walk(walk_, [&](const FilterValue& value, uint64_t id) {
      places.emplace_back(value, id);
      return places.size() < count;
    });
  });
  if (absl::IsNotFound(used)) return NoIndex(order_, StrCat("'", order_.field, "' has no payload index any more"));
  LC_RETURN_IF_ERROR(used);
  return places;
}

bool OrderedPage::StandsAt(const Place& place, const std::string& payload_json) const {
  // An index of the one payload alone, walked as the collection's is, finds the item's first place.
  FieldIndex alone(type_);
  alone.Add(0, Payload(payload_json).At(keys_));
  bool stands = false;
  FieldWalk walk;
  walk.descending = order_.descending;
  walk.from = order_.start_from;
  alone.Walk(walk, [&](const FilterValue& value, uint64_t) {
    stands = value == place.first;
    return false;
  });
  return stands;
}

absl::Status OrderedPage::Read(size_t items, const ItemParts& parts, const PayloadSelector& selector,
                               ScrollPage* page) {
  const uint32_t view_generation = ViewGenerationOf(*collection_.state());
  const int64_t bytes_max = context_.answer_bytes_max == 0 ? INT64_MAX : context_.answer_bytes_max;
  int64_t bytes = 0;
  std::optional<Place> last;  // place of the last item of the page
  while (true) {
    LC_RETURN_IF_ERROR(CheckAlive(context_, "scroll"));
    const size_t count = std::clamp(items + 1 - page->items.size(), kPlacesMin, kPlacesMax);
    LC_ASSIGN_OR_RETURN(std::vector<Place> places, NextPlaces(count));
    if (places.empty()) return absl::OkStatus();
    walk_.after = places.back();
    if (compiled_) {
      std::erase_if(places, [&](const Place& place) { return !compiled_->bounds.upper().Contains(place.second); });
    }
    std::vector<uint64_t> internal_ids;
    for (const Place& place : places) internal_ids.push_back(place.second);
    LC_ASSIGN_OR_RETURN(const auto rows, collection_.ResolveRows(internal_ids, /*with_record=*/false));
    std::vector<ItemId> ids;
    std::vector<const Place*> places_of_ids;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].found) continue;
      ids.push_back(rows[i].id);
      places_of_ids.push_back(&places[i]);
    }
    LC_ASSIGN_OR_RETURN(auto reads, reader_.ReadItems(ids, view_generation, /*exactly=*/false));
    for (size_t i = 0; i < reads.size(); ++i) {
      const ItemRecord& record = reads[i].record;
      // Newer content has a place of its own.
      if (!reads[i].found || record.internal_id != places_of_ids[i]->second) continue;
      const FilterSubject subject{&record.payload_json, reads[i].generation, reads[i].embedding.uncertainty, &ids[i]};
      if (filter_ != nullptr && !filter_->Matches(subject)) continue;
      if (!StandsAt(*places_of_ids[i], record.payload_json)) continue;
      StoredItem item = ItemReader::ToStored(ids[i], std::move(reads[i]), parts.with_vector);
      item.payload_json = selector.Of(std::move(item.payload_json));
      bytes += BytesOf(item);
      if (page->items.size() == items || (!page->items.empty() && bytes > bytes_max)) {
        std::string place = TextOfPlace(path_, order_.descending, *last);
        if (place.size() > kPlaceBytesMax) {
          return FailedPrecondition(StrCat("item ", ToString(page->items.back().id), " has a text of ", place.size(),
                                           " bytes at '", path_,
                                           "', by which no page can end; the most: ", kPlaceBytesMax));
        }
        page->token = EncodeScrollToken({collection_.number(), std::move(place)});
        return absl::OkStatus();
      }
      last = *places_of_ids[i];
      page->items.push_back(std::move(item));
    }
  }
}

}  // namespace

absl::StatusOr<ScrollPage> OrderedScrolls::ScrollOrdered(const std::string& name, const OrderBy& order,
                                                         const std::optional<FilterNode>& node, int64_t page_size,
                                                         const std::string& token, const ItemParts& parts,
                                                         const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "scroll"));
  if (context.meter != nullptr) LC_RETURN_IF_ERROR(context.meter->BeginRead());
  std::optional<ScrollToken> from;
  if (!token.empty()) {
    LC_ASSIGN_OR_RETURN(from, DecodeScrollToken(token));
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, FindScrolled(context_.catalog, name, from));
  const int64_t items_max = context_.options.limits.page_items_max;
  if (page_size < 0 || page_size > items_max) {
    return InvalidField("page_size", StrCat(page_size), StrCat("0 (the default) .. ", items_max));
  }
  const int64_t items = page_size == 0 ? std::min(kOrderedPage, items_max) : page_size;
  std::optional<Filter> filter;
  if (node) {
    LC_ASSIGN_OR_RETURN(filter, Filter::Make(*node));
    LC_RETURN_IF_ERROR(CheckStrictFilter(served->collection->state()->record, &*filter, /*writes=*/false));
  }
  LC_ASSIGN_OR_RETURN(const PayloadSelector selector, PayloadSelector::Make(parts.payload, "payload"));
  OrderedPage ordered(*served->collection, order, filter ? &*filter : nullptr, context);
  LC_RETURN_IF_ERROR(ordered.Begin(from));
  ScrollPage page;
  page.collection = served->collection->name();
  LC_RETURN_IF_ERROR(ordered.Read(static_cast<size_t>(items), parts, selector, &page));
  if (context.meter != nullptr) {
    int64_t bytes = 0;
    for (const StoredItem& item : page.items) bytes += BytesOf(item);
    context.meter->CountRead(static_cast<int64_t>(page.items.size()), bytes);
  }
  return page;
}

}  // namespace lightcone::server

// Changes of payloads, facets and orders as they go into the engine and come out of it. Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/api/types.h"

namespace lightcone::server {

// A change of the payloads of items, chosen by ids or by a filter: one batch.
enum class PayloadChange { kSet, kOverwrite, kDeleteKeys, kClear };
struct ChangePayloadCall {
  std::string collection;
  PayloadChange change = PayloadChange::kSet;
  std::string payload_json;       // a JSON object, of kSet and kOverwrite
  std::string key;                // path of the object that kSet changes; empty: the payload itself
  std::vector<std::string> keys;  // paths, of kDeleteKeys
  std::vector<ItemId> ids;        // without a filter
  std::optional<FilterNode> filter;
  int64_t limit = 0;  // most items by the filter; 0: limits.batch_items_max
  std::string token;  // where an earlier call by the filter ended; empty: from the beginning
  Durability durability = Durability::kDurable;
};

struct ChangePayloadAnswer {
  uint64_t sequence = 0;
  uint32_t changed = 0;
  std::vector<ItemId> missing;  // ids that name no item
  std::string token;            // empty: no more items pass
};

// Counts items by the value of a payload field.
struct FacetCall {
  std::string collection;
  std::string field;
  std::optional<FilterNode> filter;
  int64_t limit = 10;  // most values
};

struct FacetAnswer {
  std::vector<std::pair<FieldValue, uint64_t>> values;  // by falling count, then by value
  uint64_t distinct = 0;
};

// Order of a scroll by a payload field.
struct OrderBy {
  std::string field;
  bool descending = false;
  std::optional<FieldValue> start_from;  // value to begin at, itself included
};

}  // namespace lightcone::server

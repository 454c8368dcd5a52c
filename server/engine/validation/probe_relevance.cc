#include "server/engine/validation/probe_relevance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/checks.h"
#include "server/engine/filter/payload_path.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<uint64_t>;

constexpr int kLabelsBetweenChecks = 1'024;

// One text for each value of a label. Equal numbers have the same text.
std::string KeyOf(double number) {
  if (std::trunc(number) == number && std::abs(number) < 0x1p53) return StrCat("i", static_cast<int64_t>(number));
  return StrCat("d", std::bit_cast<uint64_t>(number));
}
std::string KeyOf(const FilterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "s" + *text;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "b1" : "b0";
  if (const auto* integer = std::get_if<int64_t>(&value)) return StrCat("i", *integer);
  return KeyOf(std::get<double>(value));
}
std::string KeyOf(const Json& value) {
  if (value.is_string()) return "s" + value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "b1" : "b0";
  if (value.is_number_unsigned()) return StrCat("i", value.get<uint64_t>());
  if (value.is_number_integer()) return StrCat("i", value.get<int64_t>());
  return value.is_number_float() ? KeyOf(value.get<double>()) : "";
}

// The items of each label of a probe, by field.
using Labels = std::map<std::string, absl::flat_hash_map<std::string, std::shared_ptr<Ids>>>;

absl::Status CollectLabelled(const Collection& collection, const std::function<bool()>& cancelled, Labels* labels) {
  std::map<std::string, PathKeys> paths;
  for (const auto& [field, by_label] : *labels) {
    LC_ASSIGN_OR_RETURN(paths[field], ParsePayloadPath(field, "label_field"));
  }
  const keys::Range range = keys::ItemRange(collection.number());
  const auto rows = collection.store()->Scan(Table::kItems, range.begin, range.end);
  for (int64_t seen = 0; rows->Valid(); rows->Next(), ++seen) {
    if (seen % kLabelsBetweenChecks == 0 && cancelled()) return absl::CancelledError("cancelled while it read labels");
    LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(rows->value()));
    if (IsExpired(record, collection.expiry().NowMs())) continue;
    const Json payload = Json::parse(record.payload_json, nullptr, /*allow_exceptions=*/false);
    for (auto& [field, by_label] : *labels) {
      VisitPath(payload, paths.at(field), [&record, &by_label = by_label](const Json& value) {
        const auto found = by_label.find(KeyOf(value));
        if (found == by_label.end()) return false;
        Ids& ids = *found->second;
        if (ids.empty() || ids.back() != record.internal_id) ids.push_back(record.internal_id);  // An item counts once.
        return false;
      });
    }
  }
  for (auto& [field, by_label] : *labels) {
    for (auto& [label, ids] : by_label) std::sort(ids->begin(), ids->end());
  }
  return rows->status();
}

// The internal ids of the items that exist. Counts the others in `missing`.
absl::StatusOr<Ids> IdsOf(const Collection& collection, const std::vector<ItemId>& items, uint64_t* missing) {
  std::vector<std::string> item_keys;
  for (const ItemId& id : items) item_keys.push_back(keys::Item(collection.number(), id));
  Ids ids;
  for (const auto& read : collection.store()->MultiGet(Table::kItems, item_keys)) {
    if (absl::IsNotFound(read.status())) {
      ++*missing;
      continue;
    }
    LC_RETURN_IF_ERROR(read.status());
    LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(*read));
    if (IsExpired(record, collection.expiry().NowMs())) {
      ++*missing;
      continue;
    }
    ids.push_back(record.internal_id);
  }
  return ids;
}

}  // namespace

bool ProbeTarget::IsRelevant(uint64_t internal_id) const {
  return internal_id != own && std::binary_search(relevant->begin(), relevant->end(), internal_id);
}

absl::StatusOr<ProbeTargets> FindTargets(const Collection& collection, const std::vector<ProbeSet>& sets,
                                         const std::function<bool()>& cancelled) {
  Labels labels;
  for (const ProbeSet& set : sets) {
    for (const Probe& probe : set.probes) {
      if (!probe.label) continue;
      auto& ids = labels[set.label_field][KeyOf(*probe.label)];
      if (ids == nullptr) ids = std::make_shared<Ids>();
    }
  }
  if (!labels.empty()) LC_RETURN_IF_ERROR(CollectLabelled(collection, cancelled, &labels));
  ProbeTargets found;
  for (const ProbeSet& set : sets) {
    for (const Probe& probe : set.probes) {
      if (cancelled()) return absl::CancelledError("cancelled while it read items");
      ProbeTarget& target = found.targets.emplace_back();
      if (probe.label) {
        target.relevant = labels[set.label_field][KeyOf(*probe.label)];
      } else {
        LC_ASSIGN_OR_RETURN(Ids ids, IdsOf(collection, probe.relevant, &found.missing_items));
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        target.relevant = std::make_shared<const Ids>(std::move(ids));
      }
      if (!probe.item) continue;
      LC_ASSIGN_OR_RETURN(const Ids own, IdsOf(collection, {*probe.item}, &found.missing_items));
      if (!own.empty()) target.own = own[0];
    }
  }
  return found;
}

}  // namespace lightcone::server

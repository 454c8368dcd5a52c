// Answers of the server as JSON for programs and as tables for people. Threads: all functions are safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/context.h"
#include "cli/json/field_json.h"
#include "lightcone/v1/collections.pb.h"
#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/retrieval.pb.h"

namespace lightcone::cli {

// A payload as the object it is; text that is no JSON as a string.
OrderedJson PayloadJson(const std::string& payload_json);
// A text, a number or a truth value.
OrderedJson FilterValueJson(const v1::FilterValue& value);
OrderedJson CollectionJson(const v1::CollectionInfo& info);
OrderedJson GenerationJson(const v1::GenerationInfo& info);
OrderedJson AuditJson(const v1::AuditEntry& entry);
OrderedJson BackfillJson(const v1::StatusResponse& status);
OrderedJson LeaseJson(const v1::LeaseResponse& lease);
OrderedJson AdapterJson(const v1::AdapterInfo& info);
// "vector" only when there is one.
OrderedJson StoredItemJson(const v1::StoredItem& item);
OrderedJson HitJson(const v1::Hit& hit, bool with_payload);

std::string CollectionsTable(const std::vector<v1::CollectionInfo>& infos);
std::string GenerationsTable(const std::vector<v1::GenerationInfo>& infos);
std::string AuditTable(const std::vector<v1::AuditEntry>& entries);
std::string BackfillTable(const v1::StatusResponse& status);
std::string LeaseTable(const v1::LeaseResponse& lease);
std::string AdaptersTable(const std::vector<v1::AdapterInfo>& infos);
std::string SegmentsTable(const v1::CollectionInfo& info);
std::string PayloadIndexesTable(const v1::CollectionInfo& info);
std::string ItemsTable(const std::vector<v1::StoredItem>& items);

// All of a list: an array, or a table.
template <typename List, typename ToJson, typename ToTable>
void ShowAll(const Context& context, const List& list, ToJson to_json, ToTable to_table) {
  if (!context.json) return context.Print(to_table({list.begin(), list.end()}));
  OrderedJson all = OrderedJson::array();
  for (const auto& one : list) all.push_back(to_json(one));
  context.PrintJson(all);
}

}  // namespace lightcone::cli

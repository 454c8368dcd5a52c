// What a payload field gives: counts by its values, groups of hits, an order of points.
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/rest/fields.h"
#include "server/rest/point_filter.h"
#include "server/rest/point_text.h"
#include "server/rest/point_vectors.h"
#include "server/rest/query_call.h"
#include "server/rest/verbs.h"

namespace lightcone::server::rest {
namespace {

using nlohmann::json;

constexpr int64_t kGroups = 10, kGroupSize = 3;  // of a call that names no number

std::string ValueText(const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return NumberJson(*number);
  return std::visit([](const auto& one) { return TextOfJson(json(one)); }, value);
}

absl::StatusOr<std::string> PathOf(const Fields& fields, const char* name) {
  LC_ASSIGN_OR_RETURN(const std::string path, fields.Text(name));
  if (path.empty()) return InvalidField(fields.At(name), "missing", "a path into the payload");
  return PayloadPathFrom(path, fields.At(name));
}

absl::StatusOr<OrderBy> OrderFrom(const Fields& body) {
  OrderBy order;
  const json& given = *body.Find("order_by");
  if (given.is_string()) {
    LC_ASSIGN_OR_RETURN(order.field, PayloadPathFrom(given.get<std::string>(), "order_by"));
    return order;
  }
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(given, "order_by"));
  LC_ASSIGN_OR_RETURN(order.field, PathOf(fields, "key"));
  LC_ASSIGN_OR_RETURN(const std::string direction, fields.Text("direction"));
  if (!direction.empty() && direction != "asc" && direction != "desc") {
    return InvalidField(fields.At("direction"), ShownJson(direction), "asc, desc");
  }
  order.descending = direction == "desc";
  const json* from = fields.Find("start_from");
  if (from == nullptr) return order;
  const bool whole = from->is_number_integer() && !(from->is_number_unsigned() && from->get<uint64_t>() > INT64_MAX);
  if (from->is_string()) {
    order.start_from = from->get<std::string>();
  } else if (whole) {
    order.start_from = from->get<int64_t>();
  } else if (from->is_number_float()) {
    order.start_from = from->get<double>();
  } else {
    return InvalidField(fields.At("start_from"), ShownJson(*from), "a text or a number");
  }
  return order;
}

// Groups are chosen by their hits, so what is left out must be no candidate.
void LeaveOut(std::vector<ItemId> ids, std::optional<FilterNode>* filter) {
  if (ids.empty()) return;
  FilterNode named, others, all;
  named.kind = FilterNode::Kind::kHasId;
  named.ids = std::move(ids);
  others.kind = FilterNode::Kind::kNot;
  others.children.push_back(std::move(named));
  if (!*filter) {
    *filter = std::move(others);
    return;
  }
  all.kind = FilterNode::Kind::kAnd;
  all.children.push_back(**std::move(filter));
  all.children.push_back(std::move(others));
  *filter = std::move(all);
}

Answer RunGroups(const RestCall& call, const Fields& body, PointQuery query) {
  SearchCall& search = query.search;
  if (query.diversity) return NotSupported("query.mmr", "groups are chosen by their hits");
  LC_RETURN_IF_ERROR(body.Whole("offset", 0, 0, 0).status());
  GroupBy group;
  LC_ASSIGN_OR_RETURN(group.field, PathOf(body, "group_by"));
  group.groups = search.k;
  LC_ASSIGN_OR_RETURN(group.group_size, body.Whole("group_size", kGroupSize, 1, call.engine.options().limits.k_max));
  search.group_by = std::move(group);
  LeaveOut(std::exchange(query.left_out, {}), &search.filter);
  search.k = 0;
  Metric metric{};
  LC_ASSIGN_OR_RETURN(const QueryAnswer answer, AnswerPointQuery(call, &query, &metric));
  std::vector<std::string> groups;
  for (const HitGroup& one : answer.groups) {
    std::vector<std::string> hits;
    for (const EngineHit& hit : one.hits) hits.push_back(HitText(metric, hit, query.parts));
    // Qdrant's groups have ids of whole numbers and texts, and its clients refuse others.
    const bool flag = std::holds_alternative<bool>(one.value);
    const std::string id = flag ? StrCat("\"", ValueText(one.value), "\"") : ValueText(one.value);
    groups.push_back(StrCat("{\"id\":", id, ",\"hits\":", ListText(hits), "}"));
  }
  return StrCat("{\"groups\":", ListText(groups), ExtrasText(query), "}");
}

}  // namespace

Answer FacetPoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  FacetCall facet;
  facet.collection = call.collection();
  LC_ASSIGN_OR_RETURN(facet.field, PathOf(body, "key"));
  LC_ASSIGN_OR_RETURN(facet.limit, body.Whole("limit", 10, 1, kFacetLimitMax));
  LC_ASSIGN_OR_RETURN(facet.filter, PointFilterOf(call, body));
  LC_ASSIGN_OR_RETURN(const FacetAnswer answer, call.engine.Facet(facet, call.context));
  std::vector<std::string> hits;
  for (const auto& [value, count] : answer.values) {
    hits.push_back(StrCat("{\"value\":", ValueText(value), ",\"count\":", count, "}"));
  }
  return StrCat("{\"hits\":", ListText(hits), "}");
}

Answer SearchPointGroups(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_ASSIGN_OR_RETURN(PointQuery query, PointQueryOf(call, body, kGroups));
  LC_RETURN_IF_ERROR(ReadSearchVector(call, body, &query));
  return RunGroups(call, body, std::move(query));
}

Answer QueryPointGroups(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_ASSIGN_OR_RETURN(PointQuery query, PointQueryOf(call, body, kGroups));
  LC_ASSIGN_OR_RETURN(const json* const asked, body.Require("query", "an id, a vector, nearest, recommend"));
  LC_RETURN_IF_ERROR(ReadPointQuery(call, *asked, body.At("query"), &query));
  return RunGroups(call, body, std::move(query));
}

Answer ScrollPointsInOrder(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(body.Refuse("offset", "a page in an order begins at order_by.start_from"));
  LC_ASSIGN_OR_RETURN(const int64_t limit, body.Whole("limit", 10, 1, call.engine.options().limits.page_items_max));
  LC_ASSIGN_OR_RETURN(const OrderBy order, OrderFrom(body));
  LC_ASSIGN_OR_RETURN(PointParts parts, PointPartsOf(body, /*payload_by_default=*/true));
  LC_RETURN_IF_ERROR(FindVectorGeneration(call, &parts));
  LC_ASSIGN_OR_RETURN(const std::optional<FilterNode> filter, PointFilterOf(call, body));
  LC_ASSIGN_OR_RETURN(const ScrollPage page,
                      call.engine.ScrollOrdered(call.collection(), order, filter, limit, "",
                                                ItemParts(parts.vector, parts.selection), call.context));
  std::vector<std::string> records;
  for (const StoredItem& item : page.items) {
    records.push_back(
        RecordText({item.id, item.payload_json, item.vector, item.generation, item.uncertainty, item.expires}, parts));
  }
  return StrCat("{\"points\":", ListText(records), ",\"next_page_offset\":null}");
}

}  // namespace lightcone::server::rest

// Answers of the Retrieval service, engine -> wire.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/status.h"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"

namespace lightcone::server {

google::protobuf::Timestamp TimestampOf(absl::Time time) {
  google::protobuf::Timestamp out;
  const int64_t seconds = absl::ToUnixSeconds(time);
  out.set_seconds(seconds);
  out.set_nanos(static_cast<int32_t>((time - absl::FromUnixSeconds(seconds)) / absl::Nanoseconds(1)));
  return out;
}

absl::Status CheckDistinct(const std::vector<ItemId>& ids) {
  std::set<ItemId> seen;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!seen.insert(ids[i]).second) {
      return InvalidField(StrCat("ids[", i, "]"), StrCat(ToString(ids[i]), ", for the second time"), "each id once");
    }
  }
  return absl::OkStatus();
}

v1::Durability ToWire(Durability durability) {
  return durability == Durability::kProcess ? v1::DURABILITY_PROCESS : v1::DURABILITY_DURABLE;
}

void ToWire(const ItemId& id, v1::ItemId* out) {
  if (const auto* name = std::get_if<std::string>(&id.value)) {
    out->set_name(*name);
  } else {
    out->set_number(std::get<uint64_t>(id.value));
  }
}

void ToWire(const std::vector<float>& vector, v1::Vector* out) {
  out->set_f32_le(vector.data(), vector.size() * sizeof(float));
}

void ToWire(const WriteResult& result, Durability durability, v1::UpsertResponse* out) {
  out->set_sequence(result.sequence);
  out->set_generation(result.generation);
  out->set_items(result.items);
  out->mutable_outdated()->Assign(result.outdated.begin(), result.outdated.end());
  out->set_durability(ToWire(durability));
  out->mutable_warnings()->Assign(result.warnings.begin(), result.warnings.end());
}

namespace {

void HitToWire(EngineHit hit, v1::Hit* to) {
  server::ToWire(hit.id, to->mutable_id());
  to->set_distance(hit.distance);
  to->set_score(hit.score);
  to->set_generation(hit.generation);
  to->set_uncertainty(hit.uncertainty);
  to->set_payload_json(std::move(hit.payload_json));
  if (!hit.vector.empty()) server::ToWire(hit.vector, to->mutable_vector());
  if (hit.relevance) to->set_relevance(*hit.relevance);
  if (hit.scaled_distance) to->set_scaled_distance(*hit.scaled_distance);
}

v1::SearchPlan PlanOf(SearchPlan plan) {
  switch (plan) {
    case SearchPlan::kScan:
      return v1::SEARCH_PLAN_SCAN;
    case SearchPlan::kPassingScan:
      return v1::SEARCH_PLAN_PASSING_SCAN;
    case SearchPlan::kWalk:
      return v1::SEARCH_PLAN_WALK;
    case SearchPlan::kPassingWalk:
      return v1::SEARCH_PLAN_PASSING_WALK;
    case SearchPlan::kPostFilter:
      return v1::SEARCH_PLAN_POST_FILTER;
    case SearchPlan::kProbe:
      return v1::SEARCH_PLAN_PROBE;
  }
  return v1::SEARCH_PLAN_UNSPECIFIED;
}

const char* ReasonName(BreadthReason reason) {
  switch (reason) {
    case BreadthReason::kExact:
      return "exact";
    case BreadthReason::kAsked:
      return "asked";
    case BreadthReason::kTarget:
      return "target";
    case BreadthReason::kSettings:
      return "settings";
    case BreadthReason::kMeasured:
      return "measured";
    case BreadthReason::kWidened:
      return "widened";
    case BreadthReason::kUnreached:
      return "unreached";
    case BreadthReason::kCheaper:
      return "cheaper";
  }
  return "";
}

void ToWire(const SearchProfile& profile, v1::SearchProfile* out) {
  for (const LegProfile& leg : profile.legs) {
    v1::SearchProfile::Leg* to = out->add_legs();
    to->set_query(static_cast<uint32_t>(leg.query));
    to->set_generation(leg.generation);
    for (const SegmentProfile& segment : leg.segments) {
      v1::SearchProfile::Segment* one = to->add_segments();
      one->set_id(segment.id);
      one->set_plan(PlanOf(segment.plan));
      one->set_rows(static_cast<uint64_t>(segment.rows));
      one->set_passing_share(segment.passing_share);
      one->set_fell_back(segment.fell_back);
      one->set_breadth(static_cast<uint32_t>(segment.breadth));
      one->set_breadth_reason(ReasonName(segment.reason));
    }
    to->set_rows_scored(static_cast<uint64_t>(leg.rows_scored));
    to->set_rows_refined(static_cast<uint64_t>(leg.rows_refined));
    to->set_rows_reranked(static_cast<uint64_t>(leg.rows_reranked));
    to->set_rows_adapted(static_cast<uint64_t>(leg.rows_adapted));
    to->set_fused(leg.fused);
    to->set_older_weight(leg.older_weight);
    to->set_conditioned(leg.conditioned);
  }
  for (const std::string& field : profile.indexed_fields) out->add_indexed_fields(field);
  for (const std::string& field : profile.unindexed_fields) out->add_unindexed_fields(field);
  out->set_compile_ms(profile.compile_ms);
  out->set_payloads_read(static_cast<uint64_t>(profile.payloads_read));
}

void ToWire(SearchRefresh refresh, v1::SearchRefresh* out) {
  out->set_candidates(static_cast<uint32_t>(refresh.candidates));
  out->set_refreshed(static_cast<uint32_t>(refresh.refreshed));
  out->set_without_input(static_cast<uint32_t>(refresh.without_input));
  out->set_late(static_cast<uint32_t>(refresh.late));
  out->set_over_budget(static_cast<uint32_t>(refresh.over_budget));
  out->set_failed(static_cast<uint32_t>(refresh.failed));
  out->set_changed(static_cast<uint32_t>(refresh.changed));
  out->set_error(std::move(refresh.error));
}

}  // namespace

void ToWire(SearchAnswer answer, v1::SearchResponse* out) {
  out->mutable_results()->Reserve(static_cast<int>(answer.results.size()));
  for (QueryAnswer& from : answer.results) {
    v1::QueryResult* result = out->add_results();
    if (!from.status.ok()) {
      *result->mutable_error() = ToPartError(from.status);
      continue;
    }
    result->mutable_hits()->Reserve(static_cast<int>(from.hits.size()));
    for (EngineHit& hit : from.hits) HitToWire(std::move(hit), result->add_hits());
    for (HitGroup& group : from.groups) {
      v1::HitGroup* to = result->add_groups();
      ToWire(group.value, to->mutable_value());
      for (EngineHit& hit : group.hits) HitToWire(std::move(hit), to->add_hits());
    }
  }
  out->set_serving_generation(answer.serving_generation);
  out->set_out_of_reach(answer.out_of_reach);
  out->set_partial(answer.partial);
  out->set_sequence(answer.sequence);
  out->set_reach_overridden(answer.reach_overridden);
  out->set_canary(answer.canary);
  if (answer.profile) ToWire(*answer.profile, out->mutable_profile());
  out->set_older_error(std::move(answer.older_error));
  out->set_scale_generation(answer.scale_generation);
  for (const ScaledBound& bound : answer.bounds) {
    v1::SearchResponse::ScaledBound* to = out->add_bounds();
    to->set_generation(bound.item_generation);
    to->set_fused(bound.fused);
    to->set_distance_max(bound.distance_max);
  }
  out->mutable_unscaled_generations()->Assign(answer.unscaled.begin(), answer.unscaled.end());
  if (answer.refresh) ToWire(std::move(*answer.refresh), out->mutable_refresh());
  out->mutable_warnings()->Assign(answer.warnings.begin(), answer.warnings.end());
}

void ToWire(StoredItem item, v1::StoredItem* out) {
  ToWire(item.id, out->mutable_id());
  out->set_payload_json(std::move(item.payload_json));
  out->set_generation(item.generation);
  out->mutable_generations()->Assign(item.generations.begin(), item.generations.end());
  out->set_uncertainty(item.uncertainty);
  if (!item.vector.empty()) ToWire(item.vector, out->mutable_vector());
  out->set_sequence(item.sequence);
  out->set_has_input(item.has_input);
  if (item.expires) *out->mutable_expires() = TimestampOf(*item.expires);
}

void ToWire(const CountAnswer& answer, v1::CountResponse* out) {
  out->set_count(answer.count);
  for (const auto& [generation, count] : answer.by_generation) {
    v1::CountResponse::ByGeneration* to = out->add_generations();
    to->set_generation(generation);
    to->set_count(count);
  }
}

}  // namespace lightcone::server

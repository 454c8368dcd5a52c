#include "server/http/console_json.h"

#include <charconv>
#include <cmath>

#include "base/status.h"
#include "base/utf8.h"
#include "server/engine/api/validation_types.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }
json Seconds(const std::optional<absl::Time>& time) { return time ? json(Seconds(*time)) : json(); }

// JSON has no infinity.
json Finite(double x) { return std::isfinite(x) ? json(x) : json(); }

constexpr std::pair<GenerationState, const char*> kGenerationStates[] = {{GenerationState::kDraft, "draft"},
                                                                         {GenerationState::kRegistered, "registered"},
                                                                         {GenerationState::kValidated, "validated"},
                                                                         {GenerationState::kActive, "active"},
                                                                         {GenerationState::kRetired, "retired"}};
constexpr std::pair<BackfillState, const char*> kBackfillStates[] = {
    {BackfillState::kNone, "none"},     {BackfillState::kOrdering, "ordering"}, {BackfillState::kRunning, "running"},
    {BackfillState::kPaused, "paused"}, {BackfillState::kStopped, "stopped"},   {BackfillState::kDone, "done"},
    {BackfillState::kFailed, "failed"}};
constexpr std::pair<JobState, const char*> kJobStates[] = {{JobState::kQueued, "queued"},
                                                           {JobState::kRunning, "running"},
                                                           {JobState::kSucceeded, "succeeded"},
                                                           {JobState::kFailed, "failed"},
                                                           {JobState::kCancelled, "cancelled"}};

template <typename State, size_t n>
const char* NameOf(const std::pair<State, const char*> (&names)[n], State state) {
  for (const auto& [known, name] : names) {
    if (known == state) return name;
  }
  return "unknown";
}

// The text as JSON, or as a string if it does not parse, so that the console shows any file.
json Parsed(const std::string& text) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? json(text) : parsed;
}

// [[epoch, loss], ...] of a training's progress or result, which are short.
json CurveOf(const json& said) {
  json curve = json::array();
  if (!said.contains("curve") || !said["curve"].is_array()) return curve;
  for (const json& point : said["curve"]) {
    if (point.is_object() && point.contains("epoch") && point.contains("total")) {
      curve.push_back({point["epoch"], point["total"]});
    }
  }
  return curve;
}

}  // namespace

json IdToJson(const ItemId& id) {
  if (const auto* number = std::get_if<uint64_t>(&id.value)) return {{"number", StrCat(*number)}};
  return {{"name", std::get<std::string>(id.value)}};
}

absl::StatusOr<ItemId> ItemIdFrom(const json& id, const std::string& field) {
  const auto wrong = [&](const std::string& value) {
    return InvalidField(field, value, "{\"number\": \"0 .. 18446744073709551615\"} or {\"name\": \"a text\"}");
  };
  if (!id.is_object()) return wrong("no object");
  if (id.contains("name") && id["name"].is_string()) return ItemId{id["name"].get<std::string>()};
  if (!id.contains("number") || !id["number"].is_string()) return wrong("without name and number");
  const std::string digits = id["number"].get<std::string>();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size())
    return wrong(StrCat("'", digits.substr(0, 40), "'"));
  return ItemId{number};
}

namespace {

json ModelAlarms(const CollectionStatus& status) {
  json all = json::array();
  for (const ModelWatchStatus& watched : status.model_watch) {
    for (const auto& [of, stream] :
         {std::pair{"upserted vectors", &watched.rows}, std::pair{"queries", &watched.queries}}) {
      if (stream->alarms.empty()) continue;
      all.push_back(
          {{"generation", watched.generation}, {"of", of}, {"alarms", stream->alarms}, {"foreign", stream->foreign}});
    }
  }
  return all;
}

}  // namespace

json ToJson(const CollectionStatus& status) {
  json generations = json::array();
  for (const auto& [generation, items] : status.items_by_generation) {
    generations.push_back({{"generation", generation}, {"items", items}});
  }
  json segments = json::array();
  for (const SegmentInfo& segment : status.segments) {
    segments.push_back({{"generation", segment.generation},
                        {"kind", segment.kind},
                        {"codes", segment.codes},
                        {"rows", segment.rows},
                        {"dead_rows", segment.dead_rows},
                        {"bytes", segment.bytes},
                        {"default_breadth", segment.default_breadth},
                        {"default_recall", segment.default_recall ? json(*segment.default_recall) : json()}});
  }
  return {{"name", status.name},
          {"metric", MetricName(status.metric)},
          {"curvature", status.curvature},
          {"items", status.items},
          {"active_generation", status.active_generation},
          {"items_by_generation", std::move(generations)},
          {"segments", std::move(segments)},
          {"aliases", status.aliases},
          {"created", Seconds(status.created)},
          {"sequence", status.sequence},
          {"heap_bytes", status.heap_bytes},
          {"mapped_bytes", status.mapped_bytes},
          {"builds_running", status.builds_running},
          {"index_error", MessageOf(status.index_error)},
          {"model_alarms", ModelAlarms(status)},
          {"index", {{"ef_search", status.index.hnsw_ef_search}, {"m", status.index.hnsw_m}}}};
}

json ToJson(const GenerationStatus& status) {
  return {{"generation", status.generation},
          {"state", NameOf(kGenerationStates, status.state)},
          {"parent", status.parent},
          {"metric", MetricName(status.space.metric)},
          {"dimension", status.space.dimension},
          {"curvature", status.space.curvature},
          {"clip_radius", Finite(status.space.clip_radius)},
          {"compatible_prefix", status.compatible_prefix},
          {"method", status.method},
          {"has_encoder", status.has_encoder},
          {"reach", status.reach},
          {"items", status.items},
          {"registered", Seconds(status.registered)},
          {"activated", Seconds(status.activated)},
          {"manifest", Parsed(status.manifest_json)},
          {"validation", status.validation ? Parsed(Encode(*status.validation)) : json()},
          {"validation_outdated", status.validation_outdated}};
}

json ToJson(const AdapterStatus& status) {
  return {{"from", status.from},
          {"to", status.to},
          {"direction", status.direction == AdapterDirection::kItem ? "item" : "query"},
          {"pairs", status.pairs},
          {"held_out_error", Finite(status.held_out_error)},
          {"matched", status.matched},
          {"loss", status.loss},
          {"bytes", status.bytes},
          {"put", Seconds(status.put)}};
}

json ToJson(const BackfillStatus& status) {
  return {{"state", NameOf(kBackfillStates, status.state)},
          {"generation", status.generation},
          {"items_done", status.items_done},
          {"items_left", status.items_left},
          {"items_leased", status.items_leased},
          {"items_ordered", status.items_ordered},
          {"embed_rate", status.embed_rate},
          {"started", Seconds(status.started)},
          {"error", MessageOf(status.error)}};
}

json ToJson(const LiveRecallStatus& status) {
  json recall = json::array(), spreads = json::array();
  for (const LiveRecall& one : status.recall) {
    recall.push_back({{"query_generation", one.query_generation},
                      {"item_generation", one.item_generation},
                      {"segment", one.segment},
                      {"filter", one.filter},
                      {"expected", one.expected},
                      {"found", one.found},
                      {"recent_expected", one.recent_expected},
                      {"recent_found", one.recent_found}});
  }
  for (const LiveSpread& one : status.spreads) {
    spreads.push_back({{"query_generation", one.query_generation},
                       {"item_generation", one.item_generation},
                       {"quantity", one.quantity},
                       {"count", one.count},
                       {"quantiles", one.quantiles},
                       {"drift", one.drift ? json(*one.drift) : json()}});
  }
  return {{"samples", status.samples},
          {"failures", status.failures},
          {"recall", std::move(recall)},
          {"spreads", std::move(spreads)}};
}

json ToJson(const AuditEntry& entry) {
  return {{"time", Seconds(entry.time)},
          {"rollback", entry.rollback},
          {"generation", entry.generation},
          {"previous_generation", entry.previous_generation},
          {"forced", entry.forced},
          {"reason", entry.reason},
          {"out_of_reach", entry.out_of_reach},
          {"request_id", entry.request_id},
          {"retired", entry.retired},
          {"validated", entry.validated},
          {"canary_share", entry.canary_share ? json(*entry.canary_share) : json()},
          {"operator_name", entry.operator_name}};
}

json ToJson(const ActivateAnswer& answer) {
  return {{"generation", ToJson(answer.generation)},
          {"previous_generation", answer.previous_generation},
          {"out_of_reach", answer.out_of_reach}};
}

json ToJson(const EngineHit& hit) {
  return {{"id", IdToJson(hit.id)},
          {"distance", Finite(hit.distance)},
          {"score", Finite(hit.score)},
          {"generation", hit.generation},
          {"uncertainty", Finite(hit.uncertainty)},
          {"segment", hit.segment},
          {"payload", Parsed(hit.payload_json)}};
}

json ToJson(const JobStatus& job) {
  json one = {{"id", job.id},
              {"kind", job.kind},
              {"collection", job.collection},
              {"generation", job.generation},
              {"state", NameOf(kJobStates, job.state)},
              {"done", job.done},
              {"total", job.total},
              {"step", job.step},
              {"created", Seconds(job.created)},
              {"started", Seconds(job.started)},
              {"ended", Seconds(job.ended)},
              {"attempts", job.attempts},
              {"error", MessageOf(job.error)}};
  if (job.kind != Engine::kTrainJob) return one;
  const json said = Parsed(job.final() ? job.result_json : job.progress_json);
  if (!said.is_object()) return one;
  one["made"] = said.value("generation", 0);
  one["curve"] = CurveOf(said);
  return one;
}

json ToJson(const CanaryStatus& status) {
  const auto side = [](const CanarySide& one) -> json {
    return {{"generation", one.generation},
            {"searches", one.searches},
            {"failures", one.failures},
            {"p50", one.p50_ms / 1e3},
            {"p99", one.p99_ms / 1e3},
            {"nearest_distance", Finite(one.nearest_distance)},
            {"nearest_uncertainty", Finite(one.nearest_uncertainty)},
            {"live_recall", one.live_recall ? json(*one.live_recall) : json()}};
  };
  if (status.generation == 0) return json();
  return {{"generation", status.generation}, {"share", status.share},         {"began", Seconds(status.began)},
          {"canary", side(status.canary)},   {"active", side(status.active)}, {"unroutable", status.unroutable}};
}

json ToJson(const ProbeSetStatus& set) {
  return {{"name", set.name}, {"probes", set.probes}, {"inputs", set.inputs}, {"put", Seconds(set.put)}};
}

}  // namespace lightcone::server

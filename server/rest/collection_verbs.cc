// Collections, payload indexes and aliases.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/rest/fields.h"
#include "server/rest/point_filter.h"
#include "server/rest/strict_fields.h"
#include "server/rest/verbs.h"

namespace lightcone::server::rest {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, Metric> kDistances[] = {
    {"Cosine", Metric::kCosine}, {"Dot", Metric::kInnerProduct}, {"Euclid", Metric::kEuclidean}};
constexpr std::pair<const char*, PayloadType> kSchemas[] = {
    {"keyword", PayloadType::kKeyword}, {"uuid", PayloadType::kKeyword}, {"integer", PayloadType::kInteger},
    {"float", PayloadType::kFloat},     {"bool", PayloadType::kBoolean}, {"datetime", PayloadType::kTime},
    {"text", PayloadType::kText},       {"geo", PayloadType::kGeo}};

// Clients know three distances. A geodesic length orders points as a Euclidean one does: smaller is nearer.
const char* DistanceName(Metric metric) {
  for (const auto& [name, known] : kDistances) {
    if (known == metric) return name;
  }
  return "Euclid";
}

const char* SchemaName(PayloadType type) {
  for (const auto& [name, known] : kSchemas) {
    if (known == type) return name;
  }
  return "keyword";
}

absl::StatusOr<Metric> DistanceFrom(const Fields& vectors) {
  LC_ASSIGN_OR_RETURN(const std::string name, vectors.Text("distance"));
  if (name == "Manhattan") return NotSupported(vectors.At("distance"), "there is no Manhattan distance");
  for (const auto& [known, metric] : kDistances) {
    if (name == known) return metric;
  }
  return InvalidField(vectors.At("distance"), ShownJson(name), "Cosine, Dot, Euclid");
}

// What is asked of a cluster means nothing to one machine, as it means nothing to a Qdrant outside a cluster.
absl::Status CheckCopies(const Fields& body) {
  for (const char* name : {"shard_number", "replication_factor", "write_consistency_factor"}) {
    LC_RETURN_IF_ERROR(body.Whole(name, 1, 1, INT32_MAX).status());
  }
  return absl::OkStatus();
}

absl::Status RefuseWhatIsNotThere(const Fields& body) {
  LC_RETURN_IF_ERROR(body.Refuse("sparse_vectors", "there are no sparse vectors"));
  LC_RETURN_IF_ERROR(body.Refuse("init_from", "copy the points by scroll and upsert"));
  LC_RETURN_IF_ERROR(body.Refuse("sharding_method", "there are no shards"));
  LC_RETURN_IF_ERROR(body.Refuse("metadata", "a collection has no metadata; a generation's manifest has"));
  return CheckCopies(body);
}

absl::StatusOr<IndexChange> IndexFrom(const Fields& body, const Fields& vectors) {
  IndexChange index;
  for (const Fields* one : {&body, &vectors}) {
    const json* hnsw = one->Find("hnsw_config");
    if (hnsw == nullptr) continue;
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*hnsw, one->At("hnsw_config")));
    LC_ASSIGN_OR_RETURN(const int64_t links, fields.Whole("m", 16, 2, 128));
    LC_ASSIGN_OR_RETURN(const int64_t breadth, fields.Whole("ef_construct", 100, 8, 4'096));
    if (fields.Find("m") != nullptr) index.hnsw_m = static_cast<int>(links);
    if (fields.Find("ef_construct") != nullptr) index.hnsw_ef_construction = static_cast<int>(breadth);
  }
  return index;
}

json ConfigOf(const CollectionStatus& status, int dimension) {
  json config = {{"params",
                  {{"vectors", {{"size", dimension}, {"distance", DistanceName(status.metric)}}},
                   {"shard_number", 1},
                   {"replication_factor", 1},
                   {"write_consistency_factor", 1},
                   {"on_disk_payload", true}}},
                 {"hnsw_config",
                  {{"m", status.index.hnsw_m},
                   {"ef_construct", status.index.hnsw_ef_construction},
                   {"full_scan_threshold", 0},
                   {"max_indexing_threads", status.index.build_threads}}},
                 {"optimizer_config",
                  {{"deleted_threshold", status.index.tombstones_share_max},
                   {"vacuum_min_vector_number", status.index.growing_rows_max},
                   {"default_segment_number", 0},
                   {"flush_interval_sec", 0}}},
                 {"wal_config", {{"wal_capacity_mb", 0}, {"wal_segments_ahead", 0}}},
                 {"quantization_config", nullptr}};
  if (status.strict_mode != StrictMode()) config["strict_mode_config"] = JsonOf(status.strict_mode);
  return config;
}

json SchemaOf(const CollectionStatus& status) {
  json schema = json::object();
  for (const PayloadIndexStatus& index : status.payload_indexes) {
    schema[index.field.path] = {{"data_type", SchemaName(index.field.type)}, {"points", index.items}};
  }
  return schema;
}

json InfoOf(const CollectionStatus& status, int dimension) {
  int64_t indexed = 0;
  for (const SegmentInfo& segment : status.segments) {
    if (segment.kind != "growing") indexed += segment.rows - segment.dead_rows;
  }
  const bool failed = !status.write_error.ok();
  const json optimizer = status.index_error.ok() ? json("ok") : json{{"error", MessageOf(status.index_error)}};
  return {{"status", failed                      ? "red"
                     : status.builds_running > 0 ? "yellow"
                                                 : "green"},
          {"optimizer_status", optimizer},
          {"points_count", status.items},
          {"indexed_vectors_count", indexed},
          {"segments_count", status.segments.size()},
          {"config", ConfigOf(status, dimension)},
          {"payload_schema", SchemaOf(status)},
          {"lightcone",
           {{"metric", MetricName(status.metric)},
            {"active_generation", status.active_generation},
            {"default_ttl_seconds", static_cast<double>(status.default_ttl_ms) / 1'000},
            {"scale_generation", status.scale_generation},
            {"sequence", status.sequence}}}};
}

bool Sees(const RestCall& call, const std::string& collection) {
  return !call.context.sees || call.context.sees(collection);
}

struct AliasChange {
  std::string alias, collection;  // an empty collection removes the alias
};

absl::StatusOr<std::string> TextThatIsThere(const Fields& fields, const char* name) {
  LC_ASSIGN_OR_RETURN(std::string text, fields.Text(name));
  if (text.empty()) return InvalidField(fields.At(name), "missing", "a name");
  return text;
}

absl::Status ReadAliasAction(const RestCall& call, const Fields& action, std::vector<AliasChange>* changes) {
  if (const json* create = action.Find("create_alias")) {
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*create, action.At("create_alias")));
    LC_ASSIGN_OR_RETURN(std::string alias, TextThatIsThere(fields, "alias_name"));
    LC_ASSIGN_OR_RETURN(std::string collection, TextThatIsThere(fields, "collection_name"));
    changes->push_back({std::move(alias), std::move(collection)});
    return absl::OkStatus();
  }
  if (const json* remove = action.Find("delete_alias")) {
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*remove, action.At("delete_alias")));
    LC_ASSIGN_OR_RETURN(std::string alias, TextThatIsThere(fields, "alias_name"));
    changes->push_back({std::move(alias), ""});
    return absl::OkStatus();
  }
  if (const json* rename = action.Find("rename_alias")) {
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*rename, action.At("rename_alias")));
    LC_ASSIGN_OR_RETURN(std::string before, TextThatIsThere(fields, "old_alias_name"));
    LC_ASSIGN_OR_RETURN(std::string after, TextThatIsThere(fields, "new_alias_name"));
    const std::optional<std::string> collection = call.engine.ResolveName(before);
    if (!collection || *collection == before) return NotFound(StrCat("no alias '", before, "'"));
    if (after == before) return absl::OkStatus();
    changes->push_back({std::move(after), *collection});
    changes->push_back({std::move(before), ""});
    return absl::OkStatus();
  }
  return InvalidField(action.At("*"), "without a known member", "one of create_alias, delete_alias, rename_alias");
}

// Texts are cut into words in one way (text_match.h): other ways would find other texts.
absl::Status CheckWords(const Fields& schema) {
  LC_RETURN_IF_ERROR(schema.Refuse("stemmer", "words are compared as they stand"));
  LC_RETURN_IF_ERROR(schema.Refuse("stopwords", "every word counts"));
  for (const auto& [name, value] : {std::pair("lowercase", false), {"ascii_folding", true}}) {
    const json* const given = schema.Find(name);
    if (given == nullptr || *given != value) continue;
    return NotSupported(schema.At(name), "letters of ASCII are equal in both cases, and no others are folded");
  }
  LC_ASSIGN_OR_RETURN(const std::string tokenizer, schema.Text("tokenizer"));
  if (tokenizer.empty() || tokenizer == "word") return absl::OkStatus();
  return NotSupported(schema.At("tokenizer"), "the one tokenizer is word");
}

absl::StatusOr<PayloadType> SchemaFrom(const Fields& body) {
  LC_ASSIGN_OR_RETURN(const json* const schema, body.Require("field_schema", "the name of a type, or {type}"));
  std::string name;
  if (schema->is_object()) {
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*schema, body.At("field_schema")));
    LC_ASSIGN_OR_RETURN(name, fields.Text("type"));
    LC_RETURN_IF_ERROR(CheckWords(fields));
  } else {
    LC_ASSIGN_OR_RETURN(name, body.Text("field_schema"));
  }
  for (const auto& [known, type] : kSchemas) {
    if (name == known) return type;
  }
  return InvalidField(body.At("field_schema"), ShownJson(name),
                      "keyword, uuid, integer, float, bool, datetime, text, geo");
}

}  // namespace

Answer ListCollections(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const std::vector<CollectionStatus> all, call.engine.ListCollections());
  json collections = json::array();
  for (const CollectionStatus& status : all) {
    if (Sees(call, status.name)) collections.push_back({{"name", status.name}});
  }
  return TextOfJson({{"collections", std::move(collections)}});
}

// Counters are at /metrics. `app` is the API that is spoken here, by which clients know what they may ask for.
Answer GetTelemetry(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const std::vector<CollectionStatus> all, call.engine.ListCollections());
  const auto seen =
      std::count_if(all.begin(), all.end(), [&](const CollectionStatus& status) { return Sees(call, status.name); });
  return TextOfJson({{"app", {{"name", "qdrant"}, {"version", kQdrantVersion}}},
                     {"collections", {{"number_of_collections", seen}}},
                     {"lightcone", {{"version", std::string(call.version)}}}});
}

Answer GetCollection(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.GetCollection(call.collection()));
  int dimension = 0;
  if (status.active_generation != 0) {
    LC_ASSIGN_OR_RETURN(const GenerationStatus active,
                        call.engine.GetGeneration(status.name, status.active_generation));
    dimension = active.space.dimension;
  }
  return TextOfJson(InfoOf(status, dimension));
}

Answer CollectionExists(const RestCall& call) {
  const absl::Status status = call.engine.GetCollection(call.collection()).status();
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return TextOfJson({{"exists", status.ok()}});
}

// The collection, its first generation and that one's activation. What was made goes away again if a later step fails.
Answer CreateCollection(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseWhatIsNotThere(body));
  LC_ASSIGN_OR_RETURN(const json* const given, body.Require("vectors", "{size, distance}"));
  LC_ASSIGN_OR_RETURN(const Fields vectors, Fields::Of(*given, body.At("vectors")));
  const bool named = !given->empty() && std::all_of(given->begin(), given->end(), [](const json& one) {
    return one.is_object() && one.contains("size");
  });
  if (named)
    return NotSupported(body.At("vectors"), "a collection has one vector for each point; give {size, distance}");
  LC_RETURN_IF_ERROR(vectors.Refuse("multivector_config", "a point has one vector, not a list of vectors"));
  LC_ASSIGN_OR_RETURN(const std::string datatype, vectors.Text("datatype"));
  if (!datatype.empty() && datatype != "float32") {
    return NotSupported(vectors.At("datatype"), "vectors are float32; the index chooses its codes");
  }
  LC_RETURN_IF_ERROR(vectors.Require("size", StrCat("1 .. ", kDimensionMax)).status());
  LC_ASSIGN_OR_RETURN(const int64_t size, vectors.Whole("size", 0, 1, kDimensionMax));
  CreateCollectionCall create;
  create.name = call.collection();
  LC_ASSIGN_OR_RETURN(create.metric, DistanceFrom(vectors));
  LC_ASSIGN_OR_RETURN(create.index, IndexFrom(body, vectors));
  LC_ASSIGN_OR_RETURN(const std::optional<StrictMode> strict, StrictModeFrom(body));
  create.strict_mode = strict.value_or(StrictMode());
  create.index_defaults = call.index_defaults;
  LC_RETURN_IF_ERROR(call.engine.CreateCollection(create).status());
  const auto begin = [&]() -> absl::Status {
    RegisterCall add;
    add.collection = create.name;
    add.manifest_json = TextOfJson({{"dimension", size}});
    LC_ASSIGN_OR_RETURN(const GenerationStatus first, call.engine.RegisterGeneration(add));
    ActivateCall activate;
    activate.collection = create.name;
    activate.generation = first.generation;
    return call.engine.ActivateGeneration(activate).status();
  };
  if (absl::Status begun = begin(); !begun.ok()) {
    const absl::Status dropped = call.engine.DropCollection(create.name, "");
    return dropped.ok() ? begun : Annotate(begun, StrCat("collection '", create.name, "' stays without a generation"));
  }
  return std::string("true");
}

Answer UpdateCollection(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(RefuseWhatIsNotThere(body));
  LC_RETURN_IF_ERROR(body.Refuse("vectors", "register a generation for another vector"));
  LC_RETURN_IF_ERROR(body.Refuse("hnsw_config", "change the index by `lightcone collection rebuild`"));
  LC_RETURN_IF_ERROR(body.Refuse("quantization_config", "change the codes by `lightcone collection rebuild`"));
  if (const json* params = body.Find("params")) {
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(*params, body.At("params")));
    LC_RETURN_IF_ERROR(CheckCopies(fields));
  }
  LC_ASSIGN_OR_RETURN(const std::optional<StrictMode> strict, StrictModeFrom(body));
  if (!strict || *strict == StrictMode()) {  // Optimizers and their settings have no counterpart.
    LC_RETURN_IF_ERROR(call.engine.GetCollection(call.collection()).status());
    return std::string("true");
  }
  UpdateCollectionCall update;
  update.collection = call.collection();
  update.strict_mode = strict;
  LC_RETURN_IF_ERROR(call.engine.UpdateCollection(update).status());
  return std::string("true");
}

Answer DropCollection(const RestCall& call) {
  const absl::Status status = call.engine.DropCollection(call.collection(), "");
  if (absl::IsNotFound(status)) return std::string("false");
  LC_RETURN_IF_ERROR(status);
  return std::string("true");
}

Answer CreatePayloadIndex(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  IndexPayloadCall index;
  index.collection = call.collection();
  LC_ASSIGN_OR_RETURN(const std::string name, TextThatIsThere(body, "field_name"));
  PayloadField field;
  LC_ASSIGN_OR_RETURN(field.path, PayloadPathFrom(name, body.At("field_name")));
  LC_ASSIGN_OR_RETURN(field.type, SchemaFrom(body));
  index.add.push_back(std::move(field));
  LC_ASSIGN_OR_RETURN(index.wait, call.QueryFlag("wait", false));
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.IndexPayload(index, call.context));
  return UpdateResult(call, status.sequence);
}

Answer DropPayloadIndex(const RestCall& call) {
  IndexPayloadCall index;
  index.collection = call.collection();
  LC_ASSIGN_OR_RETURN(std::string path, PayloadPathFrom(call.Parameter("field_name"), "field_name"));
  index.drop.push_back(std::move(path));
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, call.engine.IndexPayload(index, call.context));
  return UpdateResult(call, status.sequence);
}

// Each action is one change of its own. All are read before the first one is made.
Answer ChangeAliases(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_ASSIGN_OR_RETURN(const json* const actions, body.Require("actions", "an array of actions"));
  if (!actions->is_array()) return InvalidField("actions", ShownJson(*actions), "an array of actions");
  std::vector<AliasChange> changes;
  for (size_t i = 0; i < actions->size(); ++i) {
    LC_ASSIGN_OR_RETURN(const Fields action, Fields::Of((*actions)[i], StrCat("actions[", i, "]")));
    LC_RETURN_IF_ERROR(ReadAliasAction(call, action, &changes));
  }
  for (const AliasChange& change : changes) {
    const absl::Status done = call.engine.SetAlias(change.alias, change.collection, "");
    if (!done.ok()) return Annotate(done, StrCat("alias '", change.alias, "'"));
  }
  return std::string("true");
}

Answer ListAliases(const RestCall& call) {
  std::vector<CollectionStatus> collections;
  if (call.collection().empty()) {
    LC_ASSIGN_OR_RETURN(collections, call.engine.ListCollections());
  } else {
    LC_ASSIGN_OR_RETURN(CollectionStatus one, call.engine.GetCollection(call.collection()));
    collections.push_back(std::move(one));
  }
  json aliases = json::array();
  for (const CollectionStatus& status : collections) {
    if (!Sees(call, status.name)) continue;
    for (const std::string& alias : status.aliases) {
      aliases.push_back({{"alias_name", alias}, {"collection_name", status.name}});
    }
  }
  return TextOfJson({{"aliases", std::move(aliases)}});
}

}  // namespace lightcone::server::rest

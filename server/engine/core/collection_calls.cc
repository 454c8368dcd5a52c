#include "server/engine/core/collection_calls.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/backfill/pace.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/model_watch.h"
#include "server/engine/core/collection_status.h"
#include "server/engine/embed/embedder.h"
#include "server/engine/filter/payload_path.h"
#include "server/engine/live/live_figures.h"
#include "server/engine/rollout/canary.h"
#include "server/engine/search/leg_scale.h"
#include "server/engine/services/operator_transaction.h"
#include "server/engine/write/writer.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kAliasesMax = 1'000;  // aliases of one collection, which its record holds

// Part of the fingerprints that the store keeps: the older settings have their places in it, and a newer one is named
// where it is set.
std::string TextOf(const IndexChange& change) {
  std::map<std::string_view, std::string> texts;
  ForEachIndexSetting([&]<typename T>(const IndexSetting<T>& one) {
    if (!(change.*one.change)) return;
    if constexpr (std::is_enum_v<T>) {
      texts[one.name] = StrCat(static_cast<int>(*(change.*one.change)));
    } else {
      texts[one.name] = StrCat(*(change.*one.change));
    }
  });
  const auto take = [&](std::string_view name) {
    const auto text = texts.extract(name);
    return text.empty() ? std::string("-") : text.mapped();
  };
  std::string out = take("kind");
  for (const char* name : {"growing_rows_max", "merge_rows_max", "tombstones_share_max", "hnsw_m",
                           "hnsw_ef_construction", "hnsw_ef_search", "build_threads"}) {
    out += StrCat(",", take(name));
  }
  if (change.codes) out += StrCat(",", take("codes"));
  if (change.ivf_lists || change.ivf_nprobe || change.pq_m) {
    out += StrCat(",", take("ivf_lists"), ",", take("ivf_nprobe"), ",", take("pq_m"));
  }
  for (const auto& [name, text] : texts) out += StrCat(",", name, "=", text);
  return out;
}

// Part of fingerprints, too.
std::string TextOf(const StrictMode& strict) {
  std::string out;
  ForEachStrictMember([&](const char* name, auto member, const char*) {
    if (strict.*member) out += StrCat(",", name, "=", *(strict.*member) + 0u);
  });
  return out;
}

// The fields after the call. Errors as Engine::IndexPayload.
absl::StatusOr<std::vector<PayloadField>> ChangedFields(std::vector<PayloadField> fields,
                                                        const IndexPayloadCall& call) {
  const auto at = [&fields](const std::string& path) {
    return std::find_if(fields.begin(), fields.end(),
                        [path = CanonicalPath(path)](const PayloadField& f) { return CanonicalPath(f.path) == path; });
  };
  for (size_t i = 0; i < call.drop.size(); ++i) {
    const auto found = at(call.drop[i]);
    if (found == fields.end()) {
      return NotFound(StrCat("drop[", i, "]: no payload index on '", call.drop[i],
                             "'; there are: ", fields.empty() ? "none" : TextOf(fields)));
    }
    fields.erase(found);
  }
  for (size_t i = 0; i < call.add.size(); ++i) {
    const auto found = at(call.add[i].path);
    if (found == fields.end()) {
      fields.push_back(call.add[i]);
    } else if (found->type != call.add[i].type) {
      return AlreadyExists(StrCat("add[", i, "]: '", found->path, "' has an index of type ",
                                  PayloadTypeName(found->type), "; drop that one in the same call"));
    }
  }
  LC_RETURN_IF_ERROR(CheckPayloadFields(fields, "payload_fields"));
  return fields;
}

}  // namespace

ServedPtr MakeServed(std::shared_ptr<Collection> collection, const EngineOptions& options) {
  Collection* const c = collection.get();
  return std::make_shared<const Served>(Served{.collection = std::move(collection),
                                               .writer = std::make_shared<CollectionWriter>(c, options.write_queue_max),
                                               .backfill = std::make_shared<Backfill>(c),
                                               .live = std::make_shared<LiveFigures>(),
                                               .search_times = std::make_shared<SearchTimes>(),
                                               .canary = std::make_shared<CanaryTally>(),
                                               .samples = std::make_shared<RowSamples>(c->store(), c->number()),
                                               .model_watch = std::make_shared<ModelWatch>(c)});
}

IndexLimits IndexLimitsOf(const Context& context) {
  const EngineOptions& options = context.options;
  return {options.index_memory_bytes_max, options.index_unsealed_bytes_max, options.index_build_bytes_per_second_max,
          [store = context.store](int64_t bytes) { return store->CheckGrowth(static_cast<uint64_t>(bytes)); }};
}

absl::StatusOr<CollectionStatus> CollectionCalls::Create(const CreateCollectionCall& call) {
  LC_RETURN_IF_ERROR(CheckName(call.name, "name"));
  LC_RETURN_IF_ERROR(CheckPayloadFields(call.payload_fields, "payload_fields"));
  LC_RETURN_IF_ERROR(CheckTtl(call.default_ttl_ms, "default_ttl_ms"));
  const bool lorentz = call.metric == Metric::kLorentz;
  if (lorentz && !(call.curvature >= kCurvatureMin && call.curvature <= kCurvatureMax)) {
    return InvalidField("curvature", StrCat(call.curvature), StrCat(kCurvatureMin, " .. ", kCurvatureMax));
  }
  const std::string fingerprint =
      StrCat(call.name, "|", MetricName(call.metric), "|", call.curvature, "|", TextOf(call.index),
             call.payload_fields.empty() ? "" : StrCat("|", DigestOf(TextOf(call.payload_fields))),
             call.require_generation ? "|require_generation" : "",
             call.default_ttl_ms != 0 ? StrCat("|default_ttl=", call.default_ttl_ms) : "",
             call.foreign_vectors != ForeignVectors::kWarn ? StrCat("|foreign_vectors=", call.foreign_vectors) : "",
             call.strict_mode != StrictMode() ? StrCat("|strict_mode", TextOf(call.strict_mode)) : "");
  Catalog& catalog = context_.catalog;
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::BeginOnCatalog(
                                                      context_, {call.request_id, "CreateCollection", fingerprint}));
  if (const RequestRecord* before = change.earlier()) {
    for (const ServedPtr& served : catalog.All()) {
      if (served->collection->number() == before->collection) return StatusOf(*served);
    }
    return NotFound(StrCat("collection '", call.name, "' was made by this request, and dropped since"));
  }
  LC_RETURN_IF_ERROR(CheckNewName(call.name, "name"));
  CollectionRecord record;
  record.name = call.name;
  record.metric = call.metric;
  record.curvature = lorentz ? call.curvature : 1.0;
  record.index = call.index.Over(call.index_defaults);
  record.payload_fields = call.payload_fields;
  record.require_generation = call.require_generation;
  record.default_ttl_ms = call.default_ttl_ms;
  record.foreign_vectors = call.foreign_vectors;
  record.strict_mode = call.strict_mode;
  record.created_us = change.time_us();
  LC_RETURN_IF_ERROR(record.index.Validate());
  LC_RETURN_IF_ERROR(catalog.CheckNew(call.name, context_.options.limits.collections_max));
  catalog.operator_mutex().AssertHeld();  // The transaction holds it.
  const uint32_t number = change.request().collection = catalog.TakeNumber();
  std::string encoded = Encode(record);
  WriteBatch& batch = change.batch();
  batch.Put(Table::kMeta, keys::Meta(kNextCollectionName), StrCat(number + 1));
  batch.Expect(Table::kMeta, keys::CollectionName(call.name), std::nullopt);
  batch.Put(Table::kMeta, keys::CollectionName(call.name), StrCat(number));
  batch.Put(Table::kCollections, keys::Collection(number), encoded);
  // The index first: a folder without a record is nothing, a record without an index would fail the answer.
  const std::string folder = context_.folders.Index(number);
  LC_ASSIGN_OR_RETURN(auto collection,
                      Collection::Open(number, context_.store.get(), &context_.clock, folder, std::move(record),
                                       std::move(encoded), {}, {}, {}, IndexLimitsOf(context_)));
  const OperatorWrite written = change.Write();
  if (!written.in_store) {
    collection.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    return written.status;
  }
  const ServedPtr served = MakeServed(std::move(collection), context_.options);
  const CollectionStatus status = StatusOf(*served);
  catalog.Add(served);
  LC_RETURN_IF_ERROR(written.status);
  return status;
}

absl::StatusOr<std::vector<CollectionStatus>> CollectionCalls::List() const {
  std::vector<CollectionStatus> list;
  for (const ServedPtr& served : context_.catalog.All()) list.push_back(StatusOf(*served));
  return list;
}

absl::StatusOr<CollectionStatus> CollectionCalls::Get(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  return StatusOf(*served);
}

absl::Status CollectionCalls::Drop(const std::string& name, const std::string& request_id) {
  ServedPtr served;  // declared before the transaction: what the last holder ends must not happen under its locks
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::BeginOnCatalog(context_, {request_id, "DropCollection", name}));
  if (change.earlier() != nullptr) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(served, context_.catalog.FindByName(name));
  Collection& collection = *served->collection;
  const uint32_t number = change.request().collection = collection.number();
  const CollectionRecord& record = change.Join(collection).before().record;
  WriteBatch& batch = change.batch();
  batch.Delete(Table::kMeta, keys::CollectionName(name));
  for (const std::string& alias : record.aliases) batch.Delete(Table::kMeta, keys::CollectionName(alias));
  batch.Delete(Table::kCollections, keys::Collection(number));
  // From here on a start ends the drop.
  batch.Put(Table::kMeta, keys::Meta(DroppingName(number)), "");
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  collection.MarkDropped();
  context_.catalog.Remove(record);
  std::error_code ignored;
  std::filesystem::remove_all(context_.folders.Encoders(number), ignored);
  context_.embedder->Forget(number);
  return written.status;  // Whoever lets go of the collection last, most often we now, removes its data.
}

absl::Status CollectionCalls::SetAlias(const std::string& alias, const std::string& name,
                                       const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckName(alias, "alias"));
  Catalog& catalog = context_.catalog;
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::BeginOnCatalog(
                                                      context_, {request_id, "SetAlias", StrCat(alias, "|", name)}));
  if (change.earlier() != nullptr) return absl::OkStatus();
  LC_RETURN_IF_ERROR(catalog.RefusalOf(alias));
  const ServedPtr old = catalog.TargetOf(alias);
  ServedPtr target;
  if (!name.empty()) {
    if (old == nullptr) LC_RETURN_IF_ERROR(CheckNewName(alias, "alias"));
    LC_ASSIGN_OR_RETURN(target, catalog.Find(name));
    LC_RETURN_IF_ERROR(catalog.CheckNoCollection(alias));
  } else if (old == nullptr) {
    return NotFound(StrCat("no alias '", alias, "'"));
  }
  // Both records stay as they are meanwhile; the lower number first, as everybody who needs two does.
  std::map<uint32_t, Collection*> changed;
  for (const ServedPtr& one : {target, old}) {
    if (one != nullptr) changed[one->collection->number()] = one->collection.get();
  }
  for (const auto& [number, collection] : changed) {
    std::vector<std::string>& aliases = change.Join(*collection).record().aliases;
    std::erase(aliases, alias);
    if (target == nullptr || collection != target->collection.get()) continue;
    if (aliases.size() >= kAliasesMax) {
      return ResourceExhausted(
          StrCat("collection '", name, "' has ", aliases.size(), " aliases; allowed: at most ", kAliasesMax));
    }
    aliases.insert(std::upper_bound(aliases.begin(), aliases.end(), alias), alias);
  }
  change.request().collection = (target != nullptr ? target : old)->collection->number();
  if (target != nullptr) {
    change.batch().Put(Table::kMeta, keys::CollectionName(alias), StrCat(change.request().collection));
  } else {
    change.batch().Delete(Table::kMeta, keys::CollectionName(alias));
  }
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  change.Publish();
  catalog.SetAlias(alias, std::move(target));
  return written.status;
}

absl::StatusOr<CollectionStatus> CollectionCalls::Update(const UpdateCollectionCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  if (!call.require_generation && !call.default_ttl_ms && !call.foreign_vectors && !call.scale_generation &&
      call.strict_mode.value_or(StrictMode()) == StrictMode()) {
    return InvalidField("require_generation", "not set",
                        "at least one setting to change: require_generation, default_ttl_ms, foreign_vectors, "
                        "scale_generation or a member of strict_mode");
  }
  if (call.default_ttl_ms) LC_RETURN_IF_ERROR(CheckTtl(*call.default_ttl_ms, "default_ttl_ms"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  std::string content = call.collection;
  if (call.require_generation) content += StrCat("|require_generation=", *call.require_generation ? 1 : 0);
  if (call.default_ttl_ms) content += StrCat("|default_ttl=", *call.default_ttl_ms);
  if (call.foreign_vectors) content += StrCat("|foreign_vectors=", *call.foreign_vectors);
  if (call.scale_generation) content += StrCat("|scale_generation=", *call.scale_generation);
  if (call.strict_mode) content += StrCat("|strict_mode", TextOf(*call.strict_mode));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(context_, *served->collection,
                                                 {call.request_id, "UpdateCollection", DigestOf(content)}));
  if (change.earlier() == nullptr) {
    CollectionRecord& record = change.records().record();
    if (call.scale_generation) LC_RETURN_IF_ERROR(CheckScaleGeneration(change.before(), *call.scale_generation));
    record.scale_generation = call.scale_generation.value_or(record.scale_generation);
    record.require_generation = call.require_generation.value_or(record.require_generation);
    record.default_ttl_ms = call.default_ttl_ms.value_or(record.default_ttl_ms);
    record.foreign_vectors = call.foreign_vectors.value_or(record.foreign_vectors);
    record.strict_mode = Changed(record.strict_mode, call.strict_mode.value_or(StrictMode()));
    LC_RETURN_IF_ERROR(change.Commit());
  }
  return StatusOf(*served);
}

absl::StatusOr<CollectionStatus> CollectionCalls::Rebuild(const std::string& name, const IndexChange& index, bool wait,
                                                          const std::string& request_id, const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  Collection& collection = *served->collection;
  {
    LC_ASSIGN_OR_RETURN(
        OperatorTransaction change,
        OperatorTransaction::Begin(context_, collection, {request_id, "Rebuild", StrCat(name, "|", TextOf(index))}));
    if (change.earlier() == nullptr) {
      const CollectionState& state = change.before();
      IndexSettings settings = index.Over(state.record.index);
      ++settings.rebuild;  // A start goes on with a rebuild that this run does not end.
      LC_RETURN_IF_ERROR(settings.Validate());
      for (const GenerationRecord& generation : state.generations) {
        if (!generation.retired) LC_RETURN_IF_ERROR(settings.ValidateFor(generation.space.dimension));
      }
      change.records().record().index = settings;
      const OperatorWrite written = change.Write();
      if (!written.in_store) return written.status;
      change.Publish();
      LC_RETURN_IF_ERROR(collection.Reconfigure(settings));
      LC_RETURN_IF_ERROR(written.status);
    }
  }
  if (wait) LC_RETURN_IF_ERROR(collection.Flush(context));
  return StatusOf(*served);
}

absl::StatusOr<CollectionStatus> CollectionCalls::IndexPayload(const IndexPayloadCall& call,
                                                               const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckPayloadFields(call.add, "add"));
  if (call.drop.size() > kPayloadFieldsMax) {
    return InvalidField("drop", StrCat(call.drop.size(), " long"), StrCat("at most ", kPayloadFieldsMax, " paths"));
  }
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  {
    std::string content = StrCat(call.collection, "|", TextOf(call.add));
    for (const std::string& path : call.drop) content += StrCat("|", path);
    LC_ASSIGN_OR_RETURN(
        OperatorTransaction change,
        OperatorTransaction::Begin(context_, collection, {call.request_id, "IndexPayload", DigestOf(content)}));
    if (change.earlier() == nullptr) {
      std::vector<PayloadField>& fields = change.records().record().payload_fields;
      LC_ASSIGN_OR_RETURN(fields, ChangedFields(std::move(fields), call));
      LC_RETURN_IF_ERROR(change.Commit());
    }
  }
  absl::Status alive;
  const auto give_up = [&] {
    alive = CheckAlive(context, "index payload");
    if (alive.ok() && context_.ending.load()) alive = Unavailable("index payload: the server is shutting down");
    return !alive.ok();
  };
  if (call.wait && !collection.payloads().WaitReady(give_up)) return alive;
  return StatusOf(*served);
}

}  // namespace lightcone::server

// The line of generations: registering and listing.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/status.h"
#include "base/utf8.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/external_manifest.h"
#include "server/engine/core/engine_impl.h"
#include "server/engine/validation/validation.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kManifestBytesMax = 4 << 20;

// Whether embeddings of the new generation can ever meet those that the collection has.
absl::Status CheckSpace(const CollectionState& state, const RegisterCall& call, const GenerationRecord& made) {
  const auto refuse = [](std::string_view field, const std::string& value, const std::string& allowed) {
    return FieldError(absl::StatusCode::kFailedPrecondition, field, value, allowed);
  };
  const std::string of_collection = StrCat(", of collection '", state.record.name, "'; ");
  if (made.space.metric != state.record.metric) {
    return refuse("manifest.metric", std::string(MetricName(made.space.metric)),
                  StrCat(MetricName(state.record.metric), of_collection, "embeddings of another metric never compare"));
  }
  if (made.space.metric == Metric::kLorentz && made.space.curvature != state.record.curvature) {
    return refuse("manifest.curvature", NumberText(made.space.curvature),
                  StrCat(NumberText(state.record.curvature), of_collection,
                         "distances of two curvatures are on two scales, with an adapter too"));
  }
  if (call.parent > state.generations.size()) {
    return NotFound(StrCat("field 'parent' is ", call.parent, "; collection '", state.record.name, "' has generations ",
                           state.generations.empty() ? "none" : StrCat("1 .. ", state.generations.size())));
  }
  if (call.parent > 0 && state.Find(call.parent)->draft) {
    return refuse("parent", StrCat(call.parent), "a generation that is no draft; register that one first");
  }
  const auto newest = std::find_if(state.generations.rbegin(), state.generations.rend(),
                                   [](const GenerationRecord& g) { return !g.draft; });
  if (newest == state.generations.rend() || call.expects_adapter) return absl::OkStatus();
  const GenerationRecord& other = call.parent > 0 ? *state.Find(call.parent) : *newest;
  const bool prefix = made.compatible_prefix > 0;
  const int compared = prefix ? made.compatible_prefix : made.space.dimension;
  if (compared == other.space.dimension) return absl::OkStatus();
  return refuse(prefix ? "manifest.compatible_prefix" : "manifest.dimension", StrCat(compared),
                StrCat(other.space.dimension, ", of ", call.parent > 0 ? "parent " : "", "generation ",
                       other.generation, "; another dimension needs an adapter: set expects_adapter, and put one"));
}

}  // namespace

struct EngineImpl::NewGeneration {
  GenerationRecord record;
  std::optional<Manifest> manifest;  // when there is an encoder
};

absl::StatusOr<EngineImpl::NewGeneration> EngineImpl::CheckRegistration(const CollectionState& state,
                                                                        const RegisterCall& call) const {
  if (call.manifest_json.size() > kManifestBytesMax) {
    return InvalidField("manifest_json", StrCat(call.manifest_json.size(), " bytes long"),
                        StrCat("at most ", kManifestBytesMax));
  }
  if (static_cast<int64_t>(call.encoder.size()) > options_.limits.encoder_bytes_max) {
    return InvalidField("encoder", StrCat(call.encoder.size(), " bytes long"),
                        StrCat("at most ", options_.limits.encoder_bytes_max));
  }
  LC_RETURN_IF_ERROR(CheckPayload(call.manifest_json, kManifestBytesMax, "manifest_json"));
  NewGeneration made;
  GenerationRecord& record = made.record;
  const auto json = nlohmann::json::parse(call.manifest_json, nullptr, /*allow_exceptions=*/false);
  if (!call.encoder.empty() || json.contains("architecture")) {
    LC_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(call.manifest_json));
    LC_ASSIGN_OR_RETURN(record.space.metric, ParseMetric(manifest.metric));
    record.space.dimension = manifest.dimension;
    record.space.curvature = manifest.curvature;
    record.space.clip_radius = manifest.clip_radius;
    record.compatible_prefix = manifest.compatible_prefix;
    record.method = manifest.method;
    if (manifest.through_adapter && call.parent > 0) {
      return FieldError(absl::StatusCode::kFailedPrecondition, "parent", StrCat(call.parent),
                        StrCat("0: a model of method '", manifest.method,
                               "' compares with no older one as it is; put an adapter between the two"));
    }
    if (record.space.metric != Metric::kLorentz) record.space.curvature = record.space.clip_radius = 1.0;  // unused
    if (const absl::Status valid = record.space.Validate(); !valid.ok()) return Annotate(valid, "manifest");
    made.manifest = std::move(manifest);
  } else {
    LC_ASSIGN_OR_RETURN(ExternalManifest external, ReadExternalManifest(json, state.record.metric));
    record.space = external.space;
    record.compatible_prefix = external.compatible_prefix;
    record.method = std::move(external.method);
  }

  LC_RETURN_IF_ERROR(CheckSpace(state, call, record));
  LC_RETURN_IF_ERROR(state.record.index.ValidateFor(record.space.dimension));
  record.generation = state.record.last_generation + 1;
  record.parent = call.parent;
  record.has_encoder = !call.encoder.empty();
  record.draft = call.as_draft;
  record.registered_us = NowMicros();
  record.manifest_json = call.manifest_json;
  return made;
}

absl::Status EngineImpl::StoreEncoder(uint32_t collection, const NewGeneration& made, const RegisterCall& call) {
  if (call.encoder.empty()) return absl::OkStatus();
  LC_RETURN_IF_ERROR(MakeFolders(EncoderFolder(collection)));
  const std::string path = EncoderPath(collection, made.record.generation);
  // A crash from here on leaves a file without a record; the next generation of this number replaces it.
  LC_RETURN_IF_ERROR(WriteFileAtomically(path, call.encoder));
  const absl::Status loads = embedder_.Try(path, *made.manifest);
  if (loads.ok()) return loads;
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  // A damaged upload is the caller's: the server's own data is whole.
  if (absl::IsDataLoss(loads)) return InvalidArgument(StrCat("field 'encoder' does not load: ", MessageOf(loads)));
  return Annotate(loads, "field 'encoder'");
}

absl::StatusOr<GenerationStatus> EngineImpl::RegisterGeneration(const RegisterCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(call.collection));
  Collection& collection = *served->collection;
  absl::MutexLock lock(&collection.operator_mutex());
  const auto state = collection.state();
  if (call.draft != 0) return TakeUpDraft(collection, call);
  // A training that is begun again may write another manifest: its draft is known by its request alone.
  const std::string fingerprint =
      call.as_draft ? StrCat(collection.number(), "|a draft")
                    : StrCat(collection.number(), "|", call.parent, "|", DigestOf(call.manifest_json), "|",
                             DigestOf(call.encoder), call.expects_adapter ? "|expects_adapter" : "");
  LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, call.request_id, "RegisterGeneration", fingerprint));
  if (before) return StatusOf(collection, *state, before->generation);
  LC_ASSIGN_OR_RETURN(const NewGeneration made, CheckRegistration(*state, call));
  LC_RETURN_IF_ERROR(StoreEncoder(collection.number(), made, call));

  CollectionRecord record = state->record;
  record.last_generation = made.record.generation;
  WriteBatch batch;
  batch.Expect(Table::kCollections, keys::Collection(collection.number()), state->encoded);
  batch.Put(Table::kCollections, keys::Collection(collection.number()), Encode(record));
  batch.Put(Table::kGenerations, keys::Generation(collection.number(), made.record.generation), Encode(made.record));
  RecordRequest(call.request_id,
                {"RegisterGeneration", fingerprint, collection.number(), made.record.generation, 0, 0, NowMicros()},
                &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  LC_RETURN_IF_ERROR(collection.AddGeneration(made.record.generation, made.record.space));
  std::vector<GenerationRecord> generations = state->generations;
  generations.push_back(made.record);
  collection.Publish(std::move(record), std::move(generations));
  LC_RETURN_IF_ERROR(written.status);
  return StatusOf(collection, *collection.state(), made.record.generation);
}

absl::StatusOr<GenerationStatus> EngineImpl::TakeUpDraft(Collection& collection, const RegisterCall& call) {
  if (call.parent != 0 || call.expects_adapter || !call.manifest_json.empty() || !call.encoder.empty()) {
    return InvalidField("draft", StrCat(call.draft), "0, or the number of a draft and nothing beside it");
  }
  const auto state = collection.state();
  const std::string fingerprint = StrCat(collection.number(), "|draft|", call.draft);
  LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, call.request_id, "RegisterGeneration", fingerprint));
  if (before) return StatusOf(collection, *state, before->generation);
  LC_ASSIGN_OR_RETURN(const GenerationRecord* found, state->ResolveAny(call.draft));
  if (!found->draft) {
    return FailedPrecondition(StrCat("generation ", call.draft, " of collection '", state->record.name,
                                     "' is no draft: it has been registered"));
  }
  std::vector<GenerationRecord> generations = state->generations;
  GenerationRecord& record = generations[call.draft - 1];
  record.draft = false;
  record.registered_us = NowMicros();
  WriteBatch batch;
  batch.Expect(Table::kCollections, keys::Collection(collection.number()), state->encoded);
  batch.Put(Table::kGenerations, keys::Generation(collection.number(), call.draft), Encode(record));
  RecordRequest(call.request_id,
                {"RegisterGeneration", fingerprint, collection.number(), call.draft, 0, 0, record.registered_us},
                &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  collection.PublishGenerations(std::move(generations));
  LC_RETURN_IF_ERROR(written.status);
  return StatusOf(collection, *collection.state(), call.draft);
}

absl::StatusOr<std::vector<GenerationStatus>> EngineImpl::ListGenerations(const std::string& name) {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
  const auto state = served->collection->state();
  std::vector<GenerationStatus> list;
  for (const GenerationRecord& g : state->generations) {
    list.push_back(StatusOf(*served->collection, *state, g.generation));
  }
  return list;
}

absl::StatusOr<GenerationStatus> EngineImpl::GetGeneration(const std::string& name, uint32_t generation) {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
  const auto state = served->collection->state();
  if (generation == 0) LC_RETURN_IF_ERROR(state->Resolve(0).status());
  const uint32_t wanted = generation == 0 ? state->record.active_generation : generation;
  // A retired one and a draft are described, too; one that never was is not.
  if (state->Find(wanted) == nullptr) return state->Resolve(wanted).status();
  return StatusOf(*served->collection, *state, wanted);
}

GenerationStatus EngineImpl::StatusOf(const Collection& collection, const CollectionState& state,
                                      uint32_t generation) const {
  const GenerationRecord& record = *state.Find(generation);
  GenerationStatus status;
  status.generation = generation;
  status.validation = record.validation;
  if (record.validation != nullptr) {
    status.validation_outdated = MessageOf(CheckCurrent(state, collection.progress(), generation, *record.validation));
  }
  const bool validated =
      record.validation != nullptr && record.validation->passed && status.validation_outdated.empty();
  status.state = record.retired                                 ? GenerationState::kRetired
                 : record.draft                                 ? GenerationState::kDraft
                 : state.record.active_generation == generation ? GenerationState::kActive
                 : validated                                    ? GenerationState::kValidated
                                                                : GenerationState::kRegistered;
  status.parent = record.parent;
  status.space = record.space;
  status.compatible_prefix = record.compatible_prefix;
  status.method = record.method;
  status.has_encoder = record.has_encoder;
  status.reach = state.reach.Of(generation);
  for (const auto& [generations, count] : collection.progress().items) {
    if (std::binary_search(generations.begin(), generations.end(), generation)) status.items += count;
  }
  status.registered = absl::FromUnixMicros(record.registered_us);
  if (record.activated_us) status.activated = absl::FromUnixMicros(*record.activated_us);
  status.manifest_json = record.manifest_json;
  return status;
}

}  // namespace lightcone::server

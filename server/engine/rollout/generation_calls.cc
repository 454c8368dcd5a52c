#include "server/engine/rollout/generation_calls.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/status.h"
#include "base/utf8.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/external_manifest.h"
#include "server/engine/embed/embedder.h"
#include "server/engine/rollout/generation_status.h"
#include "server/engine/services/operator_transaction.h"

namespace lightcone::server {
namespace {

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

struct NewGeneration {
  GenerationRecord record;
  std::optional<Manifest> manifest;  // manifest of a generation with an encoder's file
  std::optional<EndpointManifest> endpoint;
};

absl::StatusOr<NewGeneration> CheckRegistration(const CollectionState& state, const RegisterCall& call,
                                                const Context& engine) {
  const Limits& limits = engine.options.limits;
  if (static_cast<int64_t>(call.manifest_json.size()) > limits.manifest_bytes_max) {
    return InvalidField("manifest_json", StrCat(call.manifest_json.size(), " bytes long"),
                        StrCat("at most ", limits.manifest_bytes_max, " bytes (limits.manifest_bytes_max)"));
  }
  if (static_cast<int64_t>(state.generations.size()) >= limits.generations_max) {
    return ResourceExhausted(StrCat("collection '", state.record.name, "' has ", state.generations.size(),
                                    " generations; allowed: at most ", limits.generations_max,
                                    " (limits.generations_max)"));
  }
  if (static_cast<int64_t>(call.encoder.size()) > limits.encoder_bytes_max) {
    return InvalidField("encoder", StrCat(call.encoder.size(), " bytes long"),
                        StrCat("at most ", limits.encoder_bytes_max));
  }
  LC_RETURN_IF_ERROR(CheckPayload(call.manifest_json, limits.manifest_bytes_max, "manifest_json"));
  NewGeneration made;
  GenerationRecord& record = made.record;
  const auto json = nlohmann::json::parse(call.manifest_json, nullptr, /*allow_exceptions=*/false);
  if (!call.encoder.empty() || json.contains("architecture")) {
    if (json.contains("endpoint")) {
      return InvalidField("manifest.endpoint", "given", "left out beside an encoder's file or an architecture");
    }
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
    record.model = std::move(external.model);
    record.revision = std::move(external.revision);
    made.endpoint = std::move(external.endpoint);
    if (made.endpoint) LC_RETURN_IF_ERROR(CheckEndpointAllowed(*made.endpoint, engine.options.endpoints));
  }

  LC_RETURN_IF_ERROR(CheckSpace(state, call, record));
  LC_RETURN_IF_ERROR(state.record.index.ValidateFor(record.space.dimension));
  record.generation = state.record.last_generation + 1;
  record.parent = call.parent;
  record.endpoint = made.endpoint.has_value();
  record.has_encoder = !call.encoder.empty() || record.endpoint;
  record.draft = call.as_draft;
  record.registered_us = NowMicros();
  record.manifest_json = call.manifest_json;
  return made;
}

absl::Status StoreEncoder(const Context& engine, uint32_t collection, const NewGeneration& made,
                          const RegisterCall& call) {
  if (call.encoder.empty()) return absl::OkStatus();
  LC_RETURN_IF_ERROR(MakeFolders(engine.folders.Encoders(collection)));
  // A crash from here on leaves a file without a record; the next generation of this number replaces it.
  return WriteFileAtomically(engine.folders.Encoder(collection, made.record.generation), call.encoder);
}

absl::Status TryEncoder(const Context& engine, const RegisterCall& call, const std::function<bool()>& cancelled) {
  LC_RETURN_IF_ERROR(MakeFolders(engine.folders.Jobs()));
  const std::string path = StrCat(engine.folders.Jobs(), "/encoder-", Crc32c(call.encoder), "-", NowMicros(), ".pt");
  LC_RETURN_IF_ERROR(WriteFileAtomically(path, call.encoder));
  const absl::Status loads = engine.embedder->Try(path, call.manifest_json, cancelled);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (loads.ok()) return loads;
  // A damaged upload is the caller's: the server's own data is whole.
  if (absl::IsDataLoss(loads)) return InvalidArgument(StrCat("field 'encoder' does not load: ", MessageOf(loads)));
  return Annotate(loads, "field 'encoder'");
}

// Nothing is locked: a foreign module, or an endpoint, may take all the time that a run of an encoder may.
absl::Status TryGeneration(const Context& engine, const NewGeneration& made, const RegisterCall& call,
                           const std::function<bool()>& cancelled) {
  if (!call.encoder.empty()) return TryEncoder(engine, call, cancelled);
  if (!made.endpoint) return absl::OkStatus();
  return Annotate(engine.embedder->endpoints().Try(*made.endpoint, made.record.space.dimension, cancelled),
                  "field 'manifest.endpoint'");
}

}  // namespace

absl::StatusOr<GenerationStatus> GenerationCalls::Register(const RegisterCall& call,
                                                           const std::function<bool()>& cancelled) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  if (call.draft != 0) return TakeUpDraft(collection, call);
  if (!call.encoder.empty() && !call.as_draft && !context_.options.encoder_uploads) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "encoder", StrCat(call.encoder.size(), " bytes long"),
                      "none: the server's option encoder.uploads is 'refuse'; send vectors, or train in the server");
  }
  // A training that is begun again may write another manifest: its draft is known by its request alone.
  const std::string fingerprint =
      call.as_draft ? StrCat(collection.number(), "|a draft")
                    : StrCat(collection.number(), "|", call.parent, "|", DigestOf(call.manifest_json), "|",
                             DigestOf(call.encoder), call.expects_adapter ? "|expects_adapter" : "");
  const OperatorRequest request{call.request_id, "RegisterGeneration", fingerprint};
  std::optional<NewGeneration> checked;
  {
    LC_ASSIGN_OR_RETURN(const OperatorTransaction look, OperatorTransaction::Begin(context_, collection, request));
    if (look.earlier() == nullptr) {
      LC_ASSIGN_OR_RETURN(checked, CheckRegistration(look.before(), call, context_));
    }
  }
  if (checked) LC_RETURN_IF_ERROR(TryGeneration(context_, *checked, call, cancelled));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::Begin(context_, collection, request));
  if (change.earlier() != nullptr) return StatusOf(collection, change.before(), change.earlier()->generation);
  LC_ASSIGN_OR_RETURN(const NewGeneration made, CheckRegistration(change.before(), call, context_));
  LC_RETURN_IF_ERROR(StoreEncoder(context_, collection.number(), made, call));
  const uint32_t generation = made.record.generation;
  change.records().record().last_generation = generation;
  change.records().generation(generation) = made.record;
  change.request().generation = generation;
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  LC_RETURN_IF_ERROR(collection.AddGeneration(generation, made.record.space));
  change.Publish();
  LC_RETURN_IF_ERROR(written.status);
  return StatusOf(collection, *collection.state(), generation);
}

absl::StatusOr<GenerationStatus> GenerationCalls::TakeUpDraft(Collection& collection, const RegisterCall& call) {
  if (call.parent != 0 || call.expects_adapter || !call.manifest_json.empty() || !call.encoder.empty()) {
    return InvalidField("draft", StrCat(call.draft), "0, or the number of a draft and nothing beside it");
  }
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(
                          context_, collection,
                          {call.request_id, "RegisterGeneration", StrCat(collection.number(), "|draft|", call.draft)}));
  if (change.earlier() != nullptr) return StatusOf(collection, change.before(), change.earlier()->generation);
  LC_ASSIGN_OR_RETURN(const GenerationRecord* found, change.before().ResolveAny(call.draft));
  if (!found->draft) {
    return FailedPrecondition(StrCat("generation ", call.draft, " of collection '", change.before().record.name,
                                     "' is no draft: it has been registered"));
  }
  GenerationRecord& record = change.records().generation(call.draft);
  record.draft = false;
  record.registered_us = change.time_us();
  change.request().generation = call.draft;
  LC_RETURN_IF_ERROR(change.Commit());
  return StatusOf(collection, *collection.state(), call.draft);
}

absl::StatusOr<std::vector<GenerationStatus>> GenerationCalls::List(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const auto state = served->collection->state();
  std::vector<GenerationStatus> list;
  for (const GenerationRecord& g : state->generations) {
    list.push_back(StatusWithoutManifest(*served->collection, *state, g.generation));
  }
  return list;
}

absl::StatusOr<GenerationStatus> GenerationCalls::Get(const std::string& name, uint32_t generation) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const auto state = served->collection->state();
  if (generation == 0) LC_RETURN_IF_ERROR(state->Resolve(0).status());
  const uint32_t wanted = generation == 0 ? state->record.active_generation : generation;
  // A retired one and a draft are described, too; one that never was is not.
  if (state->Find(wanted) == nullptr) return state->Resolve(wanted).status();
  return StatusOf(*served->collection, *state, wanted);
}

}  // namespace lightcone::server

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/commands/put_adapter.h"
#include "cli/commands/register_model.h"
#include "cli/json/message_json.h"
#include "cli/json/rollout_json.h"

namespace lightcone::cli {
namespace {

struct GenerationFlags {
  std::string collection, model, manifest, encoder, method = "external", reason, request_id;
  uint32_t generation = 0, draft = 0, parent = 0, dimension = 0, compatible_prefix = 0, limit = 0;
  uint32_t reference_generation = 0;
  std::string endpoint, endpoint_model, endpoint_key_file, endpoint_key_env, query_prefix, document_prefix;
  double curvature = 0, clip_radius = 0;
  bool activate = false, force = false, expects_adapter = false, no_adapter = false, wait = false;
  std::optional<double> tolerance;
  bool without_calibration = false;
  std::string measure;
  std::optional<uint32_t> expect_active;
};

void ShowGeneration(const Context& context, const v1::GenerationInfo& info, std::string_view did) {
  if (context.json) return context.PrintJson(GenerationJson(info));
  context.Print(StrCat(did, GenerationsTable({info}),
                       did.empty() && info.has_validation() ? ValidationTable(info.validation()) : ""));
}

// Flags of an encoder that is an endpoint.
std::vector<std::pair<const char*, const std::string*>> EndpointFlags(const GenerationFlags& flags) {
  return {{"model", &flags.endpoint_model},
          {"key_file", &flags.endpoint_key_file},
          {"key_env", &flags.endpoint_key_env},
          {"query_prefix", &flags.query_prefix},
          {"document_prefix", &flags.document_prefix}};
}

OrderedJson EndpointOf(const GenerationFlags& flags) {
  OrderedJson endpoint = {{"url", flags.endpoint}};
  for (const auto& [member, value] : EndpointFlags(flags)) {
    if (!value->empty()) endpoint[member] = *value;
  }
  return endpoint;
}

// Fills a registration from --model DIR, from --manifest FILE (and --encoder FILE), or from --dimension and its
// companions.
absl::Status SetModel(const GenerationFlags& flags, v1::RegisterRequest* request) {
  const int ways = !flags.model.empty() + !flags.manifest.empty() + (flags.dimension > 0) + (flags.draft > 0);
  if (ways != 1) {
    return InvalidArgument(
        "one of --model DIR, --manifest FILE, --dimension D and --draft N must say what to register");
  }
  if (flags.draft > 0 && !flags.encoder.empty()) {
    return InvalidField("--encoder", StrCat("'", flags.encoder, "'"), "absent with --draft: a draft has an encoder");
  }
  if (flags.dimension == 0) {
    for (const auto& [flag, given] :
         {std::pair("--curvature", flags.curvature != 0), std::pair("--clip-radius", flags.clip_radius != 0),
          std::pair("--compatible-prefix", flags.compatible_prefix != 0)}) {
      if (given)
        return InvalidField(flag, "given", "absent without --dimension: the manifest of a model holds the value");
    }
  }
  for (const auto& [member, value] : EndpointFlags(flags)) {
    if (!value->empty() && flags.endpoint.empty()) {
      return InvalidField(StrCat("manifest.endpoint.", member), StrCat("'", *value, "'"), "absent without --endpoint");
    }
  }
  if (!flags.endpoint.empty() && (flags.dimension == 0 || !flags.encoder.empty())) {
    return InvalidField("--endpoint", StrCat("'", flags.endpoint, "'"),
                        "absent without --dimension, and beside --encoder; a manifest may have an endpoint");
  }
  if (flags.draft > 0) return absl::OkStatus();
  if (!flags.model.empty()) return SetModelFolder(flags.model, flags.encoder, request);
  if (!flags.manifest.empty()) {
    LC_ASSIGN_OR_RETURN(*request->mutable_manifest_json(), ReadFile(flags.manifest, 16 << 20));
  } else {
    OrderedJson manifest = {{"dimension", flags.dimension}, {"method", flags.method}};
    if (flags.curvature != 0) manifest["curvature"] = flags.curvature;
    if (flags.clip_radius != 0) manifest["clip_radius"] = flags.clip_radius;
    if (flags.compatible_prefix != 0) manifest["compatible_prefix"] = flags.compatible_prefix;
    if (!flags.endpoint.empty()) manifest["endpoint"] = EndpointOf(flags);
    request->set_manifest_json(manifest.dump());
  }
  if (!flags.encoder.empty()) {
    LC_ASSIGN_OR_RETURN(*request->mutable_encoder(), ReadFile(flags.encoder));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ActivateResponse> Activate(Context& context, const GenerationFlags& flags, uint32_t generation,
                                              const std::string& request_id) {
  auto request = RequestOf<v1::ActivateRequest>(flags);
  request.set_generation(generation);
  request.set_request_id(request_id);
  return context.Call(&client::Client::ActivateGeneration, request);
}

absl::StatusOr<v1::GenerationInfo> GenerationOf(Context& context, const std::string& collection, uint32_t generation) {
  v1::GenerationsGetRequest request;
  request.set_collection(collection);
  request.set_generation(generation);
  LC_ASSIGN_OR_RETURN(auto response, context.Call(&client::Client::GetGeneration, request));
  return std::move(*response.mutable_generation());
}

// The adapter of a pair of generations.
struct PairAdapter {
  std::optional<v1::AdapterInfo> info;
  std::string did;  // outcome for the adapter, for people
};

// The adapter of --model, between the old model's generation and the new one. A registration that is asked for again
// leaves what became of it since.
absl::StatusOr<PairAdapter> PutAdapterOf(Context& context, const GenerationFlags& flags, const ModelAdapter& adapter,
                                         uint32_t generation) {
  if (!adapter.note.empty()) std::fprintf(stderr, "lightcone: %s\n", adapter.note.c_str());
  if (adapter.file.empty()) return PairAdapter();
  const std::string arrow = StrCat("adapter ", adapter.from, " -> ", generation);
  const auto all = context.Call(&client::Client::AllAdapters, RequestOf<v1::ListAdaptersRequest>(flags));
  if (!all.ok()) return Annotate(all.status(), StrCat("generation ", generation, " is registered; its ", arrow));
  for (const v1::AdapterInfo& one : all->adapters()) {
    if (one.from_generation() != adapter.from || one.to_generation() != generation) continue;
    return PairAdapter{one, StrCat(arrow, " is there already\n")};
  }
  const std::string request_id = flags.request_id.empty() ? "" : flags.request_id + "-adapter";
  absl::StatusOr<v1::AdapterInfo> put =
      PutAdapterFile(context, {flags.collection, adapter.from, generation, request_id}, adapter.file);
  if (put.ok()) return PairAdapter{std::move(*put), StrCat(arrow, " is put, from '", adapter.file, "'\n")};
  if (!request_id.empty() && (absl::IsNotFound(put.status()) || absl::IsAlreadyExists(put.status()))) {
    std::fprintf(stderr, "lightcone: %s is not put again: %s\n", arrow.c_str(), MessageOf(put.status()).c_str());
    return PairAdapter();
  }
  return Annotate(put.status(), StrCat("generation ", generation, " is registered, but not its adapter (`lightcone ",
                                       "generation adapter put ", flags.collection, " ", adapter.from, " ", generation,
                                       " ", adapter.file, "`)"));
}

absl::Status Register(Context& context, const GenerationFlags& flags) {
  auto request = RequestOf<v1::RegisterRequest>(flags);
  LC_RETURN_IF_ERROR(SetModel(flags, &request));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  ModelAdapter adapter;
  if (!flags.model.empty() && !flags.no_adapter) {
    LC_ASSIGN_OR_RETURN(adapter, FindModelAdapter(*client, flags.collection, flags.model, flags.parent, 0));
  }
  LC_ASSIGN_OR_RETURN(const v1::RegisterResponse response, client->RegisterGeneration(request));
  const uint32_t generation = response.generation().generation();
  // An earlier call registered the model, and the old model was registered once more since.
  if (adapter.from >= generation) {
    LC_ASSIGN_OR_RETURN(adapter, FindModelAdapter(*client, flags.collection, flags.model, flags.parent, generation));
  }
  LC_ASSIGN_OR_RETURN(const PairAdapter put, PutAdapterOf(context, flags, adapter, generation));
  if (flags.activate) {
    const std::string activation_id = flags.request_id.empty() ? "" : flags.request_id + "-activate";
    const auto activated = Activate(context, flags, generation, activation_id);
    if (!activated.ok()) {
      return Annotate(activated.status(), StrCat("generation ", generation, " is registered, but not active"));
    }
  }
  v1::GenerationInfo now = response.generation();
  // An activation changes the state, and an adapter changes the reach.
  if (flags.activate || put.info) {
    LC_ASSIGN_OR_RETURN(now, GenerationOf(context, flags.collection, generation));
  }
  if (context.json) {
    OrderedJson json = GenerationJson(now);
    if (put.info) json["adapter"] = AdapterJson(*put.info);
    context.PrintJson(json);
  } else {
    ShowGeneration(context, now, put.did);
  }
  return absl::OkStatus();
}

absl::Status ListGenerations(Context& context, const GenerationFlags& flags) {
  v1::GenerationsListRequest request = RequestOf<v1::GenerationsListRequest>(flags);
  request.set_without_manifests(!context.json);  // the table does not show them
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::AllGenerations, request));
  ShowAll(context, response.generations(), GenerationJson, GenerationsTable);
  return absl::OkStatus();
}

absl::Status GetGeneration(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(const v1::GenerationInfo info, GenerationOf(context, flags.collection, flags.generation));
  ShowGeneration(context, info, "");
  return absl::OkStatus();
}

absl::Status Validate(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::ValidateGeneration, RequestOf<v1::ValidateRequest>(flags)));
  if (!flags.wait) {
    context.Show({{"job", response.job()}},
                 StrCat("job ", response.job(), " validates generation ", flags.generation, "\n"));
    return absl::OkStatus();
  }
  LC_RETURN_IF_ERROR(WaitForJob(context, response.job(), /*show=*/false).status());
  LC_ASSIGN_OR_RETURN(const v1::GenerationInfo now, GenerationOf(context, flags.collection, flags.generation));
  ShowGeneration(context, now, "");
  if (now.validation().passed()) return absl::OkStatus();
  return FailedPrecondition(StrCat("generation ", flags.generation, " did not pass its validation"));
}

absl::Status Retire(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::RetireGeneration, RequestOf<v1::RetireRequest>(flags)));
  if (flags.wait && !response.job().empty()) return WaitForJob(context, response.job()).status();
  if (context.json) {
    OrderedJson json = GenerationJson(response.generation());
    json["job"] = response.job();
    context.PrintJson(json);
  } else {
    ShowGeneration(context, response.generation(),
                   StrCat("generation ", flags.generation, " is retired; ",
                          response.job().empty() ? "its space is given back\n"
                                                 : StrCat("job ", response.job(), " gives its space back\n")));
  }
  return absl::OkStatus();
}

// Shows which generation serves after an activation or a rollback.
template <typename Response>
absl::Status ShowSwitch(const Context& context, const absl::StatusOr<Response>& response) {
  if (!response.ok()) return response.status();
  if (context.json) {
    OrderedJson json = GenerationJson(response->generation());
    json.update(FieldsJson(*response, {"previous_generation", "out_of_reach"}));
    context.PrintJson(json);
    return absl::OkStatus();
  }
  ShowGeneration(
      context, response->generation(),
      StrCat("generation ", response->generation().generation(), " serves; before it: ",
             response->previous_generation() == 0 ? std::string("none") : StrCat(response->previous_generation()),
             "; items out of its reach: ", response->out_of_reach(), "\n"));
  return absl::OkStatus();
}

absl::Status ActivateOne(Context& context, const GenerationFlags& flags) {
  return ShowSwitch(context, Activate(context, flags, flags.generation, flags.request_id));
}

absl::Status Rollback(Context& context, const GenerationFlags& flags) {
  return ShowSwitch(context, context.Call(&client::Client::RollbackGeneration, RequestOf<v1::RollbackRequest>(flags)));
}

absl::Status Audit(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Audit, RequestOf<v1::AuditRequest>(flags)));
  ShowAll(context, response.entries(), AuditJson, AuditTable);
  return absl::OkStatus();
}

void AddActivationFlags(CLI::App* app, GenerationFlags* flags) {
  app->add_flag("--force", flags->force,
                "Activate without a passed validation, or with items out of reach; needs --reason");
  app->add_option("--reason", flags->reason, "Reason that the audit log keeps");
  app->add_option("--expect-active", flags->expect_active, "Generation that must be active now, else the call refuses");
  AddRequestId(app, &flags->request_id);
}

void AddRegisterFlags(CLI::App* app, GenerationFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("--draft", flags->draft,
                  "Number of a draft that a training left, to make it a generation like others");
  app->add_option("--model", flags->model, "Folder that `lightcone train` wrote: manifest and encoder");
  app->add_option("--manifest", flags->manifest, "File of a manifest alone, for applications that embed on their side");
  app->add_option("--encoder", flags->encoder, "TorchScript file of the encoder; default: the one beside the manifest");
  app->add_option("--dimension", flags->dimension, "Dimension of a model from elsewhere, which has no manifest");
  app->add_option("--endpoint", flags->endpoint,
                  "URL of an encoder of texts that speaks OpenAI's /v1/embeddings; the server calls it");
  app->add_option("--endpoint-model", flags->endpoint_model, "Name of the model at the endpoint");
  app->add_option("--endpoint-key-file", flags->endpoint_key_file,
                  "Name of the file with the endpoint's key, in the server's folder of keys");
  app->add_option("--endpoint-key-env", flags->endpoint_key_env,
                  "Environment variable of the server with the endpoint's key: LIGHTCONE_ENDPOINT_...");
  app->add_option("--query-prefix", flags->query_prefix, "Text that the endpoint gets before each query");
  app->add_option("--document-prefix", flags->document_prefix, "Text that the endpoint gets before each item's text");
  app->add_option("--curvature", flags->curvature, "K of a Lorentz model from elsewhere");
  app->add_option("--clip-radius", flags->clip_radius, "Clip radius of a Lorentz model from elsewhere");
  app->add_option("--method", flags->method, "Training method of a model from elsewhere")->capture_default_str();
  app->add_option("--parent", flags->parent, "Generation that the model was trained to be compatible with; 0: none");
  app->add_option("--compatible-prefix", flags->compatible_prefix,
                  "Leading numbers of a model from elsewhere that compare with older generations; 0: all");
  app->add_flag("--expects-adapter", flags->expects_adapter,
                "Allow another dimension than the parent's: an adapter will lead to older generations");
  app->add_flag("--no-adapter", flags->no_adapter,
                "Leave out the adapter for the old model's items that a training left in --model");
  app->add_flag("--activate", flags->activate, "Activate the generation at once");
  AddActivationFlags(app, flags);
}

void AddValidateFlags(CLI::App* app, GenerationFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  AddGenerationArgument(app, &flags->generation);
  app->add_option("--tolerance", flags->tolerance,
                  "Loss against the older generation's own queries that the 95 % interval must exclude; default: 0.02");
  app->add_option("--measure", flags->measure,
                  "Measure to compare by: cmc1, cmc5, map, mrr, ndcg10, recall10, or several with weights, such as "
                  "cmc1:2,map:1; default: CMC@1 and mAP, each for itself");
  app->add_option("--reference", flags->reference_generation,
                  "Generation trained alone on the same data, for P_com and P_up; 0: none");
  app->add_flag("--no-calibration", flags->without_calibration,
                "Measure and rank mixed galleries by plain distances alone");
  app->add_flag("--wait", flags->wait, "Wait for the job; the exit code is 5 when the validation is not passed");
  AddRequestId(app, &flags->request_id);
}

void AddRetireFlags(CLI::App* app, GenerationFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  AddGenerationArgument(app, &flags->generation);
  app->add_option("--reason", flags->reason, "Reason that the audit log keeps");
  app->add_flag("--wait", flags->wait, "Wait until the space of the generation is given back");
  AddRequestId(app, &flags->request_id);
}

}  // namespace

void AddGeneration(CLI::App& root, Context& context) {
  CLI::App* app =
      AddCommand(root, "generation",
                 "Register, list, show, activate and roll back generations of the model; adapters between them");
  app->require_subcommand(1);
  AddCommands<GenerationFlags>(
      *app, context,
      {{"register", "Add the next generation, or take up a draft", &Register, &AddRegisterFlags},
       {"list", "List the generations of a collection", &ListGenerations,
        [](CLI::App* list, GenerationFlags* flags) { AddCollectionArgument(list, &flags->collection); }},
       {"get", "Show one generation", &GetGeneration,
        [](CLI::App* get, GenerationFlags* flags) {
          AddCollectionArgument(get, &flags->collection);
          AddGenerationArgument(get, &flags->generation);
        }},
       {"validate", "Measure a generation by the probe sets, on the items of older generations", &Validate,
        &AddValidateFlags},
       {"activate", "Make a generation the serving one", &ActivateOne,
        [](CLI::App* activate, GenerationFlags* flags) {
          AddCollectionArgument(activate, &flags->collection);
          AddGenerationArgument(activate, &flags->generation);
          AddActivationFlags(activate, flags);
        }},
       {"rollback", "Go back to the generation that served before the active one", &Rollback,
        [](CLI::App* rollback, GenerationFlags* flags) {
          AddCollectionArgument(rollback, &flags->collection);
          AddActivationFlags(rollback, flags);
        }},
       {"retire", "Take a generation out of service for good, and give its space back", &Retire, &AddRetireFlags},
       {"audit", "List activations, rollbacks, retirements and canaries, newest first", &Audit,
        [](CLI::App* audit, GenerationFlags* flags) {
          AddCollectionArgument(audit, &flags->collection);
          audit->add_option("--limit", flags->limit, "Most entries to list, 1 .. 10000; 0: 100");
        }}});
  AddGenerationCanary(*app, context);
  AddGenerationAdapter(*app, context);
  AddGenerationProbes(*app, context);
}

}  // namespace lightcone::cli

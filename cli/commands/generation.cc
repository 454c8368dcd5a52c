#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/commands/put_adapter.h"
#include "cli/commands/register_model.h"
#include "cli/json/message_json.h"
#include "cli/json/rollout_json.h"

namespace lightcone::cli {
namespace {

struct GenerationFlags {
  std::string collection, model, manifest, encoder, method = "external", reason, request_id;
  uint32_t generation = 0, draft = 0, parent = 0, dimension = 0, compatible_prefix = 0, limit = 0, reference = 0;
  double curvature = 0, clip_radius = 0;
  bool activate = false, force = false, expects_adapter = false, no_adapter = false, wait = false;
  std::optional<double> tolerance;
  bool no_calibration = false;
  std::optional<uint32_t> expect_active;
};

void ShowGeneration(const Context& context, const v1::GenerationInfo& info, std::string_view did) {
  if (context.json) return context.PrintJson(GenerationJson(info));
  context.Print(StrCat(did, GenerationsTable({info}),
                       did.empty() && info.has_validation() ? ValidationTable(info.validation()) : ""));
}

// From --model DIR, from --manifest FILE (and --encoder FILE), or from --dimension and its companions.
absl::Status SetModel(const GenerationFlags& flags, v1::RegisterRequest* request) {
  const int ways = !flags.model.empty() + !flags.manifest.empty() + (flags.dimension > 0) + (flags.draft > 0);
  if (ways != 1) {
    return InvalidArgument("say what to register: one of --model DIR, --manifest FILE, --dimension D, --draft N");
  }
  request->set_draft(flags.draft);
  if (flags.draft > 0 && !flags.encoder.empty()) {
    return InvalidField("--encoder", StrCat("'", flags.encoder, "'"), "absent with --draft, which has one");
  }
  if (flags.dimension == 0) {
    for (const auto& [flag, given] :
         {std::pair("--curvature", flags.curvature != 0), std::pair("--clip-radius", flags.clip_radius != 0),
          std::pair("--compatible-prefix", flags.compatible_prefix != 0)}) {
      if (given) return InvalidField(flag, "given", "absent without --dimension: a model's manifest says it");
    }
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
    request->set_manifest_json(manifest.dump());
  }
  if (!flags.encoder.empty()) {
    LC_ASSIGN_OR_RETURN(*request->mutable_encoder(), ReadFile(flags.encoder));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ActivateResponse> Activate(client::Client* client, const GenerationFlags& flags, uint32_t generation,
                                              const std::string& request_id) {
  v1::ActivateRequest request;
  request.set_request_id(request_id);
  request.set_collection(flags.collection);
  request.set_generation(generation);
  request.set_force(flags.force);
  request.set_reason(flags.reason);
  if (flags.expect_active.has_value()) request.set_expect_active(*flags.expect_active);
  return client->ActivateGeneration(request);
}

// The adapter of a pair of generations.
struct PairAdapter {
  std::optional<v1::AdapterInfo> info;
  std::string did;  // about it, for people
};

// The adapter of --model, between the old model's generation and the new one. A registration that is asked for again
// leaves what became of it since.
absl::StatusOr<PairAdapter> PutAdapterOf(Context& context, const GenerationFlags& flags, const ModelAdapter& adapter,
                                         uint32_t generation) {
  if (!adapter.note.empty()) std::fprintf(stderr, "lightcone: %s\n", adapter.note.c_str());
  if (adapter.file.empty()) return PairAdapter();
  const std::string arrow = StrCat("adapter ", adapter.from, " -> ", generation);
  v1::ListAdaptersRequest list;
  list.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  const absl::StatusOr<v1::ListAdaptersResponse> all = client->ListAdapters(list);
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
  v1::RegisterRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_parent(flags.parent);
  request.set_expects_adapter(flags.expects_adapter);
  LC_RETURN_IF_ERROR(SetModel(flags, &request));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  ModelAdapter adapter;
  if (!flags.model.empty() && !flags.no_adapter) {
    LC_ASSIGN_OR_RETURN(adapter, FindModelAdapter(*client, flags.collection, flags.model, flags.parent, 0));
  }
  LC_ASSIGN_OR_RETURN(const v1::RegisterResponse response, client->RegisterGeneration(request));
  const uint32_t generation = response.generation().generation();
  if (adapter.from >= generation) {  // registered by an earlier call, and the old model once more since
    LC_ASSIGN_OR_RETURN(adapter, FindModelAdapter(*client, flags.collection, flags.model, flags.parent, generation));
  }
  LC_ASSIGN_OR_RETURN(const PairAdapter put, PutAdapterOf(context, flags, adapter, generation));
  if (flags.activate) {
    const std::string activation_id = flags.request_id.empty() ? "" : flags.request_id + "-activate";
    const auto activated = Activate(client, flags, generation, activation_id);
    if (!activated.ok()) {
      return Annotate(activated.status(), StrCat("generation ", generation, " is registered, but not active"));
    }
  }
  v1::GenerationInfo now = response.generation();
  if (flags.activate || put.info) {  // its state, or whom it reaches
    v1::GenerationsGetRequest get;
    get.set_collection(flags.collection);
    get.set_generation(generation);
    LC_ASSIGN_OR_RETURN(v1::GenerationsGetResponse again, client->GetGeneration(get));
    now = std::move(*again.mutable_generation());
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
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::GenerationsListRequest request;
  request.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(const v1::GenerationsListResponse response, client->ListGenerations(request));
  ShowAll(context, response.generations(), GenerationJson, GenerationsTable);
  return absl::OkStatus();
}

absl::Status GetGeneration(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::GenerationsGetRequest request;
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  LC_ASSIGN_OR_RETURN(const v1::GenerationsGetResponse response, client->GetGeneration(request));
  ShowGeneration(context, response.generation(), "");
  return absl::OkStatus();
}

absl::Status Validate(Context& context, const GenerationFlags& flags) {
  v1::ValidateRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  request.set_reference_generation(flags.reference);
  if (flags.tolerance.has_value()) request.set_tolerance(*flags.tolerance);
  request.set_without_calibration(flags.no_calibration);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::ValidateResponse response, client->ValidateGeneration(request));
  if (!flags.wait) {
    if (context.json) {
      context.PrintJson({{"job", response.job()}});
    } else {
      context.Print(StrCat("job ", response.job(), " validates generation ", flags.generation, "\n"));
    }
    return absl::OkStatus();
  }
  LC_RETURN_IF_ERROR(WaitForJob(context, response.job(), /*show=*/false).status());
  v1::GenerationsGetRequest get;
  get.set_collection(flags.collection);
  get.set_generation(flags.generation);
  LC_ASSIGN_OR_RETURN(const v1::GenerationsGetResponse now, client->GetGeneration(get));
  ShowGeneration(context, now.generation(), "");
  if (now.generation().validation().passed()) return absl::OkStatus();
  return FailedPrecondition(StrCat("generation ", flags.generation, " did not pass its validation"));
}

absl::Status Retire(Context& context, const GenerationFlags& flags) {
  v1::RetireRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  request.set_reason(flags.reason);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::RetireResponse response, client->RetireGeneration(request));
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

// Which generation serves after an activation or a rollback.
template <typename Response>
void ShowSwitch(const Context& context, const Response& response) {
  if (context.json) {
    OrderedJson json = GenerationJson(response.generation());
    json["previous_generation"] = response.previous_generation();
    json["out_of_reach"] = response.out_of_reach();
    return context.PrintJson(json);
  }
  ShowGeneration(
      context, response.generation(),
      StrCat("generation ", response.generation().generation(), " serves; before it: ",
             response.previous_generation() == 0 ? std::string("none") : StrCat(response.previous_generation()),
             "; items out of its reach: ", response.out_of_reach(), "\n"));
}

absl::Status ActivateOne(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::ActivateResponse response, Activate(client, flags, flags.generation, flags.request_id));
  ShowSwitch(context, response);
  return absl::OkStatus();
}

absl::Status Rollback(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::RollbackRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_force(flags.force);
  request.set_reason(flags.reason);
  if (flags.expect_active.has_value()) request.set_expect_active(*flags.expect_active);
  LC_ASSIGN_OR_RETURN(const v1::RollbackResponse response, client->RollbackGeneration(request));
  ShowSwitch(context, response);
  return absl::OkStatus();
}

absl::Status Audit(Context& context, const GenerationFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::AuditRequest request;
  request.set_collection(flags.collection);
  request.set_limit(flags.limit);
  LC_ASSIGN_OR_RETURN(const v1::AuditResponse response, client->Audit(request));
  ShowAll(context, response.entries(), AuditJson, AuditTable);
  return absl::OkStatus();
}

void AddActivationFlags(CLI::App* app, GenerationFlags* flags) {
  app->add_flag("--force", flags->force,
                "Although items would be out of its reach, or no validation was passed; needs --reason");
  app->add_option("--reason", flags->reason, "Why; kept in the audit log");
  app->add_option("--expect-active", flags->expect_active, "Refuse unless this generation is active now");
}

}  // namespace

void AddGeneration(CLI::App& root, Context& context) {
  CLI::App* app =
      AddCommand(root, "generation",
                 "Register, list, show, activate and roll back generations of the model; adapters between them");
  app->require_subcommand(1);
  auto flags = std::make_shared<GenerationFlags>();
  const auto add = [&](const char* name, const char* help, absl::Status (*run)(Context&, const GenerationFlags&)) {
    CLI::App* sub = AddCommand(*app, name, help);
    sub->callback([&context, flags, run] { context.Finish(run(context, *flags)); });
    sub->add_option("collection", flags->collection, "Collection or alias")->required();
    return sub;
  };

  CLI::App* reg = add("register", "Add the next generation, or take up a draft", &Register);
  reg->add_option("--draft", flags->draft,
                  "Number of a draft that a training left: it is a generation like others then");
  reg->add_option("--model", flags->model, "Folder that 'lightcone train' wrote: manifest and encoder");
  reg->add_option("--manifest", flags->manifest, "Manifest alone, for applications that embed on their side");
  reg->add_option("--encoder", flags->encoder, "TorchScript file, when it is not the one beside the manifest");
  reg->add_option("--dimension", flags->dimension, "Of a model from elsewhere, instead of a manifest");
  reg->add_option("--curvature", flags->curvature, "K of a Lorentz model from elsewhere");
  reg->add_option("--clip-radius", flags->clip_radius, "Clip radius of a Lorentz model from elsewhere");
  reg->add_option("--method", flags->method, "How a model from elsewhere was trained")->capture_default_str();
  reg->add_option("--parent", flags->parent, "Generation that it was trained to be compatible with");
  reg->add_option("--compatible-prefix", flags->compatible_prefix,
                  "Leading numbers of a model from elsewhere that compare with older generations; 0: all");
  reg->add_flag("--expects-adapter", flags->expects_adapter,
                "An adapter will lead to older generations: another dimension is allowed");
  reg->add_flag("--no-adapter", flags->no_adapter,
                "Leave out the adapter for the old model's items that a training left in --model");
  reg->add_flag("--activate", flags->activate, "Activate it at once");
  reg->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  AddActivationFlags(reg, flags.get());

  add("list", "List the generations of a collection", &ListGenerations);
  add("get", "Show one generation", &GetGeneration)
      ->add_option("generation", flags->generation, "Its number")
      ->required();

  CLI::App* validate = add("validate", "Measure a generation by the probe sets, on the items of older ones", &Validate);
  validate->add_option("generation", flags->generation, "Its number")->required();
  validate->add_option("--tolerance", flags->tolerance,
                       "Loss against the older generation's own queries that the 95 % interval has to exclude; 0.02");
  validate->add_option("--reference", flags->reference,
                       "Generation trained alone on the same data, for P_com and P_up; 0: none");
  validate->add_flag("--no-calibration", flags->no_calibration,
                     "Measure, and rank, mixed galleries by plain distances alone");
  validate->add_flag("--wait", flags->wait, "Wait for the job, and end with 5 when it is not passed");
  validate->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");

  CLI::App* activate = add("activate", "Make a generation the serving one", &ActivateOne);
  activate->add_option("generation", flags->generation, "Its number")->required();
  activate->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  AddActivationFlags(activate, flags.get());

  CLI::App* rollback = add("rollback", "Serve again by the generation that served before the active one", &Rollback);
  rollback->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  AddActivationFlags(rollback, flags.get());
  CLI::App* retire = add("retire", "Take a generation out of service for good, and give its space back", &Retire);
  retire->add_option("generation", flags->generation, "Its number")->required();
  retire->add_option("--reason", flags->reason, "Why; kept in the audit log");
  retire->add_flag("--wait", flags->wait, "Wait until its space is given back");
  retire->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  add("audit", "List activations, rollbacks, retirements and canaries, newest first", &Audit)
      ->add_option("--limit", flags->limit, "How many, 1 .. 10000; 0: 100");
  AddGenerationCanary(*app, context);
  AddGenerationAdapter(*app, context);
  AddGenerationProbes(*app, context);
}

}  // namespace lightcone::cli

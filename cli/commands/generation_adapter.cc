// lightcone generation adapter put | drop | list | fit | sample
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/commands/put_adapter.h"
#include "cli/json/message_json.h"
#include "cli/json/rollout_json.h"

namespace lightcone::cli {
namespace {

struct GenerationAdapterFlags {
  std::string collection, file, request_id;
  uint32_t from = 0, to = 0;
  bool force = false, no_wait = false;
  std::string map, loss, label_field;
  uint32_t width = 0, pairs = 0, embed = 0, generation = 0, items = 2'000;
  uint64_t seed = 1;
};

absl::Status PutAdapter(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(const v1::AdapterInfo adapter,
                      PutAdapterFile(context, {flags.collection, flags.from, flags.to, flags.request_id}, flags.file));
  context.json ? context.PrintJson(AdapterJson(adapter)) : context.Print(AdaptersTable({adapter}));
  return absl::OkStatus();
}

absl::Status DropAdapter(Context& context, const GenerationAdapterFlags& flags) {
  v1::DropAdapterRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_from_generation(flags.from);
  request.set_to_generation(flags.to);
  request.set_force(flags.force);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_RETURN_IF_ERROR(client->DropAdapter(request).status());
  if (context.json) {
    context.PrintJson({{"dropped", {{"from_generation", flags.from}, {"to_generation", flags.to}}}});
  } else {
    context.Print(StrCat("adapter ", flags.from, " -> ", flags.to, " is dropped\n"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::AdapterInfo>> AdaptersOf(Context& context, const GenerationAdapterFlags& flags) {
  v1::ListAdaptersRequest request;
  request.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::ListAdaptersResponse response, client->ListAdapters(request));
  return std::vector<v1::AdapterInfo>(response.adapters().begin(), response.adapters().end());
}

absl::Status Fit(Context& context, const GenerationAdapterFlags& flags) {
  v1::FitAdapterRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_from_generation(flags.from);
  request.set_to_generation(flags.to);
  request.set_map(flags.map);
  request.set_loss(flags.loss);
  request.set_width(flags.width);
  request.set_pairs_max(flags.pairs);
  request.set_embed_max(flags.embed);
  request.set_label_field(flags.label_field);
  request.set_seed(flags.seed);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::FitAdapterResponse response, client->FitAdapter(request));
  if (flags.no_wait) {
    context.json ? context.PrintJson({{"job", response.job()}}) : context.Print(StrCat("job ", response.job(), "\n"));
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(const v1::JobInfo job, WaitForJob(context, response.job(), /*show=*/false));
  if (context.json) {
    context.PrintJson(JobJson(job));
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(std::vector<v1::AdapterInfo> adapters, AdaptersOf(context, flags));
  std::erase_if(adapters, [&](const v1::AdapterInfo& one) {
    return one.from_generation() != flags.from || one.to_generation() != flags.to;
  });
  context.Print(AdaptersTable(adapters));
  return absl::OkStatus();
}

absl::Status Sample(Context& context, const GenerationAdapterFlags& flags) {
  v1::SampleItemsRequest request;
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  request.set_items(flags.items);
  request.set_seed(flags.seed);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::SampleItemsResponse response, client->SampleItems(request));
  context.json ? context.PrintJson(SampleJson(response)) : context.Print(SampleTable(response));
  return absl::OkStatus();
}

absl::Status ListAdapters(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(const std::vector<v1::AdapterInfo> adapters, AdaptersOf(context, flags));
  ShowAll(context, adapters, AdapterJson, AdaptersTable);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::AdapterInfo> PutAdapterFile(Context& context, const AdapterPlace& place, const std::string& file) {
  v1::PutAdapterRequest request;
  request.set_request_id(place.request_id);
  request.set_collection(place.collection);
  request.set_from_generation(place.from);
  request.set_to_generation(place.to);
  LC_ASSIGN_OR_RETURN(*request.mutable_adapter(), ReadFile(file));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(v1::PutAdapterResponse response, client->PutAdapter(request));
  return std::move(*response.mutable_adapter());
}

void AddGenerationAdapter(CLI::App& generation, Context& context) {
  CLI::App* app = AddCommand(generation, "adapter", "Put, fit, drop and list the adapters between generations");
  app->require_subcommand(1);
  auto flags = std::make_shared<GenerationAdapterFlags>();
  const auto add = [&](const char* name, const char* help,
                       absl::Status (*run)(Context&, const GenerationAdapterFlags&)) {
    CLI::App* sub = AddCommand(*app, name, help);
    sub->callback([&context, flags, run] { context.Finish(run(context, *flags)); });
    sub->add_option("collection", flags->collection, "Collection or alias")->required();
    return sub;
  };
  const auto add_pair = [&](CLI::App* sub) {
    sub->add_option("from", flags->from, "Generation whose embeddings it takes")->required();
    sub->add_option("to", flags->to,
                    "Generation into whose space it carries them: an older one for queries, a newer one for items")
        ->required();
    sub->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  };
  CLI::App* put = add("put", "Give a pair of generations an adapter, or another one in its place", &PutAdapter);
  add_pair(put);
  put->add_option("file", flags->file, "The adapter's file")->required();
  CLI::App* drop = add("drop", "Drop an adapter", &DropAdapter);
  add_pair(drop);
  drop->add_flag("--force", flags->force, "Although items get out of the active generation's reach");
  add("list", "List the adapters of a collection", &ListAdapters);
  CLI::App* fit = add("fit", "Have the server fit an adapter from items that both generations embedded", &Fit);
  add_pair(fit);
  fit->add_option("--map", flags->map, "procrustes, affine, low-rank-affine, residual-mlp (default), kernel");
  fit->add_option("--loss", flags->loss, "auto (default), or a sum of reg, rel, sup, contra, as in reg+0.5*sup");
  fit->add_option("--width", flags->width, "Hidden units, rank or centres; 0: the map's usual number");
  fit->add_option("--pairs", flags->pairs, "Pairs to draw from those there are; 0: 50,000");
  fit->add_option("--embed", flags->embed,
                  "While there are fewer pairs, items with a stored input for the newer generation's encoder to embed");
  fit->add_option("--label-field", flags->label_field, "Payload field with the items' classes, for the loss sup");
  fit->add_flag("--no-wait", flags->no_wait, "Answer the job's id at once");
  CLI::App* sample = add("sample", "Name items to embed by a generation, for an adapter to be fitted from", &Sample);
  sample->add_option("generation", flags->generation, "That has not embedded them")->required();
  sample->add_option("--items", flags->items, "How many, drawn over the whole gallery")->capture_default_str();
  for (CLI::App* sub : {fit, sample}) {
    sub->add_option("--seed", flags->seed, "Of every random choice")->capture_default_str();
  }
}

}  // namespace lightcone::cli

// lightcone generation adapter put | drop | list | fit | sample
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/commands/put_adapter.h"
#include "cli/json/rollout_json.h"

namespace lightcone::cli {
namespace {

struct GenerationAdapterFlags {
  std::string collection, file, request_id;
  uint32_t from_generation = 0, to_generation = 0;
  bool force = false, no_wait = false;
  std::string map, loss, label_field;
  uint32_t width = 0, pairs_max = 0, embed_max = 0, generation = 0, items = 2'000;
  uint64_t seed = 1;
};

absl::Status PutAdapter(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(
      const v1::AdapterInfo adapter,
      PutAdapterFile(context, {flags.collection, flags.from_generation, flags.to_generation, flags.request_id},
                     flags.file));
  context.Show(AdapterJson(adapter), AdaptersTable({adapter}));
  return absl::OkStatus();
}

absl::Status DropAdapter(Context& context, const GenerationAdapterFlags& flags) {
  LC_RETURN_IF_ERROR(context.Call(&client::Client::DropAdapter, RequestOf<v1::DropAdapterRequest>(flags)).status());
  context.Show({{"dropped", {{"from_generation", flags.from_generation}, {"to_generation", flags.to_generation}}}},
               StrCat("adapter ", flags.from_generation, " -> ", flags.to_generation, " is dropped\n"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::AdapterInfo>> AdaptersOf(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::AllAdapters, RequestOf<v1::ListAdaptersRequest>(flags)));
  return std::vector<v1::AdapterInfo>(response.adapters().begin(), response.adapters().end());
}

absl::Status Fit(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::FitAdapter, RequestOf<v1::FitAdapterRequest>(flags)));
  if (flags.no_wait) {
    context.Show({{"job", response.job()}}, StrCat("job ", response.job(), "\n"));
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(const v1::JobInfo job, WaitForJob(context, response.job(), /*show=*/false));
  if (context.json) {
    context.PrintJson(JobJson(job));
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(std::vector<v1::AdapterInfo> adapters, AdaptersOf(context, flags));
  std::erase_if(adapters, [&](const v1::AdapterInfo& one) {
    return one.from_generation() != flags.from_generation || one.to_generation() != flags.to_generation;
  });
  context.Print(AdaptersTable(adapters));
  return absl::OkStatus();
}

absl::Status Sample(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::SampleItems, RequestOf<v1::SampleItemsRequest>(flags)));
  context.Show(SampleJson(response), SampleTable(response));
  return absl::OkStatus();
}

absl::Status ListAdapters(Context& context, const GenerationAdapterFlags& flags) {
  LC_ASSIGN_OR_RETURN(const std::vector<v1::AdapterInfo> adapters, AdaptersOf(context, flags));
  ShowAll(context, adapters, AdapterJson, AdaptersTable);
  return absl::OkStatus();
}

void AddPair(CLI::App* app, GenerationAdapterFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("from", flags->from_generation, "Generation whose embeddings the adapter takes")->required();
  app->add_option("to", flags->to_generation,
                  "Generation into whose space the adapter carries them: an older one for queries, a newer one for "
                  "items")
      ->required();
  AddRequestId(app, &flags->request_id);
}

void AddSeed(CLI::App* app, GenerationAdapterFlags* flags) {
  app->add_option("--seed", flags->seed, "Seed of every random choice")->capture_default_str();
}

void AddFitFlags(CLI::App* fit, GenerationAdapterFlags* flags) {
  AddPair(fit, flags);
  fit->add_option(
      "--map", flags->map,
      "Kind of the adapter: auto (default: the best on held-out pairs), procrustes, affine, low-rank-affine, "
      "residual-mlp or kernel");
  fit->add_option("--loss", flags->loss,
                  "Loss of the fit: auto (default), or a sum of reg, rel, sup and contra such as reg+0.5*sup");
  fit->add_option("--width", flags->width, "Number of hidden units, rank or centres; 0: the map's usual number");
  fit->add_option("--pairs", flags->pairs_max, "Most pairs to draw from the existing ones; 0: 50,000");
  fit->add_option("--embed", flags->embed_max,
                  "Most stored inputs that the newer generation's encoder embeds where pairs are missing");
  fit->add_option("--label-field", flags->label_field, "Payload field with the items' classes, for the loss sup");
  fit->add_flag("--no-wait", flags->no_wait, "Print the job's id at once");
  AddSeed(fit, flags);
}

void AddSampleFlags(CLI::App* sample, GenerationAdapterFlags* flags) {
  AddCollectionArgument(sample, &flags->collection);
  sample->add_option("generation", flags->generation, "Generation that has not embedded the items")->required();
  sample->add_option("--items", flags->items, "Number of items, drawn over the whole gallery")->capture_default_str();
  AddSeed(sample, flags);
}

}  // namespace

absl::StatusOr<v1::AdapterInfo> PutAdapterFile(Context& context, const AdapterPlace& place, const std::string& file) {
  v1::PutAdapterRequest request;
  request.set_request_id(place.request_id);
  request.set_collection(place.collection);
  request.set_from_generation(place.from);
  request.set_to_generation(place.to);
  LC_ASSIGN_OR_RETURN(*request.mutable_adapter(), ReadFile(file));
  LC_ASSIGN_OR_RETURN(auto response, context.Call(&client::Client::PutAdapter, request));
  return std::move(*response.mutable_adapter());
}

void AddGenerationAdapter(CLI::App& generation, Context& context) {
  CLI::App* app = AddCommand(generation, "adapter", "Put, fit, drop and list the adapters between generations");
  app->require_subcommand(1);
  AddCommands<GenerationAdapterFlags>(
      *app, context,
      {{"put", "Give a pair of generations an adapter, or replace the one it has", &PutAdapter,
        [](CLI::App* put, GenerationAdapterFlags* flags) {
          AddPair(put, flags);
          put->add_option("file", flags->file, "File of the adapter")->required();
        }},
       {"drop", "Drop an adapter", &DropAdapter,
        [](CLI::App* drop, GenerationAdapterFlags* flags) {
          AddPair(drop, flags);
          drop->add_flag("--force", flags->force,
                         "Drop the adapter although items get out of the active generation's reach");
        }},
       {"list", "List the adapters of a collection", &ListAdapters,
        [](CLI::App* list, GenerationAdapterFlags* flags) { AddCollectionArgument(list, &flags->collection); }},
       {"fit", "Have the server fit an adapter from items that both generations embedded", &Fit, &AddFitFlags},
       {"sample", "Name items for a generation to embed, so that an adapter can be fitted from them", &Sample,
        &AddSampleFlags}});
}

}  // namespace lightcone::cli

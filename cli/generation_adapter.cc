// lightcone generation adapter put | drop | list
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/message_json.h"
#include "cli/put_adapter.h"

namespace lightcone::cli {
namespace {

struct Flags {
  std::string collection, file, request_id;
  uint32_t from = 0, to = 0;
  bool force = false;
};

absl::Status Put(Context& context, const Flags& flags) {
  LC_ASSIGN_OR_RETURN(
      const v1::AdapterInfo adapter,
      PutAdapterFile(context, {flags.collection, flags.from, flags.to, flags.request_id}, flags.file));
  context.json ? context.PrintJson(AdapterJson(adapter)) : context.Print(AdaptersTable({adapter}));
  return absl::OkStatus();
}

absl::Status Drop(Context& context, const Flags& flags) {
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

absl::Status List(Context& context, const Flags& flags) {
  v1::ListAdaptersRequest request;
  request.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::ListAdaptersResponse response, client->ListAdapters(request));
  if (context.json) {
    OrderedJson all = OrderedJson::array();
    for (const v1::AdapterInfo& info : response.adapters()) all.push_back(AdapterJson(info));
    context.PrintJson(all);
  } else {
    context.Print(AdaptersTable({response.adapters().begin(), response.adapters().end()}));
  }
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
  CLI::App* app = generation.add_subcommand("adapter", "Put, drop and list the adapters between generations");
  app->require_subcommand(1);
  auto flags = std::make_shared<Flags>();
  const auto add = [&](const char* name, const char* help, absl::Status (*run)(Context&, const Flags&)) {
    CLI::App* sub = app->add_subcommand(name, help);
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
  CLI::App* put = add("put", "Give a pair of generations an adapter, or another one in its place", &Put);
  add_pair(put);
  put->add_option("file", flags->file, "The adapter's file")->required();
  CLI::App* drop = add("drop", "Drop an adapter", &Drop);
  add_pair(drop);
  drop->add_flag("--force", flags->force, "Although items get out of the active generation's reach");
  add("list", "List the adapters of a collection", &List);
}

}  // namespace lightcone::cli

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct CountFlags {
  std::string collection, filter;
};

absl::Status RunCount(Context& context, const CountFlags& flags) {
  v1::CountRequest request;
  request.set_collection(flags.collection);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::CountResponse response, client->Count(request));
  if (context.json) {
    OrderedJson json = {{"count", response.count()}, {"generations", OrderedJson::array()}};
    for (const auto& part : response.generations()) {
      json["generations"].push_back({{"generation", part.generation()}, {"count", part.count()}});
    }
    context.PrintJson(json);
    return absl::OkStatus();
  }
  Table table({"generation", "items"});
  for (const auto& part : response.generations()) table.Add({StrCat(part.generation()), Grouped(part.count())});
  table.Add({"all", Grouped(response.count())});
  context.Print(table.Text());
  return absl::OkStatus();
}

}  // namespace

void AddCount(CLI::App& root, Context& context) {
  auto flags = std::make_shared<CountFlags>();
  CLI::App* app = AddCommand(root, "count", "Count items, all or those that pass a filter");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("--filter", flags->filter, "For example: class = \"cat\" and year >= 2020");
  app->callback([&context, flags] { context.Finish(RunCount(context, *flags)); });
}

}  // namespace lightcone::cli

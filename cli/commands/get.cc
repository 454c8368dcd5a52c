#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"

namespace lightcone::cli {
namespace {

struct GetFlags {
  std::string collection;
  std::vector<std::string> ids;
  uint32_t generation = 0;
  bool with_vector = false;
};

absl::Status RunGet(Context& context, const GetFlags& flags) {
  v1::GetRequest request;
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  request.set_with_vector(flags.with_vector);
  LC_RETURN_IF_ERROR(AddIds(flags.ids, request.mutable_ids()));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::GetResponse response, client->Get(request));
  if (context.json) {
    OrderedJson json = {{"items", OrderedJson::array()}, {"missing", OrderedJson::array()}};
    for (const v1::StoredItem& item : response.items()) json["items"].push_back(StoredItemJson(item));
    for (const v1::ItemId& id : response.missing()) json["missing"].push_back(OrderedJson(ItemIdJson(id)));
    context.PrintJson(json);
  } else if (response.items_size() > 0) {
    context.Print(ItemsTable({response.items().begin(), response.items().end()}));
  }
  if (response.missing_size() == 0) return absl::OkStatus();
  std::string missing;
  for (const v1::ItemId& id : response.missing()) missing += StrCat(missing.empty() ? "" : ", ", ItemIdText(id));
  return NotFound(StrCat("no item ", missing, " in collection '", flags.collection, "'"));
}

}  // namespace

void AddGet(CLI::App& root, Context& context) {
  auto flags = std::make_shared<GetFlags>();
  CLI::App* app = AddCommand(root, "get", "Read items by id");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("ids", flags->ids, "Digits are a number, anything else a name; \"42\" in quotes is a name")
      ->required();
  app->add_option("--generation", flags->generation, "The embedding of this generation instead of the newest");
  app->add_flag("--with-vector", flags->with_vector, "Give vectors (with --json)");
  app->callback([&context, flags] { context.Finish(RunGet(context, *flags)); });
}

}  // namespace lightcone::cli

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace lightcone::cli {
namespace {

struct DeleteFlags {
  std::string collection, durability;
  std::vector<std::string> ids;
};

absl::Status RunDelete(Context& context, const DeleteFlags& flags) {
  v1::DeleteRequest request;
  request.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  request.set_durability(durability);
  LC_RETURN_IF_ERROR(AddIds(flags.ids, request.mutable_ids()));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::DeleteResponse response, client->Delete(request));
  if (context.json) {
    context.PrintJson({{"deleted", response.deleted()}, {"sequence", response.sequence()}});
  } else {
    context.Print(StrCat("deleted ", response.deleted(), " of ", flags.ids.size(), " items, sequence ",
                         response.sequence(), "\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddDelete(CLI::App& root, Context& context) {
  auto flags = std::make_shared<DeleteFlags>();
  CLI::App* app = AddCommand(root, "delete", "Delete items by id; what is not there is no error");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("ids", flags->ids, "Digits are a number, anything else a name; \"42\" in quotes is a name")
      ->required();
  app->add_option("--durability", flags->durability, "durable (default): after fsync; process: survives kill -9");
  app->callback([&context, flags] { context.Finish(RunDelete(context, *flags)); });
}

}  // namespace lightcone::cli

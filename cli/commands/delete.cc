#include <string>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"

namespace lightcone::cli {
namespace {

struct DeleteFlags {
  std::string collection, durability;
  std::vector<std::string> ids;
};

absl::Status RunDelete(Context& context, const DeleteFlags& flags) {
  auto request = RequestOf<v1::DeleteRequest>(flags);
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  request.set_durability(durability);
  LC_RETURN_IF_ERROR(AddIds(flags.ids, request.mutable_ids()));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Delete, request));
  context.Show(
      {{"deleted", response.deleted()}, {"sequence", response.sequence()}},
      StrCat("deleted ", response.deleted(), " of ", flags.ids.size(), " items, sequence ", response.sequence(), "\n"));
  return absl::OkStatus();
}

void AddDeleteFlags(CLI::App* app, DeleteFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("ids", flags->ids, kItemIdHelp)->required();
  AddDurability(app, &flags->durability);
}

}  // namespace

void AddDelete(CLI::App& root, Context& context) {
  AddCommands<DeleteFlags>(
      root, context,
      {{"delete", "Delete items by id; an item that does not exist is no error", &RunDelete, &AddDeleteFlags}});
}

}  // namespace lightcone::cli

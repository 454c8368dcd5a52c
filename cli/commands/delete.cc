#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct DeleteFlags {
  std::string collection, durability, filter;
  std::vector<std::string> ids;
  bool yes = false;
};

// A chain of calls, each of which deletes a bounded batch.
absl::Status DeleteByFilter(Context& context, const DeleteFlags& flags, v1::DeleteRequest request) {
  if (!flags.yes) {
    return InvalidArgument(
        StrCat("this deletes every item of '", flags.collection, "' that passes the filter; add --yes to do so"));
  }
  LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  uint64_t deleted = 0, sequence = 0;
  do {
    const auto response = context.Call(&client::Client::Delete, request);
    if (!response.ok()) return Annotate(response.status(), StrCat("after ", deleted, " deleted items"));
    deleted += response->deleted();
    sequence = response->sequence();
    request.set_token(response->token());
  } while (!request.token().empty());
  context.Show({{"deleted", deleted}, {"sequence", sequence}},
               StrCat("deleted ", Grouped(deleted), " items, sequence ", sequence, "\n"));
  return absl::OkStatus();
}

absl::Status RunDelete(Context& context, const DeleteFlags& flags) {
  auto request = RequestOf<v1::DeleteRequest>(flags);
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  request.set_durability(durability);
  if (flags.ids.empty() == flags.filter.empty()) return InvalidArgument("either ids or a --filter must be given");
  if (!flags.filter.empty()) return DeleteByFilter(context, flags, std::move(request));
  LC_RETURN_IF_ERROR(AddIds(flags.ids, request.mutable_ids()));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Delete, request));
  context.Show(
      {{"deleted", response.deleted()}, {"sequence", response.sequence()}},
      StrCat("deleted ", response.deleted(), " of ", flags.ids.size(), " items, sequence ", response.sequence(), "\n"));
  return absl::OkStatus();
}

void AddDeleteFlags(CLI::App* app, DeleteFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("ids", flags->ids, kItemIdHelp);
  AddFilter(app, &flags->filter);
  app->add_flag("--yes", flags->yes, "Confirm the deletion by a filter");
  AddDurability(app, &flags->durability);
}

}  // namespace

void AddDelete(CLI::App& root, Context& context) {
  AddCommands<DeleteFlags>(root, context,
                           {{"delete", "Delete items by id or by a filter", &RunDelete, &AddDeleteFlags}});
}

}  // namespace lightcone::cli

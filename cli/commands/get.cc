#include <string>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"

namespace lightcone::cli {
namespace {

struct GetFlags {
  std::string collection;
  std::vector<std::string> ids;
  uint32_t generation = 0;
  bool with_vector = false;
  PayloadFlags fields;
};

absl::Status RunGet(Context& context, const GetFlags& flags) {
  auto request = RequestOf<v1::GetRequest>(flags);
  SetPayloadSelection(flags.fields, request.mutable_payload());
  LC_RETURN_IF_ERROR(AddIds(flags.ids, request.mutable_ids()));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Get, request));
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

void AddGetFlags(CLI::App* app, GetFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("ids", flags->ids, kItemIdHelp)->required();
  app->add_option("--generation", flags->generation, "Generation whose embedding is read; 0: the newest");
  AddPayloadSelection(app, &flags->fields);
  app->add_flag("--with-vector", flags->with_vector, "Read vectors (shown with --json)");
}

}  // namespace

void AddGet(CLI::App& root, Context& context) {
  AddCommands<GetFlags>(root, context, {{"get", "Read items by id", &RunGet, &AddGetFlags}});
}

}  // namespace lightcone::cli

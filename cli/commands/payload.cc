#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/formats/ids.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct PayloadChangeFlags {
  std::string collection, durability, filter, key, payload;
  std::vector<std::string> ids, keys;
};

// One call by ids, or a chain of calls by a filter, each of which changes a bounded batch.
absl::Status ChangePayloads(Context& context, const PayloadChangeFlags& flags, v1::PayloadChange change) {
  auto request = RequestOf<v1::ChangePayloadRequest>(flags);
  request.set_change(change);
  request.set_payload_json(flags.payload);
  request.set_key(flags.key);
  request.mutable_keys()->Assign(flags.keys.begin(), flags.keys.end());
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  request.set_durability(durability);
  if (flags.ids.empty() == flags.filter.empty()) return InvalidArgument("either ids or a --filter must be given");
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_RETURN_IF_ERROR(AddIds(flags.ids, request.mutable_ids()));
  v1::ChangePayloadResponse all;
  do {
    auto response = context.Call(&client::Client::ChangePayload, request);
    if (!response.ok()) return Annotate(response.status(), StrCat("after ", all.changed(), " changed items"));
    request.set_token(response->token());
    const uint32_t changed = all.changed() + response->changed();
    all = *std::move(response);
    all.set_changed(changed);
  } while (!request.token().empty());
  std::string text = StrCat("changed ", Grouped(all.changed()), " items, sequence ", all.sequence(), "\n");
  for (const v1::ItemId& id : all.missing()) text += StrCat("no item ", ItemIdText(id), "\n");
  context.Show(FieldsJson(all, {"changed", "missing", "sequence"}), text);
  return absl::OkStatus();
}

template <v1::PayloadChange change>
absl::Status RunChange(Context& context, const PayloadChangeFlags& flags) {
  return ChangePayloads(context, flags, change);
}

void AddChangeFlags(CLI::App* app, PayloadChangeFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("ids", flags->ids, kItemIdHelp);
  AddFilter(app, &flags->filter);
  AddDurability(app, &flags->durability);
}

void AddOverwriteFlags(CLI::App* app, PayloadChangeFlags* flags) {
  AddChangeFlags(app, flags);
  app->add_option("--payload", flags->payload, "JSON object")->required();
}

void AddSetFlags(CLI::App* app, PayloadChangeFlags* flags) {
  AddOverwriteFlags(app, flags);
  app->add_option("--at", flags->key, "Path of the object inside the payload that changes; by default all of it");
}

void AddDeleteKeysFlags(CLI::App* app, PayloadChangeFlags* flags) {
  AddChangeFlags(app, flags);
  app->add_option("--keys", flags->keys, "Paths of the fields to delete")->delimiter(',')->required();
}

}  // namespace

void AddPayload(CLI::App& root, Context& context) {
  CLI::App* payload = AddCommand(root, "payload", "Change payloads without their vectors");
  payload->require_subcommand(1);
  AddCommands<PayloadChangeFlags>(
      *payload, context,
      {{"set", "Set keys and keep the others", &RunChange<v1::PAYLOAD_CHANGE_SET>, &AddSetFlags},
       {"overwrite", "Replace payloads", &RunChange<v1::PAYLOAD_CHANGE_OVERWRITE>, &AddOverwriteFlags},
       {"delete", "Delete fields", &RunChange<v1::PAYLOAD_CHANGE_DELETE_KEYS>, &AddDeleteKeysFlags},
       {"clear", "Make payloads empty", &RunChange<v1::PAYLOAD_CHANGE_CLEAR>, &AddChangeFlags}});
}

}  // namespace lightcone::cli

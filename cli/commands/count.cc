#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct CountFlags {
  std::string collection, filter;
};

absl::Status RunCount(Context& context, const CountFlags& flags) {
  auto request = RequestOf<v1::CountRequest>(flags);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Count, request));
  Table table({"generation", "items"});
  for (const auto& part : response.generations()) table.Add({StrCat(part.generation()), Grouped(part.count())});
  table.Add({"all", Grouped(response.count())});
  context.Show(FieldsJson(response, {"count", "generations"}), table.Text());
  return absl::OkStatus();
}

void AddCountFlags(CLI::App* app, CountFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  AddFilter(app, &flags->filter);
}

}  // namespace

void AddCount(CLI::App& root, Context& context) {
  AddCommands<CountFlags>(root, context,
                          {{"count", "Count all items, or the items that pass a filter", &RunCount, &AddCountFlags}});
}

}  // namespace lightcone::cli

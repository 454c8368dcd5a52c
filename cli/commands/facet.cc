#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct FacetFlags {
  std::string collection, field, filter;
  uint32_t limit = 10;
};

absl::Status RunFacet(Context& context, const FacetFlags& flags) {
  auto request = RequestOf<v1::FacetRequest>(flags);
  request.set_field(flags.field);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Facet, request));
  Table table({"value", "items"});
  OrderedJson json;
  json["values"] = OrderedJson::array();
  for (const auto& one : response.values()) {
    const OrderedJson value = FilterValueJson(one.value());
    table.Add({value.is_string() ? value.get<std::string>() : value.dump(), Grouped(one.count())});
    json["values"].push_back({{"value", value}, {"count", one.count()}});
  }
  json["distinct"] = response.distinct();
  std::string text = table.empty() ? "no values\n" : table.Text();
  const auto others = response.distinct() - static_cast<uint64_t>(response.values_size());
  if (others > 0) text += StrCat(Grouped(others), " more values\n");
  context.Show(json, text);
  return absl::OkStatus();
}

void AddFacetFlags(CLI::App* app, FacetFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("field", flags->field, "Path of the payload field")->required();
  AddFilter(app, &flags->filter);
  app->add_option("--limit", flags->limit, "Most values to show, those of the most items")->capture_default_str();
}

}  // namespace

void AddFacet(CLI::App& root, Context& context) {
  AddCommands<FacetFlags>(root, context,
                          {{"facet", "Count items by the value of a payload field", &RunFacet, &AddFacetFlags}});
}

}  // namespace lightcone::cli

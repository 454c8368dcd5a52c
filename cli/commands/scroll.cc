#include <cstdio>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/json/message_json.h"
#include "client/scroll_cursor.h"

namespace lightcone::cli {
namespace {

struct ScrollFlags {
  std::string collection, filter, token, order_by, start_from;
  bool descending = false;
  uint64_t limit = 100;
  uint32_t page_size = 0;
  bool with_vector = false;
  PayloadFlags fields;
};

// A number as JSON has it, or else a text.
void SetValue(const std::string& text, v1::FilterValue* value) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_number_float()) {
    value->set_number(json.get<double>());
  } else if (json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) {
    value->set_integer(json.get<int64_t>());
  } else {
    value->set_text(text);
  }
}

absl::Status SetOrder(const ScrollFlags& flags, v1::ScrollRequest* request) {
  if (flags.order_by.empty()) {
    if (!flags.descending && flags.start_from.empty()) return absl::OkStatus();
    return InvalidArgument("--descending and --start-from need --order-by");
  }
  request->mutable_order_by()->set_field(flags.order_by);
  request->mutable_order_by()->set_descending(flags.descending);
  if (!flags.start_from.empty()) SetValue(flags.start_from, request->mutable_order_by()->mutable_start_from());
  return absl::OkStatus();
}

// With --json prints one object a line, so that a reader need not wait for the end of a large answer.
absl::Status RunScroll(Context& context, const ScrollFlags& flags) {
  auto request = RequestOf<v1::ScrollRequest>(flags);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_RETURN_IF_ERROR(SetOrder(flags, &request));
  SetPayloadSelection(flags.fields, request.mutable_payload());
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  const std::unique_ptr<client::ScrollCursor> cursor = client->Scroll(request);
  v1::ScrollResponse page;
  std::vector<v1::StoredItem> items;
  uint64_t count = 0;
  while (!context.output_failed()) {
    LC_ASSIGN_OR_RETURN(const bool more, cursor->Next(&page));
    if (!more) break;
    for (v1::StoredItem& item : *page.mutable_items()) {
      ++count;
      if (context.json) {
        context.Print(StoredItemJson(item).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
      } else {
        items.push_back(std::move(item));
      }
    }
  }
  const bool cut = flags.limit > 0 && count == flags.limit && !cursor->token().empty();
  if (context.json) {
    if (!cut) return absl::OkStatus();
    OrderedJson where;
    where["more"]["token"] = cursor->token();
    std::fprintf(stderr, "%s\n", where.dump().c_str());  // Every line of stdout is an item.
    return absl::OkStatus();
  }
  context.Print(items.empty() ? "no items\n" : ItemsTable(items));
  if (cut) context.Print(StrCat("more: --token ", cursor->token(), "\n"));
  return absl::OkStatus();
}

void AddScrollFlags(CLI::App* app, ScrollFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  AddFilter(app, &flags->filter);
  app->add_option("--order-by", flags->order_by, "PATH of a payload field with an index, whose values order the items");
  app->add_flag("--descending", flags->descending, "The greatest values first, with --order-by");
  app->add_option("--start-from", flags->start_from, "Value to begin at, with --order-by");
  app->add_option("--limit", flags->limit, "Most items to show; 0: all")->capture_default_str();
  app->add_option("--page-size", flags->page_size, "Items in a message of the server; 0: the server's default");
  app->add_option("--token", flags->token, "Token that an earlier scroll ended with, to go on from there");
  AddPayloadSelection(app, &flags->fields);
  app->add_flag("--with-vector", flags->with_vector, "Read vectors (shown with --json)");
}

}  // namespace

void AddScroll(CLI::App& root, Context& context) {
  AddCommands<ScrollFlags>(root, context,
                           {{"scroll", "List items in the order of their ids", &RunScroll, &AddScrollFlags}});
}

}  // namespace lightcone::cli

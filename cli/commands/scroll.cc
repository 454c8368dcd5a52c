#include <cstdio>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"
#include "client/scroll_cursor.h"

namespace lightcone::cli {
namespace {

struct ScrollFlags {
  std::string collection, filter, token;
  uint64_t limit = 100;
  uint32_t page_size = 0;
  bool with_vector = false;
};

// With --json one object a line, so that a large answer can be read while it comes.
absl::Status RunScroll(Context& context, const ScrollFlags& flags) {
  v1::ScrollRequest request;
  request.set_collection(flags.collection);
  request.set_limit(flags.limit);
  request.set_page_size(flags.page_size);
  request.set_token(flags.token);
  request.set_with_vector(flags.with_vector);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
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
    std::fprintf(stderr, "%s\n", where.dump().c_str());  // beside the items: every line of stdout is one
    return absl::OkStatus();
  }
  context.Print(items.empty() ? "no items\n" : ItemsTable(items));
  if (cut) context.Print(StrCat("more: --token ", cursor->token(), "\n"));
  return absl::OkStatus();
}

}  // namespace

void AddScroll(CLI::App& root, Context& context) {
  auto flags = std::make_shared<ScrollFlags>();
  CLI::App* app = AddCommand(root, "scroll", "Walk items in the order of their ids");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("--filter", flags->filter, "For example: class = \"cat\" and year >= 2020");
  app->add_option("--limit", flags->limit, "Stop after so many items; 0: all")->capture_default_str();
  app->add_option("--page-size", flags->page_size, "Items a message; 0: the server's default");
  app->add_option("--token", flags->token, "Where an earlier scroll stood");
  app->add_flag("--with-vector", flags->with_vector, "Give vectors (with --json)");
  app->callback([&context, flags] { context.Finish(RunScroll(context, *flags)); });
}

}  // namespace lightcone::cli

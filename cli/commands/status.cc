#include "base/status.h"

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

absl::Status RunStatus(Context& context) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_RETURN_IF_ERROR(client->CheckHealth());
  LC_ASSIGN_OR_RETURN(const std::vector<v1::CollectionInfo> infos, client->AllCollections());
  uint64_t items = 0, segments = 0, bytes = 0, dead = 0;
  for (const v1::CollectionInfo& info : infos) {
    items += info.items();
    segments += static_cast<uint64_t>(info.segments_size());
    for (const auto& segment : info.segments()) {
      bytes += segment.bytes();
      dead += segment.dead_rows();
    }
  }
  if (context.json) {
    OrderedJson json = {{"server", context.address}, {"serving", true},      {"items", items},
                        {"segments", segments},      {"index_bytes", bytes}, {"dead_rows", dead}};
    if (!infos.empty()) json["exact_scans"] = infos[0].exact_scans();
    json["collections"] = OrderedJson::array();
    for (const v1::CollectionInfo& info : infos) json["collections"].push_back(CollectionJson(info));
    context.PrintJson(json);
    return absl::OkStatus();
  }
  context.Print(StrCat("server ", context.address, " serves ", infos.size(),
                       infos.size() == 1 ? " collection, " : " collections, ", Grouped(items), " items, ", segments,
                       " segments of ", Bytes(bytes), ", ", Grouped(dead), " dead rows\n"));
  if (infos.empty()) return absl::OkStatus();
  if (!infos[0].exact_scans().empty()) context.Print(StrCat("exact scans by ", infos[0].exact_scans(), "\n"));
  for (const v1::CollectionInfo& info : infos) {
    if (info.index_error().empty()) continue;
    context.Print(StrCat("index builds of '", info.name(), "' fail: ", info.index_error(), "\n"));
  }
  context.Print(StrCat("\n", CollectionsTable(infos)));
  return absl::OkStatus();
}

}  // namespace

void AddStatus(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(root, "status", "Show whether the server serves, and what it holds");
  app->callback([&context] { context.Finish(RunStatus(context)); });
}

}  // namespace lightcone::cli

#include "server/app/repair.h"

#include <memory>
#include <string>

#include "base/programs.h"
#include "base/status.h"
#include "cli/commands.h"

namespace lightcone::cli {
namespace {

constexpr size_t kShownMax = 20;  // damages and ids in the text; --json shows all that are known

using server::RepairReport;

std::string TextOf(const RepairReport& report, const std::string& to) {
  std::string text;
  for (size_t i = 0; i < report.damage.size() && i < kShownMax; ++i) text += StrCat("damage: ", report.damage[i], "\n");
  if (report.damage.size() > kShownMax) text += StrCat("and ", report.damage.size() - kShownMax, " damages more\n");
  for (const auto& one : report.collections) {
    if (!one.refused.empty()) text += StrCat("not served: ", one.refused, "\n");
    if (one.name.empty()) continue;
    text += StrCat("collection '", one.name, "': ", one.items, " items saved, ", one.items_lost, " lost, ",
                   one.inputs_lost, " raw inputs lost\n");
    for (size_t i = 0; i < one.lost.size() && i < kShownMax; ++i) text += StrCat("  lost: item ", one.lost[i], "\n");
    if (one.lost.size() > kShownMax) text += StrCat("  and ", one.lost.size() - kShownMax, " more\n");
  }
  return text + StrCat("saved to '", to, "'; the first start builds its index\n");
}

nlohmann::ordered_json JsonOf(const RepairReport& report, const std::string& to) {
  nlohmann::ordered_json collections = nlohmann::ordered_json::array();
  for (const auto& one : report.collections) {
    collections.push_back({{"number", one.number},
                           {"name", one.name},
                           {"items", one.items},
                           {"items_lost", one.items_lost},
                           {"inputs_lost", one.inputs_lost},
                           {"lost", one.lost},
                           {"refused", one.refused}});
  }
  return {{"folder", to}, {"whole", report.whole()}, {"damage", report.damage}, {"collections", collections}};
}

absl::Status RunRepair(Context& context, const std::string& from, const std::string& to) {
  if (context.program->repair == nullptr) return BecomeProgram("lightcone", context.argv);
  LC_ASSIGN_OR_RETURN(const RepairReport report, context.program->repair(from, to));
  context.Show(JsonOf(report, to), TextOf(report, to));
  if (report.whole()) return absl::OkStatus();
  return DataLoss(StrCat("'", to, "' holds what could be saved of '", from, "', which is not all of it"));
}

}  // namespace

void AddRepair(CLI::App& root, Context& context) {
  struct Flags {
    std::string from, to;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = AddCommand(root, "repair", "Save what can be read of a damaged data folder into a new one");
  app->add_option("folder", flags->from, "Data folder of a stopped server; it stays as it is")->required();
  app->add_option("--to", flags->to, "New data folder, which must not exist yet")->required();
  app->callback([&context, flags] { context.Finish(RunRepair(context, flags->from, flags->to)); });
}

}  // namespace lightcone::cli

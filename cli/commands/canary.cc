#include "cli/commands/canary.h"

#include <optional>

#include "base/status.h"
#include "cli/command_table.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct CanaryFlags {
  std::string collection, reason, request_id;
  uint32_t generation = 0;
  std::optional<double> share;
  bool end = false, force = false;
};

OrderedJson SideJson(const v1::CanarySide& side) {
  OrderedJson json = FieldsJson(
      side, {"generation", "searches", "failures", "p50_ms", "p99_ms", "nearest_distance", "nearest_uncertainty"});
  json["live_recall"] = side.has_live_recall() ? OrderedJson(side.live_recall()) : OrderedJson(nullptr);
  return json;
}

absl::Status RunCanary(Context& context, const CanaryFlags& flags) {
  if (flags.end && flags.generation != 0)
    return InvalidArgument("GENERATION (with --share) and --end exclude each other");
  if (flags.generation == 0 && (flags.share || (!flags.end && (flags.force || !flags.reason.empty())))) {
    return InvalidField("generation", "0 or absent", "the number of the generation that serves the --share");
  }
  v1::CanaryInfo canary;
  if (flags.generation == 0 && !flags.end) {
    LC_ASSIGN_OR_RETURN(auto response,
                        context.Call(&client::Client::GetCanary, RequestOf<v1::GetCanaryRequest>(flags)));
    canary = std::move(*response.mutable_canary());
  } else {
    LC_ASSIGN_OR_RETURN(auto response,
                        context.Call(&client::Client::SetCanary, RequestOf<v1::SetCanaryRequest>(flags)));
    canary = std::move(*response.mutable_canary());
  }
  context.Show(CanaryJson(canary), CanaryTable(canary));
  return absl::OkStatus();
}

void AddCanaryFlags(CLI::App* app, CanaryFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("generation", flags->generation,
                  "Number of the generation to serve the share; absent: show the canary that there is");
  app->add_option("--share", flags->share, "Share of the searches with a key that the canary serves, above 0 .. 1");
  app->add_flag("--end", flags->end, "End the canary: the active generation serves every search");
  app->add_flag("--force", flags->force,
                "Start the canary without a passed validation, or with items out of its reach; needs --reason");
  app->add_option("--reason", flags->reason, "Reason that the audit log keeps");
  AddRequestId(app, &flags->request_id);
}

}  // namespace

OrderedJson CanaryJson(const v1::CanaryInfo& canary) {
  OrderedJson json = {{"generation", canary.generation()}, {"share", canary.share()}};
  if (canary.generation() == 0) return json;
  json["began"] = TimeJson(canary.has_began(), canary.began());
  json["canary"] = SideJson(canary.canary());
  json["active"] = SideJson(canary.active());
  json["unroutable"] = canary.unroutable();
  return json;
}

std::string CanaryTable(const v1::CanaryInfo& canary) {
  if (canary.generation() == 0) return "no canary\n";
  Table table(
      {"side", "generation", "searches", "failures", "p50 ms", "p99 ms", "nearest", "uncertainty", "live recall"});
  const auto add = [&](const char* name, const v1::CanarySide& side) {
    table.Add({name, StrCat(side.generation()), Grouped(side.searches()), Grouped(side.failures()),
               Number(side.p50_ms()), Number(side.p99_ms()), Number(side.nearest_distance()),
               Number(side.nearest_uncertainty()), side.has_live_recall() ? Number(side.live_recall()) : "-"});
  };
  add("canary", canary.canary());
  add("active", canary.active());
  return StrCat("generation ", canary.generation(), " serves ", Number(canary.share() * 100),
                " % of the searches that give a key\n", table.Text(),
                canary.unroutable() == 0
                    ? ""
                    : StrCat("the active generation served ", Grouped(canary.unroutable()),
                             " searches of the canary's share, whose vector was of the active generation alone\n"));
}

void AddGenerationCanary(CLI::App& generation, Context& context) {
  AddCommands<CanaryFlags>(
      generation, context,
      {{"canary", "Let a generation serve a share of the searches before it is active; show or end that canary",
        &RunCanary, &AddCanaryFlags}});
}

}  // namespace lightcone::cli

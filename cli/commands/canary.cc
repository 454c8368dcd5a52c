#include "cli/commands/canary.h"

#include <memory>
#include <optional>

#include "base/status.h"
#include "cli/commands.h"
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
  OrderedJson json = {{"generation", side.generation()},
                      {"searches", side.searches()},
                      {"failures", side.failures()},
                      {"p50_ms", side.p50_ms()},
                      {"p99_ms", side.p99_ms()},
                      {"nearest_distance", side.nearest_distance()},
                      {"nearest_uncertainty", side.nearest_uncertainty()},
                      {"live_recall", nullptr}};
  if (side.has_live_recall()) json["live_recall"] = side.live_recall();
  return json;
}

absl::Status RunCanary(Context& context, const CanaryFlags& flags) {
  if (flags.end && flags.generation != 0) return InvalidArgument("say one of GENERATION (with --share) and --end");
  if (flags.generation == 0 && (flags.share || (!flags.end && (flags.force || !flags.reason.empty())))) {
    return InvalidField("generation", "0 or absent", "the number of the one that is to serve the --share");
  }
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::CanaryInfo canary;
  if (flags.generation == 0 && !flags.end) {
    v1::GetCanaryRequest request;
    request.set_collection(flags.collection);
    LC_ASSIGN_OR_RETURN(v1::GetCanaryResponse response, client->GetCanary(request));
    canary = std::move(*response.mutable_canary());
  } else {
    v1::SetCanaryRequest request;
    request.set_request_id(flags.request_id);
    request.set_collection(flags.collection);
    request.set_generation(flags.generation);
    request.set_share(flags.share.value_or(0));
    request.set_force(flags.force);
    request.set_reason(flags.reason);
    LC_ASSIGN_OR_RETURN(v1::SetCanaryResponse response, client->SetCanary(request));
    canary = std::move(*response.mutable_canary());
  }
  context.json ? context.PrintJson(CanaryJson(canary)) : context.Print(CanaryTable(canary));
  return absl::OkStatus();
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
                    : StrCat(Grouped(canary.unroutable()), " more were its share, and had a vector of ",
                             "the active generation alone: the active one served them\n"));
}

void AddGenerationCanary(CLI::App& generation, Context& context) {
  auto flags = std::make_shared<CanaryFlags>();
  CLI::App* app =
      AddCommand(generation, "canary",
                 "Let a generation serve a share of the searches before it is active; show how it does; end it");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("generation", flags->generation, "Its number; without one the canary there is, is shown");
  app->add_option("--share", flags->share, "Of the searches that give a key, above 0 .. 1");
  app->add_flag("--end", flags->end, "The active generation serves everything again");
  app->add_flag("--force", flags->force,
                "Although it has not passed a validation, or reaches not every item; needs --reason");
  app->add_option("--reason", flags->reason, "Why; kept in the audit log");
  app->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  app->callback([&context, flags] { context.Finish(RunCanary(context, *flags)); });
}

}  // namespace lightcone::cli

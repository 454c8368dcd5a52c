// lightcone backfill start | status | pause | lease (and fit, backfill_fit.cc)
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

constexpr absl::Duration kFollowEvery = absl::Milliseconds(100);

struct BackfillFlags {
  std::string collection, failure_head, request_id, finished, renew;
  uint32_t head_generation = 0, items = 100;
  double timeout_seconds = 300, p99_ms_max = 0;
  std::optional<double> embed_rate;
  bool wait = false;
};

void PrintStatus(Context& context, const v1::StatusResponse& status) {
  context.json ? context.PrintJson(BackfillJson(status)) : context.Print(BackfillTable(status));
}

absl::Status Ended(const v1::StatusResponse& status) {
  if (status.state() != v1::BACKFILL_STATE_FAILED) return absl::OkStatus();
  return absl::AbortedError(StrCat("the backfill failed: ", status.error()));
}

absl::Status StartBackfill(Context& context, const BackfillFlags& flags) {
  v1::BackfillStartRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_head_generation(flags.head_generation);
  if (flags.embed_rate) request.set_embed_rate(*flags.embed_rate);
  request.set_p99_ms_max(flags.p99_ms_max);
  if (!flags.failure_head.empty()) {
    LC_ASSIGN_OR_RETURN(*request.mutable_failure_head(), ReadFile(flags.failure_head));
  }
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::BackfillStartResponse response, client->StartBackfill(request));
  v1::StatusResponse status = response.status();
  v1::StatusRequest ask;
  ask.set_collection(flags.collection);
  while (flags.wait && status.state() == v1::BACKFILL_STATE_ORDERING) {
    absl::SleepFor(kFollowEvery);
    LC_ASSIGN_OR_RETURN(status, client->BackfillStatus(ask));
  }
  PrintStatus(context, status);
  return Ended(status);
}

absl::Status ShowStatus(Context& context, const BackfillFlags& flags) {
  v1::StatusRequest request;
  request.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::StatusResponse response, client->BackfillStatus(request));
  PrintStatus(context, response);
  return absl::OkStatus();
}

absl::Status Pause(Context& context, const BackfillFlags& flags) {
  v1::PauseRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::PauseResponse response, client->PauseBackfill(request));
  PrintStatus(context, response.status());
  return absl::OkStatus();
}

absl::Status Lease(Context& context, const BackfillFlags& flags) {
  if (!(flags.timeout_seconds > 0 && flags.timeout_seconds <= 86'400)) {
    return InvalidField("--lease-seconds", Number(flags.timeout_seconds), "above 0, up to 86400");
  }
  v1::LeaseRequest request;
  request.set_collection(flags.collection);
  if (flags.renew.empty()) request.set_items_max(flags.items);
  request.set_finished_token(flags.finished);
  request.set_renew_token(flags.renew);
  const absl::Duration timeout = absl::Seconds(flags.timeout_seconds);
  request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
  request.mutable_timeout()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(timeout) % 1'000'000'000));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::LeaseResponse response, client->LeaseBackfill(request));
  context.json ? context.PrintJson(LeaseJson(response)) : context.Print(LeaseTable(response));
  return absl::OkStatus();
}

}  // namespace

void AddBackfill(CLI::App& root, Context& context) {
  auto flags = std::make_shared<BackfillFlags>();
  CLI::App* app = AddCommand(root, "backfill", "Embed a gallery anew, lazily, worst items first");
  app->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, absl::Status (*run)(Context&, const BackfillFlags&)) {
    CLI::App* sub = AddCommand(*app, name, help);
    sub->callback([&context, flags, run] { context.Finish(run(context, *flags)); });
    sub->add_option("collection", flags->collection, "Collection or alias")->required();
    return sub;
  };
  AddBackfillFit(*app, context);
  CLI::App* start = add("start", "Order the items of older generations, worst first; ends a pause", StartBackfill);
  start->add_option("--failure-head", flags->failure_head, "File of `backfill fit`; none: by neighbourhoods alone");
  start->add_option("--head-generation", flags->head_generation, "Whose items it is for; 0: the active one's parent");
  start
      ->add_option("--embed-rate", flags->embed_rate,
                   "Items a second that the server embeds itself of those whose input is stored; 0: none; absent: as "
                   "this generation's was started before")
      ->check(CLI::Number);  // which an empty word is not
  start->add_option("--p99-ms", flags->p99_ms_max, "Halve that rate while the p99 of searches lies above; 0: never");
  start->add_flag("--wait", flags->wait, "Until the order is there");
  start->add_option("--request-id", flags->request_id, "Makes a repeated call safe; made up when absent");
  add("status", "State, progress, leases", ShowStatus);
  CLI::App* pause = add("pause", "Lease no more items until the next start", Pause);
  pause->add_option("--request-id", flags->request_id, "Makes a repeated call safe; made up when absent");
  CLI::App* lease =
      add("lease", "Take what searches found, then the worst; upsert embeddings with same_content", Lease);
  lease->add_option("--items", flags->items, "At most so many")->capture_default_str();
  lease->add_option("--lease-seconds", flags->timeout_seconds, "After which others get what is not embedded")
      ->capture_default_str();
  lease->add_option("--finished", flags->finished, "Token of an earlier lease that is through");
  lease->add_option("--renew", flags->renew, "Token of a lease that gets --lease-seconds from now; nothing is leased")
      ->excludes("--items", "--finished")
      ->check([](const std::string& token) { return token.empty() ? "a token is not empty" : ""; });
}

}  // namespace lightcone::cli

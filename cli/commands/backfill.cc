// lightcone backfill start | status | estimate | pause | lease (and fit, backfill_fit.cc)
#include <string>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/commands/estimate.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

constexpr absl::Duration kFollowEvery = absl::Milliseconds(100);

struct BackfillFlags {
  std::string collection, failure_head, request_id, finished, renew;
  uint32_t generation = 0, head_generation = 0, items_max = 100;
  double lease_seconds = 300, p99_ms_max = 0;
  std::optional<double> embed_rate;
  uint32_t trial_max = kTrialInputs;
  double price = 0;
  bool wait = false;
};

void ShowStatus(const Context& context, const v1::StatusResponse& status) {
  context.Show(BackfillJson(status), BackfillTable(status));
}

// The error of a backfill that failed.
absl::Status ErrorOf(const v1::StatusResponse& status) {
  if (status.state() != v1::BACKFILL_STATE_FAILED) return absl::OkStatus();
  return absl::AbortedError(StrCat("the backfill failed: ", status.error()));
}

absl::Status StartBackfill(Context& context, const BackfillFlags& flags) {
  auto request = RequestOf<v1::BackfillStartRequest>(flags);
  if (!flags.failure_head.empty()) {
    LC_ASSIGN_OR_RETURN(*request.mutable_failure_head(), ReadFile(flags.failure_head));
  }
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::StartBackfill, request));
  v1::StatusResponse status = response.status();
  while (flags.wait && status.state() == v1::BACKFILL_STATE_ORDERING) {
    absl::SleepFor(kFollowEvery);
    LC_ASSIGN_OR_RETURN(status, context.Call(&client::Client::BackfillStatus, RequestOf<v1::StatusRequest>(flags)));
  }
  ShowStatus(context, status);
  return ErrorOf(status);
}

absl::Status GetStatus(Context& context, const BackfillFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::BackfillStatus, RequestOf<v1::StatusRequest>(flags)));
  ShowStatus(context, response);
  return absl::OkStatus();
}

absl::Status Estimate(Context& context, const BackfillFlags& flags) {
  const EstimateTerms terms{flags.price, flags.embed_rate.value_or(0)};
  LC_RETURN_IF_ERROR(CheckTerms(terms, flags.trial_max));
  auto request = RequestOf<v1::EstimateRequest>(flags);
  request.set_trial_max(flags.trial_max);
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::EstimateBackfill, request));
  context.Show(EstimateJson(response, terms), EstimateText(response, terms, ""));
  return absl::OkStatus();
}

absl::Status Pause(Context& context, const BackfillFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::PauseBackfill, RequestOf<v1::PauseRequest>(flags)));
  ShowStatus(context, response.status());
  return absl::OkStatus();
}

absl::Status Lease(Context& context, const BackfillFlags& flags) {
  if (!(flags.lease_seconds > 0 && flags.lease_seconds <= 86'400)) {
    return InvalidField("--lease-seconds", Number(flags.lease_seconds), "above 0, up to 86400");
  }
  v1::LeaseRequest request;
  request.set_collection(flags.collection);
  if (flags.renew.empty()) request.set_items_max(flags.items_max);
  request.set_finished_token(flags.finished);
  request.set_renew_token(flags.renew);
  const absl::Duration timeout = absl::Seconds(flags.lease_seconds);
  request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
  request.mutable_timeout()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(timeout) % 1'000'000'000));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::LeaseBackfill, request));
  context.Show(LeaseJson(response), LeaseTable(response));
  return absl::OkStatus();
}

void AddStartFlags(CLI::App* start, BackfillFlags* flags) {
  AddCollectionArgument(start, &flags->collection);
  start->add_option("--generation", flags->generation,
                    "Generation that embeds the items, the active one or a newer one before it serves; 0: the active "
                    "one");
  start->add_option("--failure-head", flags->failure_head,
                    "File of a failure head (`lightcone backfill fit`); default: items are ordered by their "
                    "neighbourhoods");
  start->add_option("--head-generation", flags->head_generation,
                    "Generation whose items the failure head is for; 0: the parent of the generation "
                    "that embeds");
  start
      ->add_option("--embed-rate", flags->embed_rate,
                   "Items a second that the server itself embeds from stored inputs; 0: none. Default: the rate that "
                   "this generation's backfill has")
      ->check(CLI::Number);  // An empty text is no number.
  start->add_option("--p99-ms", flags->p99_ms_max,
                    "Milliseconds of the searches' p99 above which that rate is halved; 0: never");
  start->add_flag("--wait", flags->wait, "Wait until the items are ordered");
  AddRequestId(start, &flags->request_id);
}

void AddEstimateFlags(CLI::App* app, BackfillFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("--generation", flags->generation, "Generation that would embed the items; 0: the active one");
  app->add_option("--trial", flags->trial_max,
                  "Most stored inputs, 0 .. 256, that its encoder embeds now, so that its rate is known")
      ->capture_default_str();
  app->add_option("--price", flags->price, "Price of a million tokens, in any currency");
  app->add_option("--embed-rate", flags->embed_rate, "Items a second that are to be embedded at most")
      ->check(CLI::Number);
}

void AddLeaseFlags(CLI::App* lease, BackfillFlags* flags) {
  AddCollectionArgument(lease, &flags->collection);
  lease->add_option("--items", flags->items_max, "Most items to lease")->capture_default_str();
  lease
      ->add_option("--lease-seconds", flags->lease_seconds,
                   "Seconds after which items without a new embedding are leased to others")
      ->capture_default_str();
  lease->add_option("--finished", flags->finished, "Token of an earlier lease whose items are embedded");
  lease->add_option("--renew", flags->renew, "Token of a lease to extend by --lease-seconds from now; leases nothing")
      ->excludes("--items", "--finished")
      ->check([](const std::string& token) { return token.empty() ? "a token is not empty" : ""; });
}

}  // namespace

void AddBackfill(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(root, "backfill", "Embed a gallery anew, lazily, worst items first");
  app->require_subcommand(1);
  AddHeld(*app, context, "backfill fit");
  AddCommands<BackfillFlags>(
      *app, context,
      {{"start", "Order the items of older generations, worst first; ends a pause", &StartBackfill, &AddStartFlags},
       {"status", "Show state, progress and leases", &GetStatus,
        [](CLI::App* status, BackfillFlags* flags) { AddCollectionArgument(status, &flags->collection); }},
       {"estimate", "Say how many inputs and tokens a backfill takes, and how long, before it begins", &Estimate,
        &AddEstimateFlags},
       {"pause", "Stop leasing items until the next start", &Pause,
        [](CLI::App* pause, BackfillFlags* flags) {
          AddCollectionArgument(pause, &flags->collection);
          AddRequestId(pause, &flags->request_id);
        }},
       {"lease", "Take items that searches found, then the worst, to upsert embeddings with same_content", &Lease,
        &AddLeaseFlags}});
}

}  // namespace lightcone::cli

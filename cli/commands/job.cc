// lightcone job list | get | watch | cancel
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct JobFlags {
  std::string collection, id, request_id;
  uint32_t limit = 100;
};

void ShowJob(const Context& context, const v1::JobInfo& job) {
  context.json ? context.PrintJson(JobJson(job)) : context.Print(JobsTable({job}));
}

absl::Status ListJobs(Context& context, const JobFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::JobsListRequest request;
  request.set_collection(flags.collection);
  request.set_page_size(flags.limit);
  LC_ASSIGN_OR_RETURN(const v1::JobsListResponse response, client->ListJobs(request));
  ShowAll(context, response.jobs(), JobJson, JobsTable);
  return absl::OkStatus();
}

absl::Status GetJob(Context& context, const JobFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::JobsGetRequest request;
  request.set_id(flags.id);
  LC_ASSIGN_OR_RETURN(const v1::JobsGetResponse response, client->GetJob(request));
  ShowJob(context, response.job());
  return absl::OkStatus();
}

absl::Status WatchJob(Context& context, const JobFlags& flags) { return WaitForJob(context, flags.id).status(); }

absl::Status CancelJob(Context& context, const JobFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::JobsCancelRequest request;
  request.set_id(flags.id);
  request.set_request_id(flags.request_id);
  LC_ASSIGN_OR_RETURN(const v1::JobsCancelResponse response, client->CancelJob(request));
  ShowJob(context, response.job());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::JobInfo> WaitForJob(Context& context, const std::string& id, bool show,
                                       std::optional<client::CallOptions> call) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  ProgressBar bar(StrCat("job ", id), 0, "");
  const auto see = [&](const v1::JobInfo& job) {
    const double total = job.total() == 0 ? 1.0 : static_cast<double>(job.total());
    bar.Show(static_cast<double>(job.done()) / total, static_cast<int64_t>(job.done()));
  };
  LC_ASSIGN_OR_RETURN(v1::JobInfo job, client->WatchJob(id, see, call.value_or(context.Waiting())));
  bar.Clear();
  if (show) ShowJob(context, job);
  if (job.state() == v1::JOB_STATE_CANCELLED) {
    return MakeStatus(absl::StatusCode::kCancelled, StrCat("job ", id, " was cancelled"));
  }
  if (job.state() == v1::JOB_STATE_FAILED) return client::StatusOf(job.error());
  return job;
}

void AddJob(CLI::App& root, Context& context) {
  CLI::App* app =
      AddCommand(root, "job", "List, show, watch and cancel jobs: validations, retirements and fits of adapters");
  app->require_subcommand(1);
  auto flags = std::make_shared<JobFlags>();
  const auto add = [&](const char* name, const char* help, absl::Status (*run)(Context&, const JobFlags&)) {
    CLI::App* sub = AddCommand(*app, name, help);
    sub->callback([&context, flags, run] { context.Finish(run(context, *flags)); });
    return sub;
  };
  CLI::App* list = add("list", "List jobs, newest first", &ListJobs);
  list->add_option("--collection", flags->collection, "Only those of this collection or alias");
  list->add_option("--limit", flags->limit, "How many, 1 .. 1000")->capture_default_str();
  add("get", "Show one job with its result", &GetJob)->add_option("id", flags->id, "Its id")->required();
  add("watch", "Follow a job until it has ended", &WatchJob)->add_option("id", flags->id, "Its id")->required();
  CLI::App* cancel = add("cancel", "Ask a job to end", &CancelJob);
  cancel->add_option("id", flags->id, "Its id")->required();
  cancel->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
}

}  // namespace lightcone::cli

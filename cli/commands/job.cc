// lightcone job list | get | watch | cancel
#include <string>

#include "base/status.h"
#include "cli/command_table.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct JobFlags {
  std::string collection, id, request_id;
  uint32_t page_size = 100;
};

void ShowJob(const Context& context, const v1::JobInfo& job) { context.Show(JobJson(job), JobsTable({job})); }

absl::Status ListJobs(Context& context, const JobFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::ListJobs, RequestOf<v1::JobsListRequest>(flags)));
  ShowAll(context, response.jobs(), JobJson, JobsTable);
  return absl::OkStatus();
}

absl::Status GetJob(Context& context, const JobFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::GetJob, RequestOf<v1::JobsGetRequest>(flags)));
  ShowJob(context, response.job());
  return absl::OkStatus();
}

absl::Status WatchJob(Context& context, const JobFlags& flags) { return WaitForJob(context, flags.id).status(); }

absl::Status CancelJob(Context& context, const JobFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::CancelJob, RequestOf<v1::JobsCancelRequest>(flags)));
  ShowJob(context, response.job());
  return absl::OkStatus();
}

void AddJobId(CLI::App* app, JobFlags* flags) { app->add_option("id", flags->id, "Id of the job")->required(); }

}  // namespace

absl::StatusOr<v1::JobInfo> WaitForJob(Context& context, const std::string& id, bool show,
                                       std::optional<client::CallOptions> call) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  ProgressBar bar(StrCat("job ", id), 0, "");
  LC_ASSIGN_OR_RETURN(v1::JobInfo job, client->WatchJob(
                                           id, [&bar](const v1::JobInfo& now) { ShowProgress(now, &bar); },
                                           call.value_or(context.Waiting())));
  bar.Clear();
  if (show) ShowJob(context, job);
  if (job.state() == v1::JOB_STATE_CANCELLED) {
    return MakeStatus(absl::StatusCode::kCancelled, StrCat("job ", id, " was cancelled"));
  }
  if (job.state() == v1::JOB_STATE_FAILED) return client::StatusOf(job.error());
  return job;
}

void ShowProgress(const v1::JobInfo& job, ProgressBar* bar) {
  const double total = job.total() == 0 ? 1.0 : static_cast<double>(job.total());
  bar->Show(static_cast<double>(job.done()) / total, static_cast<int64_t>(job.done()));
}

void AddJob(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(
      root, "job", "List, show, watch and cancel jobs: validations, retirements, trainings and fits of adapters");
  app->require_subcommand(1);
  AddCommands<JobFlags>(
      *app, context,
      {{"list", "List jobs, newest first", &ListJobs,
        [](CLI::App* list, JobFlags* flags) {
          list->add_option("--collection", flags->collection,
                           "Collection or alias whose jobs are listed; default: all");
          list->add_option("--limit", flags->page_size, "Most jobs to list, 1 .. 1000")->capture_default_str();
        }},
       {"get", "Show a job and its result", &GetJob, &AddJobId},
       {"watch", "Follow a job until it has ended", &WatchJob, &AddJobId},
       {"cancel", "Ask a job to end", &CancelJob, [](CLI::App* cancel, JobFlags* flags) {
          AddJobId(cancel, flags);
          AddRequestId(cancel, &flags->request_id);
        }}});
}

}  // namespace lightcone::cli

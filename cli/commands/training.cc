// lightcone training start | list | get | watch | cancel: trainings inside the server.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct TrainingFlags {
  std::string collection, id, request_id, recipe_file, label_field, method, recipe, name, data;
  std::vector<std::string> settings;
  uint64_t seed = 1;
  uint32_t parent = 0, limit = 100, classes = 0;
  double fraction = 1;
  bool wait = false;
};

OrderedJson TrainingJson(const v1::TrainingJob& job) {
  OrderedJson json = JobJson(job.job());
  json["parent"] = json["generation"];  // of a training, the job is about its parent
  json["generation"] = job.generation();
  return json;
}

std::string TrainingsTable(const std::vector<v1::TrainingJob>& jobs) {
  Table table({"id", "collection", "parent", "state", "step", "draft", "doing"});
  std::string errors;
  for (const v1::TrainingJob& training : jobs) {
    const v1::JobInfo& job = training.job();
    table.Add({job.id(), job.collection(), job.generation() == 0 ? "-" : StrCat(job.generation()), training.state(),
               job.total() == 0 ? "-" : StrCat(job.done(), " of ", job.total()),
               training.generation() == 0 ? "-" : StrCat(training.generation()),
               job.step().empty() ? "-" : job.step()});
    if (job.has_error()) errors += StrCat("training ", job.id(), ": ", job.error().message(), "\n");
  }
  return table.Text() + errors;
}

void ShowTraining(const Context& context, const v1::TrainingJob& job) {
  context.json ? context.PrintJson(TrainingJson(job)) : context.Print(TrainingsTable({job}));
}

// From --recipe-file, or from the flags.
absl::StatusOr<std::string> RecipeOf(const TrainingFlags& flags) {
  if (!flags.recipe_file.empty()) {
    return ReadFile(flags.recipe_file, 1 << 20);
  }
  if (flags.method.empty())
    return InvalidField("--method", "absent", "a name of `lightcone train --list`, or --recipe-file");
  OrderedJson recipe = {{"method", flags.method}, {"seed", flags.seed}};
  if (!flags.recipe.empty()) recipe["recipe"] = flags.recipe;
  if (!flags.name.empty()) recipe["name"] = flags.name;
  if (!flags.data.empty()) recipe["data"] = flags.data;
  if (flags.classes != 0) recipe["classes"] = flags.classes;
  if (flags.fraction != 1) recipe["fraction"] = flags.fraction;
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) return InvalidField("--set", StrCat("'", setting, "'"), "NAME=VALUE");
    recipe["options"][setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return recipe.dump();
}

absl::Status Follow(Context& context, const std::string& id) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  ProgressBar bar(StrCat("training ", id), 0, "");
  const auto see = [&](const v1::TrainingJob& training) {
    const v1::JobInfo& job = training.job();
    const double total = job.total() == 0 ? 1.0 : static_cast<double>(job.total());
    bar.Show(static_cast<double>(job.done()) / total, static_cast<int64_t>(job.done()));
  };
  LC_ASSIGN_OR_RETURN(const v1::TrainingJob training, client->WatchTraining(id, see, context.Waiting()));
  bar.Clear();
  ShowTraining(context, training);
  if (training.state() == "cancelled") {
    return MakeStatus(absl::StatusCode::kCancelled, StrCat("training ", id, " was cancelled"));
  }
  return training.state() == "failed" ? client::StatusOf(training.job().error()) : absl::OkStatus();
}

absl::Status StartTraining(Context& context, const TrainingFlags& flags) {
  v1::TrainingStartRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.collection);
  request.set_label_field(flags.label_field);
  request.set_parent(flags.parent);
  LC_ASSIGN_OR_RETURN(*request.mutable_recipe_json(), RecipeOf(flags));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::TrainingStartResponse response, client->StartTraining(request));
  if (flags.wait) return Follow(context, response.job().id());
  ShowTraining(context, response.job());
  return absl::OkStatus();
}

absl::Status ListTrainings(Context& context, const TrainingFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::TrainingListRequest request;
  request.set_collection(flags.collection);
  request.set_page_size(flags.limit);
  LC_ASSIGN_OR_RETURN(const v1::TrainingListResponse response, client->ListTrainings(request));
  ShowAll(context, response.jobs(), TrainingJson, TrainingsTable);
  return absl::OkStatus();
}

absl::Status GetTraining(Context& context, const TrainingFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::TrainingGetRequest request;
  request.set_id(flags.id);
  LC_ASSIGN_OR_RETURN(const v1::TrainingGetResponse response, client->GetTraining(request));
  ShowTraining(context, response.job());
  return absl::OkStatus();
}

absl::Status WatchTraining(Context& context, const TrainingFlags& flags) { return Follow(context, flags.id); }

absl::Status CancelTraining(Context& context, const TrainingFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::CancelRequest request;
  request.set_id(flags.id);
  request.set_request_id(flags.request_id);
  LC_ASSIGN_OR_RETURN(const v1::CancelResponse response, client->CancelTraining(request));
  ShowTraining(context, response.job());
  return absl::OkStatus();
}

}  // namespace

void AddTraining(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(
      root, "training", "Train inside the server, in a process of low priority: start, list, show, watch and cancel");
  app->require_subcommand(1);
  auto flags = std::make_shared<TrainingFlags>();
  const auto add = [&](const char* name, const char* help, absl::Status (*run)(Context&, const TrainingFlags&)) {
    CLI::App* sub = AddCommand(*app, name, help);
    sub->callback([&context, flags, run] { context.Finish(run(context, *flags)); });
    return sub;
  };
  CLI::App* start = add("start", "Begin one; its result becomes a draft of the collection", &StartTraining);
  start->add_option("collection", flags->collection, "Collection or alias")->required();
  start->add_option("--method", flags->method, "A name of `lightcone train --list`");
  start->add_option("--parent", flags->parent, "Generation that it is to be compatible with; 0: none");
  start->add_option("--label-field", flags->label_field, "Payload field with the class of a stored input");
  start->add_option("--data", flags->data, "Instead of stored inputs: a data set on the server's disk, as in `train`");
  start->add_option("--recipe", flags->recipe, "quick or paper");
  start->add_option("--name", flags->name, "Of the model");
  start->add_option("--seed", flags->seed, "Of splits and training")->capture_default_str();
  start->add_option("--classes", flags->classes, "Train on the first classes only; 0: all");
  start->add_option("--fraction", flags->fraction, "Train on this share of each class");
  start->add_option("--set", flags->settings, "NAME=VALUE of an option of `train --list`; may be repeated");
  start->add_option("--recipe-file", flags->recipe_file, "Instead of those: a JSON object of them")
      ->excludes("--method", "--data", "--recipe", "--name", "--seed", "--classes", "--fraction", "--set");
  start->add_flag("--wait", flags->wait, "Follow it until it has ended");
  start->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  CLI::App* list = add("list", "List trainings, newest first", &ListTrainings);
  list->add_option("--collection", flags->collection, "Only those of this collection or alias");
  list->add_option("--limit", flags->limit, "How many, 1 .. 1000")->capture_default_str();
  add("get", "Show one with its losses", &GetTraining)->add_option("id", flags->id, "Its id")->required();
  add("watch", "Follow one until it has ended", &WatchTraining)->add_option("id", flags->id, "Its id")->required();
  CLI::App* cancel = add("cancel", "End one, and what it has learnt so far", &CancelTraining);
  cancel->add_option("id", flags->id, "Its id")->required();
  cancel->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
}

}  // namespace lightcone::cli

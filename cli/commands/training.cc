// lightcone training start | list | get | watch | cancel: trainings inside the server.
#include <string>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct TrainingFlags {
  std::string collection, id, request_id, recipe_file, label_field, method, recipe, name, data;
  std::vector<std::string> settings;
  uint64_t seed = 1;
  uint32_t parent = 0, page_size = 100, classes = 0;
  double fraction = 1;
  bool wait = false;
};

OrderedJson TrainingJson(const v1::TrainingJob& job) {
  OrderedJson json = JobJson(job.job());
  json["parent"] = json["generation"];  // The generation that a training's job is about is its parent.
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
  context.Show(TrainingJson(job), TrainingsTable({job}));
}

// The recipe in --recipe-file, or what the flags say.
absl::StatusOr<std::string> RecipeOf(const TrainingFlags& flags) {
  if (!flags.recipe_file.empty()) return ReadFile(flags.recipe_file, 1 << 20);
  if (flags.method.empty()) {
    return InvalidField("--method", "absent", "a name of `lightcone train --list`, or --recipe-file");
  }
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
  const auto see = [&bar](const v1::TrainingJob& training) { ShowProgress(training.job(), &bar); };
  LC_ASSIGN_OR_RETURN(const v1::TrainingJob training, client->WatchTraining(id, see, context.Waiting()));
  bar.Clear();
  ShowTraining(context, training);
  if (training.state() == "cancelled") {
    return MakeStatus(absl::StatusCode::kCancelled, StrCat("training ", id, " was cancelled"));
  }
  return training.state() == "failed" ? client::StatusOf(training.job().error()) : absl::OkStatus();
}

absl::Status StartTraining(Context& context, const TrainingFlags& flags) {
  auto request = RequestOf<v1::TrainingStartRequest>(flags);
  LC_ASSIGN_OR_RETURN(*request.mutable_recipe_json(), RecipeOf(flags));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::StartTraining, request));
  if (flags.wait) return Follow(context, response.job().id());
  ShowTraining(context, response.job());
  return absl::OkStatus();
}

absl::Status ListTrainings(Context& context, const TrainingFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::ListTrainings, RequestOf<v1::TrainingListRequest>(flags)));
  ShowAll(context, response.jobs(), TrainingJson, TrainingsTable);
  return absl::OkStatus();
}

absl::Status GetTraining(Context& context, const TrainingFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::GetTraining, RequestOf<v1::TrainingGetRequest>(flags)));
  ShowTraining(context, response.job());
  return absl::OkStatus();
}

absl::Status WatchTraining(Context& context, const TrainingFlags& flags) { return Follow(context, flags.id); }

absl::Status CancelTraining(Context& context, const TrainingFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::CancelTraining, RequestOf<v1::CancelRequest>(flags)));
  ShowTraining(context, response.job());
  return absl::OkStatus();
}

void AddStartFlags(CLI::App* start, TrainingFlags* flags) {
  AddCollectionArgument(start, &flags->collection);
  start->add_option("--method", flags->method, "Training method: a name of `lightcone train --list`");
  start->add_option("--parent", flags->parent, "Generation that the model must be compatible with; 0: none");
  start->add_option("--label-field", flags->label_field, "Payload field with the class of a stored input");
  start->add_option("--data", flags->data,
                    "Data set on the server's disk to learn from, as in `lightcone train`; "
                    "default: the collection's stored inputs");
  start->add_option("--recipe", flags->recipe, "Size of the training: quick or paper");
  start->add_option("--name", flags->name, "Name of the model");
  start->add_option("--seed", flags->seed, "Seed of the splits and of the training")->capture_default_str();
  start->add_option("--classes", flags->classes, "Number of classes to train on, from the first; 0: all");
  start->add_option("--fraction", flags->fraction, "Share of each class to train on");
  start->add_option("--set", flags->settings,
                    "NAME=VALUE of an option that `lightcone train --list` names; may be repeated");
  start->add_option("--recipe-file", flags->recipe_file, "File with a JSON object of all the flags above")
      ->excludes("--method", "--data", "--recipe", "--name", "--seed", "--classes", "--fraction", "--set");
  start->add_flag("--wait", flags->wait, "Follow the training until it has ended");
  AddRequestId(start, &flags->request_id);
}

void AddTrainingId(CLI::App* app, TrainingFlags* flags) {
  app->add_option("id", flags->id, "Id of the training")->required();
}

}  // namespace

void AddTraining(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(
      root, "training", "Train inside the server, in a process of low priority: start, list, show, watch and cancel");
  app->require_subcommand(1);
  AddCommands<TrainingFlags>(
      *app, context,
      {{"start", "Begin a training; its result becomes a draft of the collection", &StartTraining, &AddStartFlags},
       {"list", "List trainings, newest first", &ListTrainings,
        [](CLI::App* list, TrainingFlags* flags) {
          list->add_option("--collection", flags->collection,
                           "Collection or alias whose trainings are listed; default: all");
          list->add_option("--limit", flags->page_size, "Most trainings to list, 1 .. 1000")->capture_default_str();
        }},
       {"get", "Show a training with its losses", &GetTraining, &AddTrainingId},
       {"watch", "Follow a training until it has ended", &WatchTraining, &AddTrainingId},
       {"cancel", "End a training; what it has learnt is lost", &CancelTraining,
        [](CLI::App* cancel, TrainingFlags* flags) {
          AddTrainingId(cancel, flags);
          AddRequestId(cancel, &flags->request_id);
        }}});
}

}  // namespace lightcone::cli

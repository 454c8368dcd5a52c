#include "server/engine/training/training_calls.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/child_process.h"
#include "base/files.h"
#include "base/status.h"
#include "models/manifest.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/embed/make_worker.h"
#include "server/engine/jobs/job_calls.h"
#include "server/engine/services/operator_transaction.h"
#include "server/engine/training/recipe_paths.h"
#include "server/engine/training/training_images.h"
#include "server/engine/training/training_recipe.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr int kFruitlessMax = 3;   // processes that ended by a signal one after another, none having got further
constexpr int kExitUsage = 2;      // exit code of `lightcone` for a wrong flag or value
constexpr int kExitExhausted = 6;  // exit code for a full disk, or no memory
constexpr int64_t kProgressBytesMax = 4 << 20;
constexpr int64_t kFileBytesMax = int64_t{64} << 30;  // length of a file that a training writes
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
constexpr absl::Duration kTryAgain = absl::Seconds(5);
constexpr size_t kCurvePoints = 200;

constexpr auto kTrainingFields = [](auto& f, auto& call) {
  f.Field("recipe_json", call.recipe_json);
  f.Field("label_field", call.label_field);
  f.Field("parent", call.parent);
};

std::string Encode(const StartTrainingCall& call) { return EncodeFields(call, kTrainingFields); }

absl::StatusOr<StartTrainingCall> DecodeTraining(const std::string& text) {
  return DecodeFields<StartTrainingCall>("arguments of training", text, kTrainingFields);
}

absl::Status CheckData(const TrainingRecipe& recipe, const StartTrainingCall& call) {
  if (recipe.data.empty() == call.label_field.empty()) {
    return InvalidField("label_field", StrCat("'", call.label_field, "'"),
                        recipe.data.empty() ? "the payload field with the class of a stored input"
                                            : "empty where the recipe names its data");
  }
  if (call.label_field.empty()) return absl::OkStatus();
  return CheckPayloadFields(std::vector<PayloadField>{{call.label_field, PayloadType::kKeyword}}, "label_field");
}

absl::Status CheckParent(const CollectionState& state, const TrainingRecipe& recipe, uint32_t parent) {
  if (parent == 0) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const GenerationRecord* old, state.Resolve(parent));
  if (!old->has_encoder || old->endpoint) {
    return FailedPrecondition(StrCat("generation ", parent, " of collection '", state.record.name, "' has no encoder ",
                                     "file here that a training by '", recipe.method, "' could be compatible with"));
  }
  return absl::OkStatus();
}

// The folder of a generation's model, as training reads it. No record names these files, and each run of the job writes
// them anew: the copy of the encoder needs no sync. Register stores what training makes in a durable file.
absl::Status WriteModel(const std::string& folder, const GenerationRecord& generation,
                        const std::string& encoder_path) {
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(generation.manifest_json));
  const std::string encoder = folder + "/" + manifest.encoder_file;
  std::error_code error;
  fs::copy_file(encoder_path, encoder, fs::copy_options::overwrite_existing, error);
  if (error) return ErrnoStatus(error.value(), "copy the encoder to", encoder);
  return WriteFileAtomically(folder + "/manifest.json", generation.manifest_json);
}

// What the process says about itself in its file, passed on when it has changed.
class Progress {
 public:
  Progress(std::string path, const JobRun& run) : path_(std::move(path)), run_(run) {}

  void Look() {
    const absl::Time now = absl::Now();
    if (now >= looked_ && now - looked_ < kLookEvery) return;
    looked_ = now;
    Read();
  }
  void Read() {
    const auto text = ReadFile(path_, kProgressBytesMax);
    if (!text.ok() || *text == text_) return;
    const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    FieldReader reader("progress", json);
    uint64_t step = 0, steps = 0;
    std::string line;
    if (!json.is_object()) return;
    reader.Read("step", &step);
    reader.Read("steps", &steps);
    reader.Read("line", &line);
    const Json* curve = reader.Find("curve");
    if (!reader.status().ok() || !curve->is_array()) return;
    if (!std::all_of(curve->begin(), curve->end(), [](const Json& point) { return point.is_object(); })) return;
    text_ = *text;
    curve_ = *curve;
    step_ = step;
    run_.report(step, steps, line);
    run_.detail(text_);
  }
  uint64_t step() const { return step_; }
  void Say(std::string_view line) const { run_.report(step_, 0, line); }
  // [{"epoch", "total"}], at most kCurvePoints: what is kept for ever.
  Json Curve() const {
    Json kept = Json::array();
    const size_t step = curve_.size() / kCurvePoints + 1;
    for (size_t i = 0; i < curve_.size(); ++i) {
      if (i % step != 0 && i + 1 != curve_.size()) continue;
      kept.push_back({{"epoch", curve_[i].value("epoch", Json())}, {"total", curve_[i].value("total", Json())}});
    }
    return kept;
  }

 private:
  const std::string path_;
  const JobRun& run_;
  absl::Time looked_ = absl::InfinitePast();
  std::string text_;
  uint64_t step_ = 0;
  Json curve_ = Json::array();
};

void Wait(absl::Duration time, const std::function<bool()>& gone) {
  for (const absl::Time until = absl::Now() + time; !gone() && absl::Now() < until;) absl::SleepFor(kLookEvery);
}

// What trains a model for this space, in the folder places.home.
ChildProgram ProgramOf(const EngineOptions& options, const TrainingRecipe& recipe, const TrainingPlaces& places,
                       Metric metric, double curvature) {
  const std::string threads = StrCat(options.helper_threads);
  const TrainingLock lock{options.encoder_sandbox,
                          NamesPaths(recipe) ? options.data_folders : std::vector<std::string>()};
  ChildProgram program;
  program.words =
      TrainingWords(options.helper_program, recipe, places, lock, metric, curvature, options.helper_threads);
  program.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads};
  program.output = places.home + "/said.txt";
  program.niceness = options.helper_niceness;
  program.memory_bytes_max = options.helper_memory_bytes_max;
  program.file_bytes_max = kFileBytesMax;
  return program;
}

// Runs the program until it has ended by itself; one that a signal ended (a lack of memory, say) goes on where it was.
absl::Status TrainBeside(const ChildProgram& program, const std::function<bool()>& gone, Progress* progress,
                         uint64_t* restarts) {
  uint64_t furthest = progress->step();
  for (int fruitless = 0;;) {
    LC_ASSIGN_OR_RETURN(const int code, RunChild(program, [&] {
                          progress->Look();
                          return gone();
                        }));
    progress->Read();
    if (code == 0) return absl::OkStatus();
    const std::string said = LastWords(program.output);
    const std::string folder = std::filesystem::path(program.output).parent_path();
    if (code == kExitExhausted && TooFewBytesLeft(folder)) {  // a full disk is no reason to throw hours away
      progress->Say(StrCat("waits for room on the disk, to go on from its last checkpoint: ", said));
      while (!gone() && TooFewBytesLeft(folder)) Wait(kTryAgain, gone);
      if (gone()) return MakeStatus(absl::StatusCode::kCancelled, "the training is not wanted any more");
      continue;
    }
    if (code <= 128) {
      return MakeStatus(code == kExitUsage ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kFailedPrecondition,
                        StrCat("training: ", said));
    }
    fruitless = progress->step() > furthest ? 1 : fruitless + 1;
    furthest = std::max(furthest, progress->step());
    ++*restarts;
    spdlog::warn("a training's process was ended by signal {} at step {}; it goes on from its last checkpoint",
                 code - 128, progress->step());
    if (fruitless < kFruitlessMax) continue;
    return Internal(StrCat("the training was ended by signal ", code - 128, " ", kFruitlessMax,
                           " times without getting further (9 is what a lack of memory looks like): ", said));
  }
}

}  // namespace

absl::StatusOr<std::string> TrainingCalls::Start(const StartTrainingCall& call) {
  LC_ASSIGN_OR_RETURN(const TrainingRecipe recipe, ParseTrainingRecipe(call.recipe_json));
  LC_RETURN_IF_ERROR(CheckData(recipe, call));
  LC_RETURN_IF_ERROR(CheckRecipePaths(recipe, context_.options.data_folders));
  if (context_.options.helper_program.empty()) {
    return FailedPrecondition("this server has no program beside it that trains: run `lightcone train`");
  }
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const std::string arguments = Encode(call);
  const std::string fingerprint = StrCat(collection.number(), "|", DigestOf(arguments));
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(context_, collection, {call.request_id, "StartTraining", fingerprint}));
  if (change.earlier() != nullptr) return change.earlier()->job;
  const CollectionState& state = change.before();
  LC_RETURN_IF_ERROR(CheckTrainingSpace(recipe, state.record.metric, state.record.curvature));
  LC_RETURN_IF_ERROR(CheckParent(state, recipe, call.parent));
  return BeginJob(*context_.jobs, change, kJob, call.parent, arguments);
}

void TrainingCalls::RemoveEnded() const {
  std::error_code error;
  std::vector<uint64_t> ended;
  for (fs::directory_iterator at(context_.folders.Trainings(), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    uint64_t number = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (bad == std::errc() && stop == name.data() + name.size() && !context_.jobs->Unended(number))
      ended.push_back(number);
  }
  for (const uint64_t job : ended) Remove(job);
}

void TrainingCalls::Remove(uint64_t job) const {
  std::error_code error;
  fs::remove_all(context_.folders.Training(job), error);
  if (error)
    spdlog::warn("what training {} left in '{}' cannot be removed: {}", job, context_.folders.Training(job),
                 error.message());
}

absl::StatusOr<std::string> TrainingCalls::RunJob(const JobRun& run) {
  LC_ASSIGN_OR_RETURN(const StartTrainingCall call, DecodeTraining(run.job.arguments_json));
  LC_ASSIGN_OR_RETURN(TrainingRecipe recipe, ParseTrainingRecipe(call.recipe_json));
  LC_ASSIGN_OR_RETURN(const ServedPtr served,
                      context_.catalog.FindByNumber(run.job.collection_number, run.job.collection));
  Collection& collection = *served->collection;
  const auto state = collection.state();
  const std::string folder = context_.folders.Training(run.job.number);
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  const auto gone = [&] { return run.cancelled() || collection.dropped(); };
  TrainingPlaces places{folder + "/images", "", folder + "/model", folder + "/progress.json", folder};
  Progress progress(places.progress, run);
  progress.Read();
  TrainingImages images;
  uint64_t restarts = 0;
  LC_ASSIGN_OR_RETURN(const std::optional<uint32_t> added, DraftOf(run.job));
  if (!added) {
    LC_RETURN_IF_ERROR(CheckParent(*state, recipe, call.parent));
    LC_RETURN_IF_ERROR(CheckRecipePaths(recipe, context_.options.data_folders));
    if (recipe.name.empty()) recipe.name = StrCat("training-", run.job.number);
    if (recipe.data.empty()) {
      LC_ASSIGN_OR_RETURN(const auto decoder, MakeDecoder(context_, collection, "images"));
      const auto decode = [&](const std::vector<std::string>& inputs) { return decoder->Embed(inputs, gone); };
      LC_ASSIGN_OR_RETURN(images,
                          ExportTrainingImages(collection, call.label_field, places.data, {gone, run.report, decode}));
    }
    if (call.parent != 0) {
      places.old = folder + "/old";
      LC_RETURN_IF_ERROR(WriteModel(places.old, *state->Find(call.parent),
                                    context_.folders.Encoder(collection.number(), call.parent)));
    }
    const ChildProgram program =
        ProgramOf(context_.options, recipe, places, state->record.metric, state->record.curvature);
    LC_RETURN_IF_ERROR(TrainBeside(program, gone, &progress, &restarts));
  } else if (recipe.data.empty()) {
    images = KeptTrainingImages(places.data).value_or(TrainingImages());
  }
  absl::StatusOr<TrainedDraft> made = TrainedDraft();
  for (;;) {  // Neither a full disk nor a trial that a limit ends is a reason to throw hours away.
    if (gone()) return MakeStatus(absl::StatusCode::kCancelled, "the model is trained, and not wanted any more");
    made = AddDraft(run.job, call.parent, places.model, gone);
    if (!absl::IsResourceExhausted(made.status()) && !absl::IsUnavailable(made.status())) break;
    run.report(0, 0, StrCat("the model is trained, and cannot be added yet: ", MessageOf(made.status())));
    Wait(kTryAgain, gone);
  }
  LC_RETURN_IF_ERROR(made.status());
  Json result = {{"generation", made->generation},
                 {"adapter_version", made->adapter_version},
                 {"images", images.images},
                 {"classes", images.classes},
                 {"without_input", images.without_input},
                 {"unlabelled", images.unlabelled},
                 {"tensors", images.tensors},
                 {"undecodable", images.undecodable},
                 {"alone", images.alone},
                 {"restarts", restarts},
                 {"curve", progress.Curve()}};
  if (!made->adapter_error.empty()) result["adapter_error"] = made->adapter_error;
  return Dump(result);
}

namespace {

// Its requests have ids of their own: a crash between them and the job's end adds nothing twice.
std::string RequestOf(const JobRecord& job, std::string_view what) {
  return StrCat("training/", job.number, "/", job.created_us, "/", what);
}

}  // namespace

absl::StatusOr<std::optional<uint32_t>> TrainingCalls::DraftOf(const JobRecord& job) const {
  const auto stored = context_.store->Get(Table::kMeta, keys::Meta(RequestName(RequestOf(job, "draft"))));
  if (absl::IsNotFound(stored.status())) return std::optional<uint32_t>();
  LC_RETURN_IF_ERROR(stored.status());
  LC_ASSIGN_OR_RETURN(const RequestRecord record, DecodeRequest(*stored));
  return std::optional<uint32_t>(record.generation);
}

absl::StatusOr<TrainingCalls::TrainedDraft> TrainingCalls::AddDraft(const JobRecord& job, uint32_t parent,
                                                                    const std::string& model,
                                                                    const std::function<bool()>& gone) {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.FindByNumber(job.collection_number, job.collection));
  const std::string collection = served->collection->state()->record.name;
  TrainedDraft made;
  LC_ASSIGN_OR_RETURN(const std::optional<uint32_t> added, DraftOf(job));
  if (added) {
    made.generation = *added;
  } else {
    RegisterCall call;
    call.request_id = RequestOf(job, "draft");
    call.collection = collection;
    LC_ASSIGN_OR_RETURN(call.manifest_json, ReadFile(model + "/manifest.json"));
    LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(call.manifest_json));
    LC_ASSIGN_OR_RETURN(call.encoder, ReadFile(model + "/" + manifest.encoder_file));
    call.parent = manifest.through_adapter ? 0 : parent;
    call.expects_adapter = call.parent == 0;
    call.as_draft = true;
    LC_ASSIGN_OR_RETURN(const GenerationStatus draft, generations_.Register(call, gone));
    made.generation = draft.generation;
  }
  const auto adapter = ReadFile(model + "/old-items.adapter");
  if (!adapter.ok() || parent == 0) return made;
  const auto put = adapters_.Put({.request_id = RequestOf(job, "adapter"),
                                  .collection = collection,
                                  .from = parent,
                                  .to = made.generation,
                                  .file = *adapter});
  if (put.ok()) made.adapter_version = put->version;
  if (!put.ok()) made.adapter_error = MessageOf(put.status());  // the model is there; one can be fitted again
  return made;
}

}  // namespace lightcone::server

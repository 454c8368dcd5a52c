// Training inside the server: a job that runs `lightcone train` in a process of its own, from what the collection holds or
// from a data set on this machine, and adds what comes out as a draft.
#include <charconv>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/child_process.h"
#include "base/files.h"
#include "base/status.h"
#include "models/manifest.h"
#include "server/engine/checks.h"
#include "server/engine/engine_impl.h"
#include "server/engine/numbers.h"
#include "server/engine/record_json.h"
#include "server/engine/training_images.h"
#include "server/engine/training_recipe.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr int kFruitlessMax = 3;  // processes that ended by a signal one after another, none having got further
constexpr int kExitUsage = 2;     // of `lightcone`: a wrong flag or value
constexpr int64_t kProgressBytesMax = 4 << 20;
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);

std::string Encode(const StartTrainingCall& call) {
  return Dump({{"format", kFormat},
               {"recipe_json", call.recipe_json},
               {"label_field", call.label_field},
               {"parent", call.parent}});
}

absl::StatusOr<StartTrainingCall> DecodeTraining(const std::string& text) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("arguments of training", text));
  StartTrainingCall call;
  FieldReader reader("arguments of training", json);
  reader.Read("recipe_json", &call.recipe_json);
  reader.Read("label_field", &call.label_field);
  reader.Read("parent", &call.parent);
  LC_RETURN_IF_ERROR(reader.status());
  return call;
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
  if (!old->has_encoder) {
    return FailedPrecondition(StrCat("generation ", parent, " of collection '", state.record.name, "' has no encoder ",
                                     "here that a training by '", recipe.method, "' could be compatible with"));
  }
  return absl::OkStatus();
}

// The folder of a generation's model, as training reads it.
absl::Status WriteModel(const std::string& folder, const GenerationRecord& generation, const std::string& encoder_path) {
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
    if (!reader.status().ok()) return;
    text_ = *text;
    curve_ = *curve;
    step_ = step;
    run_.report(step, steps, line);
    run_.detail(text_);
  }
  uint64_t step() const { return step_; }
  const Json& curve() const { return curve_; }  // losses by epoch

 private:
  const std::string path_;
  const JobRun& run_;
  absl::Time looked_ = absl::InfinitePast();
  std::string text_;
  uint64_t step_ = 0;
  Json curve_ = Json::array();
};

// Runs the program until it has ended by itself; one that a signal ended (a lack of memory, say) goes on where it was.
absl::Status TrainBeside(const ChildProgram& program, const std::function<bool()>& gone, Progress* progress,
                         uint64_t* restarts) {
  for (int fruitless = 0;;) {
    const uint64_t before = progress->step();
    LC_ASSIGN_OR_RETURN(const int code, RunChild(program, [&] {
                          progress->Look();
                          return gone();
                        }));
    progress->Read();
    if (code == 0) return absl::OkStatus();
    const std::string said = LastWords(program.output);
    if (code <= 128) {
      return MakeStatus(code == kExitUsage ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kFailedPrecondition,
                        StrCat("training: ", said));
    }
    fruitless = progress->step() > before ? 1 : fruitless + 1;
    ++*restarts;
    spdlog::warn("a training's process was ended by signal {} at step {}; it goes on from its last checkpoint", code - 128,
                 progress->step());
    if (fruitless < kFruitlessMax) continue;
    return Internal(StrCat("the training was ended by signal ", code - 128, " ", kFruitlessMax,
                           " times without getting further (9 is what a lack of memory looks like): ", said));
  }
}

}  // namespace

absl::StatusOr<std::string> EngineImpl::StartTraining(const StartTrainingCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const TrainingRecipe recipe, ParseTrainingRecipe(call.recipe_json));
  LC_RETURN_IF_ERROR(CheckData(recipe, call));
  if (options_.helper_program.empty()) {
    return FailedPrecondition("this server has no program beside it that trains: run `lightcone train`");
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(call.collection));
  Collection& collection = *served->collection;
  const std::string fingerprint = StrCat(collection.number(), "|", DigestOf(Encode(call)));
  absl::MutexLock lock(&collection.operator_mutex());
  const auto state = collection.state();
  LC_ASSIGN_OR_RETURN(const auto before, FindRequest(call.request_id, "StartTraining", fingerprint));
  if (before) return before->job;
  LC_RETURN_IF_ERROR(CheckParent(*state, recipe, call.parent));
  JobRecord job;
  job.kind = std::string(kTrainJob);
  job.collection = state->record.name;
  job.collection_number = collection.number();
  job.generation = call.parent;
  job.arguments_json = Encode(call);
  return BeginJob(std::move(job), call.request_id, {"StartTraining", fingerprint, 0, 0, 0, 0, 0});
}

void EngineImpl::RemoveEndedTrainings() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(TrainingsFolder(), error)) {
    const std::string name = entry.path().filename().string();
    uint64_t number = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (bad == std::errc() && end == name.data() + name.size() && jobs_.Unended(number)) continue;
    fs::remove_all(entry.path(), error);
  }
}

absl::StatusOr<std::string> EngineImpl::RunTrainJob(const JobRun& run) {
  LC_ASSIGN_OR_RETURN(const StartTrainingCall call, DecodeTraining(run.job.arguments_json));
  LC_ASSIGN_OR_RETURN(TrainingRecipe recipe, ParseTrainingRecipe(call.recipe_json));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, FindNumber(run.job));
  Collection& collection = *served->collection;
  const auto state = collection.state();
  LC_RETURN_IF_ERROR(CheckParent(*state, recipe, call.parent));
  if (recipe.name.empty()) recipe.name = StrCat("training-", run.job.number);
  const std::string folder = StrCat(TrainingsFolder(), "/", run.job.number);
  const absl::Cleanup clean = [&] {
    std::error_code ignored;
    if (!run.halting()) fs::remove_all(folder, ignored);  // the next start goes on from what is there
  };
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  const auto gone = [&] { return run.cancelled() || collection.dropped(); };
  TrainingPlaces places{folder + "/images", "", folder + "/model", folder + "/progress.json"};
  TrainingImages images;
  if (recipe.data.empty()) {
    LC_ASSIGN_OR_RETURN(images, ExportTrainingImages(collection, call.label_field, places.data, {gone, run.report}));
  }
  if (call.parent != 0) {
    places.old = folder + "/old";
    LC_RETURN_IF_ERROR(WriteModel(places.old, *state->Find(call.parent), EncoderPath(collection.number(), call.parent)));
  }
  const std::string threads = StrCat(options_.helper_threads);
  ChildProgram program;
  program.words = TrainingWords(options_.helper_program, recipe, places, options_.helper_threads);
  program.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads};
  program.output = folder + "/said.txt";
  program.niceness = options_.helper_niceness;
  program.memory_bytes_max = options_.helper_memory_bytes_max;
  Progress progress(places.progress, run);
  uint64_t restarts = 0;
  LC_RETURN_IF_ERROR(TrainBeside(program, gone, &progress, &restarts));
  LC_ASSIGN_OR_RETURN(const TrainedDraft made, AddDraft(run.job.number, *state, call.parent, places.model));
  return Dump({{"generation", made.generation},
               {"adapter_version", made.adapter_version},
               {"images", images.images},
               {"classes", images.classes},
               {"without_input", images.without_input},
               {"unlabelled", images.unlabelled},
               {"tensors", images.tensors},
               {"undecodable", images.undecodable},
               {"alone", images.alone},
               {"restarts", restarts},
               {"curve", progress.curve()}});
}

// Its requests have ids of their own: a crash between them and the job's end adds nothing twice.
absl::StatusOr<EngineImpl::TrainedDraft> EngineImpl::AddDraft(uint64_t job, const CollectionState& state, uint32_t parent,
                                                              const std::string& model) {
  RegisterCall call;
  call.request_id = StrCat("training/", job, "/draft");
  call.collection = state.record.name;
  LC_ASSIGN_OR_RETURN(call.manifest_json, ReadFile(model + "/manifest.json"));
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(call.manifest_json));
  LC_ASSIGN_OR_RETURN(call.encoder, ReadFile(model + "/" + manifest.encoder_file));
  call.parent = manifest.through_adapter ? 0 : parent;
  call.expects_adapter = call.parent == 0;
  call.as_draft = true;
  TrainedDraft made;
  LC_ASSIGN_OR_RETURN(const GenerationStatus draft, RegisterGeneration(call));
  made.generation = draft.generation;
  const auto adapter = ReadFile(model + "/old-items.adapter");
  if (absl::IsNotFound(adapter.status()) || parent == 0) return made;
  LC_RETURN_IF_ERROR(adapter.status());
  LC_ASSIGN_OR_RETURN(const AdapterStatus put, PutAdapter({StrCat("training/", job, "/adapter"), state.record.name, parent,
                                                           draft.generation, *adapter}));
  made.adapter_version = put.version;
  return made;
}

}  // namespace lightcone::server

// Trainings inside the server: from stored inputs to a draft, the same whatever is killed on the way, and everything
// that can be wrong.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/folder_lock.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "server/engine/jobs/jobs.h"
#include "server/engine/training/training_recipe.h"
#include "store/keys.h"
#include "tests/engine/encoder_world.h"
#include "trainer/data/dataset.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;
using Code = absl::StatusCode;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kClasses = 6, kOfAClass = 10;

// A recipe that takes some seconds, with a checkpoint behind every step.
constexpr char kRecipe[] =
    R"({"method": "independent", "seed": 3, "options": {"encoder.architecture": "mlp", "encoder.width": 0.25,
        "encoder.dimension": 4, "epochs": 40, "batch": 2, "checkpoint_seconds": 0}})";

class Training : public EncoderTest {
 protected:
  void SetUp() override {
    EncoderTest::SetUp();
    Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model");
  }
  void Open(
      const std::string& program, const std::function<void(EngineOptions*)>& change = [](EngineOptions*) {}) {
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.helper_program = program;
    options.helper_niceness = 0;
    change(&options);
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  // Drawn letters of a few classes, kept as inputs; "class" says which.
  void MakeGallery() {
    ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
    Activate(1);
    const auto glyphs = OpenDataset("glyphs", 1);
    ASSERT_TRUE(glyphs.ok()) << glyphs.status();
    std::vector<int> of_class(static_cast<size_t>(glyphs->classes()));
    UpsertBatch batch = BatchOf({}, 1);
    batch.keep_input = true;
    for (int64_t i = 0; i < glyphs->train.size(); ++i) {
      const int label = glyphs->train.labels[static_cast<size_t>(i)];
      if (label >= kClasses || of_class[static_cast<size_t>(label)]++ >= kOfAClass) continue;
      Keep(&batch, Id(batch.items.size()), RawInput(*EncodePng(glyphs->train, i)),
           StrCat("{\"class\":\"", label, "\"}"));
    }
    Write(std::move(batch));
  }
  static void Keep(UpsertBatch* batch, ItemId id, RawInput input, std::string payload) {
    UpsertItem item;
    item.id = std::move(id);
    item.content = std::move(input);
    item.payload_json = std::move(payload);
    batch->items.push_back(std::move(item));
  }
  static StartTrainingCall CallOf(std::string recipe = kRecipe, std::string label = "class", uint32_t parent = 0) {
    return {"", "c", std::move(recipe), std::move(label), parent};
  }
  JobStatus Ended(const std::string& id) {
    for (;;) {  // a job of a process: nothing to be woken by
      const auto job = engine_->GetJob(id);
      EXPECT_TRUE(job.ok()) << job.status();
      if (!job.ok() || job->final()) return job.ok() ? *job : JobStatus{};
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  JobStatus Run(const StartTrainingCall& call) {
    const auto id = engine_->StartTraining(call);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? Ended(*id) : JobStatus{};
  }
  // Until it has come to a step, or has ended.
  void AwaitStep(const std::string& id, uint64_t step) {
    for (;;) {
      const auto job = engine_->GetJob(id);
      ASSERT_TRUE(job.ok());
      ASSERT_FALSE(job->final()) << "too fast for the test: " << job->error;
      if (!job->progress_json.empty() && job->done >= step) return;
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  // The process of a training that is a child of this one.
  static pid_t Child() {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream stat(entry.path() / "stat"), words(entry.path() / "cmdline");
      std::string line((std::istreambuf_iterator<char>(words)), {}), name, state;
      long long parent = 0, number = 0;
      if (!(stat >> number >> name >> state >> parent) || parent != getpid()) continue;
      if (line.find("--progress=") != std::string::npos) return static_cast<pid_t>(number);
    }
    return 0;
  }
  // Kills the process of a job once there is one other than `before`, and returns it.
  void KillNext(const std::string& id, pid_t before, pid_t* killed) {
    while ((*killed = Child()) == 0 || *killed == before) {
      const auto job = engine_->GetJob(id);
      ASSERT_TRUE(job.ok());
      ASSERT_FALSE(job->final()) << "too fast for the test: " << job->error;
      absl::SleepFor(absl::Milliseconds(5));
    }
    ASSERT_EQ(kill(*killed, SIGKILL), 0);
  }
  // A server whose encoders for trials and calls run `body` first; those that decode stored images do not.
  void OpenWithTrials(const std::string& body) {
    const std::string path = folder_.path() + "/.tries";
    ASSERT_TRUE(WriteFileAtomically(path, StrCat("#!/bin/sh\nif [ \"$1 $OMP_NUM_THREADS\" = 'embed-worker 3' ]; then\n",
                                                 "echo tried >> ", Tried(), "\n", body, "\nfi\nexec ",
                                                 LIGHTCONE_BINARY_DIR "/bin/lightcone-model", " \"$@\"\n"))
                    .ok());
    ASSERT_EQ(chmod(path.c_str(), 0755), 0);
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.helper_program = path;
    options.encoder_threads = 3;
    options.encoder_run_time_max = absl::Minutes(2);
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  std::string Tried() const { return folder_.path() + "/.tried"; }
  void AwaitTrial(const std::string& id) {
    while (!fs::exists(Tried())) {
      ASSERT_FALSE(engine_->GetJob(id)->final()) << engine_->GetJob(id)->error;
      absl::SleepFor(absl::Milliseconds(10));
    }
    fs::remove(Tried());
  }
  std::string EncoderOf(uint32_t generation) {
    const auto status = engine_->GetGeneration("c", generation);
    EXPECT_TRUE(status.ok()) << status.status();
    const auto manifest = ParseManifest(status->manifest_json);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return StrCat(manifest->encoder_crc32c);
  }
  // They go once the end of the job is in the store, by the thread that ran it.
  void AwaitNoScratchFiles() {
    std::error_code ignored;
    while (!fs::is_empty(folder_.path() + "/trainings", ignored) && !ignored) absl::SleepFor(absl::Milliseconds(5));
  }
};

TEST_F(Training, AnInterruptedOneEndsAsOneThatNothingInterrupted) {
  MakeGallery();
  const JobStatus calm = Run(CallOf());
  ASSERT_EQ(calm.state, JobState::kSucceeded) << calm.error;
  const auto result = nlohmann::json::parse(calm.result_json);
  EXPECT_EQ(result["generation"], 2);
  EXPECT_EQ(result["images"], kClasses * kOfAClass);
  EXPECT_EQ(result["classes"], kClasses);
  EXPECT_EQ(result["restarts"], 0);
  ASSERT_EQ(result["curve"].size(), 40u);
  EXPECT_LT(result["curve"][39]["total"], result["curve"][0]["total"]) << "it learns";
  const auto draft = engine_->GetGeneration("c", 2);
  EXPECT_EQ(draft->state, GenerationState::kDraft);
  EXPECT_TRUE(draft->has_encoder);
  AwaitNoScratchFiles();

  const auto id = engine_->StartTraining(CallOf());
  ASSERT_TRUE(id.ok()) << id.status();
  pid_t killed = 0;
  for (const uint64_t step : {100, 300}) {  // its process killed twice
    ASSERT_NO_FATAL_FAILURE(AwaitStep(*id, step));
    ASSERT_NO_FATAL_FAILURE(KillNext(*id, killed, &killed));
  }
  ASSERT_NO_FATAL_FAILURE(AwaitStep(*id, 500));
  Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model");  // the server ends and starts; what it began goes on by itself
  const JobStatus shaken = Ended(*id);
  ASSERT_EQ(shaken.state, JobState::kSucceeded) << shaken.error;
  const auto again = nlohmann::json::parse(shaken.result_json);
  EXPECT_EQ(again["generation"], 3);
  // Kills lose what was not written yet, how much is a matter of speed; what came after the last one is there.
  ASSERT_FALSE(again["curve"].empty());
  EXPECT_EQ(again["curve"].back(), result["curve"].back());
  EXPECT_EQ(EncoderOf(3), EncoderOf(2)) << "bit for bit";
  AwaitNoScratchFiles();
  // Taken up, it embeds.
  RegisterCall take;
  take.collection = "c";
  take.draft = 3;
  ASSERT_TRUE(engine_->RegisterGeneration(take).ok());
  SearchCall call = SearchFor({}, 1, 3);
  call.evaluate_generations = {1};  // that it was not trained to meet
  call.queries[0].content = *engine_->GetInput("c", Id(uint64_t{0}));
  const auto found = engine_->Search(call, {});
  EXPECT_TRUE(found.ok()) << found.status();
}

TEST_F(Training, AChildModelIsTrainedAgainstTheEncoderOfItsParent) {
  MakeGallery();
  ASSERT_EQ(Run(CallOf()).state, JobState::kSucceeded);
  const std::string recipe =
      R"({"method": "hbct", "name": "child", "options": {"encoder.architecture": "mlp", "encoder.width": 0.25,
          "encoder.dimension": 4, "epochs": 2, "batch": 8}})";
  EXPECT_TRUE(Fails(engine_->StartTraining(CallOf(recipe, "class", 2)), Code::kFailedPrecondition, {"is a draft"}));
  RegisterCall take;
  take.collection = "c";
  take.draft = 2;
  ASSERT_TRUE(engine_->RegisterGeneration(take).ok());
  Register(1);  // 3, by vectors alone
  EXPECT_TRUE(Fails(engine_->StartTraining(CallOf(recipe, "class", 3)), Code::kFailedPrecondition, {"no encoder"}));
  const JobStatus job = Run(CallOf(recipe, "class", 2));
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  const auto child = engine_->GetGeneration("c", 4);
  EXPECT_EQ(child->parent, 2u);
  EXPECT_EQ(child->method, "hbct");
  EXPECT_EQ(ParseManifest(child->manifest_json)->name, "child");
  // Without a parent such a method has nothing to go by: the program says so.
  const JobStatus orphan = Run(CallOf(recipe));
  EXPECT_EQ(orphan.state, JobState::kFailed);
  EXPECT_TRUE(Fails(orphan.error, Code::kInvalidArgument, {"--old", "absent"}));
}

constexpr char kLocked[] = LIGHTCONE_BINARY_DIR "/bin/lightcone-model";

// Against a parent, of which nobody here made the encoder.
constexpr char kChildRecipe[] =
    R"({"method": "hbct", "options": {"encoder.architecture": "mlp", "encoder.width": 0.25,
        "encoder.dimension": 4, "epochs": 1, "batch": 8, "device": "cpu"}})";

TEST_F(Training, TheEncoderOfAParentReachesNoFile) {
  MakeGallery();
  const std::string secret = folder_.path() + "/.secret", planted = folder_.path() + "/.planted";
  ASSERT_TRUE(WriteFileAtomically(secret, std::string(4, 'x')).ok());
  MakeSpyingEncoder(secret, Spy::kReads);
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  MakeSpyingEncoder(planted, Spy::kWrites);
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  for (const LockMode mode : {LockMode::kRequire, LockMode::kOff}) {
    const bool locked = mode == LockMode::kRequire && CanLockInBelow().ok();
    if (mode == LockMode::kRequire && !locked) continue;  // a build with a sanitizer, or an old kernel
    Open(kLocked, [mode](EngineOptions* options) { options->encoder_sandbox = mode; });
    const JobStatus reads = Run(CallOf(kChildRecipe, "class", 2));
    EXPECT_EQ(reads.state, locked ? JobState::kFailed : JobState::kSucceeded) << reads.error;
    const JobStatus writes = Run(CallOf(kChildRecipe, "class", 3));
    EXPECT_EQ(writes.state, locked ? JobState::kFailed : JobState::kSucceeded) << writes.error;
    EXPECT_EQ(fs::exists(planted), !locked);
  }
}

TEST_F(Training, ABackboneReachesNoFileAndLiesBelowAFolderOfTheOption) {
  MakeGallery();
  const std::string sets = folder_.path() + "/.sets", secret = folder_.path() + "/.secret";
  ASSERT_TRUE(MakeFolders(sets).ok());
  ASSERT_TRUE(WriteFileAtomically(secret, std::string(4, 'x')).ok());
  MakeSpyingEncoder(secret, Spy::kReads);
  ASSERT_TRUE(WriteFileAtomically(sets + "/spy.pt", encoder_).ok());
  const auto call = [&](const std::string& file) {
    return CallOf(StrCat(R"({"method": "independent", "options": {"encoder.architecture": "torchscript",
        "encoder.backbone_file": ")",
                         file, R"(", "encoder.width": 1, "encoder.dimension": 4, "epochs": 1, "batch": 8}})"));
  };
  for (const std::string& file : {sets + "/spy.pt", secret, folder_.path() + "/.none"}) {
    EXPECT_TRUE(Fails(engine_->StartTraining(call(file)), Code::kPermissionDenied,
                      {"recipe_json.options.encoder.backbone_file", "train.data_folders lists no folder"}));
  }
  const auto open = [&](LockMode mode) {
    Open(kLocked, [&](EngineOptions* options) {
      options->encoder_sandbox = mode;
      options->data_folders = {sets};
    });
  };
  open(LockMode::kOff);
  EXPECT_TRUE(Fails(engine_->StartTraining(call(secret)), Code::kPermissionDenied, {"train.data_folders"}));
  const JobStatus free = Run(call(sets + "/spy.pt"));
  EXPECT_EQ(free.state, JobState::kSucceeded) << free.error;
  if (!CanLockInBelow().ok()) return;
  open(LockMode::kRequire);
  const JobStatus locked = Run(call(sets + "/spy.pt"));
  EXPECT_EQ(locked.state, JobState::kFailed);
  EXPECT_TRUE(Fails(locked.error, Code::kFailedPrecondition, {"training: "}));
}

TEST_F(Training, DataOfARecipeLiesBelowAFolderOfTheOption) {
  MakeGallery();
  const std::string sets = folder_.path() + "/.sets";
  const auto glyphs = OpenDataset("glyphs", 1);
  ASSERT_TRUE(glyphs.ok()) << glyphs.status();
  std::map<int32_t, int> of_class;
  for (int64_t i = 0; i < glyphs->train.size(); ++i) {
    const int32_t label = glyphs->train.labels[static_cast<size_t>(i)];
    if (label >= kClasses || of_class[label]++ >= kOfAClass) continue;
    const std::string folder = StrCat(sets, "/letters/", label);
    ASSERT_TRUE(MakeFolders(folder).ok());
    ASSERT_TRUE(WriteFileAtomically(StrCat(folder, "/", i, ".png"), *EncodePng(glyphs->train, i)).ok());
  }
  const auto call = [](const std::string& data) {
    return CallOf(StrCat(R"({"method": "independent", "data": ")", data, R"(", "options": {"epochs": 1, "batch": 8,
        "encoder.architecture": "mlp", "encoder.dimension": 4}})"),
                  "");
  };
  EXPECT_TRUE(Fails(engine_->StartTraining(call("folder:" + sets + "/letters")), Code::kPermissionDenied,
                    {"recipe_json.data", "train.data_folders"}));
  Open(kLocked, [&](EngineOptions* options) { options->data_folders = {sets}; });
  const JobStatus job = Run(call("folder:" + sets + "/letters"));
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
  EXPECT_TRUE(Fails(engine_->StartTraining(call("folder:/etc")), Code::kPermissionDenied, {"recipe_json.data"}));
  EXPECT_TRUE(Fails(engine_->StartTraining(call("folder:" + sets + "/none")), Code::kNotFound, {"recipe_json.data"}));
  const JobStatus drawn = Run(call("glyphs"));  // it names no path; it reads the machine's fonts
  EXPECT_EQ(drawn.state, JobState::kSucceeded) << drawn.error;
}

TEST_F(Training, WhatCannotBeTrainedFromIsCounted) {
  MakeGallery();
  const RawInput picture = *engine_->GetInput("c", Id(uint64_t{0}));
  UpsertBatch batch = BatchOf({}, 1);
  batch.keep_input = true;
  Keep(&batch, Id("numbers"), Tensor(1), R"({"class":"0"})");
  Keep(&batch, Id("alone"), picture, R"({"class":"of its own"})");
  Keep(&batch, Id("a number, not a text"), picture, R"({"class":0})");
  Keep(&batch, Id("nameless"), picture, R"({"color":"0"})");
  Write(std::move(batch));
  batch = BatchOf({ItemOf(Id("no input"), {1, 0, 0, 0}, R"({"class":"0"})")}, 1);
  Write(std::move(batch));
  const JobStatus job = Run(CallOf(
      R"({"method": "independent", "options": {"encoder.architecture": "mlp", "encoder.dimension": 4, "epochs": 1}})"));
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  const auto result = nlohmann::json::parse(job.result_json);
  EXPECT_EQ(result["images"], kClasses * kOfAClass);
  EXPECT_EQ(result["tensors"], 1);
  EXPECT_EQ(result["alone"], 2);
  EXPECT_EQ(result["unlabelled"], 1);
  EXPECT_EQ(result["without_input"], 1);
  EXPECT_EQ(result["undecodable"], 0);
}

TEST_F(Training, AServerKilledBetweenTheDraftAndTheEndOfItsJobAddsNoSecondDraft) {
  MakeGallery();
  const JobStatus done = Run(CallOf());
  ASSERT_EQ(done.state, JobState::kSucceeded) << done.error;
  // As such a kill leaves it: the draft is there, the job is not through.
  EditStore([&](Store* store, WriteBatch* batch) {
    auto record = DecodeJob(*store->Get(Table::kJobs, keys::Job(1)));
    ASSERT_TRUE(record.ok());
    record->state = JobState::kRunning;
    record->result_json.clear();
    batch->Put(Table::kJobs, keys::Job(1), Encode(*record));
  });
  Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model");
  const JobStatus again = Ended(done.id);
  ASSERT_EQ(again.state, JobState::kSucceeded) << again.error;
  EXPECT_EQ(nlohmann::json::parse(again.result_json)["generation"], 2);
  EXPECT_EQ(engine_->ListGenerations("c")->size(), 2u);
  AwaitNoScratchFiles();
}

constexpr char kBriefRecipe[] =
    R"({"method": "independent", "options": {"encoder.architecture": "mlp", "encoder.dimension": 4, "epochs": 1}})";

TEST_F(Training, AModelWhoseTrialIsKilledOrLacksMemoryIsKeptAndTriedUntilItLoads) {
  MakeGallery();
  const std::string killed = folder_.path() + "/.killed", lacked = folder_.path() + "/.lacked";
  OpenWithTrials(StrCat("if [ ! -e ", killed, " ]; then touch ", killed, "; kill -9 $$; fi\nif [ ! -e ", lacked,
                        " ]; then touch ", lacked, "; exit 6; fi"));
  const JobStatus job = Run(CallOf(kBriefRecipe));
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  EXPECT_TRUE(fs::exists(killed) && fs::exists(lacked));
  EXPECT_EQ(engine_->GetGeneration("c", 2)->state, GenerationState::kDraft);
  AwaitNoScratchFiles();
}

TEST_F(Training, NeitherACancelNorTheEndOfTheServerWaitsForATrial) {
  MakeGallery();
  ASSERT_NO_FATAL_FAILURE(OpenWithTrials("exec sleep 1000"));
  const auto cancelled = engine_->StartTraining(CallOf(kBriefRecipe));
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  ASSERT_NO_FATAL_FAILURE(AwaitTrial(*cancelled));
  absl::Time begun = absl::Now();
  ASSERT_TRUE(engine_->CancelJob(*cancelled, "").ok());
  EXPECT_EQ(Ended(*cancelled).state, JobState::kCancelled);
  EXPECT_LT(absl::Now() - begun, absl::Minutes(1)) << "the limit of a trial is two";
  const auto resumed = engine_->StartTraining(CallOf(kBriefRecipe));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_NO_FATAL_FAILURE(AwaitTrial(*resumed));
  begun = absl::Now();
  engine_.reset();
  EXPECT_LT(absl::Now() - begun, absl::Minutes(1)) << "the limit of a trial is two";
  Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model");
  EXPECT_EQ(Ended(*resumed).state, JobState::kSucceeded) << "the model is kept";
}

TEST_F(Training, ACancelledOneLeavesNothing) {
  MakeGallery();
  const auto id = engine_->StartTraining(CallOf());
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_NO_FATAL_FAILURE(AwaitStep(*id, 10));
  const pid_t child = Child();
  ASSERT_GT(child, 0);
  ASSERT_TRUE(engine_->CancelJob(*id, "").ok());
  EXPECT_EQ(Ended(*id).state, JobState::kCancelled);
  EXPECT_NE(kill(child, 0), 0) << "its process is gone";
  AwaitNoScratchFiles();
  EXPECT_EQ(engine_->ListGenerations("c")->size(), 1u);
}

TEST_F(Training, AProcessThatDiesAgainAndAgainIsGivenUp) {
  MakeGallery();
  const std::string path = folder_.path() + "/.dies";
  // The stored images are decoded in a process of the same program before: that one lives.
  ASSERT_TRUE(WriteFileAtomically(path, StrCat("#!/bin/sh\ncase \" $* \" in *\" embed-worker \"*) exec ",
                                               LIGHTCONE_BINARY_DIR "/bin/lightcone-model",
                                               " \"$@\";; esac\necho out of luck\nkill -9 $$\n"))
                  .ok());
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  Open(path);
  const JobStatus job = Run(CallOf());
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_TRUE(Fails(job.error, Code::kInternal, {"signal 9", "3 times", "out of luck"}));
  AwaitNoScratchFiles();
  Open("");
  EXPECT_TRUE(Fails(engine_->StartTraining(CallOf()), Code::kFailedPrecondition, {"lightcone train"}));
}

TEST_F(Training, MemoryThatItMayNotHaveIsItsOwnFailure) {
  MakeGallery();
  engine_.reset();
  EngineOptions options = OptionsFor(folder_.path());
  options.helper_program = LIGHTCONE_BINARY_DIR "/bin/lightcone-model";
  options.helper_memory_bytes_max = 8 << 20;  // no tensor library starts in that
  engine_ = OpenEngine(options);
  ASSERT_NE(engine_, nullptr);
  EXPECT_EQ(Run(CallOf()).state, JobState::kFailed);
  EXPECT_TRUE(engine_->Search(SearchFor({0.1f, 0, 0, 0}), {}).ok()) << "the server serves";
}

TEST_F(Training, RecipesThatSayNothingSensibleAreRefusedByTheirField) {
  MakeGallery();
  const auto refused = [&](const std::string& recipe, const std::string& field) {
    return Fails(engine_->StartTraining(CallOf(recipe)), Code::kInvalidArgument, {field});
  };
  EXPECT_TRUE(refused("", "recipe_json"));
  EXPECT_TRUE(refused("[]", "recipe_json"));
  EXPECT_TRUE(refused("{", "recipe_json"));
  EXPECT_TRUE(refused("{}", "recipe_json.method"));
  EXPECT_TRUE(refused(R"({"method": 3})", "recipe_json.method"));
  EXPECT_TRUE(refused(R"({"method": "l2\u0000"})", "recipe_json.method"));
  EXPECT_TRUE(refused(R"({"method": "l2", "seed": -1})", "recipe_json.seed"));
  EXPECT_TRUE(refused(R"({"method": "l2", "classes": 1})", "recipe_json.classes"));
  EXPECT_TRUE(refused(R"({"method": "l2", "fraction": 0})", "recipe_json.fraction"));
  EXPECT_TRUE(refused(R"({"method": "l2", "epochs": 3})", "epochs"));
  EXPECT_TRUE(refused(R"({"method": "l2", "recipe": ""})", "recipe_json.recipe"));
  EXPECT_TRUE(refused(R"({"method": "hbct", "options": {"metric": "cosine"}})", "recipe_json.options.metric"));
  EXPECT_TRUE(refused(R"({"method": "hbct", "options": {"curvature": 0.5}})", "recipe_json.options.curvature"));
  EXPECT_TRUE(refused(R"({"method": "hbct", "options": {"learn_curvature": true}})", "learn_curvature"));
  EXPECT_TRUE(refused(R"({"method": "l2", "options": {"a b": 1}})", "recipe_json.options"));
  EXPECT_TRUE(refused(R"({"method": "l2", "options": {"epochs": [1]}})", "recipe_json.options.epochs"));
  EXPECT_TRUE(Fails(engine_->StartTraining(CallOf(kRecipe, "")), Code::kInvalidArgument, {"label_field"}));
  EXPECT_TRUE(Fails(engine_->StartTraining(CallOf(R"({"method": "l2", "data": "glyphs"})")), Code::kInvalidArgument,
                    {"label_field"}));
  EXPECT_TRUE(Fails(engine_->StartTraining(CallOf(kRecipe, "class", 9)), Code::kNotFound, {"generation 9"}));
  // What only the program knows comes back as its words, with the field.
  const JobStatus method = Run(CallOf(R"({"method": "magic"})"));
  EXPECT_TRUE(Fails(method.error, Code::kInvalidArgument, {"magic", "independent"}));
  const JobStatus none = Run(CallOf(kRecipe, "colour"));
  EXPECT_TRUE(Fails(none.error, Code::kFailedPrecondition, {"two classes", "60 without a value in 'colour'"}));
  // The same request is the same job.
  StartTrainingCall call = CallOf(R"({"method": "magic"})");
  call.request_id = "once";
  const auto first = engine_->StartTraining(call);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*engine_->StartTraining(call), *first);
  call.label_field = "other";
  EXPECT_TRUE(Fails(engine_->StartTraining(call), Code::kAlreadyExists, {"once"}));
}

TEST(TrainingWords, HoldEveryValueBehindAnEqualsSign) {
  const auto recipe = ParseTrainingRecipe(
      R"({"method": "--help", "name": "-n", "options": {"epochs": 2, "channels_last": true, "learning_rate": 0.1}})");
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const auto words =
      TrainingWords("p", *recipe, {"/d", "", "/m", "/p", "/h"}, {LockMode::kRequire, {"/r"}}, Metric::kLorentz, 0.5, 2);
  EXPECT_EQ(words[0], "p");
  EXPECT_EQ(words[1], "train");
  for (const char* word :
       {"--method=--help", "--name=-n", "--data=folder:/d", "--out=/m", "--set=epochs=2", "--set=channels_last=true",
        "--set=learning_rate=0.1", "--set=threads=2", "--sandbox=require", "--sandbox-write=/h", "--sandbox-read=/r",
        "--set=metric=lorentz", "--set=curvature=0.5"}) {
    EXPECT_THAT(words, Contains(word));
  }
}

}  // namespace
}  // namespace lightcone::server

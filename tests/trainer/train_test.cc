// Trainings of seconds: end to end, resumed bit for bit, stopped, and every way in which one is refused.
#include "trainer/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/status.h"
#include "models/checkpoint.h"
#include "models/encoders/encoder.h"
#include "stats/metrics.h"
#include "tests/support/file_size_limit.h"
#include "tests/trainer/tiny_set.h"
#include "trainer/data/split.h"
#include "trainer/evaluate.h"
#include "trainer/run_torch.h"

namespace lightcone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainConfig TinyConfig() {
  TrainConfig config;
  config.name = "tiny";
  config.encoder.architecture = "mlp";
  config.encoder.width = 0.125;
  config.encoder.dimension = 8;
  config.batch = 16;
  config.epochs = 4;
  config.threads = 1;
  return config;
}

class TrainTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/train_test_" + std::to_string(::getpid()) + "_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string Folder(const std::string& name) const { return root_ + "/" + name; }

  TrainResult MustTrain(const TrainConfig& config, const std::string& name) {
    absl::StatusOr<TrainResult> result = Train(dataset_, config, Folder(name));
    if (!result.ok()) ADD_FAILURE() << MessageOf(result.status());
    return *std::move(result);
  }

  // Runs one step in a fresh run and stops, `times` times over: the flag is read after every step.
  absl::Status TrainStepwise(const TrainConfig& config, const std::string& name, int times) {
    const std::atomic<bool> stop = true;
    absl::Status status;
    for (int i = 0; i < times; ++i) status = Train(dataset_, config, Folder(name), {}, &stop).status();
    return status;
  }

  std::string root_;
  Dataset dataset_ = TinyDataset();
};

std::map<std::string, std::string> StateOf(const std::string& folder) {
  std::map<std::string, std::string> sections = ReadCheckpoint(folder + "/checkpoint.bin")->sections;
  sections.erase("progress");  // holds seconds
  return sections;
}

TEST_F(TrainTest, OldIndependentAndCompatibleModelEndToEnd) {
  TrainConfig config = TinyConfig();
  config.epochs = 12;
  Dataset half = dataset_;
  half.train = SelectClasses(dataset_.train, 3);
  half.class_names.resize(3);
  config.name = "old";
  ASSERT_TRUE(Train(half, config, Folder("old")).ok());
  config.name = "base";
  MustTrain(config, "base");
  config.name = "new";
  config.method = "hbct";
  config.old_model = Folder("old");
  std::vector<TrainProgress> reports;
  const absl::StatusOr<TrainResult> result =
      Train(dataset_, config, Folder("new"), [&](const TrainProgress& p) { reports.push_back(p); });
  ASSERT_TRUE(result.ok()) << MessageOf(result.status());
  EXPECT_EQ(result->manifest.method, "hbct");
  EXPECT_EQ(result->manifest.parent, "old");
  EXPECT_EQ(result->manifest.parent_crc32c, ReadManifest(Folder("old"))->encoder_crc32c);
  EXPECT_DOUBLE_EQ(result->manifest.clip_radius, 1.2);
  EXPECT_EQ(result->manifest.classes, 6);
  EXPECT_EQ(result->steps, 12 * (120 / 16));
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(reports.back().finished);
  EXPECT_EQ(reports.back().step, result->steps);

  const auto old = *Encoder::LoadFolder(Folder("old")), base = *Encoder::LoadFolder(Folder("base")),
             fresh = *Encoder::LoadFolder(Folder("new"));
  const std::vector<float> z_old = *EmbedSplit(*old, dataset_.test), z_base = *EmbedSplit(*base, dataset_.test),
                           z_new = *EmbedSplit(*fresh, dataset_.test);
  const RetrievalSpace space{"lorentz", 1.0, 8};
  const LabelledEmbeddings of_old{z_old, dataset_.test.labels, 1.0}, of_base{z_base, dataset_.test.labels, 1.0},
      of_new{z_new, dataset_.test.labels, 1.2};
  const double cross = EvaluateRetrieval(space, of_new, of_old, true)->map;
  EXPECT_GT(EvaluateRetrieval(space, of_base, of_base, true)->map, 0.7);
  EXPECT_GT(EvaluateRetrieval(space, of_new, of_new, true)->map, 0.6);
  EXPECT_GT(cross, EvaluateRetrieval(space, of_base, of_old, true)->map);
}

TEST_F(TrainTest, AStoppedTrainingResumesAndEndsBitForBitAsIfItHadNotStopped) {
  for (const std::string precision : {"float32", "auto"}) {
    TrainConfig config = TinyConfig();
    config.precision = precision;
    const TrainResult whole = MustTrain(config, "whole-" + precision);
    const absl::Status stopped = TrainStepwise(config, "parts-" + precision, 10);
    ASSERT_EQ(stopped.code(), absl::StatusCode::kCancelled) << MessageOf(stopped);
    EXPECT_THAT(MessageOf(stopped), HasSubstr("resumes it"));
    EXPECT_FALSE(std::filesystem::exists(Folder("parts-" + precision) + "/manifest.json"));
    const TrainResult resumed = MustTrain(config, "parts-" + precision);
    EXPECT_EQ(resumed.resumed_at, 10);
    auto a = StateOf(Folder("whole-" + precision)), b = StateOf(Folder("parts-" + precision));
    EXPECT_EQ(a["network"], b["network"]);
    EXPECT_EQ(a["classifier"], b["classifier"]);
    EXPECT_EQ(whole.manifest.encoder_crc32c, resumed.manifest.encoder_crc32c);
    EXPECT_DOUBLE_EQ(whole.final_loss, resumed.final_loss);
  }
}

TEST_F(TrainTest, AFinishedTrainingThatIsRunAgainKeepsItsTimeAndItsSpeed) {
  const TrainConfig config = TinyConfig();
  const TrainingSummary first = MustTrain(config, "again").manifest.training;
  const TrainResult second = MustTrain(config, "again");
  EXPECT_EQ(second.resumed_at, second.steps);
  const TrainingSummary& kept = second.manifest.training;
  EXPECT_GE(kept.seconds, first.seconds) << "the checkpoint is written after the last step";
  EXPECT_DOUBLE_EQ(kept.images_per_second, static_cast<double>(second.steps * config.batch) / kept.seconds);
  EXPECT_EQ(second.images_per_second, kept.images_per_second);
  const std::string manifest = ReadFile(Folder("again") + "/manifest.json").value();
  MustTrain(config, "again");
  EXPECT_EQ(ReadFile(Folder("again") + "/manifest.json").value(), manifest);
}

TEST_F(TrainTest, AResumedTrainingKeepsItsThreadsWhateverTheEnvironmentSaysNow) {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  const std::string before = given == nullptr ? "" : given;
  const absl::Cleanup restore = [&] {
    given == nullptr ? ::unsetenv("OMP_NUM_THREADS") : ::setenv("OMP_NUM_THREADS", before.c_str(), 1);
  };
  TrainConfig config = TinyConfig();
  config.threads = 0;
  for (const char* threads : {"1", "2"}) {  // two: where there are as many cores
    const std::string whole = StrCat("whole on ", threads), parts = StrCat("parts on ", threads);
    ::setenv("OMP_NUM_THREADS", threads, 1);
    MustTrain(config, whole);
    ASSERT_EQ(TrainStepwise(config, parts, 10).code(), absl::StatusCode::kCancelled);
    ::setenv("OMP_NUM_THREADS", *threads == '1' ? "2" : "1", 1);
    MustTrain(config, parts);
    EXPECT_EQ(StateOf(Folder(whole))["network"], StateOf(Folder(parts))["network"]) << threads;
  }
}

TEST_F(TrainTest, AResumeWithImagesThatAreReadAnotherWayIsRefused) {
  const TrainConfig config = TinyConfig();
  ASSERT_EQ(TrainStepwise(config, "parts", 10).code(), absl::StatusCode::kCancelled);
  Dataset shifted = dataset_;
  shifted.normalisation.mean[0] += 0.01f;
  const auto resumed = Train(shifted, config, Folder("parts"));
  EXPECT_EQ(resumed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(resumed.status()), HasSubstr("another mean, deviation"));
}

TEST_F(TrainTest, AMethodOfPairsIsRefusedWithoutTwoClassesOfTwoImagesAndABatchOfTwoPairs) {
  Dataset single = dataset_;
  single.train = SelectRows(dataset_.train, {0, 1});
  single.train.labels = {0, 1};
  TrainConfig config = TinyConfig();
  config.method = "hypmix";
  config.metric = "cosine";
  config.batch = 2;
  const auto classes = Train(single, config, Folder("single"));
  EXPECT_EQ(classes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(classes.status()), HasSubstr("0 classes of 2 images or more"));
  config.batch = 3;
  const auto batch = Train(dataset_, config, Folder("small"));
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(batch.status()), AllOf(HasSubstr("batch"), HasSubstr("at least 4")));
}

TEST_F(TrainTest, PrecisionBf16IsForProcessorsThatHaveItAndAutoSaysWhatItCameTo) {
  const bool hardware = __builtin_cpu_supports("avx512bf16") != 0;
  TrainConfig config = TinyConfig();
  config.precision = "auto";
  absl::StatusOr<TrainConfig> resolved = ResolveConfig(dataset_, config);
  ASSERT_TRUE(resolved.ok()) << MessageOf(resolved.status());
  EXPECT_EQ(resolved->precision, hardware ? "bf16" : "float32");
  config.precision = "bf16";
  resolved = ResolveConfig(dataset_, config);
  EXPECT_EQ(resolved.ok(), hardware);
  if (!hardware) {
    EXPECT_THAT(MessageOf(resolved.status()), HasSubstr("field 'precision' is bf16; allowed: float32 or"));
  }
}

constexpr char kChildFolder[] = "LIGHTCONE_TEST_TRAIN_FOLDER", kChildMethod[] = "LIGHTCONE_TEST_TRAIN_METHOD",
               kChildOld[] = "LIGHTCONE_TEST_TRAIN_OLD";

// nccl has a queue, advbct a network and numbers of its own: a resumed training must go on with them.
TrainConfig KilledConfig(const std::string& method, const std::string& old_model) {
  TrainConfig config = TinyConfig();
  config.epochs = 40;
  config.checkpoint_seconds = 0;
  config.method = method;
  if (method == "independent") return config;
  if (method != "hbct") config.metric = "cosine";
  config.old_model = old_model;
  config.nccl.queue = 40;  // three batches: it is full, and goes round
  return config;
}

// The process that the next test kills is this program with this test alone; by itself it has nothing to do.
TEST(TrainChild, TrainsInTheFolderThatTheEnvironmentNames) {
  const char* folder = std::getenv(kChildFolder);
  if (folder != nullptr) {
    EXPECT_TRUE(Train(TinyDataset(), KilledConfig(std::getenv(kChildMethod), std::getenv(kChildOld)), folder).ok());
  }
}

void KillTrainings(const std::string& method, const std::string& old_model, const std::string& folder, int kills,
                   Rng& rng) {
  ASSERT_EQ(setenv(kChildFolder, folder.c_str(), 1), 0);
  ASSERT_EQ(setenv(kChildMethod, method.c_str(), 1), 0);
  ASSERT_EQ(setenv(kChildOld, old_model.c_str(), 1), 0);
  const absl::Cleanup unset = [] { unsetenv(kChildFolder); };
  std::string program = "/proc/self/exe", filter = "--gtest_filter=TrainChild.*";
  std::vector<char*> arguments = {program.data(), filter.data(), nullptr};
  const std::string path = folder + "/checkpoint.bin";
  std::string last;
  for (int kill_number = 1; kill_number <= kills; ++kill_number) {
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
    // At a random point behind a random number of checkpoints.
    for (uint32_t changes = 1 + rng.Below(6); changes > 0;) {
      const absl::StatusOr<std::string> bytes = ReadFile(path);
      if (bytes.ok() && *bytes != last) --changes, last = *bytes;
      ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "ended before kill " << kill_number;
      std::this_thread::yield();
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    waitpid(child, nullptr, 0);
  }
}

TEST_F(TrainTest, KilledTwentyTimesItEndsBitForBitAsIfItHadNotBeen) {
  TrainConfig old = TinyConfig();
  MustTrain(old, "hbct-old");
  old.metric = "cosine";
  MustTrain(old, "cosine-old");
  Rng rng(7);
  for (const auto& [method, kills] :
       {std::pair("hbct", 6), std::pair("independent", 4), std::pair("nccl", 5), std::pair("advbct", 5)}) {
    SCOPED_TRACE(method);
    const std::string old_folder = Folder(std::string(method) == "hbct" ? "hbct-old" : "cosine-old");
    const std::string name = std::string("killed-") + method, whole_name = std::string("whole-") + method;
    KillTrainings(method, old_folder, Folder(name), kills, rng);
    if (HasFatalFailure()) return;
    const TrainConfig config = KilledConfig(method, old_folder);
    const TrainResult resumed = MustTrain(config, name), whole = MustTrain(config, whole_name);
    EXPECT_GT(resumed.resumed_at, 0);
    EXPECT_LT(resumed.resumed_at, resumed.steps);
    const std::map<std::string, std::string> expected = StateOf(Folder(whole_name)), got = StateOf(Folder(name));
    for (const auto& [section, bytes] : expected) {
      if (section == "optimizer") continue;  // torch orders it by where its tensors lay
      EXPECT_TRUE(got.contains(section) && got.at(section) == bytes) << section;
    }
    const bool keeps = std::string(method) == "nccl" || std::string(method) == "advbct";
    EXPECT_EQ(expected.contains("method"), keeps) << "what the method keeps besides the network";
    EXPECT_EQ(resumed.manifest.encoder_crc32c, whole.manifest.encoder_crc32c);
  }
}

TEST_F(TrainTest, AFullDiskIsNamedAndLeavesTheLastCheckpointThatTheTrainingResumesFrom) {
  TrainConfig config = TinyConfig();
  config.checkpoint_seconds = 0;
  const TrainResult whole = MustTrain(config, "whole");
  const auto full_at = [&](int64_t step, std::optional<FileSizeLimit>& full) {
    return [step, &full](const TrainProgress& progress) {
      if (progress.step == step) full.emplace(1000);
    };
  };
  const std::string checkpoint = Folder("full") + "/checkpoint.bin", encoder = Folder("full") + "/encoder.pt";
  const int64_t epoch = whole.steps / config.epochs;
  std::string kept;
  {
    std::optional<FileSizeLimit> full;  // from the report at an epoch's end on, which comes before its checkpoint
    const auto stops = full_at(2 * epoch, full);
    const absl::Status status = Train(dataset_, config, Folder("full"), stops).status();
    EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(checkpoint), HasSubstr("File too large")));
    kept = ReadFile(checkpoint).value();
    EXPECT_THAT(MessageOf(Train(dataset_, config, Folder("full")).status()), HasSubstr(checkpoint)) << "still full";
    EXPECT_EQ(ReadFile(checkpoint).value(), kept);
  }
  for (const auto& entry : std::filesystem::directory_iterator(Folder("full"))) {
    EXPECT_EQ(entry.path().filename(), "checkpoint.bin") << "no part of a file stays";
  }
  TrainResult resumed = MustTrain(config, "full");
  EXPECT_EQ(resumed.resumed_at, 2 * epoch - 1);
  for (const char* section : {"network", "classifier"}) {
    EXPECT_TRUE(StateOf(Folder("full"))[section] == StateOf(Folder("whole"))[section]) << section;
  }
  EXPECT_EQ(resumed.manifest.encoder_crc32c, whole.manifest.encoder_crc32c);

  // All steps are done, and only the export has no room.
  const std::string exported = ReadFile(encoder).value();
  std::filesystem::remove(encoder);
  std::filesystem::remove(Folder("full") + "/manifest.json");
  kept = ReadFile(checkpoint).value();
  {
    const FileSizeLimit full(1000);
    EXPECT_THAT(MessageOf(Train(dataset_, config, Folder("full")).status()),
                AllOf(HasSubstr(encoder), HasSubstr("File too large")));
  }
  EXPECT_FALSE(std::filesystem::exists(Folder("full") + "/manifest.json")) << "the folder is not complete";
  EXPECT_EQ(ReadFile(checkpoint).value(), kept);
  resumed = MustTrain(config, "full");
  EXPECT_EQ(resumed.resumed_at, whole.steps);
  EXPECT_EQ(ReadFile(encoder).value(), exported);
}

TEST_F(TrainTest, AFinishedTrainingReturnsAtOnce) {
  const TrainConfig config = TinyConfig();
  const TrainResult first = MustTrain(config, "model"), second = MustTrain(config, "model");
  EXPECT_EQ(second.resumed_at, second.steps);
  EXPECT_EQ(first.manifest.encoder_crc32c, second.manifest.encoder_crc32c);
}

TEST_F(TrainTest, AnEpochsLastTotalIsItsMeanHoweverOftenItWasInterrupted) {
  const TrainConfig config = TinyConfig();
  std::map<int64_t, double> calm, shaken;
  const auto last_totals = [](std::map<int64_t, double>& totals) {
    return [&totals](const TrainProgress& progress) {
      if (!progress.losses.empty()) totals[progress.epoch] = progress.losses[0].second;
    };
  };
  const auto result = Train(dataset_, config, Folder("calm"), last_totals(calm));
  ASSERT_TRUE(result.ok()) << MessageOf(result.status());
  ASSERT_EQ(calm.size(), static_cast<size_t>(config.epochs));
  EXPECT_EQ(calm[config.epochs], result->final_loss);
  const std::atomic<bool> stop = true;  // behind each step
  while (!Train(dataset_, config, Folder("shaken"), last_totals(shaken), &stop).ok()) {
  }
  EXPECT_EQ(shaken, calm);
  std::map<int64_t, double> again;
  ASSERT_TRUE(Train(dataset_, config, Folder("shaken"), last_totals(again)).ok());
  EXPECT_EQ(again, (std::map<int64_t, double>{{config.epochs, result->final_loss}})) << "nothing was left to do";
}

TEST_F(TrainTest, SeedsDifferAndRepeat) {
  TrainConfig config = TinyConfig();
  const uint32_t first = MustTrain(config, "a").manifest.encoder_crc32c;
  EXPECT_EQ(MustTrain(config, "b").manifest.encoder_crc32c, first);
  config.seed = 2;
  EXPECT_NE(MustTrain(config, "c").manifest.encoder_crc32c, first);
}

TEST_F(TrainTest, EverySwitchTrains) {
  TrainConfig config = TinyConfig();
  config.epochs = 1;
  MustTrain(config, "old");
  config.method = "hbct";
  config.old_model = Folder("old");
  int count = 0;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"hbct.entailment", "false"},
                                                        {"hbct.contrast", "infonce"},
                                                        {"hbct.contrast", "distance"},
                                                        {"hbct.contrast", "none"},
                                                        {"hbct.distance", "inner"},
                                                        {"hbct.distance", "squared"},
                                                        {"hbct.q_mode", "fixed"},
                                                        {"hbct.uncertainty", "paper-line3"},
                                                        {"hbct.mask_same_class", "true"},
                                                        {"hbct.cached_old_features", "true"},
                                                        {"encoder.rescale", "fixed"},
                                                        {"encoder.rescale", "learnable"},
                                                        {"encoder.head_bias", "false"},
                                                        {"encoder.head_batch_norm", "true"},
                                                        {"schedule", "step"},
                                                        {"schedule", "cosine-epoch"},
                                                        {"schedule", "constant"},
                                                        {"warmup_epochs", "0.5"},
                                                        {"gradient_clip", "1"},
                                                        {"augment", "drawing"},
                                                        {"nesterov", "false"},
                                                        {"channels_last", "false"},
                                                        {"precision", "auto"},
                                                        {"encoder.architecture", "small-cnn"}}) {
    TrainConfig changed = config;
    ASSERT_TRUE(SetTrainOption(changed, name, value).ok()) << name;
    const absl::StatusOr<TrainResult> result = Train(dataset_, changed, Folder(std::to_string(++count)));
    EXPECT_TRUE(result.ok()) << name << "=" << value << ": " << MessageOf(result.status());
  }
  TrainConfig euclid = TinyConfig();
  euclid.metric = "cosine";
  EXPECT_EQ(MustTrain(euclid, "euclid").manifest.metric, "cosine");
}

TEST_F(TrainTest, ACheckpointOfAnotherConfigurationOrDataSetIsRefused) {
  TrainConfig config = TinyConfig();
  config.epochs = 1;
  MustTrain(config, "model");
  TrainConfig other = config;
  other.learning_rate = 0.05;
  absl::Status status = Train(dataset_, other, Folder("model")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'learning_rate' is 0.05; allowed: 0.1, as in the checkpoint"));
  dataset_.train.pixels[5] ^= 1;
  status = Train(dataset_, config, Folder("model")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'dataset'"));
}

TEST_F(TrainTest, ADamagedCheckpointIsDataLossAndNamesTheFile) {
  TrainConfig config = TinyConfig();
  config.epochs = 1;
  MustTrain(config, "model");
  const std::string path = Folder("model") + "/checkpoint.bin";
  const std::string bytes = *ReadFile(path);
  ASSERT_TRUE(WriteFileAtomically(path, bytes.substr(0, bytes.size() / 2)).ok());
  absl::Status status = Train(dataset_, config, Folder("model")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr(path));
  Checkpoint checkpoint = *ParseCheckpoint(bytes);
  checkpoint.sections["network"] = "no archive";
  ASSERT_TRUE(WriteCheckpoint(path, checkpoint).ok());
  status = Train(dataset_, config, Folder("model")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("network"));
}

TEST_F(TrainTest, AnOldModelThatCannotShareTheSpaceIsRefused) {
  TrainConfig config = TinyConfig();
  config.epochs = 1;
  MustTrain(config, "old");
  config.method = "hbct";
  const auto refused = [&](TrainConfig changed, absl::StatusCode code, const std::string& text) {
    changed.old_model = changed.old_model.empty() ? Folder("old") : changed.old_model;
    const absl::Status status = Train(dataset_, changed, Folder("new")).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(MessageOf(status), HasSubstr(text));
  };
  TrainConfig other = config;
  other.encoder.dimension = 9;
  refused(other, absl::StatusCode::kFailedPrecondition, "field 'old_model.dimension' is 8; allowed: 9");
  other = config;
  other.curvature = 0.5;
  refused(other, absl::StatusCode::kFailedPrecondition, "field 'old_model.curvature' is 1; allowed: 0.5");
  other = config;
  other.old_model = Folder("nowhere");
  refused(other, absl::StatusCode::kNotFound, "old_model");
}

TEST_F(TrainTest, BadDataSetsNameTheField) {
  const auto message = [&](auto change) {
    Dataset bad = TinyDataset();
    change(bad);
    const absl::Status status = Train(bad, TinyConfig(), Folder("bad")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  EXPECT_THAT(message([](Dataset& d) {
                d.train = SelectRows(d.train, {0, 1, 2});
              }),
              HasSubstr("field 'batch' is 16; allowed: 2 .. 3, the images of the training set"));
  EXPECT_THAT(message([](Dataset& d) { d.train = {}; }), HasSubstr("field 'dataset.train' is 0 images"));
  EXPECT_THAT(message([](Dataset& d) { d.train.labels[3] = 6; }), HasSubstr("field 'dataset.train.labels' is 6"));
  EXPECT_THAT(message([](Dataset& d) { d.train.pixels.pop_back(); }), HasSubstr("field 'dataset.train.pixels'"));
  EXPECT_THAT(message([](Dataset& d) { d.class_names.resize(1); }), HasSubstr("field 'dataset.classes' is 1"));
}

TEST_F(TrainTest, ADivergedTrainingSaysSoAndLeavesNoManifest) {
  TrainConfig config = TinyConfig();
  config.metric = "euclidean";
  config.learning_rate = 100;
  config.momentum = 0.99;
  config.epochs = 30;
  const absl::Status status = Train(dataset_, config, Folder("model")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(status), HasSubstr("lower field 'learning_rate' (100)"));
  EXPECT_FALSE(std::filesystem::exists(Folder("model") + "/manifest.json"));
}

TEST_F(TrainTest, WeightsThatAreNoNumbersAreNamedBeforeACheckpointHoldsThem) {
  const absl::StatusOr<TrainConfig> config = ResolveConfig(dataset_, TinyConfig());
  ASSERT_TRUE(config.ok()) << config.status();
  const auto run = TrainingRun::Create(dataset_, *config);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE((*run)->CheckFinite().ok());
  torch::NoGradGuard no_grad;
  const auto parameters = (*run)->network().named_parameters();
  parameters[0].value().fill_(std::numeric_limits<float>::infinity());
  const absl::Status status = (*run)->CheckFinite();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(status), HasSubstr("'network." + parameters[0].key() + "' has a number that is not finite"));
}

TEST(LossWatch, NamesTheFirstBadStepAndPart) {
  const torch::Tensor good = torch::tensor(1.0f), bad = torch::tensor(NAN);
  LossWatch watch;
  watch.Add({good, {{"base", good}, {"align", good}}}, 1);
  EXPECT_FALSE(watch.First().has_value());
  watch.Add({bad, {{"base", good}, {"align", bad}}}, 2);
  watch.Add({bad, {{"base", bad}, {"align", bad}}}, 3);
  ASSERT_TRUE(watch.First().has_value());
  EXPECT_EQ(watch.First()->part, "align");
  EXPECT_EQ(watch.First()->step, 2);
}

TEST_F(TrainTest, ADivergedTrainingNamesStepAndLossAndKeepsItsLastGoodCheckpoint) {
  TrainConfig config = TinyConfig();
  config.metric = "euclidean";
  config.checkpoint_seconds = 0;  // after every step
  config.learning_rate = 100;
  config.momentum = 0.99;
  config.epochs = 30;
  const std::string grown = Folder("grown") + "/checkpoint.bin";
  const std::string message = MessageOf(Train(dataset_, config, Folder("grown")).status());
  EXPECT_THAT(message, HasSubstr("not finite at step "));
  const auto before = ReadFile(grown);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(MessageOf(Train(dataset_, config, Folder("grown")).status()), message);
  const auto after = ReadFile(grown);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*after, *before);
}

}  // namespace
}  // namespace lightcone

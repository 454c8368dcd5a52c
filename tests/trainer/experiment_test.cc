// Experiments of seconds, end to end: what is trained, what is used again, what is refused, what a kill leaves.
#include "trainer/experiment/experiment.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "tests/trainer/experiment_testing.h"
#include "trainer/data/rng.h"
#include "trainer/experiment/plan.h"
#include "trainer/experiment/setup.h"

namespace lightcone {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int kTinyModels = 4;  // old, independent, hbct, hbct without entailment

json RowOf(const std::string& table, const std::string& name) {
  const json parsed = json::parse(table, nullptr, /*allow_exceptions=*/false);
  for (const json& row : parsed.value("rows", json::array())) {
    if (row["name"] == name) return row;
  }
  ADD_FAILURE() << "no row " << name << " in " << table;
  return {};
}

TEST(Experiment, TrainsEachModelOnceAndMeasuresEveryRow) {
  const TinyExperiment tiny;
  const ExperimentOutcome outcome = tiny.MustRun();
  EXPECT_EQ(outcome.trained, kTinyModels);
  EXPECT_EQ(outcome.cached, 0);
  const std::map<std::string, std::string> files = tiny.Files();
  for (const char* name : {"table.md", "table.json", "table.tex", "cost.md", "cost.json", "experiment.json",
                           "p_com.svg", "uncertainty.svg", "confusion.svg"}) {
    EXPECT_TRUE(files.contains(std::string("tiny/") + name)) << name;
  }
  const json hbct = RowOf(tiny.Table(), "hbct"), old = RowOf(tiny.Table(), "old-lorentz"),
             alone = RowOf(tiny.Table(), "independent-lorentz");
  const auto mean = [](const json& row, const char* measure) { return row["measures"][measure]["mean"].get<double>(); };
  EXPECT_FALSE(old["measures"].value("cross.cmc1", json()).is_object());
  EXPECT_NEAR(mean(hbct, "p_com.map") * (mean(alone, "self.map") - mean(old, "self.map")),
              mean(hbct, "cross.map") - mean(old, "self.map"), 1e-12);
  EXPECT_NEAR(mean(hbct, "p_up.map") * mean(alone, "self.map"), mean(hbct, "self.map") - mean(alone, "self.map"),
              1e-12);
  EXPECT_GT(mean(alone, "self.cmc1"), 0.5) << "four patterns are easily told apart";
  EXPECT_EQ(hbct["paper"]["p_com.cmc1"], 0.495);
}

TEST(Experiment, ASecondRunTrainsNothingAndWritesTheSameBytes) {
  const TinyExperiment tiny;
  tiny.MustRun();
  const std::map<std::string, std::string> before = tiny.Files();
  const ExperimentOutcome again = tiny.MustRun();
  EXPECT_EQ(again.trained, 0);
  EXPECT_EQ(again.cached, kTinyModels);
  EXPECT_EQ(tiny.Files(), before);
}

TEST(Experiment, AChangedOptionTrainsWhatItTouchesAndNothingElse) {
  const TinyExperiment tiny;
  tiny.MustRun();
  tiny.Change("hbct.entailment = false", "hbct.entailment = false\nhbct.lambda = 0.5");
  EXPECT_EQ(tiny.MustRun().trained, 1);
  tiny.Change("hbct.lambda = 0.5", "hbct.lambda = 0.5\nhbct.lambda_until = 0.5");
  EXPECT_EQ(tiny.MustRun().trained, 1);
  tiny.Change("hbct.lambda_until = 0.5", "hbct.lambda_until = 0");
  EXPECT_EQ(tiny.MustRun().trained, 0);
  tiny.Change("hbct.lambda = 0.5", "hbct.lambda = 0.3");  // the default, spelled out: the first model again
  EXPECT_EQ(tiny.MustRun().trained, 0);
  tiny.Change("epochs = 2", "epochs = 3");
  EXPECT_EQ(tiny.MustRun().trained, kTinyModels);
  tiny.Change("threads = 1", "precision = \"float32\"\nthreads = 1");  // models older than the option have no such key
  EXPECT_EQ(tiny.MustRun().trained, 0);
  tiny.Change("threads = 1", "threads = 1\ncheckpoint_seconds = 5");  // no step depends on it
  EXPECT_EQ(tiny.MustRun().trained, 0);
}

TEST(Experiment, AnotherMethodsOptionTouchesNoModelNotEvenAnInterruptedOne) {
  TinyExperiment tiny;
  int models = 0;
  std::atomic<bool> stop = false;
  ExperimentHooks hooks;
  hooks.stop = &stop;
  hooks.say = [&](const std::string&) { stop = ++models == 2; };  // in the middle of the second model
  EXPECT_EQ(RunExperiment(tiny.options, hooks).status().code(), absl::StatusCode::kCancelled);
  stop = false;
  tiny.Change("threads = 1", "threads = 1\nmixbct.alpha = 0.2\nlightcone.tau = 0.1");
  const ExperimentOutcome outcome = tiny.MustRun();
  EXPECT_EQ(outcome.cached, 1);
  EXPECT_EQ(outcome.trained, kTinyModels - 1);
}

TEST(Experiment, OtherImagesAreOtherModels) {
  const TinyExperiment tiny;
  const testing_data::Folder other;
  ASSERT_EQ(tiny.MustRun().trained, kTinyModels);
  ImageSet changed = TinyImages(kTinyClasses, kTinyTrainImages / kTinyClasses, 1);
  changed.pixels[changed.pixels.size() - 1] ^= 1;  // class 3: the old model never sees it
  WriteIdx(other, "train", changed);
  WriteIdx(other, "t10k", TinyImages(kTinyClasses, 8, 2));
  ExperimentOptions options = tiny.options;
  options.data = "idx:" + other.path();
  const absl::StatusOr<ExperimentOutcome> outcome = RunExperiment(options);
  ASSERT_TRUE(outcome.ok()) << MessageOf(outcome.status());
  EXPECT_EQ(outcome->trained + outcome->cached, kTinyModels);
  EXPECT_GE(outcome->trained, kTinyModels - 1) << "all models that saw the image";
}

TEST(Experiment, OnlyTheGenerationsOwnTrainingImagesAreTrainedOn) {
  const TinyExperiment tiny;
  const Recipe recipe = OpenRecipe(tiny.options.recipe).value();
  const Dataset whole = OpenDataset(tiny.options.data, 1).value();
  const ExperimentPlan plan = MakePlan(recipe, whole, 1).value();
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.steps[0].dataset.train.size(), kTinyTrainImages / 2);
  EXPECT_EQ(plan.steps[0].dataset.classes(), kTinyClasses / 2);
  EXPECT_EQ(plan.steps[1].dataset.train.size(), kTinyTrainImages);
  for (const GenerationData& step : plan.steps) EXPECT_EQ(step.dataset.test.size(), 0);
  ASSERT_EQ(plan.models.size(), static_cast<size_t>(kTinyModels));
  EXPECT_EQ(plan.rows[0].models[0], plan.independent[0].models[0]) << "rows share the old model";
  EXPECT_EQ(plan.models[static_cast<size_t>(plan.rows[0].models[1])].old_model, plan.independent[0].models[0]);
}

TEST(Experiment, ValidationImagesComeFromTheTrainingSetAndTheTestImagesStayUnseen) {
  const TinyExperiment tiny;
  tiny.Change("title = \"tiny\"", "title = \"tiny\"\nvalidation = 0.25");
  tiny.MustRun();
  const std::string before = tiny.Table();
  const json models = json::parse(ReadFile(tiny.options.out + "/tiny/experiment.json").value())["models"];
  // Of 18 images a class, 5 (round(4.5), away from zero) are held out.
  EXPECT_EQ(models[0]["key"]["data"]["images"], 2 * (18 - 5));
  EXPECT_EQ(models[1]["key"]["data"]["images"], 4 * (18 - 5));

  testing_data::Folder other;  // the same training images, other test images
  WriteIdx(other, "train", TinyImages(kTinyClasses, kTinyTrainImages / kTinyClasses, 1));
  WriteIdx(other, "t10k", TinyImages(kTinyClasses, 8, 99));
  ExperimentOptions options = tiny.options;
  options.data = "idx:" + other.path();
  const absl::StatusOr<ExperimentOutcome> outcome = RunExperiment(options);
  ASSERT_TRUE(outcome.ok()) << MessageOf(outcome.status());
  EXPECT_EQ(outcome->trained, 0) << "no model depends on test images";
  EXPECT_EQ(RowOf(tiny.Table(), "hbct"), RowOf(before, "hbct"));
}

TEST(Experiment, SeedsAreAveragedAndKnownOnesAreNotTrainedAgain) {
  TinyExperiment tiny;
  tiny.MustRun();
  tiny.options.seeds = {1, 2};
  EXPECT_EQ(tiny.MustRun().trained, kTinyModels);
  const json row = RowOf(tiny.Table(), "hbct")["measures"]["self.map"];
  ASSERT_EQ(row["values"].size(), 2u);
  const double a = row["values"][0], b = row["values"][1];
  EXPECT_NE(a, b);
  EXPECT_NEAR(row["mean"], (a + b) / 2, 1e-12);
  EXPECT_NEAR(row["deviation"], std::abs(a - b) / std::sqrt(2.0), 1e-12);
}

TEST(Experiment, ADamagedFileOfACachedModelIsNamedAndNeverUsed) {
  const TinyExperiment tiny;
  tiny.MustRun();
  for (const auto& [name, bytes] : tiny.Files()) {
    if (!name.starts_with("models/")) continue;
    const std::string path = tiny.options.out + "/" + name;
    std::string damaged = bytes;
    damaged[damaged.size() / 2] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(path, damaged).ok());
    const absl::Status status = tiny.Error();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name << ": " << MessageOf(status);
    EXPECT_THAT(MessageOf(status), HasSubstr(path));
    EXPECT_THAT(MessageOf(status), HasSubstr("remove"));
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  }
  EXPECT_EQ(tiny.MustRun().trained, 0);
}

TEST(Experiment, AMissingFileOfACachedModelIsNamed) {
  const TinyExperiment tiny;
  tiny.MustRun();
  for (const auto& [name, bytes] : tiny.Files()) {
    if (!name.starts_with("models/hbct") || name.ends_with("complete.json")) continue;
    const std::string path = tiny.options.out + "/" + name;
    std::filesystem::remove(path);
    EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr(path));
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  }
}

TEST(Experiment, ADamagedFigureIsNamed) {
  const TinyExperiment tiny;
  tiny.MustRun();
  for (const auto& [name, bytes] : tiny.Files()) {
    if (!name.starts_with("figures/")) continue;
    std::string damaged = bytes;
    damaged[bytes.find("\"map\":") + 8] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(tiny.options.out + "/" + name, damaged).ok());
    EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr(name));
    ASSERT_TRUE(WriteFileAtomically(tiny.options.out + "/" + name, bytes).ok());
  }
}

// What two runs of one experiment must agree on: times differ, and manifests hold them.
std::map<std::string, std::string> Lasting(const TinyExperiment& tiny) {
  std::map<std::string, std::string> files;
  for (const auto& [name, bytes] : tiny.Files()) {
    if (name.ends_with("/encoder.pt") || name.starts_with("tiny/table") || name.ends_with(".svg")) files[name] = bytes;
  }
  return files;
}

TEST(Experiment, StoppedAtAnyModelItGoesOnAndEndsWithTheSameBytes) {
  const TinyExperiment whole;
  whole.MustRun();
  TinyExperiment parts;
  for (int stop_at = 1; stop_at <= kTinyModels + 1; ++stop_at) {
    std::atomic<bool> stop = false;
    int said = 0;
    ExperimentHooks hooks;
    hooks.say = [&](const std::string&) { stop.store(++said == stop_at); };
    hooks.stop = &stop;
    const absl::Status status = RunExperiment(parts.options, hooks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << stop_at << ": " << MessageOf(status);
    EXPECT_FALSE(std::filesystem::exists(parts.options.out + "/tiny/table.md"));
  }
  parts.options.resume = true;
  EXPECT_EQ(parts.MustRun().trained, 0) << "the last stop came while measuring";
  std::map<std::string, std::string> expected = Lasting(whole), got = Lasting(parts);
  for (auto* files : {&expected, &got}) {
    for (const char* table : {"tiny/table.md", "tiny/table.json"}) {
      // Each experiment has a data folder of its own, whose name the tables show.
      std::string& text = (*files)[table];
      const std::string& data = files == &expected ? whole.options.data : parts.options.data;
      for (size_t at; (at = text.find(data)) != std::string::npos;) text.replace(at, data.size(), "DATA");
    }
  }
  EXPECT_EQ(got, expected);
}

constexpr char kChildRecipe[] = "LIGHTCONE_TEST_EXPERIMENT_RECIPE", kChildOut[] = "LIGHTCONE_TEST_EXPERIMENT_OUT",
               kChildData[] = "LIGHTCONE_TEST_EXPERIMENT_DATA";

// The process that the next test kills is this program with this test alone; by itself it has nothing to do.
TEST(ExperimentChild, RunsWhatTheEnvironmentNames) {
  if (std::getenv(kChildRecipe) == nullptr) return;
  ExperimentOptions options;
  options.recipe = std::getenv(kChildRecipe);
  options.out = std::getenv(kChildOut);
  options.data = std::getenv(kChildData);
  EXPECT_TRUE(RunExperiment(options).ok());
}

// What a child that trains has written so far.
struct Progress {
  int finished = 0;   // encoders
  std::string files;  // names and times of checkpoints and encoders
};
Progress ProgressIn(const std::string& out, const Progress& last) {
  Progress now;
  std::error_code gone;
  std::filesystem::recursive_directory_iterator it(out, gone), end;
  for (; !gone && it != end; it.increment(gone)) {
    const bool encoder = it->path().filename() == "encoder.pt";
    if (!encoder && it->path().filename() != "checkpoint.bin") continue;
    now.finished += encoder;
    const auto written = std::filesystem::last_write_time(it->path(), gone);
    if (!gone) now.files += StrCat(it->path().string(), "@", written.time_since_epoch().count(), " ");
  }
  return gone ? last : now;  // the child renamed a file meanwhile
}

TEST(Experiment, KilledTwentyTimesItEndsWithTheSameBytes) {
  TinyExperiment tiny;
  tiny.Change("epochs = 2", "epochs = 40\ncheckpoint_seconds = 0");
  tiny.MustRun();
  const std::map<std::string, std::string> expected = Lasting(tiny);
  tiny.options.out = tiny / "killed";
  setenv(kChildRecipe, tiny.options.recipe.c_str(), 1);
  setenv(kChildOut, tiny.options.out.c_str(), 1);
  setenv(kChildData, tiny.options.data.c_str(), 1);
  const absl::Cleanup unset = [] { unsetenv(kChildRecipe); };
  std::string program = "/proc/self/exe", filter = "--gtest_filter=ExperimentChild.*";
  std::vector<char*> arguments = {program.data(), filter.data(), nullptr};
  Rng rng(11);
  Progress last;
  for (int kill_number = 0; kill_number < 20; ++kill_number) {
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
    // Five times in each of the four trainings, at a random point behind a random number of its checkpoints.
    for (uint32_t changes = 1 + rng.Below(6); changes > 0;) {
      const Progress now = ProgressIn(tiny.options.out, last);
      if (now.files != last.files && now.finished >= kill_number / 5) --changes;
      last = now;
      ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "ended before kill " << kill_number;
      std::this_thread::yield();
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  std::vector<int64_t> steps;
  ExperimentHooks hooks;
  hooks.progress = [&steps](const TrainProgress& progress) { steps.push_back(progress.step); };
  ASSERT_TRUE(RunExperiment(tiny.options, hooks).ok());
  ASSERT_FALSE(steps.empty());
  EXPECT_GE(steps.front(), 4) << "the last training was resumed, not begun again";
  EXPECT_EQ(Lasting(tiny), expected);
}

TEST(Experiment, ResumeGoesOnWithWhatStandsThereAndRefusesAnythingElse) {
  TinyExperiment tiny;
  tiny.options.resume = true;
  EXPECT_EQ(tiny.Error().code(), absl::StatusCode::kNotFound);
  tiny.options.resume = false;
  tiny.options.seeds = {3};
  tiny.MustRun();
  tiny.options.resume = true;
  const std::string data = std::exchange(tiny.options.data, "");
  tiny.options.seeds = {};
  const ExperimentOutcome resumed = tiny.MustRun();
  EXPECT_EQ(resumed.trained, 0);
  EXPECT_EQ(resumed.result.data, data);
  EXPECT_EQ(resumed.result.seeds, std::vector<uint64_t>{3});
  tiny.options.seeds = {4};
  EXPECT_EQ(tiny.Error().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("field '--seeds'"));
  tiny.options.seeds = {};
  tiny.Change("epochs = 2", "epochs = 3");
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("field 'recipe'"));
}

TEST(Experiment, TwoAtOnceInOneFolderAreRefused) {
  const TinyExperiment tiny;
  const auto held = ExperimentLock::Take(tiny.options.out);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(tiny.Error().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("another experiment"));
}

TEST(ExperimentForecast, ADryRunSaysWhatIsMissingAndTrainsNothing) {
  const TinyExperiment tiny;
  const ExperimentForecast forecast = ForecastExperiment(tiny.options, 1000).value();
  EXPECT_FALSE(std::filesystem::exists(tiny.options.out));
  ASSERT_EQ(forecast.models.size(), static_cast<size_t>(kTinyModels));
  // Whole batches of 8 for 2 epochs at 1,000 images a second; HBCT's frozen forward pass costs a third of a step.
  EXPECT_NEAR(forecast.models[0].seconds.value(), 2 * 32 / 1000.0, 1e-9);
  EXPECT_NEAR(forecast.models[1].seconds.value(), 2 * 72 / 1000.0, 1e-9);
  EXPECT_NEAR(forecast.models[2].seconds.value(), 2 * 72 / 1000.0 * 4 / 3, 1e-9);
  EXPECT_EQ(forecast.measured_on, forecast.models[1].id);
  tiny.MustRun();
  const ExperimentForecast after = ForecastExperiment(tiny.options, std::nullopt).value();
  for (const ForecastModel& model : after.models) EXPECT_TRUE(model.cached) << model.id;
  EXPECT_EQ(after.seconds, 0);
  EXPECT_EQ(ForecastExperiment(tiny.options, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ExperimentForecast, WithoutASpeedItIsMeasuredElsewhere) {
  const TinyExperiment tiny;
  const ExperimentForecast forecast = ForecastExperiment(tiny.options, std::nullopt).value();
  EXPECT_GT(forecast.images_per_second, 0);
  EXPECT_GT(forecast.seconds, 0);
  EXPECT_FALSE(std::filesystem::exists(tiny.options.out));
}

}  // namespace
}  // namespace lightcone

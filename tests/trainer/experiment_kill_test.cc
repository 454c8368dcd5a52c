// What is left of an experiment that is stopped, killed or out of disk, and that it ends with the same bytes.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/rng.h"
#include "research/experiment/experiment.h"
#include "tests/support/file_size_limit.h"
#include "tests/trainer/experiment_testing.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

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

constexpr char kTinyAdapterRow[] = R"([row.adapted]
method = "independent"
adapter.loss = "reg+sup"
adapter.map = "affine"
adapter.steps = 40

)";

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

// What a child has written so far.
struct Progress {
  int finished = 0;  // encoders
  int adapters = 0;
  std::string files, results;  // names and times: of checkpoints and encoders; of what is made of the models
};
Progress ProgressIn(const std::string& out, const Progress& last) {
  Progress now;
  std::error_code gone;
  std::filesystem::recursive_directory_iterator it(out, gone), end;
  for (; !gone && it != end; it.increment(gone)) {
    const std::string path = it->path().string(), name = it->path().filename().string();
    const bool of_a_model = path.starts_with(out + "/models/");
    const bool encoder = of_a_model && name == "encoder.pt";
    if (of_a_model && !encoder && name != "checkpoint.bin") continue;
    if (!it->is_regular_file(gone) || name.ends_with(".tmp")) continue;
    now.finished += encoder;
    now.adapters += name.ends_with(".adapter");
    const auto written = std::filesystem::last_write_time(it->path(), gone);
    if (!gone) (of_a_model ? now.files : now.results) += StrCat(path, "@", written.time_since_epoch().count(), " ");
  }
  return gone ? last : now;  // the child renamed a file meanwhile
}

// Children that run the experiment of `options`, each killed at a random point.
class Killer {
 public:
  explicit Killer(const ExperimentOptions& options) : options_(options) {
    setenv(kChildRecipe, options.recipe.c_str(), 1);
    setenv(kChildOut, options.out.c_str(), 1);
    setenv(kChildData, options.data.c_str(), 1);
  }
  ~Killer() { unsetenv(kChildRecipe); }

  // Behind a random number of checkpoints, with at least `finished` models there.
  void KillWhileItTrains(int finished) {
    Spawn();
    for (uint32_t changes = 1 + rng_.Below(6); changes > 0;) {
      const Progress now = ProgressIn(options_.out, last_);
      if (now.files != last_.files && now.finished >= finished) --changes;
      last_ = now;
      ASSERT_EQ(waitpid(child_, nullptr, WNOHANG), 0) << "ended before it was killed";
      std::this_thread::yield();
    }
    Kill();
  }

  // Behind what is measured before the adapter is fitted, with the adapter not there yet.
  void KillWhileItFits() {
    for (int attempt = 0; attempt < 30 && !testing::Test::HasFailure(); ++attempt) {
      RemoveMade();
      const bool killed = KillBehindResults(2 + rng_.Below(2));
      if (killed && ProgressIn(options_.out, {}).adapters == 0) return;
    }
    FAIL() << "the adapter was always there already";
  }

  // Behind a random number of figures, adapters, tables and plots. What has all of them makes them anew.
  void KillWhileItMeasures() {
    while (!testing::Test::HasFailure() && !KillBehindResults(1 + rng_.Below(10))) RemoveMade();
  }

 private:
  void Spawn() {
    last_ = ProgressIn(options_.out, last_);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=ExperimentChild.*";
    std::vector<char*> arguments = {program.data(), filter.data(), nullptr};
    ASSERT_EQ(posix_spawn(&child_, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  }
  // False when it came to its end before.
  bool KillBehindResults(uint32_t changes) {
    Spawn();
    while (changes > 0) {
      const Progress now = ProgressIn(options_.out, last_);
      if (now.results != last_.results) --changes;
      last_ = now;
      int status = 0;
      if (waitpid(child_, &status, WNOHANG) != 0) {
        EXPECT_EQ(status, 0);
        return false;
      }
      std::this_thread::yield();
    }
    for (uint32_t more = rng_.Below(500); more > 0; --more) last_ = ProgressIn(options_.out, last_);
    Kill();
    return true;
  }
  void RemoveMade() const {
    for (const char* made : {"/adapters", "/figures", "/tiny"}) std::filesystem::remove_all(options_.out + made);
  }
  void Kill() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  const ExperimentOptions& options_;
  Rng rng_{11};
  Progress last_;
  pid_t child_ = 0;
};

TEST(Experiment, KilledTwentyTimesItEndsWithTheSameBytes) {
  TinyExperiment tiny;
  tiny.Change("epochs = 2", "epochs = 40\ncheckpoint_seconds = 0");
  tiny.Change("[row.hbct]", StrCat(kTinyAdapterRow, "[row.hbct]"));
  tiny.MustRun();
  const std::map<std::string, std::string> expected = Lasting(tiny);
  tiny.options.out = tiny / "killed";
  Killer killer(tiny.options);
  for (int i = 0; i < 12 && !testing::Test::HasFatalFailure(); ++i) killer.KillWhileItTrains(i / 3);
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  std::vector<int64_t> steps;
  std::atomic<bool> stop = false;
  ExperimentHooks hooks;
  hooks.progress = [&](const TrainProgress& progress) {
    steps.push_back(progress.step);
    stop.store(true);
  };
  hooks.stop = &stop;
  EXPECT_EQ(RunExperiment(tiny.options, hooks).status().code(), absl::StatusCode::kCancelled);
  ASSERT_FALSE(steps.empty());
  EXPECT_GE(steps.front(), 4) << "the last training was resumed, not begun again";
  for (int i = 0; i < 4 && !testing::Test::HasFatalFailure(); ++i) {
    killer.KillWhileItFits();
    killer.KillWhileItMeasures();
  }
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  EXPECT_EQ(tiny.MustRun().trained, 0);
  EXPECT_EQ(Lasting(tiny), expected);
}

TEST(Experiment, AFullDiskIsNamedAndWithRoomAgainItEndsWithTheSameBytes) {
  TinyExperiment tiny;
  tiny.Change("epochs = 2", "epochs = 2\ncheckpoint_seconds = 0");
  tiny.Change("[row.hbct]", StrCat(kTinyAdapterRow, "[row.hbct]"));
  tiny.MustRun();
  const std::map<std::string, std::string> expected = Lasting(tiny);
  const auto too_large = HasSubstr("File too large");
  // The disk is full from the moment on at which the experiment says `moment`.
  const auto message_when_full_at = [&](const std::string& moment) {
    std::optional<FileSizeLimit> full;
    ExperimentHooks hooks;
    hooks.say = [&](const std::string& said) {
      if (said.find(moment) != std::string::npos) full.emplace(200);
    };
    const absl::Status status = RunExperiment(tiny.options, hooks).status();
    EXPECT_TRUE(full.has_value()) << moment;
    return MessageOf(status);
  };
  const auto remove = [&](const std::string& path) { std::filesystem::remove_all(tiny.options.out + path); };
  remove("/adapters");
  EXPECT_THAT(message_when_full_at("measuring"),
              AllOf(HasSubstr("row 'adapted', seed 1"), HasSubstr("/adapters/"), HasSubstr(".adapter"), too_large));
  remove("/figures");
  EXPECT_THAT(message_when_full_at("measuring"),
              AllOf(HasSubstr("row 'old-lorentz', seed 1"), HasSubstr("/figures/"), too_large));
  tiny.MustRun();
  remove("/tiny");
  EXPECT_THAT(message_when_full_at("measuring"), AllOf(HasSubstr("/tiny/p_com.svg"), too_large));
  tiny.options.out = tiny / "full";
  EXPECT_THAT(message_when_full_at("model 3 of 4"), AllOf(HasSubstr("/models/"), too_large));
  EXPECT_EQ(tiny.MustRun().trained, 2) << "two models were there";
  EXPECT_EQ(Lasting(tiny), expected);
}

}  // namespace
}  // namespace lightcone

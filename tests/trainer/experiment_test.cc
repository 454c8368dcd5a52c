// Experiments of seconds, end to end: what is trained, what is used again, what is refused.
#include "research/experiment/experiment.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "models/encoders/encoder.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "research/experiment/plan.h"
#include "research/experiment/setup.h"
#include "tests/trainer/experiment_testing.h"
#include "trainer/data/split.h"
#include "trainer/evaluate.h"

namespace lightcone {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json RowOf(const std::string& table, const std::string& name) {
  const json parsed = json::parse(table, nullptr, /*allow_exceptions=*/false);
  for (const json& row : parsed.value("rows", json::array())) {
    if (row["name"] == name) return row;
  }
  ADD_FAILURE() << "no row " << name << " in " << table;
  return {};
}

// Stopped once it has begun.
void MustBeginAndStop(const TinyExperiment& tiny) {
  std::atomic<bool> stop = false;
  ExperimentHooks hooks;
  hooks.stop = &stop;
  hooks.say = [&](const std::string&) { stop = true; };
  EXPECT_EQ(RunExperiment(tiny.options, hooks).status().code(), absl::StatusCode::kCancelled);
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

TEST(Experiment, ARunThatIsRefusedLeavesWhatAFinishedOneWrote) {
  TinyExperiment tiny;
  tiny.MustRun();
  const std::map<std::string, std::string> before = tiny.Files();
  const std::string data = std::exchange(tiny.options.data, tiny.options.data + "-typo");
  EXPECT_EQ(tiny.Error().code(), absl::StatusCode::kNotFound);
  tiny.options.data = data;
  tiny.Change("hbct.entailment = false", "encoder.dimension = 12");  // refused by the plan
  EXPECT_EQ(tiny.Error().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tiny.Files(), before);
  tiny.Change("encoder.dimension = 12", "hbct.entailment = false");
  tiny.options.resume = true;
  EXPECT_EQ(tiny.MustRun().trained, 0);
}

TEST(Experiment, TheTableOfAnotherSetupDoesNotStayBesideANewOne) {
  TinyExperiment tiny;
  tiny.MustRun();
  tiny.options.seeds = {2};
  MustBeginAndStop(tiny);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(tiny.options.out + "/tiny")) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(left, std::vector<std::string>{"experiment.json"});
  EXPECT_EQ(json::parse(ReadFile(tiny.options.out + "/tiny/experiment.json").value())["seeds"], json({2}));
}

TEST(Experiment, ATableOutlivesAnotherCompiler) {
  TinyExperiment tiny;
  tiny.MustRun();
  const std::string path = tiny.options.out + "/tiny/experiment.json";
  json begun = json::parse(ReadFile(path).value());
  begun["compiler"] = "another";
  ASSERT_TRUE(WriteFileAtomically(path, begun.dump()).ok());
  MustBeginAndStop(tiny);
  EXPECT_TRUE(std::filesystem::exists(tiny.options.out + "/tiny/table.md"));
  EXPECT_NE(json::parse(ReadFile(path).value())["compiler"], "another");
}

TEST(Experiment, ATestSetWithoutAQueryThatFindsItsClassIsRefusedBeforeAnythingIsTrained) {
  TinyExperiment tiny;
  const testing_data::Folder other;
  WriteIdx(other, "train", TinyImages(kTinyClasses, 2, 1));
  WriteIdx(other, "t10k", TinyImages(kTinyClasses, 1, 2));
  tiny.options.data = "idx:" + other.path();
  EXPECT_EQ(tiny.Error().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("field 'test images' is 4 queries, of which none"));
  EXPECT_EQ(ForecastExperiment(tiny.options, 1000).status().code(), absl::StatusCode::kInvalidArgument);
  tiny.Change("title = \"tiny\"", "title = \"tiny\"\nvalidation = 0.05");
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("field 'validation' is 0.05, which holds out no two"));
  EXPECT_FALSE(std::filesystem::exists(tiny.options.out + "/models"));
  EXPECT_FALSE(std::filesystem::exists(tiny.options.out + "/tiny"));
}

TEST(Experiment, QueriesThatCannotCountAreToldInTheTable) {
  TinyExperiment tiny;
  const testing_data::Folder other;
  WriteIdx(other, "train", TinyImages(kTinyClasses, kTinyTrainImages / kTinyClasses, 1));
  ImageSet test = TinyImages(kTinyClasses, 8, 2);
  std::vector<int64_t> rows;
  int64_t last_class = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    if (test.labels[static_cast<size_t>(i)] == kTinyClasses - 1 && ++last_class > 1) continue;
    rows.push_back(i);
  }
  test = SelectRows(test, rows);
  WriteIdx(other, "t10k", test);
  tiny.options.data = "idx:" + other.path();
  tiny.MustRun();
  EXPECT_THAT(ReadFile(tiny.options.out + "/tiny/table.md").value(), HasSubstr("24 of 25 queries count"));
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

// (time, space) of every row of `z`, clipped and lifted at K = 1, in float64.
std::vector<std::vector<double>> Lifted(const std::vector<float>& z, size_t dimension, double clip_radius) {
  std::vector<std::vector<double>> points;
  for (size_t begin = 0; begin < z.size(); begin += dimension) {
    double norm = 0;
    for (size_t i = 0; i < dimension; ++i) norm += double{z[begin + i]} * z[begin + i];
    norm = std::sqrt(norm);
    const double radius = std::min(norm, clip_radius);
    std::vector<double>& point = points.emplace_back(std::vector<double>{std::cosh(radius)});
    for (size_t i = 0; i < dimension; ++i) point.push_back(z[begin + i] / norm * std::sinh(radius));
  }
  return points;
}

TEST(Experiment, ItsPlotsTellKnownClassesFromUnknownOnesAndCountTheClassesOfNeighbours) {
  const TinyExperiment tiny;
  const ExperimentPlots plots = tiny.MustRun().result.plots;
  const Dataset whole = OpenDataset(tiny.options.data, 1).value();
  const ExperimentPlan plan = MakePlan(OpenRecipe(tiny.options.recipe).value(), whole, 1).value();
  const auto embedded = [&](int model) {
    const std::string folder = tiny.options.out + "/models/" + plan.models[static_cast<size_t>(model)].id;
    const std::unique_ptr<Encoder> encoder = Encoder::LoadFolder(folder).value();
    EXPECT_EQ(encoder->manifest().curvature, 1);
    return std::pair(EmbedSplit(*encoder, whole.test).value(), encoder->manifest().clip_radius);
  };
  const auto [old, old_clip] = embedded(plan.rows[0].models[0]);
  const auto [fresh, fresh_clip] = embedded(plan.rows[0].models[1]);
  const size_t d = 8, n = whole.test.labels.size();
  ASSERT_EQ(old.size(), n * d);

  // The old model was trained on the first two of four classes.
  std::vector<double> seen, unseen;
  for (size_t i = 0; i < n; ++i) {
    double square = 0;
    for (size_t j = 0; j < d; ++j) square += double{old[i * d + j]} * old[i * d + j];
    (whole.test.labels[i] < kTinyClasses / 2 ? seen : unseen).push_back(std::sqrt(square));
  }
  EXPECT_THAT(plots.norms_seen, testing::Pointwise(testing::DoubleNear(1e-5), seen));
  EXPECT_THAT(plots.norms_unseen, testing::Pointwise(testing::DoubleNear(1e-5), unseen));
  EXPECT_EQ(plots.clip_radius, old_clip);

  // Row: class of the query, embedded by the new model; column: class of the nearest other item of the old gallery.
  const auto queries = Lifted(fresh, d, fresh_clip), items = Lifted(old, d, old_clip);
  std::vector<double> cells(kTinyClasses * kTinyClasses);
  for (size_t q = 0; q < n; ++q) {
    size_t nearest = n;
    double least = INFINITY;
    for (size_t i = 0; i < n; ++i) {
      double minus_inner = queries[q][0] * items[i][0];
      for (size_t j = 1; j <= d; ++j) minus_inner -= queries[q][j] * items[i][j];
      if (i != q && minus_inner < least) least = minus_inner, nearest = i;
    }
    cells[static_cast<size_t>(whole.test.labels[q] * kTinyClasses + whole.test.labels[nearest])] += 1.0 / 8;
  }
  ASSERT_EQ(plots.confusions.size(), 3u) << "independent and both rows";
  EXPECT_EQ(plots.confusions[1].first, "HBCT");
  EXPECT_THAT(plots.confusions[1].second, testing::Pointwise(testing::DoubleNear(1e-12), cells));
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

TEST(Experiment, ResumeSaysThatTheVersionsDiffer) {
  TinyExperiment tiny;
  tiny.MustRun();
  const std::string path = tiny.options.out + "/tiny/experiment.json";
  json begun = json::parse(ReadFile(path).value());
  begun["lightcone"] = "0.0.7";
  ASSERT_TRUE(WriteFileAtomically(path, begun.dump()).ok());
  tiny.options.resume = true;
  std::vector<std::string> said;
  ExperimentHooks hooks;
  hooks.say = [&](const std::string& line) { said.push_back(line); };
  const absl::StatusOr<ExperimentOutcome> outcome = RunExperiment(tiny.options, hooks);
  ASSERT_TRUE(outcome.ok()) << MessageOf(outcome.status());
  EXPECT_EQ(outcome->trained, 0);
  EXPECT_THAT(said.front(), HasSubstr("begun with lightcone 0.0.7 and goes on with "));
  said.clear();
  ASSERT_TRUE(RunExperiment(tiny.options, hooks).ok());
  EXPECT_THAT(said.front(), testing::Not(HasSubstr("begun with")));
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

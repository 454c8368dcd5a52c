#include "cli/demo/demo.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/programs.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/child_server.h"
#include "cli/demo/demo_backfill.h"
#include "cli/demo/demo_folder.h"
#include "cli/demo/step_log.h"
#include "cli/served/demo_gallery.h"
#include "cli/served/served_backfill.h"
#include "client/client.h"
#include "geometry/uncertainty.h"
#include "models/encoders/encoder.h"
#include "nlohmann/json.hpp"
#include "stats/metrics.h"
#include "trainer/adapt/item_adapter.h"
#include "trainer/data/split.h"
#include "trainer/evaluate.h"
#include "trainer/methods/method.h"
#include "trainer/progress.h"
#include "trainer/train.h"
#include "trainer/uncertainty/fit_models.h"

namespace lightcone::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kGallery[] = "gallery";         // embedded by the old model; the upgrade happens here
constexpr char kGalleryNew[] = "gallery-new";  // embedded by the compatible new model
constexpr char kGalleryIndependent[] = "gallery-independent";
constexpr char kGalleryLightcone[] = "gallery-lightcone";
constexpr char kGalleryRandom[] = "gallery-random";  // gallery as the first one, embedded anew in a random order
constexpr uint64_t kRandomOrderStream = 0xbac;
constexpr int64_t kQueriesMax = 2'500;  // each asks for its whole ranking; larger test sets are sampled
constexpr int64_t kRestartQueries = 50;
constexpr int kExamples = 6;
constexpr int kExampleNeighbours = 6;

// One trained model with its embeddings of the test images.
struct Model {
  std::string folder;
  TrainResult training;
  Clock::time_point trained;  // time when Train returned
  std::unique_ptr<Encoder> encoder;
  std::vector<float> z;  // test images x dimension
};

class Demo {
 public:
  Demo(const DemoOptions& options, std::FILE* out) : options_(options), out_(out) {}
  absl::StatusOr<DemoResult> Run();

 private:
  absl::Status Prepare();
  absl::Status StartServer();
  absl::StatusOr<Model> TrainModel(const std::string& name, const std::string& method, const Dataset& data,
                                   double clip_radius, const std::string& old_folder);
  // A collection whose items `model` embedded; the number of its generation.
  absl::StatusOr<uint32_t> MakeGallery(const std::string& collection, const Model& model);
  absl::Status GoLive(Clock::time_point training_ended);
  absl::Status Measure();
  absl::Status MeasureRow(const std::string& query, const std::string& gallery, const GalleryQueries& what);
  // The row of `model` on a gallery that it embedded itself.
  absl::Status MeasureBackfilled(const std::string& name, const std::string& collection, const Model& model);
  absl::Status Adapt(const std::string& name, const Model& model, uint32_t generation);
  absl::Status KillAndCompare();
  absl::StatusOr<std::string> FitHead();
  absl::Status BackfillRandomly();
  absl::Status BackfillAndRollBack();
  absl::Status CollectExamples();
  absl::Status CollectUncertainty();
  void Summarise();

  GalleryQueries Ask(const std::string& collection, uint32_t generation, const Model& model) const;
  const DemoOptions& options_;
  std::FILE* out_;
  StepLog log_{out_};
  std::string binary_;
  Dataset data_;
  TrainConfig recipe_;
  std::vector<int64_t> queries_;
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  Model old_, independent_, new_, lightcone_;
  uint32_t old_generation_ = 0, new_generation_ = 0;
  DemoResult result_;
};

absl::Status Demo::Prepare() {
  LC_RETURN_IF_ERROR(ClaimDemoFolder(options_.folder));
  binary_ = options_.binary.empty() ? ProgramBeside("lightcone") : options_.binary;
  LC_RETURN_IF_ERROR(log_.Timed("open data set " + options_.data, [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(data_, OpenDataset(options_.data, options_.seed));
    LC_ASSIGN_OR_RETURN(recipe_, RecipeFor(data_, options_.recipe));
    return absl::OkStatus();
  }));
  if (data_.protocol.has_value()) {
    return InvalidField(
        "data", options_.data,
        "a set without a protocol of its own for queries and gallery: only a measurement in memory follows it");
  }
  // Those with training images come first.
  const std::vector<int32_t>& labels = data_.train.labels;
  result_.classes_trained = 1 + *std::max_element(labels.begin(), labels.end());
  if (result_.classes_trained < 4) {
    return InvalidField("data", StrCat(options_.data, " with ", result_.classes_trained, " classes"),
                        "4 classes or more to train on");
  }
  LC_RETURN_IF_ERROR(ClearDemoFolder(options_.folder));
  queries_ = ChooseQueries(data_.test.size(), kQueriesMax, options_.seed);
  result_.dataset = options_.data;
  result_.seed = options_.seed;
  result_.classes = data_.classes();
  result_.classes_old = result_.classes_trained / 2;
  result_.train_images = data_.train.size();
  result_.gallery_items = data_.test.size();
  result_.queries = static_cast<int64_t>(queries_.size());
  return absl::OkStatus();
}

absl::Status Demo::StartServer() {
  const std::vector<std::string> extra = {"--limits-k-max", StrCat(std::max<int64_t>(10'000, data_.test.size()))};
  LC_ASSIGN_OR_RETURN(
      server_, ChildServer::Start(binary_, options_.folder + "/server", extra, absl::Seconds(60), options_.keep));
  LC_ASSIGN_OR_RETURN(client_, client::Client::Connect({.address = server_->address()}));
  return client_->WaitUntilServing(absl::Seconds(30));
}

absl::StatusOr<Model> Demo::TrainModel(const std::string& name, const std::string& method, const Dataset& data,
                                       double clip_radius, const std::string& old_folder) {
  Model model;
  model.folder = options_.folder + "/" + name;
  TrainConfig config = recipe_;
  config.name = name;
  LC_RETURN_IF_ERROR(ChooseMethod(method, config));
  config.clip_radius = clip_radius;
  config.seed = options_.seed;
  config.old_model = old_folder;
  // A small set (half of its classes, for the old model) still gives two steps an epoch.
  const int64_t batch_max = std::max<int64_t>(2, data.train.size() / 2);
  if (config.batch > batch_max) {
    log_.Say(
        StrCat(name, ": batch ", batch_max, " instead of ", config.batch, ", half of ", data.train.size(), " images"));
    config.batch = batch_max;
  }
  ProgressPrinter printer(out_);
  LC_ASSIGN_OR_RETURN(model.training, Train(data, config, model.folder, printer.callback()));
  model.trained = Clock::now();
  LC_ASSIGN_OR_RETURN(model.encoder, Encoder::LoadFolder(model.folder));
  result_.train_seconds += model.training.seconds;
  return model;
}

GalleryQueries Demo::Ask(const std::string& collection, uint32_t generation, const Model& model) const {
  return {.collection = collection,
          .generation = generation,
          .evaluate_generations = {},
          .z = model.z,
          .dimension = model.encoder->dimension(),
          .queries = queries_};
}

absl::StatusOr<uint32_t> Demo::MakeGallery(const std::string& collection, const Model& model) {
  LC_RETURN_IF_ERROR(CreateGallery(*client_, collection, recipe_.metric, recipe_.curvature));
  LC_ASSIGN_OR_RETURN(const uint32_t generation, RegisterModel(*client_, collection, model.folder, {}));
  LC_RETURN_IF_ERROR(ActivateModel(*client_, collection, generation));
  LC_RETURN_IF_ERROR(UpsertVectors(*client_, collection, generation, model.z, model.encoder->dimension(), data_));
  return generation;
}

absl::Status Demo::GoLive(Clock::time_point training_ended) {
  LC_ASSIGN_OR_RETURN(const std::string png, EncodePng(data_.test, 0));
  LC_ASSIGN_OR_RETURN(new_generation_, RegisterModel(*client_, kGallery, new_.folder, {.parent = old_generation_}));
  LC_RETURN_IF_ERROR(ActivateModel(*client_, kGallery, new_generation_));
  LC_RETURN_IF_ERROR(AskWithImage(*client_, kGallery, png));
  result_.live_after_training_ms = std::chrono::duration<double, std::milli>(Clock::now() - training_ended).count();
  return absl::OkStatus();
}

absl::Status Demo::MeasureRow(const std::string& query, const std::string& gallery, const GalleryQueries& what) {
  return log_.Timed(StrCat("measure ", query, " queries on the ", gallery, " gallery"), [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(DemoRow row, MeasureThroughSearch(*client_, what, data_.test.labels));
    row.query = query;
    row.gallery = gallery;
    result_.rows.push_back(std::move(row));
    return absl::OkStatus();
  });
}

absl::Status Demo::Measure() {
  LC_ASSIGN_OR_RETURN(new_.z, EmbedSplit(*new_.encoder, data_.test));
  LC_ASSIGN_OR_RETURN(independent_.z, EmbedSplit(*independent_.encoder, data_.test));
  LC_ASSIGN_OR_RETURN(lightcone_.z, EmbedSplit(*lightcone_.encoder, data_.test));
  LC_RETURN_IF_ERROR(MeasureRow("old", "old", Ask(kGallery, old_generation_, old_)));
  // The independent model may not query this gallery: for the measurement it is registered, never activated, and its
  // queries override the reach.
  LC_ASSIGN_OR_RETURN(const uint32_t independent, RegisterModel(*client_, kGallery, independent_.folder, {}));
  GalleryQueries stranger = Ask(kGallery, independent, independent_);
  stranger.evaluate_generations = {old_generation_};
  LC_RETURN_IF_ERROR(MeasureRow("independent", "old", stranger));
  LC_RETURN_IF_ERROR(MeasureRow("new", "old", Ask(kGallery, new_generation_, new_)));
  LC_RETURN_IF_ERROR(Adapt("independent", independent_, independent));
  LC_RETURN_IF_ERROR(Adapt("new", new_, new_generation_));
  LC_ASSIGN_OR_RETURN(const uint32_t lightcone,
                      RegisterModel(*client_, kGallery, lightcone_.folder, {.parent = old_generation_}));
  LC_RETURN_IF_ERROR(Adapt("lightcone", lightcone_, lightcone));
  LC_ASSIGN_OR_RETURN(result_.reembedded_items, CountReembedded(*client_, kGallery, old_generation_));

  LC_RETURN_IF_ERROR(MeasureBackfilled("independent", kGalleryIndependent, independent_));
  LC_RETURN_IF_ERROR(MeasureBackfilled("new", kGalleryNew, new_));
  return MeasureBackfilled("lightcone", kGalleryLightcone, lightcone_);
}

absl::Status Demo::MeasureBackfilled(const std::string& name, const std::string& collection, const Model& model) {
  LC_ASSIGN_OR_RETURN(const uint32_t generation, MakeGallery(collection, model));
  return MeasureRow(name, name, Ask(collection, generation, model));
}

// Carries the old items into the space of `model`, behind its queries, and measures what that gives. A set that is too
// small for an adapter keeps the rest of its demo.
absl::Status Demo::Adapt(const std::string& name, const Model& model, uint32_t generation) {
  DemoAdapter adapter;
  adapter.model = name;
  absl::Status fitted;
  LC_RETURN_IF_ERROR(log_.Timed(StrCat("fit an adapter to the ", name, " model and put it"), [&]() -> absl::Status {
    const double begin = log_.Seconds();
    const absl::StatusOr<AdapterFile> file =
        FitItemAdapter(*old_.encoder, *model.encoder, data_, data_.augment, options_.seed);
    fitted = file.status();
    if (!file.ok()) return absl::OkStatus();
    adapter.seconds = log_.Seconds() - begin;
    adapter.loss = file->fit.loss;
    adapter.pairs = file->fit.pairs;
    return PutAdapter(*client_, kGallery, old_generation_, generation, *file);
  }));
  if (!fitted.ok()) {
    log_.Say(StrCat("no adapter to the ", name, " model: ", MessageOf(fitted)));
    return absl::OkStatus();
  }
  result_.adapters.push_back(adapter);
  GalleryQueries adapted = Ask(kGallery, generation, model);
  adapted.adapters = v1::ADAPTER_MODE_ITEM;
  return MeasureRow(name + "+adapter", "old", adapted);
}

absl::Status Demo::KillAndCompare() {
  GalleryQueries plain = Ask(kGallery, new_generation_, new_);
  plain.queries = std::span(queries_).first(std::min<size_t>(queries_.size(), kRestartQueries));
  GalleryQueries adapted = plain;
  if (result_.Row("new+adapter", "old") != nullptr) adapted.adapters = v1::ADAPTER_MODE_ITEM;
  LC_ASSIGN_OR_RETURN(const Neighbours before, NearestThroughSearch(*client_, plain, 20));
  LC_ASSIGN_OR_RETURN(const Neighbours adapted_before, NearestThroughSearch(*client_, adapted, 20));
  client_.reset();
  server_->Kill();
  LC_RETURN_IF_ERROR(StartServer());
  LC_ASSIGN_OR_RETURN(const Neighbours after, NearestThroughSearch(*client_, plain, 20));
  LC_ASSIGN_OR_RETURN(const Neighbours adapted_after, NearestThroughSearch(*client_, adapted, 20));
  result_.restart_identical = before == after && adapted_before == adapted_after;
  return absl::OkStatus();
}

// The failure head that the backfill is ordered by; empty where nothing can be learnt (a model that finds everything).
absl::StatusOr<std::string> Demo::FitHead() {
  const std::string path = options_.folder + "/new.head";
  const int64_t items = std::min(data_.test.size(), data_.train.size());
  const absl::StatusOr<FailureHeadFile> head = FitHeadOfModels(*old_.encoder, *new_.encoder, data_.train, items);
  if (head.ok()) LC_RETURN_IF_ERROR(WriteFailureHead(path, *head));
  if (!head.ok()) log_.Say(StrCat("no failure head: ", MessageOf(head.status())));
  result_.backfill_order = head.ok() ? "a failure head, worst first" : "neighbourhoods, worst first";
  return head.ok() ? path : std::string();
}

absl::Status Demo::BackfillRandomly() {
  LC_ASSIGN_OR_RETURN(const uint32_t older, MakeGallery(kGalleryRandom, old_));
  LC_ASSIGN_OR_RETURN(const uint32_t newer, RegisterModel(*client_, kGalleryRandom, new_.folder, {.parent = older}));
  LC_RETURN_IF_ERROR(ActivateModel(*client_, kGalleryRandom, newer));
  LC_ASSIGN_OR_RETURN(std::vector<v1::LeasedItem> items, LeaseEverything(*client_, kGalleryRandom, ""));
  Rng rng(MixSeed({options_.seed, kRandomOrderStream}));
  rng.Shuffle(&items);
  LC_ASSIGN_OR_RETURN(result_.backfill_curve_random,
                      MeasureBackfill(*client_, Ask(kGalleryRandom, newer, new_), items, data_.test.labels));
  return absl::OkStatus();
}

absl::Status Demo::BackfillAndRollBack() {
  const GalleryQueries queries = Ask(kGallery, new_generation_, new_);
  LC_RETURN_IF_ERROR(log_.Timed("embed the gallery anew, worst items first", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(const std::string head, FitHead());
    LC_ASSIGN_OR_RETURN(const std::vector<v1::LeasedItem> items, LeaseEverything(*client_, kGallery, head));
    LC_ASSIGN_OR_RETURN(result_.backfill_curve, MeasureBackfill(*client_, queries, items, data_.test.labels));
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(log_.Timed("and in a random order", [&] { return BackfillRandomly(); }));
  return log_.Timed("roll back and activate, 20 times", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(const SwitchTimes times,
                        MeasureSwitches(*client_, server_->address(), queries, {.older = old_generation_}));
    result_.activation_ms = times.activation_ms;
    result_.rollback_ms = times.rollback_ms;
    return absl::OkStatus();
  });
}

absl::Status Demo::CollectExamples() {
  GalleryQueries by_old = Ask(kGallery, old_generation_, old_), by_new = Ask(kGallery, new_generation_, new_);
  const std::vector<int64_t> few(queries_.begin(), queries_.begin() + std::min<size_t>(queries_.size(), 400));
  by_old.queries = by_new.queries = few;
  LC_ASSIGN_OR_RETURN(const Neighbours old_hits, NearestThroughSearch(*client_, by_old, kExampleNeighbours + 1));
  LC_ASSIGN_OR_RETURN(const Neighbours new_hits, NearestThroughSearch(*client_, by_new, kExampleNeighbours + 1));
  const auto picture = [&](int64_t i) { return EncodePng(data_.test, i); };
  const auto list = [&](int64_t query, const auto& hits) -> absl::StatusOr<std::vector<DemoNeighbour>> {
    std::vector<DemoNeighbour> neighbours;
    for (const auto& [id, distance] : hits) {
      if (id == query || static_cast<int>(neighbours.size()) == kExampleNeighbours) continue;
      DemoNeighbour& neighbour = neighbours.emplace_back();
      LC_ASSIGN_OR_RETURN(neighbour.png, picture(id));
      neighbour.class_name = data_.class_names[data_.test.labels[id]];
      neighbour.right = data_.test.labels[id] == data_.test.labels[query];
      neighbour.distance = distance;
    }
    return neighbours;
  };
  const size_t stride = std::max<size_t>(1, few.size() / 60);  // spread over the classes
  for (size_t i = 0; i < few.size() && static_cast<int>(result_.examples.size()) < kExamples; i += stride) {
    DemoExample example;
    LC_ASSIGN_OR_RETURN(example.by_old, list(few[i], old_hits[i]));
    LC_ASSIGN_OR_RETURN(example.by_new, list(few[i], new_hits[i]));
    const bool changed =
        example.by_old.empty() || example.by_new.empty() || example.by_old[0].right != example.by_new[0].right;
    if (!changed) continue;
    LC_ASSIGN_OR_RETURN(example.png, picture(few[i]));
    example.class_name = data_.class_names[data_.test.labels[few[i]]];
    result_.examples.push_back(std::move(example));
  }
  return absl::OkStatus();
}

absl::Status Demo::CollectUncertainty() {
  const Manifest& old_manifest = old_.encoder->manifest();
  const RetrievalSpace space{old_manifest.metric, old_manifest.curvature, old_manifest.dimension};
  LC_ASSIGN_OR_RETURN(const UncertaintyFigures figures,
                      EvaluateUncertainty(space, {new_.z, data_.test.labels, new_.encoder->manifest().clip_radius},
                                          {old_.z, data_.test.labels, old_manifest.clip_radius}, /*same_items=*/true));
  result_.auroc_pre_clip = figures.auroc_pre_clip;
  result_.auroc_clipped = figures.auroc_clipped;
  const Space old_space{Metric::kLorentz, old_manifest.dimension, old_manifest.curvature, old_manifest.clip_radius};
  for (int64_t i = 0; i < data_.test.size(); ++i) {
    const std::span<const float> z(old_.z.data() + i * old_manifest.dimension, old_manifest.dimension);
    (data_.test.labels[i] < result_.classes_old ? result_.uncertainty_seen : result_.uncertainty_unseen)
        .push_back(UncertaintyOf(old_space, z));
  }
  return absl::OkStatus();
}

void Demo::Summarise() {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();  // null in JSON
  const DemoRow &old_old = *result_.Row("old", "old"), &cross = *result_.Row("new", "old"),
                &base = *result_.Row("independent", "independent"), &own = *result_.Row("new", "new");
  result_.p_com_cmc1 = PCom(cross.cmc1, old_old.cmc1, base.cmc1).value_or(kUndefined);
  result_.p_com_map = PCom(cross.map, old_old.map, base.map).value_or(kUndefined);
  result_.p_up_cmc1 = PUp(own.cmc1, base.cmc1).value_or(kUndefined);
  result_.p_up_map = PUp(own.map, base.map).value_or(kUndefined);
  for (DemoAdapter& adapter : result_.adapters) {
    const DemoRow& adapted = *result_.Row(adapter.model + "+adapter", "old");
    adapter.p_com_cmc1 = PCom(adapted.cmc1, old_old.cmc1, base.cmc1).value_or(kUndefined);
    adapter.p_com_map = PCom(adapted.map, old_old.map, base.map).value_or(kUndefined);
    const DemoRow& alone = *result_.Row(adapter.model, adapter.model);
    adapter.p_up_cmc1 = PUp(alone.cmc1, base.cmc1).value_or(kUndefined);
    adapter.p_up_map = PUp(alone.map, base.map).value_or(kUndefined);
  }
  nlohmann::ordered_json config;
  config["lightcone"] = kVersion;
  config["compiler"] = __VERSION__;
  config["recipe"] = options_.recipe;
  for (const auto& [name, model] :
       {std::pair{"old", &old_}, {"independent", &independent_}, {"new", &new_}, {"lightcone", &lightcone_}}) {
    config["training"][name] = nlohmann::ordered_json::parse(ToJson(model->training.manifest), nullptr, false);
  }
  result_.config_json = config.dump(2);
  result_.total_seconds = log_.Seconds();
  result_.events = log_.events();
}

absl::StatusOr<DemoResult> Demo::Run() {
  LC_RETURN_IF_ERROR(Prepare());
  LC_RETURN_IF_ERROR(log_.Timed("start the server", [&] { return StartServer(); }));
  Dataset first_half = data_;
  first_half.train = SelectClasses(data_.train, result_.classes_old);
  first_half.test = SelectClasses(data_.test, result_.classes_old);
  first_half.class_names.resize(static_cast<size_t>(result_.classes_old));
  LC_RETURN_IF_ERROR(log_.Timed("train the old model on half of the classes", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(old_, TrainModel("old", "independent", first_half, ClipRadiusFor(0), ""));
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(log_.Timed("embed and upsert the gallery with it", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(old_.z, EmbedSplit(*old_.encoder, data_.test));
    LC_ASSIGN_OR_RETURN(old_generation_, MakeGallery(kGallery, old_));
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(log_.Timed("train an independent new model on all classes", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(independent_, TrainModel("independent", "independent", data_, ClipRadiusFor(1), ""));
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(log_.Timed("train one by method lightcone, for an adapter to follow", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(lightcone_, TrainModel("lightcone", "lightcone", data_, ClipRadiusFor(1), old_.folder));
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(log_.Timed("train a compatible new model on all classes (HBCT)", [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(new_, TrainModel("new", "hbct", data_, ClipRadiusFor(1), old_.folder));
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(
      log_.Timed("register, activate and query the new generation", [&] { return GoLive(new_.trained); }));
  LC_RETURN_IF_ERROR(Measure());
  LC_RETURN_IF_ERROR(log_.Timed("kill -9, restart, compare", [&] { return KillAndCompare(); }));
  LC_RETURN_IF_ERROR(log_.Timed("collect examples and uncertainty", [&]() -> absl::Status {
    LC_RETURN_IF_ERROR(CollectExamples());
    return CollectUncertainty();
  }));
  LC_RETURN_IF_ERROR(BackfillAndRollBack());
  Summarise();
  LC_RETURN_IF_ERROR(WriteFileAtomically(options_.folder + "/report.html", DemoHtml(result_)));
  std::fprintf(out_, "%s", DemoTable(result_).c_str());
  std::fprintf(out_, "\n  report: %s/report.html\n", options_.folder.c_str());
  if (options_.keep) {
    std::fprintf(out_,
                 "  the server goes on at %s (process %d); try:\n    lightcone -s %s collection get %s\n"
                 "    lightcone -s %s generation list %s\n",
                 server_->address().c_str(), server_->pid(), server_->address().c_str(), kGallery,
                 server_->address().c_str(), kGallery);
    server_->Release();
  } else {
    std::fprintf(out_,
                 "  next: lightcone demo --keep leaves the server running; --data cifar100:DIR, idx:DIR, npy:DIR or "
                 "folder:DIR takes your images, and text:DIR your texts\n");
  }
  return result_;
}

}  // namespace

absl::StatusOr<DemoResult> RunDemo(const DemoOptions& options, std::FILE* out) {
  if (options.data.starts_with("text:")) return RunTextDemo(options, out);
  for (const auto& [flag, given] :
       {std::pair("--old", !options.old_model.empty()), std::pair("--new", !options.new_model.empty()),
        std::pair("--pairs", options.pairs.has_value())}) {
    if (given) return InvalidField(flag, "given", StrCat("absent with --data ", options.data, ": it is for text:DIR"));
  }
  return Demo(options, out).Run();
}

}  // namespace lightcone::cli

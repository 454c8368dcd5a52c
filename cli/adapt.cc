// lightcone adapt: fits an adapter from pairs of embeddings, or from two models and a data set, shows what it gains, and
// puts it into a collection.
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/npy.h"
#include "base/status.h"
#include "cli/adapt_report.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/put_adapter.h"
#include "cli/table.h"
#include "models/encoder.h"
#include "trainer/adapt/evaluate_adapter.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/data/rng.h"
#include "trainer/data/split.h"

namespace lightcone::cli {
namespace {

struct AdaptFlags {
  std::string old_embeddings, new_embeddings, labels;
  std::string old_model, new_model, base_model, data = "glyphs";
  std::string metric = "lorentz", direction = "item", map = "residual-mlp", loss = "auto", out;
  std::string collection;  // empty: the adapter is put nowhere
  uint32_t from = 0, to = 0;
  double curvature = 1.0, old_clip = 1.0, new_clip = 1.2, test_share = 0.1;
  int width = AdaptOptions().width, rank = AdaptOptions().rank, steps = AdaptOptions().steps, views = 0;
  int bank = AdaptOptions().bank;
  int64_t pairs = 0;
  uint64_t seed = 1;
  std::vector<const CLI::Option*> of_embeddings, of_models;  // what only one of the two forms reads
};

struct Matrix {
  std::vector<float> values;
  int64_t rows = 0;
  int dimension = 0;
};

// What the pairs will come from: embeddings that were read, or models that will make them.
struct Sides {
  Matrix old_z, new_z;
  std::vector<int32_t> labels;                    // of the embeddings, or empty
  std::unique_ptr<Encoder> old_model, new_model;  // null: embeddings
  std::unique_ptr<Encoder> base_model;            // null: the new one
  Space old_space, new_space;
  std::string old_label = "old", new_label = "new";
};

// Everything that fitting and evaluation need, wherever it came from.
struct Inputs {
  ModelPairs pairs;
  ModelPairs test;            // without labels: no evaluation
  std::string not_evaluated;  // why, when there are none
  std::optional<RetrievalFigures> base;
};

absl::StatusOr<Matrix> ReadMatrix(const std::string& flag, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  if (array.shape.size() != 2 || array.dim(1) < 1 || array.dim(1) > kDimensionMax) {
    return InvalidField(flag, StrCat("of shape ", NpyShapeText(array.shape)),
                        StrCat("(rows, dimension) with a dimension of 1 .. ", kDimensionMax));
  }
  Matrix matrix;
  LC_ASSIGN_OR_RETURN(matrix.values, NpyFloats(array, path));
  matrix.rows = array.dim(0);
  matrix.dimension = static_cast<int>(array.dim(1));
  return matrix;
}

absl::StatusOr<std::vector<int32_t>> ReadLabels(const std::string& path, int64_t rows) {
  LC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  LC_ASSIGN_OR_RETURN(const std::vector<int64_t> values, NpyIntegers(array, path));
  if (static_cast<int64_t>(values.size()) != rows) {
    return InvalidField("--labels", StrCat(values.size(), " labels"), StrCat(rows, ", one a row of the embeddings"));
  }
  std::vector<int32_t> labels;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > std::numeric_limits<int32_t>::max()) {
      return InvalidField(StrCat("--labels[", i, "]"), StrCat(values[i]), "0 .. 2147483647");
    }
    labels.push_back(static_cast<int32_t>(values[i]));
  }
  return labels;
}

void AppendRow(const Matrix& from, size_t row, std::vector<float>& to) {
  const auto begin = from.values.begin() + static_cast<std::ptrdiff_t>(row * static_cast<size_t>(from.dimension));
  to.insert(to.end(), begin, begin + from.dimension);
}

// With labels, a random share of the rows is never fitted and shows what the adapter gains.
Inputs Share(const AdaptFlags& flags, const Sides& sides) {
  std::vector<size_t> order(static_cast<size_t>(sides.old_z.rows));
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Rng rng(MixSeed({flags.seed, 0x7e57u}));
  rng.Shuffle(&order);
  const double share = sides.labels.empty() ? 0 : flags.test_share;
  size_t tested = static_cast<size_t>(share * static_cast<double>(order.size()));
  if (tested < 2) tested = 0;  // one query has no neighbour
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(tested));
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(tested), order.end());
  Inputs inputs;
  for (size_t i = 0; i < order.size(); ++i) {
    ModelPairs& to = i < tested ? inputs.test : inputs.pairs;
    AppendRow(sides.old_z, order[i], to.old_z);
    AppendRow(sides.new_z, order[i], to.new_z);
    if (!sides.labels.empty()) to.labels.push_back(sides.labels[order[i]]);
  }
  if (tested == 0) {
    inputs.not_evaluated =
        sides.labels.empty() ? "no labels (--labels)" : "fewer than 2 rows kept for it (--test-share)";
  }
  return inputs;
}

absl::StatusOr<Sides> OpenEmbeddings(const AdaptFlags& flags) {
  if (flags.old_embeddings.empty()) return InvalidField("--old-embeddings", "absent", "a .npy file");
  if (flags.new_embeddings.empty()) return InvalidField("--new-embeddings", "absent", "a .npy file");
  if (!(flags.test_share >= 0 && flags.test_share <= 0.9)) {
    return InvalidField("--test-share", Number(flags.test_share), "0 .. 0.9");
  }
  LC_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(flags.metric));
  Sides sides;
  LC_ASSIGN_OR_RETURN(sides.old_z, ReadMatrix("--old-embeddings", flags.old_embeddings));
  LC_ASSIGN_OR_RETURN(sides.new_z, ReadMatrix("--new-embeddings", flags.new_embeddings));
  if (sides.new_z.rows != sides.old_z.rows) {
    return InvalidField("--new-embeddings", StrCat(sides.new_z.rows, " rows"),
                        StrCat(sides.old_z.rows, ", as --old-embeddings: row i of both is one item"));
  }
  if (!flags.labels.empty()) {
    LC_ASSIGN_OR_RETURN(sides.labels, ReadLabels(flags.labels, sides.old_z.rows));
  }
  sides.old_space = {metric, sides.old_z.dimension, flags.curvature, flags.old_clip};
  sides.new_space = {metric, sides.new_z.dimension, flags.curvature, flags.new_clip};
  return sides;
}

absl::StatusOr<Sides> OpenModels(const AdaptFlags& flags) {
  if (flags.old_model.empty()) return InvalidField("--old-model", "absent", "a folder with a trained model");
  if (flags.new_model.empty()) return InvalidField("--new-model", "absent", "a folder with a trained model");
  if (flags.views < 0 || flags.views > kViewsMax) {
    return InvalidField("--views", StrCat(flags.views), StrCat("0 .. ", kViewsMax));
  }
  if (flags.pairs < 0) return InvalidField("--pairs", StrCat(flags.pairs), "0 or more");
  Sides sides;
  LC_ASSIGN_OR_RETURN(sides.old_model, Encoder::LoadFolder(flags.old_model));
  LC_ASSIGN_OR_RETURN(sides.new_model, Encoder::LoadFolder(flags.new_model));
  LC_ASSIGN_OR_RETURN(sides.old_space, SpaceOf(sides.old_model->manifest()));
  LC_ASSIGN_OR_RETURN(sides.new_space, SpaceOf(sides.new_model->manifest()));
  if (!flags.base_model.empty()) {
    LC_ASSIGN_OR_RETURN(sides.base_model, Encoder::LoadFolder(flags.base_model));
  }
  sides.old_label = sides.old_model->manifest().name;
  sides.new_label = sides.new_model->manifest().name;
  return sides;
}

absl::StatusOr<RetrievalFigures> SelfFigures(const Encoder& encoder, const ImageSet& images) {
  LC_ASSIGN_OR_RETURN(const std::vector<float> z, EmbedSplit(encoder, images));
  const Manifest& manifest = encoder.manifest();
  const LabelledEmbeddings side{z, images.labels, manifest.clip_radius};
  return EvaluateRetrieval({manifest.metric, manifest.curvature, manifest.dimension}, side, side, /*same_items=*/true);
}

absl::StatusOr<Inputs> Embed(const AdaptFlags& flags, const Sides& sides) {
  LC_ASSIGN_OR_RETURN(const Dataset dataset, OpenDataset(flags.data, flags.seed));
  const Encoder &old_model = *sides.old_model, &new_model = *sides.new_model;
  Inputs inputs;
  const int64_t wanted = flags.pairs == 0 ? dataset.train.size() : flags.pairs;
  if (wanted > dataset.train.size()) {
    return InvalidField("--pairs", StrCat(wanted), StrCat("0 .. ", dataset.train.size(), ", the training images"));
  }
  const ImageSet images = DrawImages(dataset.train, wanted, MixSeed({flags.seed, 0x9a125u}));
  const int views = flags.views > 0 ? flags.views : ViewsFor(images.size());
  LC_ASSIGN_OR_RETURN(inputs.pairs,
                      EmbedPairs(old_model, new_model, images, dataset.augment, views, flags.seed));
  if (dataset.protocol.has_value()) {
    inputs.not_evaluated =
        StrCat(flags.data, " has a protocol of its own for queries and gallery, which `lightcone experiment` follows");
    return inputs;
  }
  if (dataset.test.size() < 2) {
    inputs.not_evaluated = "one test image has no neighbour";
    return inputs;
  }
  LC_ASSIGN_OR_RETURN(inputs.test,
                      EmbedPairs(old_model, new_model, dataset.test, AugmentKind::kNone, /*views=*/1, flags.seed));
  if (sides.base_model != nullptr) {
    LC_ASSIGN_OR_RETURN(inputs.base, SelfFigures(*sides.base_model, dataset.test));
  }
  return inputs;
}

absl::StatusOr<AdaptOptions> OptionsOf(const AdaptFlags& flags, const Sides& sides) {
  AdaptOptions options;
  LC_ASSIGN_OR_RETURN(options.direction, ParseAdapterDirection(flags.direction));
  LC_ASSIGN_OR_RETURN(options.kind, ParseAdapterKind(flags.map));
  const bool item = options.direction == AdapterDirection::kItem;
  options.source = item ? sides.old_space : sides.new_space;
  options.target = item ? sides.new_space : sides.old_space;
  options.from = item ? sides.old_label : sides.new_label;
  options.to = item ? sides.new_label : sides.old_label;
  if (sides.old_model != nullptr) {
    options.from_crc32c = (item ? sides.old_model : sides.new_model)->manifest().encoder_crc32c;
    options.to_crc32c = (item ? sides.new_model : sides.old_model)->manifest().encoder_crc32c;
  }
  options.loss = flags.loss;
  options.width = flags.width;
  options.rank = flags.rank;
  options.steps = flags.steps;
  options.bank = flags.bank;
  options.batch = std::min(options.batch, options.bank);
  if (sides.old_model == nullptr) options.pairs_max = flags.pairs;  // of models' images so many are embedded
  options.seed = flags.seed;
  LC_RETURN_IF_ERROR(options.Validate());
  return options;
}

absl::StatusOr<AdapterFile> FitShown(const Inputs& inputs, const AdaptOptions& options) {
  const bool item = options.direction == AdapterDirection::kItem;
  const ModelPairs& pairs = inputs.pairs;
  const EmbeddingPairs given{item ? pairs.old_z : pairs.new_z, item ? pairs.new_z : pairs.old_z, pairs.labels,
                             pairs.items};
  const StopOnInterrupt interrupt;
  absl::StatusOr<AdapterFile> file = absl::UnknownError("");
  {
    ProgressBar bar("fitting", options.steps, "steps");
    file = FitAdapter(
        given, options,
        [&bar](const AdaptProgress& p) {
          bar.Show(static_cast<double>(p.step) / static_cast<double>(p.steps), p.step);
        },
        interrupt.flag());
  }
  return file;
}

absl::Status CheckWhereTo(const AdaptFlags& flags) {
  if (flags.collection.empty()) {
    if (flags.from == 0 && flags.to == 0) return absl::OkStatus();
    return InvalidField("--collection", "absent", "the collection whose generations --from and --to are");
  }
  const bool item = flags.direction == "item";
  if (flags.from == 0) return InvalidField("--from", "absent", "the generation whose embeddings the adapter takes");
  if (flags.to != 0 && flags.to != flags.from && (flags.from < flags.to) == item) return absl::OkStatus();
  return InvalidField("--to", flags.to == 0 ? "absent" : StrCat(flags.to),
                      StrCat(item ? "a generation above " : "a generation below ", flags.from, ", as --direction ",
                             flags.direction, " carries embeddings"));
}

// What does not fit the two generations is refused by the server, which knows them.
absl::Status PutIt(Context& context, const AdaptFlags& flags) {
  const absl::Status put = PutAdapterFile(context, {flags.collection, flags.from, flags.to, ""}, flags.out).status();
  if (!put.ok()) return Annotate(put, StrCat("'", flags.out, "' is fitted; to put it into '", flags.collection, "'"));
  if (!context.json) {
    context.Print(StrCat("put into collection '", flags.collection, "', generation ", flags.from, " to ", flags.to, "\n"));
  }
  return absl::OkStatus();
}

absl::Status RunAdapt(Context& context, const AdaptFlags& flags) {
  // Wrong words are told before anything is read or embedded; numbers when the dimensions are known.
  LC_RETURN_IF_ERROR(ParseAdapterDirection(flags.direction).status());
  LC_RETURN_IF_ERROR(ParseAdapterKind(flags.map).status());
  LC_RETURN_IF_ERROR(ParseAdaptLoss(flags.loss, /*has_labels=*/true).status());
  if (flags.out.empty()) return InvalidField("--out", "absent", "the file for the adapter");
  LC_RETURN_IF_ERROR(CheckWhereTo(flags));
  const bool embeddings = !flags.old_embeddings.empty() || !flags.new_embeddings.empty();
  const bool models = !flags.old_model.empty() || !flags.new_model.empty();
  for (const CLI::Option* option : embeddings ? flags.of_models : flags.of_embeddings) {
    if (option->count() == 0) continue;
    if (!embeddings && !models) return InvalidField("--old-embeddings", "absent", "a .npy file");
    return InvalidField(
        option->get_name(), embeddings ? "together with embeddings" : "together with models",
        embeddings ? "only with --old-model and --new-model" : "only with --old-embeddings and --new-embeddings");
  }
  // Options are checked against the sides' dimensions before any image is embedded.
  LC_ASSIGN_OR_RETURN(const Sides sides, embeddings ? OpenEmbeddings(flags) : OpenModels(flags));
  LC_ASSIGN_OR_RETURN(const AdaptOptions options, OptionsOf(flags, sides));
  LC_ASSIGN_OR_RETURN(const Inputs inputs,
                      embeddings ? absl::StatusOr<Inputs>(Share(flags, sides)) : Embed(flags, sides));
  LC_ASSIGN_OR_RETURN(const AdapterFile file, FitShown(inputs, options));
  LC_RETURN_IF_ERROR(WriteAdapter(flags.out, file));
  std::optional<AdapterEvaluation> evaluation;
  if (inputs.test.labels.size() >= 2) {
    LC_ASSIGN_OR_RETURN(const Adapter adapter, Adapter::Make(file.spec));
    const AdapterTestSet test{inputs.test.old_z, inputs.test.new_z, inputs.test.labels, sides.old_space,
                              sides.new_space};
    LC_ASSIGN_OR_RETURN(evaluation, EvaluateAdapter(adapter, test, {.base = inputs.base, .seed = flags.seed}));
  }
  ShowAdapter(context, flags.out, file, evaluation, inputs.not_evaluated);
  return flags.collection.empty() ? absl::OkStatus() : PutIt(context, flags);
}

}  // namespace

void AddAdapt(CLI::App& root, Context& context) {
  auto flags = std::make_shared<AdaptFlags>();
  CLI::App* app = AddCommand(
      root, "adapt", "Fit an adapter between two models' embeddings, show what it gains, and put it into a collection if asked to");
  app->add_option("--old-embeddings", flags->old_embeddings, "Old model's embeddings before the clip (n, d), .npy");
  app->add_option("--new-embeddings", flags->new_embeddings, "New model's, of the same items, .npy");
  flags->of_embeddings = {
      app->add_option("--labels", flags->labels, "Class of each item, .npy; for loss sup and for the evaluation"),
      app->add_option("--metric", flags->metric, "Of --*-embeddings: lorentz or cosine")->capture_default_str(),
      app->add_option("--curvature", flags->curvature, "K of --*-embeddings; lorentz only")->capture_default_str(),
      app->add_option("--old-clip", flags->old_clip, "Clip radius of the old model; lorentz only")
          ->capture_default_str(),
      app->add_option("--new-clip", flags->new_clip, "Clip radius of the new model; lorentz only")
          ->capture_default_str(),
      app->add_option("--test-share", flags->test_share, "Share of labelled --*-embeddings kept for the evaluation")
          ->capture_default_str(),
  };
  flags->of_models = {
      app->add_option("--old-model", flags->old_model, "Folder of the old model, in place of embeddings"),
      app->add_option("--new-model", flags->new_model, "Folder of the new model"),
      app->add_option("--base-model", flags->base_model,
                      "Folder of the model that P_com and P_up refer to; default: new"),
      app->add_option("--data", flags->data, "Data set whose training images make the pairs, as in train")
          ->capture_default_str(),
      app->add_option("--views", flags->views, "Embeddings an image: one plain, the others of changed copies; 0: the more the fewer images")
          ->capture_default_str(),
  };
  app->add_option("--direction", flags->direction, "item (old items into the new space) or query (the reverse)")
      ->capture_default_str();
  app->add_option("--map", flags->map, "procrustes, affine, low-rank-affine, residual-mlp, kernel")->capture_default_str();
  app->add_option("--loss", flags->loss, "auto, or a sum of reg, rel, sup, contra, as in reg+0.5*sup")
      ->capture_default_str();
  app->add_option("--width", flags->width,
                  "Hidden units of residual-mlp (0: 1,024 for items, 512 for queries), centres of kernel (0: 4,096)")
      ->capture_default_str();
  app->add_option("--rank", flags->rank, "Rank of low-rank-affine")->capture_default_str();
  app->add_option("--steps", flags->steps, "Steps of the optimiser")->capture_default_str();
  app->add_option("--bank", flags->bank, "Items that each query of a step is compared with")->capture_default_str();
  app->add_option("--pairs", flags->pairs, "Items (with models: training images) to use, drawn at random; 0: all")
      ->capture_default_str();
  app->add_option("--seed", flags->seed,
                  "Of every random choice, the split of --data among them: give that of the training")
      ->capture_default_str();
  app->add_option("--out", flags->out, "File for the adapter");
  app->add_option("--collection", flags->collection, "Put it into this collection of the server, too");
  app->add_option("--from", flags->from, "With --collection: the generation whose embeddings it takes");
  app->add_option("--to", flags->to, "With --collection: the generation into whose space it carries them");
  app->callback([&context, flags] { context.Finish(RunAdapt(context, *flags)); });
}

}  // namespace lightcone::cli

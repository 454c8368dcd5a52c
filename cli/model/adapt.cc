// lightcone adapt: fits an adapter from pairs of embeddings, or from two models and a data set, shows what it gains,
// and puts it into a collection.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/npy.h"
#include "base/rng.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/commands/put_adapter.h"
#include "cli/interrupt.h"
#include "cli/model/adapt_report.h"
#include "cli/model/commands.h"
#include "cli/table.h"
#include "models/encoders/encoder.h"
#include "trainer/adapt/alignment.h"
#include "trainer/adapt/evaluate_adapter.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/data/split.h"

namespace lightcone::cli {
namespace {

struct AdaptFlags {
  std::string old_embeddings, new_embeddings, labels, items;
  std::string old_model, new_model, base_model, data = "glyphs";
  std::string metric = "lorentz", direction = "item", map = "auto", loss = "auto", out;
  std::string collection;  // empty: the adapter is put nowhere
  uint32_t from = 0, to = 0;
  double curvature = 1.0, old_clip = 1.0, new_clip = 1.2, test_share = 0.1;
  int width = AdaptOptions().width, rank = AdaptOptions().rank, steps = AdaptOptions().steps, views = 0;
  int bank = AdaptOptions().bank;
  int64_t pairs = 0;
  uint64_t seed = 1;
  bool unpaired = false;
  std::vector<const CLI::Option*> of_embeddings, of_models;  // flags that only one of the two forms reads
  const CLI::Option *rank_given = nullptr, *loss_given = nullptr, *test_share_given = nullptr;
};

struct Matrix {
  std::vector<float> values;
  int64_t rows = 0;
  int dimension = 0;
};

// What the pairs will come from: embeddings that were read, or models that will make them.
struct Sides {
  Matrix old_z, new_z;
  std::vector<int32_t> labels, items;             // labels and items of the embeddings; may be empty
  std::unique_ptr<Encoder> old_model, new_model;  // null: embeddings
  std::unique_ptr<Encoder> base_model;            // null: the new one
  Space old_space, new_space;
  std::string old_label = "old", new_label = "new";
};

// Everything that fitting and evaluation need, wherever it came from.
struct Inputs {
  ModelPairs pairs;
  ModelPairs test;                     // Pairs without labels are not evaluated.
  std::string not_evaluated;           // reason why there is no evaluation
  std::optional<MatchedRows> matched;  // figures of rows that were matched without pairs
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

// One number a row of the embeddings: its class, or its item.
absl::StatusOr<std::vector<int32_t>> ReadNumbers(const std::string& flag, const std::string& path, int64_t rows) {
  LC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  LC_ASSIGN_OR_RETURN(const std::vector<int64_t> values, NpyIntegers(array, path));
  if (static_cast<int64_t>(values.size()) != rows) {
    return InvalidField(flag, StrCat(values.size(), " ", flag.substr(2)),
                        StrCat(rows, ", one a row of the embeddings"));
  }
  std::vector<int32_t> numbers;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > std::numeric_limits<int32_t>::max()) {
      return InvalidField(StrCat(flag, "[", i, "]"), StrCat(values[i]), "0 .. 2147483647");
    }
    numbers.push_back(static_cast<int32_t>(values[i]));
  }
  return numbers;
}

std::span<const float> RowOf(const Matrix& matrix, size_t row) {
  const size_t d = static_cast<size_t>(matrix.dimension);
  return std::span<const float>(matrix.values).subspan(row * d, d);
}

// The first number or row that its space does not allow is named as it stands in the file.
absl::Status CheckRows(const char* flag, const Matrix& matrix, const Space& space) {
  for (size_t i = 0; i < static_cast<size_t>(matrix.rows); ++i) {
    const std::span<const float> row = RowOf(matrix, i);
    const double norm = NormOf(row);
    if (std::isfinite(norm) && norm <= kNormMax && (space.metric != Metric::kCosine || norm >= kCosineNormMin))
      continue;
    LC_RETURN_IF_ERROR(CheckVector(space, row, StrCat(flag, "[", i, "]")));
  }
  return absl::OkStatus();
}

void AppendRow(const Sides& sides, size_t row, ModelPairs& to) {
  const std::span<const float> old_z = RowOf(sides.old_z, row), new_z = RowOf(sides.new_z, row);
  to.old_z.insert(to.old_z.end(), old_z.begin(), old_z.end());
  to.new_z.insert(to.new_z.end(), new_z.begin(), new_z.end());
  if (!sides.labels.empty()) to.labels.push_back(sides.labels[row]);
  if (!sides.items.empty()) to.items.push_back(sides.items[row]);
}

// The rows of each item; without --items each row is one.
std::vector<std::vector<size_t>> RowsByItem(const Sides& sides) {
  std::map<int32_t, std::vector<size_t>> by_item;
  std::vector<std::vector<size_t>> items;
  for (size_t row = 0; row < static_cast<size_t>(sides.old_z.rows); ++row) {
    if (sides.items.empty()) {
      items.push_back({row});
    } else {
      by_item[sides.items[row]].push_back(row);
    }
  }
  for (auto& [item, rows] : by_item) items.push_back(std::move(rows));
  return items;
}

// Whether the rows to fit are enough. `kept`: rows that the evaluation has instead.
absl::Status CheckCounts(const AdaptFlags& flags, const Sides& sides, int64_t rows, int64_t items) {
  const int64_t kept = sides.old_z.rows - rows;
  const std::string note = kept == 0 ? "" : StrCat(" (", kept, " rows kept by --test-share)");
  if (rows < kAdaptPairsMin) {
    return InvalidField("--old-embeddings", StrCat(rows, " rows to fit", note), StrCat("at least ", kAdaptPairsMin));
  }
  if (flags.pairs != 0 && (flags.pairs < kAdaptPairsMin || flags.pairs > rows)) {
    return InvalidField("--pairs", StrCat(flags.pairs),
                        StrCat("0 (all), or ", kAdaptPairsMin, " .. ", rows, ", the rows to fit", note));
  }
  if (items >= kAdaptItemsMin) return absl::OkStatus();
  return InvalidField("--items", StrCat(items, " different items to fit", note), StrCat("at least ", kAdaptItemsMin));
}

// With labels, a random share of the items is never fitted and shows what the adapter gains. Of an item with several
// rows the first is tested: no query finds another view of itself.
absl::StatusOr<Inputs> Share(const AdaptFlags& flags, const Sides& sides) {
  LC_RETURN_IF_ERROR(CheckRows("--old-embeddings", sides.old_z, sides.old_space));
  LC_RETURN_IF_ERROR(CheckRows("--new-embeddings", sides.new_z, sides.new_space));
  std::vector<std::vector<size_t>> items = RowsByItem(sides);
  Rng rng(MixSeed({flags.seed, 0x7e57u}));
  rng.Shuffle(&items);
  const double share = sides.labels.empty() ? 0 : flags.test_share;
  size_t tested = static_cast<size_t>(share * static_cast<double>(items.size()));
  if (tested < 2) tested = 0;  // A single query has no neighbour.
  std::vector<size_t> test_rows, fit_rows;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i < tested) test_rows.push_back(items[i].front());
    if (i >= tested) fit_rows.insert(fit_rows.end(), items[i].begin(), items[i].end());
  }
  LC_RETURN_IF_ERROR(CheckCounts(flags, sides, std::ssize(fit_rows), static_cast<int64_t>(items.size() - tested)));
  std::sort(test_rows.begin(), test_rows.end());
  std::sort(fit_rows.begin(), fit_rows.end());
  Inputs inputs;
  for (const size_t row : test_rows) AppendRow(sides, row, inputs.test);
  for (const size_t row : fit_rows) AppendRow(sides, row, inputs.pairs);
  if (tested == 0) {
    inputs.not_evaluated =
        sides.labels.empty() ? "no labels (--labels)" : "fewer than 2 items kept for it (--test-share)";
  }
  return inputs;
}

// Pairs of rows that no item has in common, matched by what lies beside what.
absl::StatusOr<Inputs> Matched(const AdaptFlags& flags, const Sides& sides) {
  LC_RETURN_IF_ERROR(CheckRows("--old-embeddings", sides.old_z, sides.old_space));
  LC_RETURN_IF_ERROR(CheckRows("--new-embeddings", sides.new_z, sides.new_space));
  const StopOnInterrupt interrupt;
  absl::StatusOr<Alignment> aligned = absl::UnknownError("");
  {
    ProgressBar bar("matching", 0, "rounds");
    aligned = AlignUnpaired(
        sides.old_z.values, sides.old_space, sides.new_z.values, sides.new_space, {.seed = flags.seed},
        [&bar](const AlignProgress& p) {
          bar.Show(static_cast<double>(p.step) / static_cast<double>(p.steps), p.step);
        },
        interrupt.flag());
  }
  LC_RETURN_IF_ERROR(aligned.status());
  const int64_t matched = std::ssize(aligned->source);
  if (aligned->agreement < kAgreementMin || matched < kAdaptPairsMin) {
    return FailedPrecondition(StrCat("no common shape was found: two starts agree on ", Number(aligned->agreement),
                                     " of the nearest rows (allowed: ", Number(kAgreementMin), " or more), and ",
                                     matched, " rows were matched (allowed: ", kAdaptPairsMin,
                                     " or more); the rows are of other kinds, or the models too unlike"));
  }
  Inputs inputs;
  for (size_t i = 0; i < aligned->source.size(); ++i) {
    const std::span<const float> old_z = RowOf(sides.old_z, static_cast<size_t>(aligned->source[i]));
    const std::span<const float> new_z = RowOf(sides.new_z, static_cast<size_t>(aligned->target[i]));
    inputs.pairs.old_z.insert(inputs.pairs.old_z.end(), old_z.begin(), old_z.end());
    inputs.pairs.new_z.insert(inputs.pairs.new_z.end(), new_z.begin(), new_z.end());
  }
  inputs.not_evaluated = "no item has embeddings of both models (--unpaired)";
  inputs.matched = MatchedRows{matched, aligned->looked_at, aligned->agreement};
  return inputs;
}

absl::Status CheckUnpaired(const AdaptFlags& flags, const Sides& sides) {
  for (const auto& [flag, matrix] : {std::pair("--old-embeddings", &sides.old_z), {"--new-embeddings", &sides.new_z}}) {
    if (matrix->rows >= kAlignRowsMin) continue;
    return InvalidField(flag, StrCat(matrix->rows, " rows"), StrCat("at least ", kAlignRowsMin, " with --unpaired"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Sides> OpenEmbeddings(const AdaptFlags& flags) {
  if (flags.old_embeddings.empty()) return InvalidField("--old-embeddings", "absent", "a .npy file");
  if (flags.new_embeddings.empty()) return InvalidField("--new-embeddings", "absent", "a .npy file");
  if (!(flags.test_share >= 0 && flags.test_share <= 0.9)) {
    return InvalidField("--test-share", Number(flags.test_share), "0 .. 0.9");
  }
  if (flags.unpaired) {
    if (!flags.labels.empty()) return InvalidField("--labels", "given", "nothing with --unpaired");
    if (!flags.items.empty()) return InvalidField("--items", "given", "nothing with --unpaired");
    if (flags.pairs != 0) return InvalidField("--pairs", StrCat(flags.pairs), "0 with --unpaired: matches are used");
    if (flags.test_share_given->count() > 0) {
      return InvalidField("--test-share", Number(flags.test_share), "nothing with --unpaired: no item is tested");
    }
    LC_ASSIGN_OR_RETURN(const AdaptLoss loss, ParseAdaptLoss(flags.loss, /*has_labels=*/false));
    if (loss.needs_labels()) {
      return InvalidField("--loss", flags.loss, "a loss without sup with --unpaired: matches have no labels");
    }
  }
  LC_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(flags.metric));
  if (flags.unpaired && metric != Metric::kCosine) {
    return InvalidField("--metric", flags.metric, "cosine with --unpaired: only directions are matched");
  }
  Sides sides;
  LC_ASSIGN_OR_RETURN(sides.old_z, ReadMatrix("--old-embeddings", flags.old_embeddings));
  LC_ASSIGN_OR_RETURN(sides.new_z, ReadMatrix("--new-embeddings", flags.new_embeddings));
  if (!flags.unpaired && sides.new_z.rows != sides.old_z.rows) {
    return InvalidField("--new-embeddings", StrCat(sides.new_z.rows, " rows"),
                        StrCat(sides.old_z.rows, ", as --old-embeddings: row i of both is one item"));
  }
  if (!flags.labels.empty()) {
    LC_ASSIGN_OR_RETURN(sides.labels, ReadNumbers("--labels", flags.labels, sides.old_z.rows));
  }
  if (!flags.items.empty()) {
    LC_ASSIGN_OR_RETURN(sides.items, ReadNumbers("--items", flags.items, sides.old_z.rows));
  }
  sides.old_space = {metric, sides.old_z.dimension, flags.curvature, flags.old_clip};
  sides.new_space = {metric, sides.new_z.dimension, flags.curvature, flags.new_clip};
  if (flags.unpaired) LC_RETURN_IF_ERROR(CheckUnpaired(flags, sides));
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
  const int views = flags.views > 0 ? flags.views : ViewsFor(wanted);
  const int64_t least = std::max<int64_t>(kAdaptItemsMin, (kAdaptPairsMin + views - 1) / views);
  if (dataset.train.size() < least) {
    return InvalidField("--data", StrCat(flags.data, " with ", dataset.train.size(), " training images"),
                        StrCat("at least ", least));
  }
  if (wanted < least) {
    return InvalidField("--pairs", StrCat(wanted),
                        StrCat("0 (all), or ", least, " .. ", dataset.train.size(), ", the training images"));
  }
  AdaptOptions map;
  LC_RETURN_IF_ERROR(ParseMap(flags.map, map));
  LC_RETURN_IF_ERROR(CheckCentres("--width", map.kind, flags.width, FittedAtMost(wanted * views, map.held_out)));
  const ImageSet images = DrawImages(dataset.train, wanted, MixSeed({flags.seed, 0x9a125u}));
  LC_ASSIGN_OR_RETURN(inputs.pairs, EmbedPairs(old_model, new_model, images, dataset.augment, views, flags.seed));
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

// What was given for a map that has no such thing.
absl::Status CheckMap(const AdaptFlags& flags, const AdaptOptions& map) {
  const auto check = [&](const char* option, bool given, const std::string& value, const char* without) {
    const std::string_view read_by = map.choose ? MapsThatRead(option) : MapsThatRead(option, map.kind);
    if (!given || read_by.empty()) return absl::OkStatus();
    return InvalidField(StrCat("--", option), value,
                        StrCat(without, " with --map ", flags.map, ": it is for ", read_by));
  };
  LC_RETURN_IF_ERROR(check("width", flags.width != 0, StrCat(flags.width), "0"));
  LC_RETURN_IF_ERROR(check("rank", flags.rank_given->count() > 0, StrCat(flags.rank), "nothing"));
  return check("loss", flags.loss_given->count() > 0 && flags.loss != "auto", flags.loss, "auto");
}

// Options and pairs name fields of their own. Those of embeddings come from these flags; what a model brings is named
// by its manifest's fields.
absl::Status InFlags(const absl::Status& status, const AdaptFlags& flags, bool embeddings) {
  const FieldErrorParts parts = PartsOf(status);
  if (!embeddings || parts.field.empty()) return status;
  const bool old_side = parts.field.starts_with("source.") == (flags.direction == "item");
  const auto named = [&](std::string_view flag, const std::string& value) {
    return FieldError(status.code(), flag, value, parts.allowed);
  };
  if (parts.field.ends_with(".clip_radius")) return named(old_side ? "--old-clip" : "--new-clip", parts.value);
  if (parts.field.ends_with(".curvature")) return named("--curvature", parts.value);
  if (parts.field.ends_with(".metric")) return named("--metric", parts.value);
  if (parts.field.ends_with(".dimension")) {
    return named(old_side ? "--old-embeddings" : "--new-embeddings", StrCat("of dimension ", parts.value));
  }
  if (parts.field == "pairs.items") return named("--items", parts.value);
  return parts.field == "pairs.labels" ? named("--labels", parts.value) : status;
}

absl::StatusOr<AdaptOptions> OptionsOf(const AdaptFlags& flags, const Sides& sides) {
  AdaptOptions options;
  LC_ASSIGN_OR_RETURN(options.direction, ParseAdapterDirection(flags.direction));
  LC_RETURN_IF_ERROR(ParseMap(flags.map, options));
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
  if (flags.bank < 2) return InvalidField("--bank", StrCat(flags.bank), "2 .. 65536");
  options.batch = std::min(options.batch, options.bank);
  options.seed = flags.seed;
  LC_RETURN_IF_ERROR(InFlags(options.Validate(), flags, sides.old_model == nullptr));
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
    context.Print(
        StrCat("put into collection '", flags.collection, "', generation ", flags.from, " to ", flags.to, "\n"));
  }
  return absl::OkStatus();
}

absl::Status RunAdapt(Context& context, const AdaptFlags& flags) {
  // Wrong words are told before anything is read or embedded; numbers when the dimensions are known.
  LC_RETURN_IF_ERROR(ParseAdapterDirection(flags.direction).status());
  AdaptOptions map;
  LC_RETURN_IF_ERROR(ParseMap(flags.map, map));
  LC_RETURN_IF_ERROR(ParseAdaptLoss(flags.loss, /*has_labels=*/true).status());
  LC_RETURN_IF_ERROR(CheckMap(flags, map));
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
  LC_ASSIGN_OR_RETURN(AdaptOptions options, OptionsOf(flags, sides));
  LC_ASSIGN_OR_RETURN(const Inputs inputs, flags.unpaired ? Matched(flags, sides)
                                           : embeddings   ? Share(flags, sides)
                                                          : Embed(flags, sides));
  if (embeddings) options.pairs_max = flags.pairs;  // --pairs already bounded the embedded images of models.
  absl::StatusOr<AdapterFile> fitted = FitShown(inputs, options);
  LC_RETURN_IF_ERROR(InFlags(fitted.status(), flags, embeddings));
  fitted->fit.matched = flags.unpaired;
  const AdapterFile& file = *fitted;
  LC_RETURN_IF_ERROR(WriteAdapter(flags.out, file));
  std::optional<AdapterEvaluation> evaluation;
  if (inputs.test.labels.size() >= 2) {
    LC_ASSIGN_OR_RETURN(const Adapter adapter, Adapter::Make(file.spec));
    const AdapterTestSet test{inputs.test.old_z, inputs.test.new_z, inputs.test.labels, sides.old_space,
                              sides.new_space};
    LC_ASSIGN_OR_RETURN(evaluation, EvaluateAdapter(adapter, test, {.base = inputs.base, .seed = flags.seed}));
  }
  ShowAdapter(context, flags.out, file, evaluation, inputs.not_evaluated, inputs.matched);
  return flags.collection.empty() ? absl::OkStatus() : PutIt(context, flags);
}

}  // namespace

void AddAdapt(CLI::App& root, Context& context) {
  auto flags = std::make_shared<AdaptFlags>();
  CLI::App* app = AddHeldCommand(root, "adapt");
  app->add_option("--old-embeddings", flags->old_embeddings, "Old model's embeddings before the clip (n, d), .npy");
  app->add_option("--new-embeddings", flags->new_embeddings,
                  "New model's embeddings of the same items, .npy; with --unpaired of other items");
  CLI::Option* const test_share =
      app->add_option("--test-share", flags->test_share, "Share of labelled items kept for the evaluation")
          ->capture_default_str();
  flags->test_share_given = test_share;
  flags->of_embeddings = {
      app->add_option("--labels", flags->labels, "Class of each row, .npy; for loss sup and for the evaluation"),
      app->add_option("--items", flags->items,
                      "Item of each row, .npy, where an item has several (augmented views); default: each row its own"),
      app->add_option("--metric", flags->metric, "Metric of the embeddings given as files: lorentz or cosine")
          ->capture_default_str(),
      app->add_option("--curvature", flags->curvature, "K of the embeddings given as files; lorentz only")
          ->capture_default_str(),
      app->add_option("--old-clip", flags->old_clip, "Clip radius of the old model; lorentz only")
          ->capture_default_str(),
      app->add_option("--new-clip", flags->new_clip, "Clip radius of the new model; lorentz only")
          ->capture_default_str(),
      test_share,
      app->add_flag("--unpaired", flags->unpaired,
                    "Match rows of the two files that are of other items, for where no item can be embedded by both "
                    "models; cosine only"),
  };
  flags->of_models = {
      app->add_option("--old-model", flags->old_model, "Folder of the old model, in place of embeddings"),
      app->add_option("--new-model", flags->new_model, "Folder of the new model"),
      app->add_option("--base-model", flags->base_model,
                      "Folder of the model that P_com and P_up refer to; default: new"),
      app->add_option("--data", flags->data, "Data set whose training images make the pairs, as in train")
          ->capture_default_str(),
      app->add_option(
             "--views", flags->views,
             "Number of embeddings of an image: one plain, the others of changed copies; 0: more for fewer images")
          ->capture_default_str(),
  };
  app->add_option("--direction", flags->direction,
                  "Direction of the adapter: item (old items into the new space) or query (the reverse)")
      ->capture_default_str();
  app->add_option("--map", flags->map,
                  "Kind of the adapter: auto (the best on held-out pairs), procrustes, affine, low-rank-affine, "
                  "residual-mlp or kernel")
      ->capture_default_str();
  flags->loss_given = app->add_option("--loss", flags->loss,
                                      "Loss of the fit: auto, or a sum of reg, rel, sup and contra such as reg+0.5*sup")
                          ->capture_default_str();
  app->add_option("--width", flags->width,
                  "Hidden units of residual-mlp (0: 1,024 for items, 512 for queries), centres of kernel (0: 4,096)")
      ->capture_default_str();
  flags->rank_given = app->add_option("--rank", flags->rank, "Rank of low-rank-affine")->capture_default_str();
  app->add_option("--steps", flags->steps, "Steps of the optimiser")->capture_default_str();
  app->add_option("--bank", flags->bank, "Items that each query of a step is compared with")->capture_default_str();
  app->add_option("--pairs", flags->pairs,
                  "Number of rows (with models: training images) to use, drawn at random; 0: all")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of every random choice and of the split of --data: give the training's")
      ->capture_default_str();
  app->add_option("--out", flags->out, "File to write the adapter to");
  app->add_option("--collection", flags->collection, "Collection of the server to put the adapter into");
  app->add_option("--from", flags->from, "Generation whose embeddings the adapter takes, with --collection");
  app->add_option("--to", flags->to, "Generation into whose space the adapter carries them, with --collection");
  app->callback([&context, flags] { context.Finish(RunAdapt(context, *flags)); });
}

}  // namespace lightcone::cli

#include "research/experiment/measure.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/files.h"
#include "base/sealed.h"
#include "base/status.h"
#include "geometry/adapter.h"
#include "models/adapter_file.h"
#include "research/experiment/cache.h"
#include "research/experiment/row_adapter.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/adapt/options.h"
#include "trainer/data/image_source.h"
#include "trainer/evaluate_faces.h"

namespace lightcone {
namespace {

// As the key of a cached adapter has it: by what "auto" stands for, so that another meaning is another key. Closed
// forms have no loss.
std::string LossOf(const RecipeAdapter& recipe) {
  const bool closed =
      recipe.map == AdapterKindName(AdapterKind::kKernel) || recipe.map == AdapterKindName(AdapterKind::kProcrustes);
  return recipe.loss == "auto" && !closed ? kAutoLossLabelled : recipe.loss;
}

int64_t WidthOf(const RecipeAdapter& recipe) {
  if (recipe.width > 0) return recipe.width;
  return WidthFor(ParseAdapterKind(recipe.map).value(), ParseAdapterDirection(recipe.direction).value());
}

using nlohmann::ordered_json;

std::string Hex(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

std::vector<double> Confusion(const Dataset& whole, const std::vector<int64_t>& nearest) {
  const int64_t classes = whole.classes(), side = std::min<int64_t>(classes, kConfusionSideMax);
  std::vector<double> cells(static_cast<size_t>(side * side), 0.0), rows(static_cast<size_t>(side), 0.0);
  const auto bin = [&](int32_t label) { return label * side / classes; };
  for (size_t q = 0; q < nearest.size(); ++q) {
    const int64_t row = bin(whole.test.labels[q]);
    cells[static_cast<size_t>(row * side + bin(whole.test.labels[static_cast<size_t>(nearest[q])]))] += 1;
    rows[static_cast<size_t>(row)] += 1;
  }
  for (size_t i = 0; i < cells.size(); ++i) cells[i] /= std::max(1.0, rows[i / static_cast<size_t>(side)]);
  return cells;
}

ordered_json JsonOf(const PairMeasure& m) {
  const RetrievalFigures& f = m.figures;
  return {{"cmc1", f.cmc1},
          {"cmc5", f.cmc5},
          {"map", f.map},
          {"queries", f.queries},
          {"confusion", m.confusion},
          {"queries_skipped", f.queries_skipped},
          {"norms", m.norms},
          {"curvature", m.curvature},
          {"tar", m.tar},
          {"clip_radius", m.clip_radius}};
}

PairMeasure MeasureOf(const ordered_json& json) {
  PairMeasure m;
  m.figures = {json.value("cmc1", 0.0), json.value("cmc5", 0.0), json.value("map", 0.0),
               json.value("queries", int64_t{0}), json.value("queries_skipped", int64_t{0})};
  m.confusion = json.value("confusion", std::vector<double>());
  m.norms = json.value("norms", std::vector<double>());
  m.tar = json.value("tar", 0.0);
  m.curvature = json.value("curvature", 1.0);
  m.clip_radius = json.value("clip_radius", 1.0);
  return m;
}

// Pixels, labels, and the protocol where the set has one.
uint32_t TestChecksum(const Dataset& whole) {
  uint32_t checksum = PixelChecksum(whole.test);
  const auto add = [&](const auto& values) {
    checksum = Crc32c({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])}, checksum);
  };
  add(whole.test.labels);
  if (whole.protocol.has_value()) {
    add(whole.protocol->queries);
    add(whole.protocol->gallery);
    add(whole.protocol->cameras);
  }
  return checksum;
}

}  // namespace

ordered_json FigureKey(ordered_json key, int version) {
  if (version > 1) key["measure"] = version;
  return key;
}

std::vector<uint8_t> KnownItems(const Dataset& whole, const Dataset& trained_on) {
  const std::set<std::string> names(trained_on.class_names.begin(), trained_on.class_names.end());
  std::vector<uint8_t> known;
  for (const int32_t label : whole.test.labels) {
    known.push_back(names.contains(whole.class_names[static_cast<size_t>(label)]));
  }
  return known;
}

Measurer::Measurer(std::string folder, const ExperimentPlan& plan, const Dataset& whole, const ModelCache& cache,
                   double far, const std::atomic<bool>* stop)
    : folder_(std::move(folder)),
      plan_(plan),
      whole_(whole),
      cache_(cache),
      far_(far),
      stop_(stop),
      test_crc32c_(TestChecksum(whole)) {}

absl::StatusOr<const Manifest*> Measurer::ManifestOf(int index) {
  if (const auto found = manifests_.find(index); found != manifests_.end()) return &found->second;
  LC_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(cache_.FolderOf(model(index))));
  return &manifests_.emplace(index, std::move(manifest)).first->second;
}

absl::StatusOr<Measurer::Side> Measurer::Embedded(int index) {
  LC_ASSIGN_OR_RETURN(const Manifest* const manifest, ManifestOf(index));
  auto found = embeddings_.find(index);
  if (found == embeddings_.end()) {
    LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> encoder,
                        Encoder::LoadFolder(cache_.FolderOf(model(index)), {.device = model(index).config.device}));
    LC_ASSIGN_OR_RETURN(std::vector<float> z, EmbedSplit(*encoder, whole_.test));
    found = embeddings_.emplace(index, std::move(z)).first;
  }
  return Side{*manifest, found->second};
}

absl::StatusOr<std::string> Measurer::AdapterFor(int query, int gallery, const RecipeAdapter& recipe) {
  LC_ASSIGN_OR_RETURN(const Manifest* const fresh, ManifestOf(query));
  LC_ASSIGN_OR_RETURN(const Manifest* const old, ManifestOf(gallery));
  LC_ASSIGN_OR_RETURN(const AdapterKind kind, ParseAdapterKind(recipe.map));
  const PlannedModel& trained = model(query);
  const ordered_json key = {{"format", kExperimentFormat},
                            {"new", trained.id},
                            {"old", model(gallery).id},
                            {"new_crc32c", fresh->encoder_crc32c},
                            {"old_crc32c", old->encoder_crc32c},
                            {"direction", recipe.direction},
                            {"map", recipe.map},
                            {"loss", LossOf(recipe)},
                            {"pairs", recipe.pairs},
                            {"views", ViewsOf(recipe, plan_.steps[static_cast<size_t>(trained.step)].dataset.train)},
                            {"width", WidthOf(recipe)},
                            {"rank", recipe.rank},
                            {"steps", recipe.steps},
                            {"fit", AdaptFitVersion(kind)}};
  const std::string path =
      StrCat(folder_, "/adapters/", trained.id, "--", model(gallery).id, "--", Hex(Crc32c(key.dump())));
  const absl::StatusOr<ordered_json> seal = ReadSealed(path + ".json");
  if (seal.ok() && seal->value("key", ordered_json()) == key) {
    const absl::StatusOr<std::string> kept = ReadFile(path + ".adapter");
    if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
    if (kept.ok()) {
      if (Crc32c(*kept) == seal->value("crc32c", uint32_t{0})) return path + ".adapter";
      return Removable(DataLoss(StrCat("'", path, ".adapter' is damaged: its checksum is another one")));
    }  // missing: fitted again
  }
  if (!seal.ok() && !absl::IsNotFound(seal.status())) return Removable(seal.status());

  const Dataset& trained_on = plan_.steps[static_cast<size_t>(trained.step)].dataset;
  LC_ASSIGN_OR_RETURN(
      const AdapterFile file,
      FitRowAdapter(recipe, {model(gallery).id, cache_.FolderOf(model(gallery)), *old, trained.config.device},
                    {trained.id, cache_.FolderOf(trained), *fresh, trained.config.device}, trained_on,
                    AugmentOf(trained.config, trained_on), plan_.seed, stop_));
  LC_ASSIGN_OR_RETURN(const std::string bytes, EncodeAdapter(file));
  LC_RETURN_IF_ERROR(MakeFolders(folder_ + "/adapters"));
  LC_RETURN_IF_ERROR(WriteFileAtomically(path + ".adapter", bytes));
  LC_RETURN_IF_ERROR(WriteSealed(path + ".json", {{"key", key}, {"crc32c", Crc32c(bytes)}}));
  return path + ".adapter";
}

absl::StatusOr<std::optional<PairMeasure>> Measurer::Compute(int query, int gallery, const std::string& adapter_path) {
  LC_ASSIGN_OR_RETURN(Side fresh, Embedded(query));
  LC_ASSIGN_OR_RETURN(Side old, Embedded(gallery));
  LC_ASSIGN_OR_RETURN(Space query_space, SpaceOf(fresh.manifest));
  LC_ASSIGN_OR_RETURN(Space item_space, SpaceOf(old.manifest));
  if (!adapter_path.empty()) {
    LC_ASSIGN_OR_RETURN(const AdapterFile file, ReadAdapter(adapter_path));
    LC_ASSIGN_OR_RETURN(const Adapter adapter, Adapter::Make(file.spec));
    const bool item = adapter.direction() == AdapterDirection::kItem;
    std::vector<float>& side = item ? old.z : fresh.z;
    std::vector<float> carried(whole_.test.labels.size() * static_cast<size_t>(adapter.output_dimension()));
    adapter.Apply(side, carried);
    side = std::move(carried);
    (item ? item_space : query_space) = item ? query_space : item_space;
  }
  if (query_space.metric != item_space.metric) return std::nullopt;
  if (query_space.dimension != item_space.dimension) {
    // Each update appends its numbers: what compares with the last generation begins with what compares with those
    // before.
    if (fresh.manifest.compatible_prefix < item_space.dimension) return std::nullopt;
    fresh.z = FirstNumbers(fresh.z, query_space.dimension, item_space.dimension);
    query_space.dimension = item_space.dimension;
  }
  item_space.curvature = query_space.curvature;  // curvatures differ where the newer model learnt K
  PairMeasure m;
  const RetrievalSpace space = {std::string(MetricName(query_space.metric)), query_space.curvature,
                                query_space.dimension};
  const std::vector<int32_t>& labels = whole_.test.labels;
  LC_ASSIGN_OR_RETURN(
      m.figures, EvaluateTestSet(space, whole_, {fresh.z, query_space.clip_radius}, {old.z, item_space.clip_radius}));
  if (far_ > 0) {
    LC_ASSIGN_OR_RETURN(const VerificationFigures faces,
                        EvaluateAllPairs(space, {fresh.z, labels, query_space.clip_radius},
                                         {old.z, labels, item_space.clip_radius}, /*same_items=*/true, {&far_, 1}));
    m.tar = faces.points[0].tar;
  }
  // A vector that has no place in the space (0 under cosine) costs the plot, not the figures.
  const absl::StatusOr<std::vector<int64_t>> nearest = NearestItems(query_space, item_space, fresh.z, old.z);
  if (nearest.ok()) m.confusion = Confusion(whole_, *nearest);
  m.curvature = query_space.curvature;
  m.clip_radius = query_space.clip_radius;
  if (query == gallery && query_space.metric == Metric::kLorentz) {
    const size_t d = static_cast<size_t>(query_space.dimension);
    for (size_t i = 0; i < labels.size(); ++i) m.norms.push_back(NormOf({fresh.z.data() + i * d, d}));
  }
  return m;
}

absl::StatusOr<std::optional<PairMeasure>> Measurer::Measure(int query, int gallery, const RecipeAdapter* adapter) {
  LC_ASSIGN_OR_RETURN(const Manifest* const fresh, ManifestOf(query));
  LC_ASSIGN_OR_RETURN(const Manifest* const old, ManifestOf(gallery));
  std::string adapter_path;
  uint32_t adapter_crc32c = 0;
  if (adapter != nullptr && query != gallery) {
    LC_ASSIGN_OR_RETURN(adapter_path, AdapterFor(query, gallery, *adapter));
    LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(adapter_path));
    adapter_crc32c = Crc32c(bytes);
  }
  const ordered_json key = FigureKey({{"format", kExperimentFormat},
                                      {"query", model(query).id},
                                      {"gallery", model(gallery).id},
                                      {"query_crc32c", fresh->encoder_crc32c},
                                      {"gallery_crc32c", old->encoder_crc32c},
                                      {"adapter_crc32c", adapter_crc32c},
                                      {"far", far_},
                                      {"test_images", whole_.test.size()},
                                      {"test_classes", whole_.classes()},
                                      {"test_crc32c", test_crc32c_}},
                                     kMeasureVersion);
  const std::string path =
      StrCat(folder_, "/figures/", model(query).id, "--", model(gallery).id, "--", Hex(Crc32c(key.dump())), ".json");
  const absl::StatusOr<ordered_json> kept = ReadSealed(path);
  if (kept.ok() && kept->value("key", ordered_json()) == key) {
    if (!kept->contains("measure")) return std::nullopt;
    return MeasureOf((*kept)["measure"]);
  }
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return Removable(kept.status());
  LC_ASSIGN_OR_RETURN(const std::optional<PairMeasure> measured, Compute(query, gallery, adapter_path));
  ordered_json content = {{"key", key}};
  if (measured.has_value()) content["measure"] = JsonOf(*measured);
  LC_RETURN_IF_ERROR(MakeFolders(folder_ + "/figures"));
  LC_RETURN_IF_ERROR(WriteSealed(path, content));
  return measured;
}

}  // namespace lightcone

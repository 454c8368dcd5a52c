#include "research/experiment/pair_study.h"

#include <memory>
#include <optional>
#include <vector>

#include "base/files.h"
#include "base/sealed.h"
#include "base/status.h"
#include "models/encoders/encoder.h"
#include "research/experiment/cache.h"
#include "research/uncertainty/head_logits.h"
#include "trainer/adapt/model_pairs.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

// Raised when the same models give other figures than before: kept ones are old.
constexpr int kStudyVersion = 3;

ordered_json JsonOf(const UncertaintyStudy& study) {
  ordered_json random = ordered_json::array(), predictors = ordered_json::array();
  for (const BackfillCurve& curve : study.random) random.push_back(CurveJson(curve));
  for (const PredictorOutcome& p : study.predictors) {
    predictors.push_back({{"auroc", p.auroc.has_value() ? ordered_json(*p.auroc) : ordered_json(nullptr)},
                          {"curve", CurveJson(p.curve)}});
  }
  return {{"items", study.items},        {"items_wrong", study.items_wrong},  {"items_left_out", study.items_left_out},
          {"random", std::move(random)}, {"oracle", CurveJson(study.oracle)}, {"predictors", std::move(predictors)}};
}

// Throws nlohmann's exceptions where the file is not what JsonOf and CurveJson wrote.
BackfillCurve CurveOf(const ordered_json& json) {
  return {json.at("cmc1").get<std::vector<double>>(), json.at("map").get<std::vector<double>>()};
}

UncertaintyStudy StudyOf(const ordered_json& json) {
  UncertaintyStudy study;
  study.items = json.at("items").get<int64_t>();
  study.items_wrong = json.at("items_wrong").get<int64_t>();
  study.items_left_out = json.at("items_left_out").get<int64_t>();
  for (const ordered_json& curve : json.at("random")) study.random.push_back(CurveOf(curve));
  study.oracle = CurveOf(json.at("oracle"));
  for (const ordered_json& p : json.at("predictors")) {
    const ordered_json& auroc = p.at("auroc");
    study.predictors.push_back(
        {auroc.is_null() ? std::nullopt : std::optional<double>(auroc.get<double>()), CurveOf(p.at("curve"))});
  }
  return study;
}

bool Whole(const UncertaintyStudy& study) {
  const auto whole = [](const BackfillCurve& c) {
    return c.cmc1.size() == kBackfillSteps + 1 && c.map.size() == kBackfillSteps + 1;
  };
  bool all =
      study.random.size() == kRandomOrders && whole(study.oracle) && study.predictors.size() == PredictorList().size();
  for (const BackfillCurve& curve : study.random) all = all && whole(curve);
  for (const PredictorOutcome& p : study.predictors) all = all && whole(p.curve);
  return all;
}

// What WriteSealed kept under the same key.
absl::StatusOr<UncertaintyStudy> Kept(const ordered_json& content, const std::string& path) {
  try {
    UncertaintyStudy study = StudyOf(content.at("study"));
    if (Whole(study)) return study;
  } catch (const nlohmann::json::exception&) {
  }
  return Removable(DataLoss(StrCat("'", path, "' holds no study of ", PredictorList().size(), " predictors")));
}

ordered_json KeyOf(const PlannedModel& old, const PlannedModel& next, uint32_t old_crc32c, uint32_t next_crc32c,
                   uint32_t test_crc32c) {
  ordered_json names = ordered_json::array();
  for (const PredictorInfo& info : PredictorList()) names.push_back(info.name);
  return {{"format", kExperimentFormat},
          {"study", kStudyVersion},
          {"predictors", std::move(names)},
          {"old", old.id},
          {"new", next.id},
          {"old_crc32c", old_crc32c},
          {"new_crc32c", next_crc32c},
          {"test_crc32c", test_crc32c}};
}

}  // namespace

ordered_json CurveJson(const BackfillCurve& curve) { return {{"cmc1", curve.cmc1}, {"map", curve.map}}; }

absl::Status CheckStudied(const Dataset& whole) {
  if (whole.protocol.has_value()) {
    return InvalidField("uncertainty", "set", "nothing: the data set has queries and a gallery of its own");
  }
  if (whole.test.size() < 2) {
    return InvalidField("uncertainty", StrCat("set, with ", whole.test.size(), " test images"), "at least 2");
  }
  return absl::OkStatus();
}

absl::StatusOr<UncertaintyStudy> StudyRow(const std::string& folder, const ExperimentPlan& plan, const Dataset& whole,
                                          const ModelCache& cache, Measurer& measurer, size_t row,
                                          const std::atomic<bool>* stop) {
  const std::vector<int>& chain = plan.rows[row].models;
  const PlannedModel& old = plan.models[static_cast<size_t>(chain.front())];
  const PlannedModel& next = plan.models[static_cast<size_t>(chain.back())];
  LC_ASSIGN_OR_RETURN(const Manifest* const old_manifest, measurer.ManifestOf(chain.front()));
  LC_ASSIGN_OR_RETURN(const Manifest* const next_manifest, measurer.ManifestOf(chain.back()));
  const ordered_json key =
      KeyOf(old, next, old_manifest->encoder_crc32c, next_manifest->encoder_crc32c, measurer.test_crc32c());
  const std::string path = StrCat(folder, "/figures/", next.id, "--", old.id, "--study.json");
  const absl::StatusOr<ordered_json> kept = ReadSealed(path);
  if (kept.ok() && kept->value("key", ordered_json()) == key) return Kept(*kept, path);
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return Removable(kept.status());

  const Dataset& first = plan.steps.front().dataset;
  LC_ASSIGN_OR_RETURN(const Measurer::Side items, measurer.Embedded(chain.front()));
  LC_ASSIGN_OR_RETURN(const Measurer::Side queries, measurer.Embedded(chain.back()));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> encoder,
                      Encoder::LoadFolder(cache.FolderOf(old), {.device = next.config.device}));
  std::vector<float> copies;
  for (int view = 1; view <= kImageCopies; ++view) {
    if (stop != nullptr && stop->load()) return absl::CancelledError("stopped while studying uncertainties");
    LC_ASSIGN_OR_RETURN(const std::vector<float> more,
                        EmbedView(*encoder, whole.test, AugmentOf(old.config, whole), view, plan.seed));
    copies.insert(copies.end(), more.begin(), more.end());
  }
  LC_ASSIGN_OR_RETURN(const std::vector<float> logits, HeadLogits(cache.FolderOf(old), *old_manifest, items.z));
  LC_ASSIGN_OR_RETURN(const std::vector<float> trained, EmbedSplit(*encoder, first.train));
  const ImageSet& pairs = plan.steps.back().dataset.train;
  LC_ASSIGN_OR_RETURN(const std::vector<float> pairs_old, EmbedSplit(*encoder, pairs));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> newer,
                      Encoder::LoadFolder(cache.FolderOf(next), {.device = next.config.device}));
  LC_ASSIGN_OR_RETURN(const std::vector<float> pairs_next, EmbedSplit(*newer, pairs));
  const std::vector<uint8_t> known = KnownItems(whole, first);
  StudyMaterial material;
  material.old.space = {old_manifest->metric, old_manifest->curvature, old_manifest->dimension};
  material.old.gallery = {items.z, whole.test.labels, old_manifest->clip_radius};
  material.old.training = {trained, first.train.labels, old_manifest->clip_radius};
  material.old.known = known;
  material.old.copies = copies;
  material.old.head_logits = logits;
  material.old.pairs_old = {pairs_old, pairs.labels, old_manifest->clip_radius};
  material.old.pairs_next = {pairs_next, pairs.labels, next_manifest->clip_radius};
  material.next = {queries.z, whole.test.labels, next_manifest->clip_radius};
  LC_ASSIGN_OR_RETURN(const UncertaintyStudy study, StudyUncertainty(material, plan.seed, stop));
  LC_RETURN_IF_ERROR(MakeFolders(folder + "/figures"));
  LC_RETURN_IF_ERROR(WriteSealed(path, {{"key", key}, {"study", JsonOf(study)}}));
  return study;
}

}  // namespace lightcone

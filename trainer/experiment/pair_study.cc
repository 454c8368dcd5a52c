#include "trainer/experiment/pair_study.h"

#include <memory>
#include <set>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "models/encoder.h"
#include "trainer/experiment/measure.h"
#include "trainer/experiment/sealed.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

// Raised when the same models give other figures than before: kept ones are old.
constexpr int kStudyVersion = 1;

ordered_json JsonOf(const BackfillCurve& curve) { return {{"cmc1", curve.cmc1}, {"map", curve.map}}; }

ordered_json JsonOf(const UncertaintyStudy& study) {
  ordered_json predictors = ordered_json::array();
  for (const PredictorFigures& p : study.predictors) {
    predictors.push_back({{"name", p.name},
                          {"needs", p.needs},
                          {"auroc", p.auroc},
                          {"area_cmc1", p.area_cmc1},
                          {"area_map", p.area_map}});
  }
  return {{"items", study.items},
          {"items_wrong", study.items_wrong},
          {"random", JsonOf(study.random)},
          {"oracle", JsonOf(study.oracle)},
          {"predictors", std::move(predictors)}};
}

BackfillCurve CurveOf(const ordered_json& json) {
  return {json.value("cmc1", std::vector<double>()), json.value("map", std::vector<double>())};
}

UncertaintyStudy StudyOf(const ordered_json& json) {
  UncertaintyStudy study;
  study.items = json.value("items", int64_t{0});
  study.items_wrong = json.value("items_wrong", int64_t{0});
  study.random = CurveOf(json.value("random", ordered_json::object()));
  study.oracle = CurveOf(json.value("oracle", ordered_json::object()));
  for (const ordered_json& p : json.value("predictors", ordered_json::array())) {
    study.predictors.push_back({p.value("name", ""), p.value("needs", ""), p.value("auroc", 0.5),
                                p.value("area_cmc1", 0.0), p.value("area_map", 0.0)});
  }
  return study;
}

struct Side {
  Manifest manifest;
  std::vector<float> z;  // of the test set
};

absl::StatusOr<Side> Embed(const std::string& folder, const ImageSet& images) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> encoder, Encoder::LoadFolder(folder));
  LC_ASSIGN_OR_RETURN(std::vector<float> z, EmbedSplit(*encoder, images));
  return Side{encoder->manifest(), std::move(z)};
}

absl::StatusOr<UncertaintyStudy> Compute(const ExperimentPlan& plan, const Dataset& whole,
                                         const std::string& old_folder, const std::string& new_folder) {
  const Dataset& first = plan.steps.front().dataset;
  LC_ASSIGN_OR_RETURN(const Side old, Embed(old_folder, whole.test));
  LC_ASSIGN_OR_RETURN(const Side next, Embed(new_folder, whole.test));
  LC_ASSIGN_OR_RETURN(const Side trained, Embed(old_folder, first.train));
  const std::set<std::string> names(first.class_names.begin(), first.class_names.end());
  std::vector<uint8_t> known;
  for (const int32_t label : whole.test.labels)
    known.push_back(names.contains(whole.class_names[static_cast<size_t>(label)]));
  const Manifest& m = next.manifest;
  StudyMaterial material;
  material.old.space = {m.metric, m.curvature, m.dimension};
  material.old.gallery = {old.z, whole.test.labels, old.manifest.clip_radius};
  material.old.training = {trained.z, first.train.labels, old.manifest.clip_radius};
  material.old.known = known;
  material.next = {next.z, whole.test.labels, m.clip_radius};
  return StudyUncertainty(material, plan.seed);
}

}  // namespace

absl::StatusOr<UncertaintyStudy> StudyRow(const std::string& folder, const ExperimentPlan& plan, const Dataset& whole,
                                          const ModelCache& cache, size_t row) {
  const std::vector<int>& chain = plan.rows[row].models;
  const PlannedModel& old = plan.models[static_cast<size_t>(chain.front())];
  const PlannedModel& next = plan.models[static_cast<size_t>(chain.back())];
  LC_ASSIGN_OR_RETURN(const Manifest old_manifest, ReadManifest(cache.FolderOf(old)));
  LC_ASSIGN_OR_RETURN(const Manifest next_manifest, ReadManifest(cache.FolderOf(next)));
  const ordered_json key = {{"format", kExperimentFormat},
                            {"study", kStudyVersion},
                            {"old", old.id},
                            {"new", next.id},
                            {"old_crc32c", old_manifest.encoder_crc32c},
                            {"new_crc32c", next_manifest.encoder_crc32c},
                            {"test_crc32c", TestChecksum(whole)}};
  const std::string path = StrCat(folder, "/figures/", next.id, "--", old.id, "--study.json");
  const absl::StatusOr<ordered_json> kept = ReadSealed(path);
  if (kept.ok() && kept->value("key", ordered_json()) == key) {
    return StudyOf(kept->value("study", ordered_json::object()));
  }
  if (!kept.ok() && !absl::IsNotFound(kept.status())) {
    return Annotate(kept.status(), "remove the file to compute it again");
  }
  LC_ASSIGN_OR_RETURN(const UncertaintyStudy study, Compute(plan, whole, cache.FolderOf(old), cache.FolderOf(next)));
  LC_RETURN_IF_ERROR(MakeFolders(folder + "/figures"));
  LC_RETURN_IF_ERROR(WriteSealed(path, {{"key", key}, {"study", JsonOf(study)}}));
  return study;
}

}  // namespace lightcone

#include "trainer/uncertainty/fit_models.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "trainer/evaluate.h"
#include "trainer/uncertainty/class_evidence.h"
#include "trainer/uncertainty/failure_head.h"

namespace lightcone {
namespace {

absl::Status CheckModels(const Manifest& old_model, const Manifest& new_model) {
  if (old_model.metric == "inner_product") {
    return InvalidField("old_model.metric", old_model.metric, "lorentz, cosine, euclidean: it needs distances");
  }
  const auto same = [](std::string_view field, const auto& value, const auto& allowed) {
    return value == allowed ? absl::OkStatus()
                            : InvalidField(field, StrCat(value), StrCat(allowed, ", as the old model has"));
  };
  LC_RETURN_IF_ERROR(same("new_model.metric", new_model.metric, old_model.metric));
  if (old_model.metric == "lorentz") {
    LC_RETURN_IF_ERROR(same("new_model.curvature", new_model.curvature, old_model.curvature));
  }
  return same("new_model.dimension", new_model.dimension, old_model.dimension);
}

}  // namespace

absl::StatusOr<FailureHeadFile> FitHeadOfModels(const Encoder& old_model, const Encoder& new_model,
                                                const ImageSet& images, int64_t items) {
  const Manifest &old_manifest = old_model.manifest(), &new_manifest = new_model.manifest();
  LC_RETURN_IF_ERROR(CheckModels(old_manifest, new_manifest));
  if (items < 0 || items > images.size()) {
    return InvalidField("items", StrCat(items), StrCat("0 .. ", images.size(), ", the training images"));
  }
  const int32_t classes = images.labels.empty() ? 0 : *std::max_element(images.labels.begin(), images.labels.end()) + 1;
  if (old_manifest.classes < 1 || old_manifest.classes > classes) {
    return InvalidField("old_model.classes", StrCat(old_manifest.classes),
                        StrCat("1 .. ", classes, ", of the data set: those that it was trained on come first"));
  }
  LC_ASSIGN_OR_RETURN(const std::vector<float> old_z, EmbedSplit(old_model, images));
  LC_ASSIGN_OR_RETURN(const std::vector<float> new_z, EmbedSplit(new_model, images));
  const RetrievalSpace space{old_manifest.metric, old_manifest.curvature, old_manifest.dimension};
  const LabelledEmbeddings old{old_z, images.labels, old_manifest.clip_radius};
  const LabelledEmbeddings queries{new_z, images.labels, new_manifest.clip_radius};
  std::vector<int64_t> known;  // images of the old model's classes
  for (int64_t i = 0; i < images.size(); ++i) {
    if (images.labels[static_cast<size_t>(i)] < old_manifest.classes) known.push_back(i);
  }
  FailureHeadFile file;
  file.from = old_manifest.name;
  file.to = new_manifest.name;
  file.means = ClassMeansOf(space, SelectRows(space, old, known).View());
  const int64_t most = items == 0 ? images.size() : items;
  LC_ASSIGN_OR_RETURN(const std::optional<FittedHead> fitted, FitFailureHead(space, file.means, old, queries, most));
  if (!fitted.has_value()) {
    return FailedPrecondition(StrCat("of ", most,
                                     " images the new model retrieves all well, or none, from those of the ",
                                     "old one: there is nothing to learn"));
  }
  file.head = fitted->head;
  file.images = fitted->images;
  file.wrong = fitted->wrong;
  return file;
}

}  // namespace lightcone

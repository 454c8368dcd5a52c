#include <map>
#include <sstream>

#include "base/status.h"
#include "models/checkpoint.h"
#include "trainer/class_names.h"
#include "trainer/config.h"
#include "trainer/methods/classifier_torch.h"
#include "trainer/old_head_torch.h"

namespace lightcone {
namespace {

constexpr char kOtherwise[] = "; or set bct.head to old-means, which needs no head";

absl::Status Unusable(const std::string& field, const std::string& value, const std::string& allowed) {
  return FieldError(absl::StatusCode::kFailedPrecondition, "old_model." + field, value, allowed + kOtherwise);
}

absl::Status ReadTensors(std::string_view bytes, StoredHead& head) {
  try {
    std::istringstream in{std::string(bytes)};
    torch::serialize::InputArchive archive;
    archive.load_from(in);
    if (!archive.try_read("p.weight", head.weight, /*is_buffer=*/true) || head.weight.dim() != 2) {
      return DataLoss("section 'classifier': no matrix 'weight'");
    }
    archive.try_read("p.offset", head.offset, /*is_buffer=*/true);
    return absl::OkStatus();
  } catch (const std::exception&) {
    return DataLoss("section 'classifier': unreadable archive");
  }
}

torch::Tensor RowsByName(const std::vector<std::string>& old_names, int64_t old_rows,
                         const std::vector<std::string>& class_names) {
  std::map<std::string, int64_t> rows;
  for (size_t i = 0; i < old_names.size(); ++i) rows.emplace(old_names[i], static_cast<int64_t>(i));
  std::vector<int64_t> out;
  for (size_t c = 0; c < class_names.size(); ++c) {
    const int64_t position = static_cast<int64_t>(c);
    if (old_names.empty()) {
      out.push_back(position < old_rows ? position : -1);
    } else {
      const auto found = rows.find(class_names[c]);
      out.push_back(found == rows.end() ? -1 : found->second);
    }
  }
  return torch::tensor(out, torch::kInt64);
}

}  // namespace

torch::Tensor OldHead::Loss(const torch::Tensor& z, const torch::Tensor& labels) const {
  const torch::Tensor rows = row_of.index_select(0, labels);
  const torch::Tensor known = rows >= 0;
  torch::Tensor scores;
  if (IsAngular(loss.loss)) {
    scores = CosineScores(z, weight);
  } else {
    scores = offset.defined() ? torch::addmm(offset, z, weight.t()) : torch::matmul(z, weight.t());
  }
  const torch::Tensor each = HeadLossOf(scores, torch::clamp_min(rows, 0), loss);
  return torch::where(known, each, torch::zeros_like(each)).sum() / torch::clamp_min(known.sum(), 1);
}

absl::StatusOr<StoredHead> ReadStoredHead(const std::string& folder) {
  const std::string path = folder + "/checkpoint.bin";
  LC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadCheckpoint(path));
  LC_ASSIGN_OR_RETURN(const std::string_view config_text, checkpoint.Section("config"));
  LC_ASSIGN_OR_RETURN(const std::string_view classifier, checkpoint.Section("classifier"));
  absl::StatusOr<TrainConfig> config = ParseTrainConfig(config_text);
  if (!config.ok()) return DataLoss(StrCat(path, ": section 'config': ", MessageOf(config.status())));
  StoredHead head;
  head.config = *std::move(config);
  LC_RETURN_IF_ERROR(Annotate(ReadTensors(classifier, head), path));
  const auto names = checkpoint.sections.find("classes");
  if (names != checkpoint.sections.end()) head.classes = names->second;
  return head;
}

absl::StatusOr<OldHead> LoadOldHead(const std::string& folder, const Manifest& manifest,
                                    const std::vector<std::string>& class_names) {
  const std::string path = folder + "/checkpoint.bin";
  absl::StatusOr<StoredHead> stored = ReadStoredHead(folder);
  if (absl::IsNotFound(stored.status())) {
    return Unusable("head", "missing", StrCat("a folder with the training's checkpoint.bin ('", path, "')"));
  }
  LC_RETURN_IF_ERROR(stored.status());
  const TrainConfig& config = stored->config;
  if (config.metric == "lorentz") return Unusable("head.metric", "lorentz", "cosine or euclidean");
  if (config.method == "hypmix") {
    return Unusable("head", "not trained (method 'hypmix')", "of a method that trains one");
  }
  OldHead head{std::move(stored->weight), std::move(stored->offset), HeadOptionsOf(config).loss, {}};
  if (head.weight.size(1) != manifest.dimension) {
    return Unusable("head.dimension", StrCat(head.weight.size(1)), StrCat(manifest.dimension, ", as its embeddings"));
  }
  std::vector<std::string> names;
  if (!stored->classes.empty()) {
    absl::StatusOr<std::vector<std::string>> parsed = ParseClassNames(stored->classes, head.weight.size(0));
    if (!parsed.ok()) return Annotate(parsed.status(), path);
    names = *std::move(parsed);
  }
  head.row_of = RowsByName(names, head.weight.size(0), class_names);
  if (!(head.row_of >= 0).any().item<bool>()) {
    return Unusable("head.classes", StrCat(head.weight.size(0), " others"), "at least one class of the new data set");
  }
  return head;
}

}  // namespace lightcone

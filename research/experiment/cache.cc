#include "research/experiment/cache.h"

#include <array>

#include "base/files.h"
#include "base/sealed.h"
#include "base/status.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

constexpr char kKeyFile[] = "/key.json", kSealFile[] = "/complete.json";
constexpr std::array<const char*, 3> kModelFiles = {"manifest.json", "encoder.pt", "checkpoint.bin"};

absl::Status Damaged(const std::string& path, std::string_view how) {
  return DataLoss(StrCat("cached model: '", path, "' ", how, "; remove its folder to train the model again"));
}

absl::StatusOr<uint32_t> ChecksumOf(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, int64_t{1} << 36));
  return Crc32c(bytes);
}

}  // namespace

absl::Status ModelCache::CheckKey(const PlannedModel& model, bool write) const {
  const std::string path = FolderOf(model) + kKeyFile;
  const absl::StatusOr<std::string> found = ReadFile(path, 1 << 24);
  if (absl::IsNotFound(found.status())) {
    if (!write) return absl::OkStatus();
    LC_RETURN_IF_ERROR(MakeFolders(FolderOf(model)));
    return WriteFileAtomically(path, model.key);
  }
  LC_RETURN_IF_ERROR(found.status());
  if (*found != model.key) return Damaged(path, "is not the key of this folder");
  return absl::OkStatus();
}

absl::StatusOr<bool> ModelCache::Has(const PlannedModel& model) const {
  LC_RETURN_IF_ERROR(CheckKey(model, /*write=*/false));
  const absl::StatusOr<ordered_json> seal = ReadSealed(FolderOf(model) + kSealFile);
  if (absl::IsNotFound(seal.status())) return false;
  if (!seal.ok()) return Damaged(FolderOf(model) + kSealFile, "is damaged");
  // Older than what is sealed now: its checkpoint knows the base model, and is looked at once more.
  if (model.base_model >= 0 && !seal->contains("base_crc32c")) return false;
  const auto files = seal->find("files");
  for (const char* name : kModelFiles) {
    const std::string path = StrCat(FolderOf(model), "/", name);
    if (files == seal->end() || !files->contains(name) || !(*files)[name].is_number_unsigned()) {
      return Damaged(FolderOf(model) + kSealFile, StrCat("has no checksum of '", name, "'"));
    }
    const absl::StatusOr<uint32_t> checksum = ChecksumOf(path);
    if (absl::IsNotFound(checksum.status())) return Damaged(path, "is missing");
    LC_RETURN_IF_ERROR(checksum.status());
    if (*checksum != (*files)[name].get<uint64_t>()) return Damaged(path, "is damaged: its checksum is another one");
  }
  const std::string key_path = FolderOf(model) + kKeyFile;
  if (!ReadFile(key_path, 1 << 24).ok()) return Damaged(key_path, "is missing");
  return true;
}

absl::Status ModelCache::Seal(const ExperimentPlan& plan, const PlannedModel& model, const TrainResult& result) const {
  ordered_json files;
  for (const char* name : kModelFiles) {
    LC_ASSIGN_OR_RETURN(files[name], ChecksumOf(StrCat(FolderOf(model), "/", name)));
  }
  const TrainingSummary& training = result.manifest.training;
  const double images = static_cast<double>(training.steps * model.config.batch);
  ordered_json seal = {{"files", std::move(files)},
                       {"seconds", training.seconds},
                       {"images_per_second", training.seconds > 0 ? images / training.seconds : 0}};
  if (model.base_model >= 0) {
    LC_ASSIGN_OR_RETURN(const Manifest base,
                        ReadManifest(FolderOf(plan.models[static_cast<size_t>(model.base_model)])));
    seal["base_crc32c"] = base.encoder_crc32c;
  }
  return WriteSealed(FolderOf(model) + kSealFile, seal);
}

absl::Status ModelCache::CheckOtherModels(const ExperimentPlan& plan, const PlannedModel& model) const {
  if (model.base_model >= 0) {
    LC_ASSIGN_OR_RETURN(const ordered_json seal, ReadSealed(FolderOf(model) + kSealFile));
    LC_ASSIGN_OR_RETURN(const Manifest base,
                        ReadManifest(FolderOf(plan.models[static_cast<size_t>(model.base_model)])));
    if (seal.value("base_crc32c", uint64_t{0}) != base.encoder_crc32c) {
      return Damaged(FolderOf(model), "was trained with another copy of its base model");
    }
  }
  if (model.old_model < 0) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const Manifest own, ReadManifest(FolderOf(model)));
  LC_ASSIGN_OR_RETURN(const Manifest old, ReadManifest(FolderOf(plan.models[static_cast<size_t>(model.old_model)])));
  if (own.parent_crc32c == old.encoder_crc32c) return absl::OkStatus();
  return Damaged(FolderOf(model), "was trained with another copy of its old model");
}

absl::StatusOr<ModelCost> ModelCache::Get(const ExperimentPlan& plan, const PlannedModel& model,
                                          const TrainCallback& progress, const std::atomic<bool>* stop) {
  LC_ASSIGN_OR_RETURN(const bool there, Has(model));
  if (there) LC_RETURN_IF_ERROR(CheckOtherModels(plan, model));
  if (!there) {
    LC_RETURN_IF_ERROR(CheckKey(model, /*write=*/true));
    TrainConfig config = model.config;
    if (model.old_model >= 0) config.old_model = FolderOf(plan.models[static_cast<size_t>(model.old_model)]);
    if (model.base_model >= 0) config.bt2.base_model = FolderOf(plan.models[static_cast<size_t>(model.base_model)]);
    const absl::StatusOr<TrainResult> result =
        Train(plan.steps[static_cast<size_t>(model.step)].dataset, config, FolderOf(model), progress, stop);
    if (!result.ok()) return Annotate(result.status(), StrCat(model.role, " (seed ", plan.seed, ", ", model.id, ")"));
    LC_RETURN_IF_ERROR(Seal(plan, model, *result));
  }
  LC_ASSIGN_OR_RETURN(const ordered_json seal, ReadSealed(FolderOf(model) + kSealFile));
  return ModelCost{seal.value("seconds", 0.0), seal.value("images_per_second", 0.0)};
}

absl::Status Removable(const absl::Status& status) { return Annotate(status, "remove the file to compute it again"); }

}  // namespace lightcone

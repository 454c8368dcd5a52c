#include "trainer/run_file.h"

#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "trainer/data/image_source.h"

namespace lightcone {
namespace {

using nlohmann::json;

absl::Status Differs(const std::string& field, const std::string& now, const std::string& saved) {
  return FieldError(absl::StatusCode::kFailedPrecondition, field, now,
                    StrCat(saved, ", as in the checkpoint; or train in another folder"));
}

std::string_view BytesOf(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

// Another kind of data set may open the same pixels, and images that came later may change their mean.
uint32_t ReadingChecksum(const Dataset& dataset, const TrainConfig& config) {
  const json reading = {{"mean", dataset.normalisation.mean},
                        {"stddev", dataset.normalisation.stddev},
                        {"augment", static_cast<int>(AugmentOf(config, dataset))},
                        {"classes", dataset.class_names}};
  return Crc32c(reading.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

bool StepsDependOn(const std::string& option, const MethodInfo& method) {
  for (const char* other :
       {"name", "recipe", "device", "threads", "loader_threads", "checkpoint_seconds", "old_model", "bt2.base_model"}) {
    if (option == other) return false;
  }
  return ReadsOption(method, option);
}

uint32_t DataChecksum(const Dataset& dataset) {
  return Crc32c(BytesOf(dataset.train.labels), PixelChecksum(dataset.train));
}

RunIdentity IdentityOf(const Dataset& dataset, const TrainConfig& config, uint32_t old_model_crc32c,
                       uint32_t other_models_crc32c) {
  return {config, DataChecksum(dataset), ReadingChecksum(dataset, config), old_model_crc32c, other_models_crc32c};
}

void SaveProgress(const RunIdentity& identity, const RunProgress& progress, Checkpoint& checkpoint) {
  checkpoint.sections["config"] = ToJson(identity.config);
  checkpoint.sections["progress"] = json{{"step", progress.step},
                                         {"epoch_loss", progress.epoch_loss},
                                         {"last_epoch_loss", progress.last_epoch_loss},
                                         {"seconds", progress.seconds},
                                         {"reading_crc32c", identity.reading_crc32c},
                                         {"data_crc32c", identity.data_crc32c},
                                         {"old_model_crc32c", identity.old_model_crc32c},
                                         {"other_models_crc32c", identity.other_models_crc32c},
                                         {"revision", FindTrainingMethod(identity.config.method)->revision}}
                                        .dump();
}

absl::StatusOr<RunProgress> LoadProgress(const RunIdentity& identity, const Checkpoint& checkpoint) {
  LC_ASSIGN_OR_RETURN(const std::string_view config_text, checkpoint.Section("config"));
  LC_ASSIGN_OR_RETURN(const std::string_view progress_text, checkpoint.Section("progress"));
  absl::StatusOr<TrainConfig> saved = ParseTrainConfig(config_text);
  if (!saved.ok()) return DataLoss(StrCat("section 'config': ", MessageOf(saved.status())));
  // Checkpoints without this option were trained without HBCT's part.
  if (config_text.find("\"lightcone.compatible\"") == std::string_view::npos) saved->lightcone.compatible = "none";
  const MethodInfo& method = *FindTrainingMethod(identity.config.method);
  for (const TrainOption& option : TrainOptions()) {
    if (!StepsDependOn(option.name, method)) continue;
    const std::string now = GetTrainOption(identity.config, option.name);
    const std::string before = GetTrainOption(*saved, option.name);
    if (now != before) return Differs(option.name, now, before);
  }
  const json object = json::parse(progress_text, nullptr, /*allow_exceptions=*/false);
  const bool readable = object.is_object() && object.contains("step") && object["step"].is_number_unsigned() &&
                        std::in_range<int64_t>(object["step"].get<uint64_t>()) && object.contains("data_crc32c") &&
                        object["data_crc32c"].is_number_unsigned();
  if (!readable) return DataLoss("section 'progress' is unreadable");
  if (object["data_crc32c"].get<uint64_t>() != identity.data_crc32c) {
    return Differs("dataset", "another set of images", "the training images");
  }
  const auto number = [&object](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  // Older checkpoints do not hold the number.
  if (object.contains("reading_crc32c") && number("reading_crc32c") != static_cast<double>(identity.reading_crc32c)) {
    return Differs("dataset", "the same images with another mean, deviation, augmentation or names of classes",
                   "these");
  }
  if (number("old_model_crc32c") != static_cast<double>(identity.old_model_crc32c)) {
    return Differs("old_model", "another encoder", "the encoder");
  }
  if (number("other_models_crc32c") != static_cast<double>(identity.other_models_crc32c)) {
    return Differs("bt2.base_model or the old model's head", "another one", "the one");
  }
  if (number("revision") != static_cast<double>(method.revision)) {
    return Differs("method", StrCat(method.name, ", revision ", method.revision),
                   StrCat("revision ", static_cast<int>(number("revision"))));
  }
  return RunProgress{object["step"].get<int64_t>(), number("epoch_loss"), number("last_epoch_loss"), number("seconds")};
}

int SavedThreads(const Checkpoint& checkpoint) {
  const absl::StatusOr<std::string_view> text = checkpoint.Section("config");
  if (!text.ok()) return 0;
  const absl::StatusOr<TrainConfig> config = ParseTrainConfig(*text);
  return config.ok() ? static_cast<int>(config->threads) : 0;
}

}  // namespace lightcone

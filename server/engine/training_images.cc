#include "server/engine/training_images.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "models/image.h"
#include "server/engine/item_class.h"
#include "server/engine/raw_input.h"
#include "server/engine/record_json.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kItemsBetweenChecks = 4'096, kImagesBetweenChecks = 64;

// What the folder loader goes by.
std::string_view EndingOf(std::string_view image) {
  if (image.starts_with("\x89PNG")) return ".png";
  if (image.starts_with("\xff\xd8")) return ".jpg";
  return ".webp";
}

absl::Status WriteImage(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good() ? absl::OkStatus() : ErrnoStatus(errno, "write", path);
}

// The images of one class, by number; their items' internal ids.
using Classes = std::map<std::string, std::vector<uint64_t>>;

class Export {
 public:
  Export(const Collection& collection, const std::string& label_field, const std::string& folder, const ExportRun& run)
      : collection_(collection), label_field_(label_field), folder_(folder), run_(run) {}

  absl::StatusOr<TrainingImages> Run() {
    LC_RETURN_IF_ERROR(Find());
    int number = 0;
    for (const auto& [label, ids] : classes_) {
      char name[16];
      std::snprintf(name, sizeof name, "%07d", number++);  // labels may be no names of files
      LC_RETURN_IF_ERROR(WriteClass(StrCat(folder_, "/", name), ids));
    }
    if (made_.classes >= 2) return made_;
    return FailedPrecondition(
        StrCat("a training needs two classes of two stored images each; collection '", collection_.name(), "' has ",
               made_.classes, ". Left out: ", made_.without_input, " items without a stored input (keep_input), ",
               made_.unlabelled, " without a value in '", label_field_, "', ", made_.tensors, " that are tensors, ",
               made_.undecodable, " that cannot be decoded, ", made_.alone, " that are alone in their class"));
  }

 private:
  absl::Status Find() {
    const keys::Range range = keys::ItemRange(collection_.number());
    const auto items = collection_.store()->Scan(Table::kItems, range.begin, range.end);
    uint64_t seen = 0;
    for (; items->Valid(); items->Next()) {
      if (seen++ % kItemsBetweenChecks == 0) LC_RETURN_IF_ERROR(Step(seen - 1, 0, "looking for stored inputs"));
      LC_ASSIGN_OR_RETURN(const ItemRecord item, DecodeItem(items->value()));
      if (!item.has_input) {
        ++made_.without_input;
        continue;
      }
      const auto label = ClassOf(item.payload_json, label_field_);
      if (!label) {
        ++made_.unlabelled;
        continue;
      }
      classes_[*label].push_back(item.internal_id);
      ++total_;
    }
    return items->status();
  }

  absl::Status WriteClass(const std::string& folder, std::vector<uint64_t> ids) {
    std::sort(ids.begin(), ids.end());
    LC_RETURN_IF_ERROR(MakeFolders(folder));
    uint64_t written = 0;
    for (const uint64_t id : ids) {
      if (done_++ % kImagesBetweenChecks == 0) LC_RETURN_IF_ERROR(Step(done_ - 1, total_, "writing images"));
      const auto stored = collection_.store()->Get(Table::kInputs, keys::Input(collection_.number(), id));
      if (absl::IsNotFound(stored.status())) continue;  // deleted, or replaced, since
      LC_RETURN_IF_ERROR(stored.status());
      LC_ASSIGN_OR_RETURN(const RawInput input, DecodeInput(*stored));
      const auto* image = std::get_if<std::string>(&input);
      if (image == nullptr) {
        ++made_.tensors;
        continue;
      }
      if (!DecodeImage(*image).ok()) {
        ++made_.undecodable;
        continue;
      }
      LC_RETURN_IF_ERROR(WriteImage(StrCat(folder, "/", id, EndingOf(*image)), *image));
      ++written;
    }
    if (written >= 2) {
      made_.images += written;
      ++made_.classes;
      return absl::OkStatus();
    }
    made_.alone += written;
    std::error_code error;
    fs::remove_all(folder, error);
    return error ? ErrnoStatus(error.value(), "remove", folder) : absl::OkStatus();
  }

  absl::Status Step(uint64_t done, uint64_t total, std::string_view step) const {
    if (run_.gone()) return MakeStatus(absl::StatusCode::kCancelled, "the training is not wanted any more");
    run_.report(done, total, step);
    return absl::OkStatus();
  }

  const Collection& collection_;
  const std::string& label_field_;
  const std::string& folder_;
  const ExportRun& run_;
  Classes classes_;
  uint64_t done_ = 0, total_ = 0;
  TrainingImages made_;
};

std::string Encode(const TrainingImages& i) {
  return Dump({{"format", kFormat},
               {"images", i.images},
               {"classes", i.classes},
               {"without_input", i.without_input},
               {"unlabelled", i.unlabelled},
               {"tensors", i.tensors},
               {"undecodable", i.undecodable},
               {"alone", i.alone}});
}

absl::StatusOr<TrainingImages> DecodeImages(const std::string& text) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord("training's images", text));
  TrainingImages i;
  FieldReader reader("training's images", json);
  reader.Read("images", &i.images);
  reader.Read("classes", &i.classes);
  reader.Read("without_input", &i.without_input);
  reader.Read("unlabelled", &i.unlabelled);
  reader.Read("tensors", &i.tensors);
  reader.Read("undecodable", &i.undecodable);
  reader.Read("alone", &i.alone);
  LC_RETURN_IF_ERROR(reader.status());
  return i;
}

}  // namespace

absl::StatusOr<TrainingImages> ExportTrainingImages(const Collection& collection, const std::string& label_field,
                                                    const std::string& folder, const ExportRun& run) {
  const std::string seal = folder + ".json";
  if (const auto kept = ReadFile(seal); kept.ok()) {
    if (const auto images = DecodeImages(*kept); images.ok()) return images;
  }
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return ErrnoStatus(error.value(), "remove", folder);
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  LC_ASSIGN_OR_RETURN(const TrainingImages made, Export(collection, label_field, folder, run).Run());
  LC_RETURN_IF_ERROR(WriteFileAtomically(seal, Encode(made)));
  return made;
}

}  // namespace lightcone::server

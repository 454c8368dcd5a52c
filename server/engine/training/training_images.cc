#include "server/engine/training/training_images.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/embed/embed_worker.h"
#include "server/engine/validation/item_class.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kItemsBetweenChecks = 4'096, kImagesBetweenChecks = 64;
constexpr size_t kClassesMax = 1'000'000;
constexpr uint64_t kRoomMin = uint64_t{1}
                              << 30;  // Trainings leave so many bytes on the disk, or a twentieth of the disk.

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
               made_.unlabelled, " without a value in '", label_field_, "', ", made_.tensors, " that are no images, ",
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
      if (IsExpired(item, collection_.expiry().NowMs())) continue;
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
      if (classes_.size() > kClassesMax) {
        return ResourceExhausted(StrCat("field 'label_field' is '", label_field_, "', which tells more than ",
                                        kClassesMax, " classes apart; it is none"));
      }
      ++total_;
    }
    return items->status();
  }

  absl::Status WriteClass(const std::string& folder, std::vector<uint64_t> ids) {
    std::sort(ids.begin(), ids.end());
    std::error_code error;
    fs::create_directory(folder, error);  // SyncDisk makes it durable with all others.
    if (error) return ErrnoStatus(error.value(), "create folder", folder);
    uint64_t written = 0;
    std::vector<uint64_t> numbers;
    std::vector<std::string> images;  // as the store keeps them
    size_t bytes = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (done_++ % kImagesBetweenChecks == 0) {
        LC_RETURN_IF_ERROR(Step(done_ - 1, total_, "writing images"));
        LC_RETURN_IF_ERROR(CheckRoom());
      }
      auto stored = collection_.store()->Get(Table::kInputs, keys::Input(collection_.number(), ids[i]));
      if (!absl::IsNotFound(stored.status())) {  // deleted, or replaced, since
        LC_RETURN_IF_ERROR(stored.status());
        LC_ASSIGN_OR_RETURN(const RawInput input, DecodeInput(*stored));
        if (std::holds_alternative<std::string>(input)) {
          bytes += stored->size();
          images.push_back(*std::move(stored));
          numbers.push_back(ids[i]);
        } else {
          ++made_.tensors;
        }
      }
      if (bytes < kInputBytesAtOnce && i + 1 < ids.size()) continue;
      LC_ASSIGN_OR_RETURN(const uint64_t some, WriteImages(folder, numbers, images));
      written += some;
      numbers.clear();
      images.clear();
      bytes = 0;
    }
    if (written >= 2) {
      made_.images += written;
      ++made_.classes;
      return absl::OkStatus();
    }
    made_.alone += written;
    fs::remove_all(folder, error);
    return error ? ErrnoStatus(error.value(), "remove", folder) : absl::OkStatus();
  }

  // How many of them can be decoded, and are written.
  absl::StatusOr<uint64_t> WriteImages(const std::string& folder, const std::vector<uint64_t>& numbers,
                                       const std::vector<std::string>& images) {
    if (images.empty()) return 0;
    LC_ASSIGN_OR_RETURN(const EmbeddedInputs decoded, run_.decode(images));
    uint64_t written = 0;
    for (size_t i = 0; i < images.size(); ++i) {
      if (!decoded[i].ok()) {
        ++made_.undecodable;
        continue;
      }
      const std::string image = std::get<std::string>(*DecodeInput(images[i]));
      LC_RETURN_IF_ERROR(WriteImage(StrCat(folder, "/", numbers[i], EndingOf(image)), image));
      ++written;
    }
    return written;
  }

  // The store's writes come first.
  absl::Status CheckRoom() const {
    const std::optional<uint64_t> left = TooFewBytesLeft(folder_);
    if (!left) return absl::OkStatus();
    return ResourceExhausted(StrCat("the disk of '", folder_, "' has ", *left, " bytes left; the training's images, ",
                                    made_.images, " of ", total_, ", leave no room for the store"));
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

std::string SealOf(const std::string& folder) { return folder + ".json"; }

void SyncDisk(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::syncfs(file);
  ::close(file);
}

constexpr auto kImagesFields = [](auto& f, auto& i) {
  f.Field("images", i.images);
  f.Field("classes", i.classes);
  f.Field("without_input", i.without_input);
  f.Field("unlabelled", i.unlabelled);
  f.Field("tensors", i.tensors);
  f.Field("undecodable", i.undecodable);
  f.Field("alone", i.alone);
};

}  // namespace

std::optional<uint64_t> TooFewBytesLeft(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= std::min<uint64_t>(kRoomMin, space.capacity / 20)) return std::nullopt;
  return space.available;
}

absl::StatusOr<TrainingImages> ExportTrainingImages(const Collection& collection, const std::string& label_field,
                                                    const std::string& folder, const ExportRun& run) {
  if (const auto kept = KeptTrainingImages(folder); kept.ok()) return kept;
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return ErrnoStatus(error.value(), "remove", folder);
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  LC_ASSIGN_OR_RETURN(const TrainingImages made, Export(collection, label_field, folder, run).Run());
  SyncDisk(folder);  // the seal vouches for the images
  LC_RETURN_IF_ERROR(WriteFileAtomically(SealOf(folder), EncodeFields(made, kImagesFields)));
  return made;
}

absl::StatusOr<TrainingImages> KeptTrainingImages(const std::string& folder) {
  LC_ASSIGN_OR_RETURN(const std::string kept, ReadFile(SealOf(folder)));
  return DecodeFields<TrainingImages>("training's images", kept, kImagesFields);
}

}  // namespace lightcone::server

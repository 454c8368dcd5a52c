#include <cstring>
#include <filesystem>

#include "base/npy.h"
#include "base/status.h"
#include "trainer/data/formats.h"

namespace lightcone {
namespace {

constexpr int64_t kSideMax = 4096;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::StatusOr<RawImages> ReadPart(const std::string& images_path, const std::string& labels_path) {
  LC_ASSIGN_OR_RETURN(NpyArray images, ReadNpy(images_path));
  if (images.type != NpyType::kUint8) {
    return InvalidField(StrCat(images_path, ": dtype"), NpyTypeName(images.type), "uint8");
  }
  const bool colour = images.shape.size() == 4;
  const auto bad_shape = [&] {
    return InvalidField(StrCat(images_path, ": shape"), NpyShapeText(images.shape),
                        "(N, H, W) or (N, H, W, C) with C of 1 or 3, H and W of 1 .. 4096");
  };
  if (images.shape.size() != 3 && !colour) return bad_shape();
  const int64_t height = images.shape[1], width = images.shape[2], channels = colour ? images.shape[3] : 1;
  if (height < 1 || width < 1 || height > kSideMax || width > kSideMax || (channels != 1 && channels != 3)) {
    return bad_shape();
  }
  LC_ASSIGN_OR_RETURN(const NpyArray labels, ReadNpy(labels_path));
  if (!NpyIsInteger(labels.type)) {
    return InvalidField(StrCat(labels_path, ": dtype"), NpyTypeName(labels.type), "an integer type");
  }
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0]) {
    return InvalidField(StrCat(labels_path, ": shape"), NpyShapeText(labels.shape),
                        StrCat(NpyShapeText({images.shape[0]}), ", one label an image"));
  }
  RawImages out{static_cast<int>(height), static_cast<int>(width), static_cast<int>(channels), {}, {}};
  LC_ASSIGN_OR_RETURN(out.labels, NpyIntegers(labels, labels_path));
  out.pixels.assign(images.data.begin(), images.data.end());
  return out;
}

// "; there are: a_images.npy (use DIR/a)" when the folder holds arrays under other names.
std::string OtherNames(const std::string& folder) {
  static constexpr std::string_view kEnding = "_images.npy";
  std::string text;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= kEnding.size() || !name.ends_with(kEnding) || name == "test_images.npy") continue;
    text += StrCat(text.empty() ? "; there is: " : ", ", name, " (name it as npy:", folder, "/",
                   name.substr(0, name.size() - kEnding.size()), ")");
  }
  return text;
}

}  // namespace

absl::StatusOr<RawDataset> OpenNpySet(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string prefix = is_folder ? path + "/" : path + "_";
  if (!Exists(prefix + "images.npy")) {
    return NotFound(StrCat("no file '", prefix, "images.npy'", is_folder ? OtherNames(path) : ""));
  }
  RawDataset raw;
  LC_ASSIGN_OR_RETURN(raw.train, ReadPart(prefix + "images.npy", prefix + "labels.npy"));
  const std::string test_images = prefix + "test_images.npy", test_labels = prefix + "test_labels.npy";
  if (Exists(test_images) || Exists(test_labels)) {
    LC_ASSIGN_OR_RETURN(raw.test, ReadPart(test_images, test_labels));
  }
  FitImageSize(64, 32, &raw);
  return raw;
}

}  // namespace lightcone

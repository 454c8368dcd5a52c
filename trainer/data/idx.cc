#include <array>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/formats.h"

namespace lightcone {
namespace {

constexpr uint32_t kLabelsMagic = 0x801, kImagesMagic = 0x803;
constexpr int64_t kSideMax = 4096;

std::string Hex(uint32_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[(value >> shift) & 15];
  return text;
}

// Checks the magic number and reads `count` sizes after it.
absl::Status ReadHeader(std::string_view bytes, std::string_view what, uint32_t magic, int count, int64_t* sizes) {
  const int64_t needed = 4 + 4 * count;
  if (static_cast<int64_t>(bytes.size()) < needed) {
    return DataLoss(StrCat(what, ": truncated: has ", bytes.size(), " bytes; the header has ", needed));
  }
  const auto word = [&](int i) {
    const auto* b = reinterpret_cast<const uint8_t*>(bytes.data()) + 4 * i;
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  };
  if (word(0) != magic) {
    const bool gzip = (word(0) >> 16) == 0x1f8b;
    return DataLoss(StrCat(what, ": magic number is ", Hex(word(0)), "; allowed: ", Hex(magic),
                           gzip ? " (the file is compressed: unpack it with gunzip)" : ""));
  }
  for (int i = 0; i < count; ++i) sizes[i] = word(i + 1);
  return absl::OkStatus();
}

absl::Status CheckSize(std::string_view bytes, std::string_view what, int64_t needed) {
  const int64_t found = static_cast<int64_t>(bytes.size());
  if (found == needed) return absl::OkStatus();
  return DataLoss(StrCat(what, ": ", found < needed ? "truncated" : "corrupt", ": has ", found,
                         " bytes; its header asks for ", needed));
}

// train-images-idx3-ubyte, or train-images.idx3-ubyte as some archives unpack it.
absl::StatusOr<std::string> FindPart(const std::string& folder, const std::string& part, const std::string& kind) {
  const std::string name = folder + "/" + part + "-" + kind;
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return name;
  const std::string dotted = folder + "/" + part + "." + kind;
  if (std::filesystem::exists(dotted, ignored)) return dotted;
  const bool packed = std::filesystem::exists(name + ".gz", ignored);
  return NotFound(StrCat("no file '", name, "'", packed ? "; there is a .gz of it: unpack it with gunzip" : ""));
}

absl::StatusOr<RawImages> ReadPart(const std::string& folder, const std::string& prefix) {
  LC_ASSIGN_OR_RETURN(const std::string images_path, FindPart(folder, prefix + "-images", "idx3-ubyte"));
  LC_ASSIGN_OR_RETURN(const std::string labels_path, FindPart(folder, prefix + "-labels", "idx1-ubyte"));
  LC_ASSIGN_OR_RETURN(const std::string image_bytes, ReadFile(images_path));
  LC_ASSIGN_OR_RETURN(RawImages out, ParseIdxImages(image_bytes, images_path));
  LC_ASSIGN_OR_RETURN(const std::string label_bytes, ReadFile(labels_path));
  LC_ASSIGN_OR_RETURN(out.labels, ParseIdxLabels(label_bytes, labels_path));
  const int64_t side = int64_t{out.height} * out.width;
  const int64_t images = side == 0 ? 0 : static_cast<int64_t>(out.pixels.size()) / side;
  if (images != static_cast<int64_t>(out.labels.size())) {
    return DataLoss(
        StrCat(labels_path, ": has ", out.labels.size(), " labels; ", images_path, " has ", images, " images"));
  }
  return out;
}

}  // namespace

absl::StatusOr<RawImages> ParseIdxImages(std::string_view bytes, std::string_view what) {
  std::array<int64_t, 3> sizes{};
  LC_RETURN_IF_ERROR(ReadHeader(bytes, what, kImagesMagic, 3, sizes.data()));
  const auto [count, height, width] = sizes;
  if (height < 1 || width < 1 || height > kSideMax || width > kSideMax) {
    return DataLoss(StrCat(what, ": images of ", height, " x ", width, "; allowed: sides of 1 .. ", kSideMax));
  }
  LC_RETURN_IF_ERROR(CheckSize(bytes, what, 16 + count * height * width));
  RawImages out{static_cast<int>(height), static_cast<int>(width), 1, {}, {}};
  out.pixels.assign(bytes.begin() + 16, bytes.end());
  return out;
}

absl::StatusOr<std::vector<int64_t>> ParseIdxLabels(std::string_view bytes, std::string_view what) {
  int64_t count = 0;
  LC_RETURN_IF_ERROR(ReadHeader(bytes, what, kLabelsMagic, 1, &count));
  LC_RETURN_IF_ERROR(CheckSize(bytes, what, 8 + count));
  std::vector<int64_t> labels;
  labels.reserve(static_cast<size_t>(count));
  for (const char c : bytes.substr(8)) labels.push_back(static_cast<uint8_t>(c));
  return labels;
}

absl::StatusOr<RawDataset> OpenIdx(const std::string& folder) {
  RawDataset raw;
  LC_ASSIGN_OR_RETURN(raw.train, ReadPart(folder, "train"));
  LC_ASSIGN_OR_RETURN(raw.test, ReadPart(folder, "t10k"));
  FitImageSize(64, 32, &raw);
  return raw;
}

}  // namespace lightcone

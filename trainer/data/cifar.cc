#include <cstring>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/formats.h"
#include "trainer/data/image_folders.h"

namespace lightcone {
namespace {

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kRowBytes = 2 + 3 * kPlane;
constexpr int kCoarse = 20, kFine = 100;

absl::StatusOr<RawImages> ReadPart(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ParseCifar100(bytes, path);
}

// Reads one name a line, in the order of the labels. The file is optional, but an existing one must be whole.
absl::Status ReadNames(const std::string& path, std::map<int64_t, std::string>* names) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    if (!name.empty() && name.back() == '\r') name.pop_back();
    const int64_t label = static_cast<int64_t>(names->size());
    if (!name.empty()) names->emplace(label, std::move(name));
    begin = end + 1;
  }
  if (names->size() == kFine) return absl::OkStatus();
  return DataLoss(StrCat(path, ": has ", names->size(), " names; CIFAR-100 has 100"));
}

}  // namespace

absl::StatusOr<RawImages> ParseCifar100(std::string_view bytes, std::string_view what) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size % kRowBytes != 0) {
    return DataLoss(StrCat(what, ": truncated or corrupt: has ", size, " bytes; allowed: a multiple of ", kRowBytes,
                           " (train.bin of CIFAR-100 has 153700000, test.bin 30740000)"));
  }
  const int64_t rows = size / kRowBytes;
  RawImages out{kSide, kSide, 3, {}, {}};
  out.pixels.resize(static_cast<size_t>(rows * 3 * kPlane));
  out.labels.reserve(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    const auto* row = reinterpret_cast<const uint8_t*>(bytes.data()) + i * kRowBytes;
    if (row[0] >= kCoarse || row[1] >= kFine) {
      return DataLoss(StrCat(what, ": corrupt: row ", i, " has coarse label ", int{row[0]}, " and fine label ",
                             int{row[1]}, "; allowed: 0 .. 19 and 0 .. 99"));
    }
    out.labels.push_back(row[1]);
    uint8_t* to = out.pixels.data() + i * 3 * kPlane;
    for (int64_t p = 0; p < kPlane; ++p) {
      for (int64_t c = 0; c < 3; ++c) to[3 * p + c] = row[2 + c * kPlane + p];
    }
  }
  return out;
}

absl::StatusOr<RawDataset> OpenCifar100(const std::string& folder) {
  const std::string home = UnpackedFolder(folder, "cifar-100-binary");
  RawDataset raw;
  LC_ASSIGN_OR_RETURN(raw.train, ReadPart(home + "/train.bin"));
  LC_ASSIGN_OR_RETURN(raw.test, ReadPart(home + "/test.bin"));
  LC_RETURN_IF_ERROR(ReadNames(home + "/fine_label_names.txt", &raw.class_names));
  return raw;
}

}  // namespace lightcone

#include "cli/formats/rows.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/json_depth.h"
#include "base/npy.h"
#include "base/status.h"
#include "cli/formats/binary_file.h"
#include "cli/formats/ids.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

constexpr RowFormat kFormats[] = {RowFormat::kNpy, RowFormat::kFvecs, RowFormat::kBvecs, RowFormat::kJsonl};
constexpr int64_t kSampleBytesMax = 64 << 20;
constexpr int kSampleDepthMax = 16;

class NpyIds : public IdReader {
 public:
  explicit NpyIds(std::vector<int64_t> ids) : ids_(std::move(ids)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    if (at_ == ids_.size()) return false;
    row->id.emplace().set_number(static_cast<uint64_t>(ids_[at_++]));
    return true;
  }

 private:
  const std::vector<int64_t> ids_;
  size_t at_ = 0;
};

class SampleIds : public IdReader {
 public:
  explicit SampleIds(std::vector<v1::ItemId> ids) : ids_(std::move(ids)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    if (at_ == ids_.size()) return false;
    row->id = ids_[at_++];
    return true;
  }

 private:
  const std::vector<v1::ItemId> ids_;
  size_t at_ = 0;
};

// The items of `generation adapter sample --json`: one document. nullptr for any other file.
absl::StatusOr<std::unique_ptr<IdReader>> OpenSample(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kSampleBytesMax);
  if (absl::IsResourceExhausted(text.status())) return std::unique_ptr<IdReader>();  // Only lines may be so many.
  LC_RETURN_IF_ERROR(text.status());
  if (JsonNestsDeeper(*text, kSampleDepthMax)) return std::unique_ptr<IdReader>();
  const auto document = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("items")) return std::unique_ptr<IdReader>();
  const nlohmann::json& items = document["items"];
  if (!items.is_array()) return InvalidField(StrCat("'", path, "' items"), Shown(items), "an array of items");
  std::vector<v1::ItemId> ids;
  for (const nlohmann::json& item : items) {
    const std::string at = StrCat("'", path, "' items[", ids.size(), "]");
    if (!item.is_object() || !item.contains("id")) return InvalidField(at, Shown(item), "an object with \"id\"");
    absl::StatusOr<v1::ItemId> id = ItemIdFromJson(item["id"]);
    if (!id.ok()) return Annotate(id.status(), at);
    ids.push_back(*std::move(id));
  }
  return std::unique_ptr<IdReader>(std::make_unique<SampleIds>(std::move(ids)));
}

}  // namespace

std::string_view RowFormatName(RowFormat format) {
  switch (format) {
    case RowFormat::kNpy:
      return "npy";
    case RowFormat::kFvecs:
      return "fvecs";
    case RowFormat::kBvecs:
      return "bvecs";
    case RowFormat::kJsonl:
      return "jsonl";
  }
  return "";
}

absl::StatusOr<RowFormat> RowFormatOf(std::string_view name, std::string_view path) {
  const bool by_path = name.empty() || name == "auto";
  for (const RowFormat format : kFormats) {
    if (by_path ? path.ends_with(StrCat(".", RowFormatName(format))) : name == RowFormatName(format)) return format;
  }
  if (by_path && (path.ends_with(".ndjson") || path.ends_with(".json"))) return RowFormat::kJsonl;
  if (!by_path) return InvalidField("format", StrCat("'", name, "'"), "auto, npy, fvecs, bvecs, jsonl");
  return InvalidField(
      "file", StrCat("'", path, "'"),
      StrCat("one that ends in .npy, .fvecs, .bvecs or .jsonl", name.empty() ? "" : ", or --format with one of these"));
}

absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(const std::string& path, RowFormat format,
                                                    const ReadOptions& options) {
  LC_ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::Open(path));
  switch (format) {
    case RowFormat::kNpy:
      return OpenNpyRows(std::move(file));
    case RowFormat::kFvecs:
      return OpenVecsRows(std::move(file), 4);
    case RowFormat::kBvecs:
      return OpenVecsRows(std::move(file), 1);
    case RowFormat::kJsonl:
      return OpenJsonlRows(std::move(file), options);
  }
  return Internal("unknown format");
}

absl::StatusOr<std::unique_ptr<IdReader>> OpenIds(const std::string& path, const ReadOptions& options) {
  if (path.ends_with(".json")) {
    LC_ASSIGN_OR_RETURN(std::unique_ptr<IdReader> sample, OpenSample(path));
    if (sample != nullptr) return sample;
  }
  if (!path.ends_with(".npy")) {
    LC_ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::Open(path));
    return OpenIdLines(std::move(file), options);
  }
  LC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  if (array.shape.size() != 1 || !NpyIsInteger(array.type)) {
    return InvalidField(StrCat("'", path, "'"),
                        StrCat(NpyTypeName(array.type), " of shape ", NpyShapeText(array.shape)),
                        "integers of shape (rows,)");
  }
  LC_ASSIGN_OR_RETURN(std::vector<int64_t> ids, NpyIntegers(array, path));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) return InvalidField(StrCat("'", path, "' row ", i), StrCat(ids[i]), "0 .. 2^63-1");
  }
  return std::unique_ptr<IdReader>(std::make_unique<NpyIds>(std::move(ids)));
}

}  // namespace lightcone::cli

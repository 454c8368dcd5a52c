#include "cli/demo/text_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/npy.h"
#include "base/status.h"
#include "cli/formats/binary_file.h"

namespace lightcone::cli {
namespace {

constexpr char kGalleryPart[] = "gallery", kQueriesPart[] = "queries";
constexpr int64_t kHeaderBytesMax = 1 << 16;

std::string PartPath(const std::string& folder, const char* part, const std::string& model) {
  return StrCat(folder, "/", part, ".", model, ".npy");
}

absl::StatusOr<std::vector<TextLine>> ReadTexts(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::Open(path));
  std::vector<TextLine> lines;
  absl::flat_hash_map<std::string, size_t> line_of;  // line, from 1, by id
  std::string text;
  while (true) {
    const std::string at = StrCat("'", path, "' line ", lines.size() + 1);
    absl::StatusOr<bool> more = file->ReadLine(&text);
    if (!more.ok()) return Annotate(more.status(), at);
    if (!*more) break;
    absl::StatusOr<TextLine> line = ParseTextLine(text);
    if (!line.ok()) return Annotate(line.status(), at);
    const auto [earlier, is_new] = line_of.try_emplace(line->id, lines.size() + 1);
    if (!is_new) {
      return InvalidField(StrCat(at, " id"), StrCat(line->id, " again"),
                          StrCat("an id that no earlier line has; line ", earlier->second, " has it"));
    }
    lines.push_back(*std::move(line));
  }
  if (lines.empty()) return InvalidField(StrCat("'", path, "'"), "empty", "a JSON object a line, at least one");
  return lines;
}

// The header of a file of rows. INVALID_ARGUMENT for another type or shape.
absl::StatusOr<NpyHeader> ReadTextHeader(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::Open(path));
  std::string start(static_cast<size_t>(kHeaderBytesMax), '\0');
  LC_ASSIGN_OR_RETURN(const size_t got, file->Read(start.data(), start.size()));
  start.resize(got);
  LC_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(start, path));
  const bool right_type = header.type == NpyType::kFloat16 || header.type == NpyType::kFloat32;
  if (!right_type || header.shape.size() != 2 || header.shape[1] < 1) {
    return InvalidField(StrCat("'", path, "'"),
                        StrCat(NpyTypeName(header.type), " of shape ", NpyShapeText(header.shape)),
                        "float16 or float32 of shape (lines, dimension)");
  }
  return header;
}

absl::StatusOr<TextVectors> ReadTextVectors(const std::string& path, const std::string& lines_path, size_t lines,
                                            int dimension) {
  LC_ASSIGN_OR_RETURN(const NpyHeader header, ReadTextHeader(path));
  if (header.shape[0] != static_cast<int64_t>(lines)) {
    return InvalidField(StrCat("'", path, "'"), StrCat(header.shape[0], " rows"),
                        StrCat(lines, " rows: one for each line of '", lines_path, "'"));
  }
  if (header.shape[1] != dimension) {
    return InvalidField(StrCat("'", path, "'"), StrCat(header.shape[1], " numbers a row"),
                        StrCat(dimension, ", as the model's gallery has"));
  }
  LC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  TextVectors out;
  LC_ASSIGN_OR_RETURN(out.z, NpyFloats(array, path));
  out.zero.resize(lines);
  for (size_t row = 0; row < lines; ++row) {
    const float* z = out.z.data() + row * static_cast<size_t>(dimension);
    bool zero = true;
    for (int i = 0; i < dimension; ++i) {
      zero = zero && z[i] == 0;
      if (std::isfinite(z[i])) continue;
      return InvalidField(StrCat("'", path, "' row ", row, " number ", i),
                          std::isnan(z[i]) ? "NaN" : (z[i] > 0 ? "infinite" : "-infinite"), "finite numbers");
    }
    out.zero[row] = zero ? 1 : 0;
    out.zeros += zero ? 1 : 0;
  }
  return out;
}

// The models that have a file of either part.
absl::StatusOr<std::set<std::string>> ModelsIn(const std::string& folder) {
  std::set<std::string> models;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    for (const char* part : {kGalleryPart, kQueriesPart}) {
      const std::string prefix = StrCat(part, ".");
      if (!name.starts_with(prefix) || !name.ends_with(".npy") || name.size() <= prefix.size() + 4) continue;
      models.insert(name.substr(prefix.size(), name.size() - prefix.size() - 4));
    }
  }
  if (error) return NotFound(StrCat("'", folder, "' is no folder that can be read: ", error.message()));
  return models;
}

std::string ModelsText(const std::set<std::string>& models) {
  std::string text;
  for (const std::string& model : models) text += StrCat(text.empty() ? "" : ", ", model);
  return text;
}

// Sets the names that are empty.
absl::Status ChooseModels(const std::string& folder, std::string* old_model, std::string* new_model) {
  LC_ASSIGN_OR_RETURN(const std::set<std::string> models, ModelsIn(folder));
  for (const auto& [flag, name] : {std::pair("--old", old_model), std::pair("--new", new_model)}) {
    if (name->empty() || models.contains(*name)) continue;
    return InvalidField(flag, StrCat("'", *name, "'"),
                        models.empty() ? StrCat("a MODEL with files gallery.MODEL.npy and queries.MODEL.npy in '",
                                                folder, "', which has none")
                                       : StrCat("the models in '", folder, "': ", ModelsText(models)));
  }
  if (models.size() < 2) {
    return InvalidField(StrCat("models in '", folder, "'"), models.empty() ? "none" : ModelsText(models),
                        "two or more, each with files gallery.MODEL.npy and queries.MODEL.npy");
  }
  if (old_model->empty() || new_model->empty()) {
    std::map<std::string, int64_t> dimension_of;
    for (const std::string& model : models) {
      LC_ASSIGN_OR_RETURN(const NpyHeader header, ReadTextHeader(PartPath(folder, kGalleryPart, model)));
      dimension_of[model] = header.shape[1];
    }
    const auto shorter = [](const auto& a, const auto& b) { return a.second < b.second; };
    if (old_model->empty()) {
      std::map<std::string, int64_t> others = dimension_of;
      others.erase(*new_model);
      *old_model = std::min_element(others.begin(), others.end(), shorter)->first;
    }
    if (new_model->empty()) {
      std::map<std::string, int64_t> others = dimension_of;
      others.erase(*old_model);
      *new_model = std::max_element(others.begin(), others.end(), shorter)->first;
      if (dimension_of[*new_model] <= dimension_of[*old_model]) {
        return InvalidField("--new", "absent",
                            StrCat("a name, since no model has more numbers than '", *old_model, "'; the models in '",
                                   folder, "': ", ModelsText(models)));
      }
    }
  }
  if (*old_model != *new_model) return absl::OkStatus();
  return InvalidField("--new", StrCat("'", *new_model, "'"),
                      StrCat("another model than --old; the models in '", folder, "': ", ModelsText(models)));
}

absl::StatusOr<TextModel> ReadTextModel(const std::string& folder, const std::string& name, const TextData& data) {
  TextModel model;
  model.name = name;
  const std::string gallery = PartPath(folder, kGalleryPart, name), queries = PartPath(folder, kQueriesPart, name);
  LC_ASSIGN_OR_RETURN(const NpyHeader header, ReadTextHeader(gallery));
  model.dimension = static_cast<int>(header.shape[1]);
  LC_ASSIGN_OR_RETURN(model.gallery, ReadTextVectors(gallery, StrCat(folder, "/", kGalleryPart, ".jsonl"),
                                                     data.gallery.size(), model.dimension));
  LC_ASSIGN_OR_RETURN(model.queries, ReadTextVectors(queries, StrCat(folder, "/", kQueriesPart, ".jsonl"),
                                                     data.queries.size(), model.dimension));
  return model;
}

void NumberLabels(TextData* data) {
  absl::flat_hash_map<std::string, int32_t> number_of;
  const auto number = [&](const std::vector<TextLine>& lines, std::vector<int32_t>* labels) {
    for (const TextLine& line : lines) {
      const auto [at, is_new] = number_of.try_emplace(line.label, static_cast<int32_t>(data->label_names.size()));
      if (is_new) data->label_names.push_back(line.label);
      labels->push_back(at->second);
    }
  };
  number(data->gallery, &data->gallery_labels);
  number(data->queries, &data->query_labels);
}

}  // namespace

absl::StatusOr<TextData> ReadTextData(const std::string& folder, std::string old_model, std::string new_model) {
  LC_RETURN_IF_ERROR(ChooseModels(folder, &old_model, &new_model));
  TextData data;
  LC_ASSIGN_OR_RETURN(data.gallery, ReadTexts(StrCat(folder, "/", kGalleryPart, ".jsonl")));
  LC_ASSIGN_OR_RETURN(data.queries, ReadTexts(StrCat(folder, "/", kQueriesPart, ".jsonl")));
  NumberLabels(&data);
  LC_ASSIGN_OR_RETURN(data.old_model, ReadTextModel(folder, old_model, data));
  LC_ASSIGN_OR_RETURN(data.new_model, ReadTextModel(folder, new_model, data));
  return data;
}

}  // namespace lightcone::cli

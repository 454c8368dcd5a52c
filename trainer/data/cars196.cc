#include <cmath>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/mat_file.h"
#include "trainer/data/paper_sets.h"
#include "trainer/data/text_lines.h"

namespace lightcone {
namespace {

constexpr int64_t kAnnotationBytesMax = 1 << 26;

// The fields of one annotation.
class Annotation {
 public:
  Annotation(const MatArray& annotations, int64_t i, std::string_view what)
      : annotations_(annotations), i_(i), what_(what) {}

  absl::StatusOr<const MatArray*> Field(std::string_view name) const {
    for (size_t f = 0; f < annotations_.fields.size(); ++f) {
      if (annotations_.fields[f] != name) continue;
      return &annotations_.items[static_cast<size_t>(i_) * annotations_.fields.size() + f];
    }
    return InvalidField(StrCat(what_, ": fields of annotations"), StrCat("without '", name, "'"),
                        "relative_im_path, class and test");
  }

  absl::StatusOr<int64_t> Integer(std::string_view name, int64_t low, int64_t high) const {
    LC_ASSIGN_OR_RETURN(const MatArray* field, Field(name));
    const bool one = field->kind == MatArray::Kind::kNumbers && field->numbers.size() == 1;
    if (one && field->numbers[0] >= static_cast<double>(low) && field->numbers[0] <= static_cast<double>(high) &&
        field->numbers[0] == std::floor(field->numbers[0])) {
      return static_cast<int64_t>(field->numbers[0]);
    }
    return Error(name, one ? StrCat(field->numbers[0]) : "not one number",
                 StrCat("a whole number, ", low, " .. ", high));
  }

  absl::StatusOr<std::string> Path() const {
    LC_ASSIGN_OR_RETURN(const MatArray* field, Field("relative_im_path"));
    const TextLine line{what_, i_ + 1, {field->text}};
    if (field->kind == MatArray::Kind::kText && line.Path(0, "").ok()) return field->text;
    return Error("relative_im_path", StrCat("'", field->text, "'"), "a path below the data folder");
  }

 private:
  absl::Status Error(std::string_view name, std::string_view value, std::string_view allowed) const {
    return FieldError(absl::StatusCode::kDataLoss, StrCat(what_, ": annotations(", i_ + 1, ").", name), value, allowed);
  }

  const MatArray& annotations_;
  const int64_t i_;
  const std::string_view what_;
};

absl::StatusOr<std::map<int64_t, std::string>> ClassNames(const std::map<std::string, MatArray>& variables,
                                                          const std::string& what) {
  const auto cells = variables.find("class_names");
  if (cells == variables.end() || cells->second.kind != MatArray::Kind::kCells || cells->second.items.size() < 2) {
    return InvalidField(StrCat(what, ": class_names"), "missing", "a cell array of 2 names or more");
  }
  std::map<int64_t, std::string> names;
  for (const MatArray& cell : cells->second.items) names.emplace(static_cast<int64_t>(names.size()) + 1, cell.text);
  return names;
}

}  // namespace

absl::StatusOr<ListedDataset> OpenCars196(const std::string& folder, ClassSplit split) {
  const std::string what = folder + "/cars_annos.mat";
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(what, kAnnotationBytesMax));
  using Variables = std::map<std::string, MatArray>;
  LC_ASSIGN_OR_RETURN(const Variables variables, ParseMat(bytes, what));
  const auto annotations = variables.find("annotations");
  if (annotations == variables.end() || annotations->second.kind != MatArray::Kind::kStructs) {
    return InvalidField(StrCat(what, ": annotations"), "missing", "a struct array, one element an image");
  }
  ListedDataset listed;
  LC_ASSIGN_OR_RETURN(listed.class_names, ClassNames(variables, what));
  const int64_t classes = static_cast<int64_t>(listed.class_names.size());
  listed.test.emplace();
  std::vector<std::string> paths;
  for (int64_t i = 0; i < annotations->second.size(); ++i) {
    const Annotation annotation(annotations->second, i, what);
    LC_ASSIGN_OR_RETURN(std::string path, annotation.Path());
    LC_ASSIGN_OR_RETURN(const int64_t label, annotation.Integer("class", 1, classes));
    LC_ASSIGN_OR_RETURN(const int64_t test, annotation.Integer("test", 0, 1));
    const bool train = split == ClassSplit::kByClass ? label <= classes / 2 : test == 0;
    (train ? listed.train : *listed.test).AddPath(std::move(path), label, &paths);
  }
  LC_ASSIGN_OR_RETURN(listed.source, OpenImageFiles(folder, std::move(paths)));
  return listed;
}

}  // namespace lightcone

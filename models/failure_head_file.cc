#include "models/failure_head_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "base/utf8.h"
#include "geometry/metric.h"
#include "models/checkpoint.h"
#include "models/json_fields.h"

namespace lightcone {
namespace {

using internal::ReadField;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kHeadSection[] = "failure_head", kMeansSection[] = "class_means";
constexpr size_t kHeadLabelBytesMax = 128;

absl::Status CheckHeadLabel(const char* field, const std::string& label) {
  if (label.size() > kHeadLabelBytesMax || !IsUtf8(label)) {
    return InvalidField(field, StrCat(label.size(), " bytes"), StrCat("0 .. ", kHeadLabelBytesMax, " bytes of UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckMeans(const ClassMeans& means) {
  if (means.dimension < 1 || means.dimension > static_cast<size_t>(kDimensionMax)) {
    return InvalidField("failure_head.dimension", StrCat(means.dimension), StrCat("1 .. ", kDimensionMax));
  }
  if (means.rows.empty() || means.rows.size() % means.dimension != 0) {
    return InvalidField("failure_head.class_means", StrCat(means.rows.size(), " numbers"),
                        StrCat("one or more classes of ", means.dimension));
  }
  if (!std::all_of(means.rows.begin(), means.rows.end(), [](float x) { return std::isfinite(x); })) {
    return InvalidField("failure_head.class_means", "not finite", "finite numbers");
  }
  return absl::OkStatus();
}

absl::Status CheckFile(const FailureHeadFile& file) {
  LC_RETURN_IF_ERROR(CheckHeadLabel("failure_head.from", file.from));
  LC_RETURN_IF_ERROR(CheckHeadLabel("failure_head.to", file.to));
  LC_RETURN_IF_ERROR(file.head.Validate());
  if (file.images < 0) return InvalidField("failure_head.images", StrCat(file.images), "0 or more");
  if (file.wrong < 0 || file.wrong > file.images) {
    return InvalidField("failure_head.wrong", StrCat(file.wrong), StrCat("0 .. ", file.images));
  }
  return CheckMeans(file.means);
}

template <size_t kCount>
absl::Status ReadNumbers(const json& object, const char* key, std::array<double, kCount>& out) {
  std::vector<double> values;
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, key, true, values));
  if (values.size() != kCount) {
    return InvalidField(StrCat(kHeadSection, ".", key), StrCat(values.size(), " numbers"), StrCat(kCount));
  }
  std::copy(values.begin(), values.end(), out.begin());
  return absl::OkStatus();
}

absl::Status ReadHeader(std::string_view text, FailureHeadFile& file) {
  const json object = internal::ParseBounded(text);
  if (!object.is_object()) return InvalidField(kHeadSection, "malformed JSON", "one JSON object");
  int format = 0;
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, "format", true, format));
  if (format > FailureHeadFile::kFormat) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "failure_head.format", StrCat(format),
                      StrCat("1 .. ", FailureHeadFile::kFormat, " (this file needs a newer Lightcone)"));
  }
  if (format < 1) return InvalidField("failure_head.format", StrCat(format), StrCat("1 .. ", FailureHeadFile::kFormat));
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, "from", false, file.from));
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, "to", false, file.to));
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, "dimension", true, file.means.dimension));
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, "images", false, file.images));
  LC_RETURN_IF_ERROR(ReadField(object, kHeadSection, "wrong", false, file.wrong));
  LC_RETURN_IF_ERROR(ReadNumbers(object, "mean", file.head.mean));
  LC_RETURN_IF_ERROR(ReadNumbers(object, "deviation", file.head.deviation));
  LC_RETURN_IF_ERROR(ReadNumbers(object, "weights", file.head.weights));
  return ReadField(object, kHeadSection, "bias", true, file.head.bias);
}

}  // namespace

absl::StatusOr<std::string> EncodeFailureHead(const FailureHeadFile& file) {
  LC_RETURN_IF_ERROR(CheckFile(file));
  const ordered_json header = {{"format", FailureHeadFile::kFormat},
                               {"from", file.from},
                               {"to", file.to},
                               {"dimension", file.means.dimension},
                               {"images", file.images},
                               {"wrong", file.wrong},
                               {"mean", file.head.mean},
                               {"deviation", file.head.deviation},
                               {"weights", file.head.weights},
                               {"bias", file.head.bias}};
  Checkpoint checkpoint;
  checkpoint.sections[kHeadSection] = header.dump(2) + "\n";
  // Little-endian machines only, as everywhere in Lightcone's files.
  checkpoint.sections[kMeansSection] =
      std::string(reinterpret_cast<const char*>(file.means.rows.data()), file.means.rows.size() * sizeof(float));
  return EncodeCheckpoint(checkpoint);
}

absl::StatusOr<FailureHeadFile> ParseFailureHead(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, ParseCheckpoint(bytes));
  const auto header = checkpoint.sections.find(kHeadSection);
  if (header == checkpoint.sections.end()) {
    return DataLoss("not a failure head: the file has no section 'failure_head'");
  }
  FailureHeadFile file;
  LC_RETURN_IF_ERROR(ReadHeader(header->second, file));
  LC_ASSIGN_OR_RETURN(const std::string_view means, checkpoint.Section(kMeansSection));
  if (means.size() % sizeof(float) != 0) {
    return InvalidField("failure_head.class_means", StrCat(means.size(), " bytes"), "4 bytes a number");
  }
  file.means.rows.resize(means.size() / sizeof(float));
  if (!means.empty()) std::memcpy(file.means.rows.data(), means.data(), means.size());
  LC_RETURN_IF_ERROR(CheckFile(file));
  return file;
}

absl::Status WriteFailureHead(const std::string& path, const FailureHeadFile& file) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, EncodeFailureHead(file));
  return WriteFileAtomically(path, bytes);
}

absl::StatusOr<FailureHeadFile> ReadFailureHead(const std::string& path) {
  constexpr int64_t kBytesMax = int64_t{1} << 31;
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kBytesMax));
  absl::StatusOr<FailureHeadFile> file = ParseFailureHead(bytes);
  if (!file.ok()) return Annotate(file.status(), StrCat("failure head '", path, "'"));
  return file;
}

}  // namespace lightcone

#include "trainer/data/face_lists.h"

#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "trainer/data/image_source.h"
#include "trainer/data/text_lines.h"

namespace lightcone {
namespace {

constexpr int kSide = 112;
constexpr int64_t kIdMax = std::numeric_limits<int32_t>::max();

// Positions of the template ids, and the error for one that no image has.
class Positions {
 public:
  explicit Positions(const std::vector<TemplateImage>& images) {
    for (const TemplateImage& image : images) positions_.emplace(image.template_id, 0);
    int64_t next = 0;
    for (auto& [id, position] : positions_) position = next++;
  }
  int64_t size() const { return static_cast<int64_t>(positions_.size()); }
  absl::Status Replace(const std::string& what, int64_t* id) const {
    const auto found = positions_.find(*id);
    if (found == positions_.end()) {
      return InvalidField(StrCat(what, ": template"), StrCat(*id), "the templates that have images");
    }
    *id = found->second;
    return absl::OkStatus();
  }

 private:
  std::map<int64_t, int64_t> positions_;
};

absl::StatusOr<std::vector<TemplateSubject>> ReadSubjects(const std::string& path, const Positions& positions) {
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  LC_ASSIGN_OR_RETURN(std::vector<TemplateSubject> subjects, ParseTemplateSubjects(text, path));
  for (TemplateSubject& subject : subjects) LC_RETURN_IF_ERROR(positions.Replace(path, &subject.template_id));
  return subjects;
}

}  // namespace

absl::StatusOr<std::vector<TemplateImage>> ParseTemplateImages(std::string_view text, std::string_view what) {
  std::vector<TemplateImage> images;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 3, [&](const TextLine& line) -> absl::Status {
    TemplateImage image;
    LC_ASSIGN_OR_RETURN(image.path, line.Path(0, "image"));
    LC_ASSIGN_OR_RETURN(image.template_id, line.Integer(1, "template", 0, kIdMax));
    LC_ASSIGN_OR_RETURN(image.medium_id, line.Integer(2, "medium", 0, kIdMax));
    images.push_back(std::move(image));
    return absl::OkStatus();
  }));
  if (images.empty()) return InvalidField(StrCat(what, ": images"), "0", "at least 1");
  return images;
}

absl::StatusOr<std::vector<TemplatePair>> ParseTemplatePairs(std::string_view text, std::string_view what) {
  std::vector<TemplatePair> pairs;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 3, [&](const TextLine& line) -> absl::Status {
    TemplatePair pair;
    LC_ASSIGN_OR_RETURN(pair.first, line.Integer(0, "template", 0, kIdMax));
    LC_ASSIGN_OR_RETURN(pair.second, line.Integer(1, "template", 0, kIdMax));
    LC_ASSIGN_OR_RETURN(const int64_t same, line.Integer(2, "label", 0, 1));
    pair.same = same == 1;
    pairs.push_back(pair);
    return absl::OkStatus();
  }));
  return pairs;
}

absl::StatusOr<std::vector<TemplateSubject>> ParseTemplateSubjects(std::string_view text, std::string_view what) {
  std::vector<TemplateSubject> subjects;
  std::map<int64_t, int64_t> seen;
  bool header = true;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ',', 2, [&](const TextLine& line) -> absl::Status {
    if (std::exchange(header, false)) {
      if (line.fields[0] == "TEMPLATE_ID" && line.fields[1] == "SUBJECT_ID") return absl::OkStatus();
      return line.Error("header", line.fields[0], "TEMPLATE_ID,SUBJECT_ID,...");
    }
    TemplateSubject subject;
    LC_ASSIGN_OR_RETURN(subject.template_id, line.Integer(0, "TEMPLATE_ID", 0, kIdMax));
    LC_ASSIGN_OR_RETURN(subject.subject_id, line.Integer(1, "SUBJECT_ID", 0, kIdMax));
    const auto [entry, fresh] = seen.emplace(subject.template_id, subject.subject_id);
    if (fresh) subjects.push_back(subject);
    if (entry->second == subject.subject_id) return absl::OkStatus();
    return line.Error("SUBJECT_ID", line.fields[1], StrCat(entry->second, ", as in an earlier line of the template"));
  }));
  return subjects;
}

absl::StatusOr<FaceLists> OpenFaceLists(const std::string& folder) {
  std::error_code ignored;
  const bool is_c = std::filesystem::exists(folder + "/meta/ijbc_face_tid_mid.txt", ignored) ||
                    !std::filesystem::exists(folder + "/meta/ijbb_face_tid_mid.txt", ignored);
  const std::string meta = folder + (is_c ? "/meta/ijbc_" : "/meta/ijbb_");
  const std::string gallery = StrCat(meta, "1N_gallery_", is_c ? "G" : "S");
  FaceLists lists;
  const std::string images_path = meta + "face_tid_mid.txt", pairs_path = meta + "template_pair_label.txt";
  LC_ASSIGN_OR_RETURN(const std::string images_text, ReadFile(images_path));
  LC_ASSIGN_OR_RETURN(std::vector<TemplateImage> images, ParseTemplateImages(images_text, images_path));
  const Positions positions(images);
  lists.templates = positions.size();
  LC_ASSIGN_OR_RETURN(const std::string pairs_text, ReadFile(pairs_path));
  LC_ASSIGN_OR_RETURN(lists.pairs, ParseTemplatePairs(pairs_text, pairs_path));
  for (TemplatePair& pair : lists.pairs) {
    LC_RETURN_IF_ERROR(positions.Replace(pairs_path, &pair.first));
    LC_RETURN_IF_ERROR(positions.Replace(pairs_path, &pair.second));
  }
  LC_ASSIGN_OR_RETURN(lists.gallery_1, ReadSubjects(gallery + "1.csv", positions));
  LC_ASSIGN_OR_RETURN(lists.gallery_2, ReadSubjects(gallery + "2.csv", positions));
  LC_ASSIGN_OR_RETURN(lists.probes, ReadSubjects(meta + "1N_probe_mixed.csv", positions));
  std::vector<std::string> paths;
  for (TemplateImage& image : images) {
    LC_RETURN_IF_ERROR(positions.Replace(images_path, &image.template_id));
    lists.images.labels.push_back(static_cast<int32_t>(image.template_id));
    lists.images.source_rows.push_back(static_cast<int64_t>(paths.size()));
    lists.media.push_back(image.medium_id);
    paths.push_back(std::move(image.path));
  }
  lists.images.height = lists.images.width = kSide;
  lists.images.channels = 3;
  LC_ASSIGN_OR_RETURN(lists.images.source, OpenImageFiles(folder + "/loose_crop", std::move(paths)));
  return lists;
}

std::vector<float> PoolTemplates(std::span<const float> z, int dimension, std::span<const int32_t> templates_of,
                                 std::span<const int64_t> media, int64_t templates) {
  LC_DCHECK(templates_of.size() == media.size() && z.size() == media.size() * static_cast<size_t>(dimension));
  const size_t d = static_cast<size_t>(dimension);
  std::map<std::pair<int32_t, int64_t>, std::vector<size_t>> groups;  // images by template and medium
  for (size_t i = 0; i < templates_of.size(); ++i) groups[{templates_of[i], media[i]}].push_back(i);
  std::vector<double> sums(static_cast<size_t>(templates) * d, 0.0);
  std::vector<int64_t> counts(static_cast<size_t>(templates), 0);
  for (const auto& [key, images] : groups) {
    const size_t t = static_cast<size_t>(key.first);
    ++counts[t];
    for (const size_t i : images) {
      for (size_t c = 0; c < d; ++c)
        sums[t * d + c] += static_cast<double>(z[i * d + c]) / static_cast<double>(images.size());
    }
  }
  std::vector<float> out(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    out[i] = counts[i / d] == 0 ? 0.0f : static_cast<float>(sums[i] / static_cast<double>(counts[i / d]));
  }
  return out;
}

}  // namespace lightcone

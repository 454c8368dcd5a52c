// IJB-B and IJB-C as InsightFace releases their lists (meta/): which image belongs to which template and medium, which
// pairs of templates are verified (1:1), and who is enrolled and searched (1:N).
// DATA_LOSS names path:line of a damaged list, NOT_FOUND a missing file. Threads: all are safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// An image of a template. A medium is one photo, or one video of which several frames are in the template.
struct TemplateImage {
  std::string path;
  int64_t template_id = 0, medium_id = 0;
};

struct TemplatePair {
  int64_t first = 0, second = 0;
  bool same = false;  // of one subject
};

struct TemplateSubject {
  int64_t template_id = 0, subject_id = 0;
};

// "IMAGE TEMPLATE MEDIUM" lines of ..._face_tid_mid.txt.
absl::StatusOr<std::vector<TemplateImage>> ParseTemplateImages(std::string_view text, std::string_view what);
// "TEMPLATE TEMPLATE 0|1" lines of ..._template_pair_label.txt.
absl::StatusOr<std::vector<TemplatePair>> ParseTemplatePairs(std::string_view text, std::string_view what);
// "TEMPLATE_ID,SUBJECT_ID,..." lines of ..._1N_*.csv after a header; a template has as many lines as images, and comes
// once in the result, in the order of the first.
absl::StatusOr<std::vector<TemplateSubject>> ParseTemplateSubjects(std::string_view text, std::string_view what);

// A face set ready to embed. Template ids are replaced by positions 0 .. templates-1, in ascending order of the ids.
struct FaceLists {
  ImageSet images;             // decoded when read, 112 x 112; the labels are templates
  std::vector<int64_t> media;  // of each image
  int64_t templates = 0;
  std::vector<TemplatePair> pairs;
  // The two galleries (of IJB-C G1 and G2, of IJB-B S1 and S2) and the probes that are searched in both.
  std::vector<TemplateSubject> gallery_1, gallery_2, probes;
};

// DIR/meta with ijbc_... or ijbb_... lists, DIR/loose_crop with the images. The images are used as they are, cropped to
// a square: align them beforehand where the model was trained on aligned faces. INVALID_ARGUMENT: a list names a
// template that no image has.
absl::StatusOr<FaceLists> OpenFaceLists(const std::string& folder);

// One vector a template: the mean over the images of each medium, then over its media. `z` is images x dimension, row
// major, `templates_of` and `media` one an image. Result: templates x dimension; 0 for one without images.
// REQUIRES: templates_of in 0 .. templates-1, sizes that fit.
std::vector<float> PoolTemplates(std::span<const float> z, int dimension, std::span<const int32_t> templates_of,
                                 std::span<const int64_t> media, int64_t templates);

}  // namespace lightcone

// IJB-B and IJB-C by InsightFace's lists (meta/): images of each template and medium, pairs of templates to verify
// (1:1), and enrolled and searched templates (1:N). DATA_LOSS names path:line of a damaged list, NOT_FOUND a missing
// file. Threads: all are safe.
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
  bool same = false;  // whether both are of one subject
};

struct TemplateSubject {
  int64_t template_id = 0, subject_id = 0;
};

// "IMAGE TEMPLATE MEDIUM" lines of ..._face_tid_mid.txt.
absl::StatusOr<std::vector<TemplateImage>> ParseTemplateImages(std::string_view text, std::string_view what);
// "TEMPLATE TEMPLATE 0|1" lines of ..._template_pair_label.txt.
absl::StatusOr<std::vector<TemplatePair>> ParseTemplatePairs(std::string_view text, std::string_view what);
// "TEMPLATE_ID,SUBJECT_ID,..." lines of ..._1N_*.csv after a header. A template has as many lines as images and one
// entry in the result, in the order of its first line.
absl::StatusOr<std::vector<TemplateSubject>> ParseTemplateSubjects(std::string_view text, std::string_view what);

// A face set ready to embed. Positions 0 .. templates-1, in ascending order of the ids, replace the template ids.
struct FaceLists {
  ImageSet images;             // images of 112 x 112, decoded when read; the labels are templates
  std::vector<int64_t> media;  // medium of each image
  int64_t templates = 0;
  std::vector<TemplatePair> pairs;
  // The two galleries (IJB-C: G1 and G2, IJB-B: S1 and S2) and the probes for both.
  std::vector<TemplateSubject> gallery_1, gallery_2, probes;
};

// Reads DIR/meta with ijbc_... or ijbb_... lists and DIR/loose_crop with the images. Images are cropped to a square,
// not aligned: align them beforehand for a model of aligned faces. INVALID_ARGUMENT for a template without images.
absl::StatusOr<FaceLists> OpenFaceLists(const std::string& folder);

// One vector for each template, templates x dimension: the mean over the images of each medium, then over the media; 0
// without images. `z` is images x dimension, row major; `templates_of` and `media` have one entry an image.
// REQUIRES: templates_of in 0 .. templates-1, sizes that fit.
std::vector<float> PoolTemplates(std::span<const float> z, int dimension, std::span<const int32_t> templates_of,
                                 std::span<const int64_t> media, int64_t templates);

}  // namespace lightcone

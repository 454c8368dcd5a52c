// The manifest of a trained encoder: everything that a server or an application must know to use its vectors.
// One JSON file ("manifest.json") beside the TorchScript file that it describes; docs/reference/formats/models.md has
// the fields.
// Threads: all functions are safe. No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "geometry/metric.h"

namespace lightcone {

// What the network takes: float32 [n, channels, height, width], each channel (pixel / 255 - mean) / stddev.
struct ManifestInput {
  int height = 0, width = 0, channels = 0;
  std::vector<float> mean, stddev;  // one value a channel; stddev > 0
};

// How the encoder came to be. For people and reports; nothing depends on it.
struct TrainingSummary {
  std::string dataset, recipe;
  int64_t epochs = 0, steps = 0, images = 0;  // images: in the training set
  uint64_t seed = 0;
  double seconds = 0, images_per_second = 0, final_loss = 0;
  std::string config_json;  // every option of the training (trainer/config.h), as one JSON object; may be empty
};

struct Manifest {
  static constexpr int kFormat = 1;

  int format = kFormat;
  std::string name;          // 1 .. 128 characters
  std::string architecture;  // a name of models/encoders/architecture.h, or "external"
  double width = 1.0;        // width factor of the architecture
  std::string stem;          // cifar | imagenet, for architectures that have the choice; empty for others
  std::string backbone;      // architecture torchscript: the operator's file, for people; up to 4096 characters
  bool frozen = false;       // architecture torchscript: the backbone was not trained further
  int dimension = 0;         // d, 1 .. 65536
  // Leading numbers of a vector that compare with vectors of older generations (methods that append numbers: bct+32,
  // bt2), 2 .. dimension; 0: all of them. New to new always compares the whole vector.
  int compatible_prefix = 0;
  // Nothing of it compares with older generations as it is: their items are carried to it by an adapter (lightcone).
  bool through_adapter = false;
  std::string metric = "lorentz";  // lorentz | cosine | inner_product | euclidean
  double curvature = 1.0;          // K > 0 (the hyperboloid has curvature -K); used by lorentz only
  double clip_radius = 1.0;        // zeta > 0, in tangent norm; used by lorentz only
  std::string rescale = "none";    // none | fixed | learnable: what the encoder has already applied to its output
  ManifestInput input;
  std::string method = "independent";
  std::string parent;                       // name of the model that it was trained against; empty: none
  uint32_t parent_crc32c = 0;               // encoder_crc32c of that model
  int classes = 0;                          // classes of the training set
  std::string encoder_file = "encoder.pt";  // relative to the manifest's folder, no separators
  uint32_t encoder_crc32c = 0;              // CRC-32C of that file
  TrainingSummary training;

  // Names the first field out of range: INVALID_ARGUMENT "field 'manifest.curvature' is -1; allowed: ...".
  absl::Status Validate() const;
};

// The JSON text (indented, fields in a fixed order, ends with a newline).
std::string ToJson(const Manifest& manifest);

// Parses and validates. INVALID_ARGUMENT for malformed JSON, a missing field, a wrong type or a value out of range
// (names field, value and what is allowed); FAILED_PRECONDITION for a format newer than kFormat. Unknown fields are
// ignored.
absl::StatusOr<Manifest> ParseManifest(std::string_view json);

// Reads FOLDER/manifest.json (or a path to a .json file). Errors carry the path.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder_or_file);

// Writes FOLDER/manifest.json atomically, after Validate().
absl::Status WriteManifest(const std::string& folder, const Manifest& manifest);

// The space of the model's vectors. INVALID_ARGUMENT as Space::Validate.
absl::StatusOr<Space> SpaceOf(const Manifest& manifest);

// Whether a training by that method ends with an item adapter that belongs to the model.
bool EndsWithAdapter(std::string_view method);

}  // namespace lightcone

// Stored inputs as images that a training reads: one folder a class.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/collection/collection.h"
#include "server/engine/embed/embed_frames.h"

namespace lightcone::server {

// What was written, and what was left out and why.
struct TrainingImages {
  uint64_t images = 0, classes = 0;
  uint64_t without_input = 0;  // items whose input is not stored
  uint64_t unlabelled = 0;     // items without the field
  uint64_t tensors = 0;        // inputs that are no images: tensors and texts
  uint64_t undecodable = 0;    // images that nothing can read
  uint64_t alone = 0;          // images that are the only one of their class
};

struct ExportRun {
  std::function<bool()> gone;  // end with CANCELLED soon
  std::function<void(uint64_t done, uint64_t total, std::string_view step)> report;
  // Whether stored inputs are images that can be decoded: one answer an input, its error or nothing.
  std::function<absl::StatusOr<EmbeddedInputs>(const std::vector<std::string>& inputs)> decode;
};

// Bytes left on the disk of `folder` where they are fewer than what trainings leave to the store's writes; nullopt:
// there is room, or nobody can tell.
std::optional<uint64_t> TooFewBytesLeft(const std::string& folder);

// Writes the stored images of all items, as they are now, to `folder`, made anew. A class is the value of `label_field`
// in the payload. An export that a crash cut short is made anew; one that had ended is left as it is.
// FAILED_PRECONDITION where fewer than two classes have two images (says what was left out). Errors of files and store.
// RESOURCE_EXHAUSTED where the disk has less room left than the store needs, and where there are more than a million
// classes.
absl::StatusOr<TrainingImages> ExportTrainingImages(const Collection& collection, const std::string& label_field,
                                                    const std::string& folder, const ExportRun& run);
// What an export that had ended wrote to `folder`.
absl::StatusOr<TrainingImages> KeptTrainingImages(const std::string& folder);

}  // namespace lightcone::server

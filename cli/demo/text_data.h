// A folder of labelled texts and their embeddings by two models, as `demo --data text:DIR` takes it.
// Threads: all functions are safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/formats/text_lines.h"

namespace lightcone::cli {

// Vectors of one model for each line of a file of texts.
struct TextVectors {
  std::vector<float> z;       // lines x dimension
  std::vector<uint8_t> zero;  // 1 where each number of a row is 0
  int64_t zeros = 0;          // number of such rows
};

struct TextModel {
  std::string name;
  int dimension = 0;
  TextVectors gallery, queries;
};

struct TextData {
  std::vector<TextLine> gallery, queries;
  std::vector<int32_t> gallery_labels, query_labels;  // places in label_names
  std::vector<std::string> label_names;
  TextModel old_model, new_model;
};

// Reads DIR/gallery.jsonl, DIR/queries.jsonl and, of two models, DIR/gallery.MODEL.npy and DIR/queries.MODEL.npy. The
// names are files' MODEL; an empty one is chosen by dimension: the smallest is old, the largest new, and of several
// with one dimension the first by name. NOT_FOUND for a missing file. INVALID_ARGUMENT names file, line or row, value
// and what is allowed: an unknown model, one model twice, a line, a repeated id, a row count that differs from the
// number of lines, another type than float16 or float32, a number that is not finite. DATA_LOSS for a damaged npy file.
absl::StatusOr<TextData> ReadTextData(const std::string& folder, std::string old_model, std::string new_model);

}  // namespace lightcone::cli

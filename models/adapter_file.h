// The file of an adapter: one self-checking file in the checkpoint form (models/checkpoint.h) with a JSON section
// "adapter" and one section of little-endian float32 numbers a matrix (docs/reference/formats/adapters.md).
// Threads: all functions are safe. No torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "geometry/adapter.h"

namespace lightcone {

// One of the maps that a fit chose among.
struct ComparedMap {
  std::string map;           // name of its kind
  double held_out_loss = 0;  // its loss over the held-out pairs

  bool operator==(const ComparedMap&) const = default;
};

// The place of an item's pairs in the order of a fit with that seed: the pairs at the end of it are held out.
uint64_t PlaceInFit(uint64_t seed, uint64_t item);

// How an adapter came to be. For people and reports; what a validation measures depends on the last line alone.
struct AdapterFit {
  std::string loss;            // terms and weights, "reg+rel+0.3*sup"; "closed-form" for procrustes and kernel
  int64_t pairs = 0;           // used to fit, held-out ones not counted
  int64_t held_out_pairs = 0;  // that chose the step to stop at and fitted the error head
  int64_t steps = 0;           // of the optimiser; 0 for a closed form
  double held_out_error = 0;   // mean distance of f(z) to its partner over the held-out pairs
  double baseline_error = 0;   // the same of the least-squares map W z + c that the fit started from
  double ridge = 0;            // lambda of that map, relative to the mean square of the input
  double head_r2 = 0;          // cross-validated R^2 of the log error; 0 without a head
  uint64_t seed = 0;
  std::string compared_by;            // loss of `compared`, "reg+rel"; empty: the map was asked for by name
  std::vector<ComparedMap> compared;  // maps that were fitted, at most kComparedMax; the one in the file is the best

  // The pairs are rows of other items that were matched: none was embedded by both models.
  bool matched = false;

  // Of a fit by a server: no item with this place or a later one was fitted. 0: not known.
  uint64_t held_out_from = 0;

  static constexpr size_t kComparedMax = 16;

  bool operator==(const AdapterFit&) const = default;
};

struct AdapterFile {
  static constexpr int kFormat = 2;  // 1 is written where nothing needs more: 2 brought spec.unit_input

  std::string from;  // label of the generation or model whose embeddings go in; 0 .. 128 bytes
  std::string to;    // of the one into whose space they come out; 0 .. 128 bytes
  // What it was fitted between, as far as that was known: models of one recipe fit each other's adapters in every size.
  uint32_t from_crc32c = 0, to_crc32c = 0;  // CRC-32C of the two encoders' files; 0: not known
  std::optional<Space> source;              // of what goes in, of dimension spec.input_dimension; nullopt: not known
  AdapterSpec spec;
  AdapterFit fit;

  bool operator==(const AdapterFile&) const = default;
};

// A model or generation that an adapter is to be used with.
struct AdapterEnd {
  std::string name;             // for errors, as in "generation 2"
  uint32_t encoder_crc32c = 0;  // of its encoder's file; 0: not known
  Space space;
};

// CRC-32C of the encoder's file that a manifest names; 0: it names none, as that of a model from elsewhere.
uint32_t EncoderCrc32cOf(std::string_view manifest_json);

// Whether the file leads from one into the other and was fitted between these two: INVALID_ARGUMENT names the field
// ("adapter.from_crc32c"), its value and what the end is. What the file or the end does not know is not compared.
absl::Status CheckFittedBetween(const AdapterFile& file, const AdapterEnd& from, const AdapterEnd& to);

// The file's bytes. INVALID_ARGUMENT when the spec or the source does not validate, a label is too long or not UTF-8,
// or a figure of the fit is not finite.
absl::StatusOr<std::string> EncodeAdapter(const AdapterFile& file);

// DATA_LOSS: not such a file, truncated, or a checksum fails (says which section). FAILED_PRECONDITION: a newer format.
// INVALID_ARGUMENT: a field missing, of another type or out of range, or a matrix of another size than the header says
// ("field 'adapter.hidden' is 12 numbers; allowed: exactly 65536 ..."). Whatever the bytes, memory stays in proportion
// to them. The result validates: Adapter::Make(file.spec) succeeds.
absl::StatusOr<AdapterFile> ParseAdapter(std::string_view bytes);

// Atomic writes; reads of at most 2 GiB. Errors carry the path; NOT_FOUND when there is no file.
absl::Status WriteAdapter(const std::string& path, const AdapterFile& file);
absl::StatusOr<AdapterFile> ReadAdapter(const std::string& path);

// Why the map is the one in the file: "kernel has the least held-out loss reg+rel: procrustes 4.9, ...". Empty if the
// map was asked for by name.
std::string ChoiceText(const AdapterFile& file);

// The JSON section alone: everything but the matrices, indented, ends with a newline. For people and for `--json`.
std::string AdapterHeaderJson(const AdapterFile& file);

}  // namespace lightcone

// Reader and writer of NumPy's .npy files (format 1.0, 2.0 and 3.0 of numpy.lib.format).
// Threads: all functions are safe. Input is never trusted: sizes are checked before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

enum class NpyType {
  kBool,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64
};

// "uint8", "float32" ...; and the bytes of one element.
std::string_view NpyTypeName(NpyType type);
int64_t NpyTypeBytes(NpyType type);
bool NpyIsInteger(NpyType type);

struct NpyHeader {
  NpyType type = NpyType::kUint8;
  bool big_endian = false;
  std::vector<int64_t> shape;  // sides, row major; empty for a scalar
  int64_t data_offset = 0;     // position of the first element in the file
  int64_t elements = 1;        // product of `shape`
};

// An array in memory. `data` is row major and little-endian, whatever the file is.
struct NpyArray {
  NpyType type = NpyType::kUint8;
  std::vector<int64_t> shape;
  std::string data;

  int64_t elements() const { return static_cast<int64_t>(data.size()) / NpyTypeBytes(type); }
  int64_t dim(size_t i) const { return i < shape.size() ? shape[i] : 1; }
};

// "(60000, 28, 28)" for messages.
std::string NpyShapeText(const std::vector<int64_t>& shape);

// Parses the header at the start of `bytes` (at least the first data_offset bytes of the file). `what` is the path for
// messages. DATA_LOSS when truncated or corrupt; INVALID_ARGUMENT for what is valid but not supported: Fortran order,
// structured or object types, more than 8 dimensions.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes, std::string_view what);

// Parses a whole file held in memory; the data must have exactly the size that the header asks for (else DATA_LOSS).
absl::StatusOr<NpyArray> ParseNpy(std::string bytes, std::string_view what);

// ReadFile + ParseNpy. Adds NOT_FOUND and, above `bytes_max`, RESOURCE_EXHAUSTED.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path, int64_t bytes_max = int64_t{1} << 34);

// The values as int64 (integer and bool types; uint64 above 2^63-1 is refused) or as float32 (float types, halves
// included). INVALID_ARGUMENT names the type that was found. `what` is the path for messages.
absl::StatusOr<std::vector<int64_t>> NpyIntegers(const NpyArray& array, std::string_view what);
absl::StatusOr<std::vector<float>> NpyFloats(const NpyArray& array, std::string_view what);

// The header of a version 1.0 file, padded so that data starts at a multiple of 64. The elements follow in
// little-endian order; a writer of large files streams them. REQUIRES: at most 8 dimensions, none negative.
std::string NpyHeaderBytes(NpyType type, const std::vector<int64_t>& shape);

// Header and data in one string. REQUIRES: data.size() fits type and shape.
std::string EncodeNpy(NpyType type, const std::vector<int64_t>& shape, std::string_view data);

}  // namespace lightcone

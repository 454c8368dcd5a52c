// MATLAB 5 files (.mat) with lists of annotations: numbers, text, cells and structs, compressed or not (MathWorks,
// "MAT-File Format", R2023b, level 5; little-endian). Sparse arrays, objects, complex numbers and level 7.3, which is
// HDF5, are refused by name. Integers above 2^53 lose digits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

struct MatArray {
  enum class Kind { kNumbers, kText, kCells, kStructs };
  Kind kind = Kind::kNumbers;
  std::vector<int64_t> shape;
  std::vector<double> numbers;      // numbers in column-major order
  std::string text;                 // text with '?' for code points above 127
  std::vector<std::string> fields;  // names of a struct's fields
  std::vector<MatArray> items;      // cells, or the fields of each struct in order

  int64_t size() const;  // product of the shape
};

// The variables by name. `what` is the path. DATA_LOSS: truncated or corrupt; INVALID_ARGUMENT: another kind of file or
// array. Inflates at most 64 MiB. Threads: safe.
absl::StatusOr<std::map<std::string, MatArray>> ParseMat(std::string_view bytes, std::string_view what);

}  // namespace lightcone

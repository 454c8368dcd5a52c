// MATLAB 5 files (.mat), as far as lists of annotations need them: numbers, text, cells and structs, compressed or not.
// (MathWorks, "MAT-File Format", R2023b, level 5; little-endian.) Sparse arrays, objects, complex numbers and level
// 7.3 (which is HDF5) are refused by name; integers above 2^53 lose digits.
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
  std::vector<double> numbers;      // column major, as the file has it
  std::string text;                 // code points above 127 become '?'
  std::vector<std::string> fields;  // of structs
  std::vector<MatArray> items;      // cells; or of structs, element by element, the fields in their order

  int64_t size() const;  // product of the shape
};

// The variables by name. `what` is the path. DATA_LOSS: truncated or corrupt; INVALID_ARGUMENT: another kind of file or
// array. Inflates at most 64 MiB. Threads: safe.
absl::StatusOr<std::map<std::string, MatArray>> ParseMat(std::string_view bytes, std::string_view what);

}  // namespace lightcone

#include "base/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/half.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kHeaderBytesMax = 1 << 20;  // limit far above real headers of about 100 bytes
constexpr size_t kDimensionsMax = 8;

template <typename T>
T ElementAt(const std::string& data, int64_t i) {
  T value;
  std::memcpy(&value, data.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
int64_t IntegerAt(const std::string& data, int64_t i) {
  return static_cast<int64_t>(ElementAt<T>(data, i));
}

struct TypeRow {
  NpyType type;
  std::string_view code, name;  // NumPy's kind and size, and its usual name
  int64_t bytes;
  int64_t (*integer_at)(const std::string& data, int64_t i);  // nullptr for floats
};
constexpr std::array<TypeRow, 12> kTypes = {{{NpyType::kBool, "b1", "bool", 1, IntegerAt<uint8_t>},
                                             {NpyType::kInt8, "i1", "int8", 1, IntegerAt<int8_t>},
                                             {NpyType::kUint8, "u1", "uint8", 1, IntegerAt<uint8_t>},
                                             {NpyType::kInt16, "i2", "int16", 2, IntegerAt<int16_t>},
                                             {NpyType::kUint16, "u2", "uint16", 2, IntegerAt<uint16_t>},
                                             {NpyType::kInt32, "i4", "int32", 4, IntegerAt<int32_t>},
                                             {NpyType::kUint32, "u4", "uint32", 4, IntegerAt<uint32_t>},
                                             {NpyType::kInt64, "i8", "int64", 8, IntegerAt<int64_t>},
                                             {NpyType::kUint64, "u8", "uint64", 8, IntegerAt<uint64_t>},
                                             {NpyType::kFloat16, "f2", "float16", 2, nullptr},
                                             {NpyType::kFloat32, "f4", "float32", 4, nullptr},
                                             {NpyType::kFloat64, "f8", "float64", 8, nullptr}}};

const TypeRow& RowOf(NpyType type) { return kTypes[static_cast<size_t>(type)]; }

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Order and spacing are
// the writer's choice, so this reads tokens rather than a fixed text.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : text_(text) {}

  // False when the text is not such a dictionary; `problem` says what was expected.
  bool Parse() {
    if (!Take('{')) return Fail("'{'");
    while (!Take('}')) {
      std::string key;
      if (!String(&key)) return Fail("a quoted key");
      if (!Take(':')) return Fail("':' after a key");
      if (key == "descr") {
        if (Peek() == '[') {
          structured = true;
          return true;
        }
        if (descr || !String(&descr.emplace())) return Fail("one quoted 'descr'");
      } else if (key == "fortran_order") {
        if (fortran || !Bool(&fortran.emplace())) return Fail("one True or False as 'fortran_order'");
      } else if (key == "shape") {
        if (shape || !Tuple(&shape.emplace())) return Fail("one tuple of whole numbers as 'shape'");
      } else {
        return Fail("only the keys 'descr', 'fortran_order' and 'shape'");
      }
      if (!Take(',') && Peek() != '}') return Fail("',' or '}'");
    }
    if (Peek() != '\0') return Fail("nothing after '}'");
    if (!descr || !fortran || !shape) return Fail("the keys 'descr', 'fortran_order' and 'shape'");
    return true;
  }

  bool structured = false;
  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;
  std::string problem;

 private:
  bool Fail(std::string_view expected) {
    problem = StrCat("expected ", expected, " at character ", position_);
    return false;
  }
  char Peek() {
    while (position_ < text_.size() && std::strchr(" \t\r\n", text_[position_]) && text_[position_] != '\0')
      ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c || position_ >= text_.size()) return false;
    ++position_;
    return true;
  }
  bool Word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }
  bool String(std::string* out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) return false;
    *out = std::string(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return true;
  }
  bool Bool(bool* out) {
    Peek();
    if (Word("True")) return *out = true;
    *out = false;
    return Word("False");
  }
  bool Number(int64_t* out) {
    if (Peek() < '0' || Peek() > '9') return false;
    int64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      if (value > (std::numeric_limits<int64_t>::max() - 9) / 10) return false;
      value = value * 10 + (text_[position_++] - '0');
    }
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // suffix that NumPy under Python 2 wrote
    *out = value;
    return true;
  }
  bool Tuple(std::vector<int64_t>* out) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      int64_t value = 0;
      if (!Number(&value) || out->size() >= 64) return false;
      out->push_back(value);
      if (!Take(',') && Peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  size_t position_ = 0;
};

absl::Status FillType(std::string_view descr, std::string_view what, NpyHeader* header) {
  std::string_view code = descr;
  const bool marked = !code.empty() && std::string_view("<>|=").find(code[0]) != std::string_view::npos;
  if (marked) code.remove_prefix(1);
  for (const TypeRow& row : kTypes) {
    if (row.code != code) continue;
    header->type = row.type;
    header->big_endian = marked && descr[0] == '>';
    return absl::OkStatus();
  }
  return InvalidField(StrCat(what, ": descr"), StrCat("'", descr, "'"),
                      "bool, int8 .. int64, uint8 .. uint64, float16, float32, float64");
}

absl::Status FillShape(std::vector<int64_t> shape, std::string_view what, NpyHeader* header) {
  if (shape.size() > kDimensionsMax) {
    return InvalidField(StrCat(what, ": shape"), NpyShapeText(shape), "at most 8 dimensions");
  }
  int64_t bytes = NpyTypeBytes(header->type);
  header->elements = 1;
  for (const int64_t side : shape) {
    if (side != 0 && bytes > std::numeric_limits<int64_t>::max() / side) {
      return DataLoss(StrCat(what, ": the shape ", NpyShapeText(shape), " has more than 2^63 bytes"));
    }
    bytes *= side;
    header->elements *= side;
  }
  header->shape = std::move(shape);
  return absl::OkStatus();
}

uint64_t LittleEndian(const char* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

std::string_view NpyTypeName(NpyType type) { return RowOf(type).name; }
int64_t NpyTypeBytes(NpyType type) { return RowOf(type).bytes; }
bool NpyIsInteger(NpyType type) { return type <= NpyType::kUint64 && type != NpyType::kBool; }

std::string NpyShapeText(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += StrCat(i ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes, std::string_view what) {
  if (bytes.size() < 10)
    return DataLoss(StrCat(what, ": truncated: ", bytes.size(), " bytes, a header has 10 or more"));
  if (bytes.substr(0, 6) != kMagic)
    return DataLoss(StrCat(what, ": not an npy file (its first bytes are not \\x93NUMPY)"));
  const int major = static_cast<uint8_t>(bytes[6]);
  if (major < 1 || major > 3) {
    return InvalidField(StrCat(what, ": npy version"), StrCat(major, ".", int{static_cast<uint8_t>(bytes[7])}),
                        "1.0, 2.0 or 3.0");
  }
  const int length_bytes = major == 1 ? 2 : 4;
  const int64_t prefix = 8 + length_bytes;
  if (static_cast<int64_t>(bytes.size()) < prefix) return DataLoss(StrCat(what, ": truncated inside its header"));
  const int64_t length = static_cast<int64_t>(LittleEndian(bytes.data() + 8, length_bytes));
  if (length > kHeaderBytesMax) return DataLoss(StrCat(what, ": header of ", length, " bytes; allowed: up to 1048576"));
  if (static_cast<int64_t>(bytes.size()) < prefix + length) {
    return DataLoss(StrCat(what, ": truncated inside its header of ", length, " bytes"));
  }
  DictParser dict(bytes.substr(prefix, length));
  if (!dict.Parse()) return DataLoss(StrCat(what, ": corrupt npy header: ", dict.problem));
  if (dict.structured) return InvalidField(StrCat(what, ": descr"), "a structured type", "one number an element");
  NpyHeader header;
  LC_RETURN_IF_ERROR(FillType(*dict.descr, what, &header));
  LC_RETURN_IF_ERROR(FillShape(*std::move(dict.shape), what, &header));
  if (*dict.fortran && header.shape.size() > 1) {
    return InvalidField(StrCat(what, ": fortran_order"), "True", "False (save numpy.ascontiguousarray(array) instead)");
  }
  header.data_offset = prefix + length;
  return header;
}

absl::StatusOr<NpyArray> ParseNpy(std::string bytes, std::string_view what) {
  LC_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(bytes, what));
  const int64_t width = NpyTypeBytes(header.type);
  const int64_t found = static_cast<int64_t>(bytes.size()) - header.data_offset;
  const int64_t needed = header.elements * width;
  if (found != needed) {
    return DataLoss(StrCat(what, ": ", found < needed ? "truncated" : "corrupt", ": has ", found,
                           " bytes of data; shape ", NpyShapeText(header.shape), " of ", NpyTypeName(header.type),
                           " needs ", needed));
  }
  NpyArray array{header.type, std::move(header.shape), std::move(bytes)};
  array.data.erase(0, static_cast<size_t>(header.data_offset));
  if (header.big_endian && width > 1) {
    for (int64_t i = 0; i < needed; i += width) std::reverse(array.data.begin() + i, array.data.begin() + i + width);
  }
  return array;
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path, int64_t bytes_max) {
  LC_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, bytes_max));
  return ParseNpy(std::move(bytes), path);
}

absl::StatusOr<std::vector<int64_t>> NpyIntegers(const NpyArray& array, std::string_view what) {
  const TypeRow& row = RowOf(array.type);
  if (row.integer_at == nullptr) return InvalidField(StrCat(what, ": dtype"), row.name, "an integer type");
  std::vector<int64_t> out(static_cast<size_t>(array.elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = row.integer_at(array.data, static_cast<int64_t>(i));
    if (array.type == NpyType::kUint64 && out[i] < 0) {
      return InvalidField(StrCat(what, ": element ", i), StrCat(static_cast<uint64_t>(out[i])), "up to 2^63 - 1");
    }
  }
  return out;
}

absl::StatusOr<std::vector<float>> NpyFloats(const NpyArray& array, std::string_view what) {
  const int64_t n = array.elements();
  std::vector<float> out(static_cast<size_t>(n));
  switch (array.type) {
    case NpyType::kFloat16:
      for (int64_t i = 0; i < n; ++i) out[i] = HalfToFloat(ElementAt<uint16_t>(array.data, i));
      break;
    case NpyType::kFloat32:
      if (n > 0) std::memcpy(out.data(), array.data.data(), array.data.size());
      break;
    case NpyType::kFloat64:
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(ElementAt<double>(array.data, i));
      break;
    default:
      return InvalidField(StrCat(what, ": dtype"), NpyTypeName(array.type), "float16, float32 or float64");
  }
  return out;
}

std::string NpyHeaderBytes(NpyType type, const std::vector<int64_t>& shape) {
  LC_DCHECK(shape.size() <= kDimensionsMax &&
            std::all_of(shape.begin(), shape.end(), [](auto side) { return side >= 0; }));
  const TypeRow& row = RowOf(type);
  std::string dict = StrCat("{'descr': '", row.bytes == 1 ? "|" : "<", row.code,
                            "', 'fortran_order': False, 'shape': ", NpyShapeText(shape), ", }");
  while ((10 + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(dict.size() & 0xff);
  bytes += static_cast<char>(dict.size() >> 8);
  return bytes + dict;
}

std::string EncodeNpy(NpyType type, const std::vector<int64_t>& shape, std::string_view data) {
  return NpyHeaderBytes(type, shape).append(data);
}

}  // namespace lightcone

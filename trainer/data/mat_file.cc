#include "trainer/data/mat_file.h"

#include <zlib.h>

#include <bit>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr size_t kFileHeaderBytes = 128, kInflatedBytesMax = size_t{64} << 20;
constexpr int kDepthMax = 16;
// Data types of elements ...
constexpr uint32_t kInt8 = 1, kUint8 = 2, kInt16 = 3, kUint16 = 4, kInt32 = 5, kUint32 = 6, kSingle = 7, kDouble = 9,
                   kInt64 = 12, kUint64 = 13, kMatrix = 14, kCompressed = 15, kUtf8 = 16, kUtf16 = 17;
// ... and classes of arrays.
constexpr uint32_t kCellClass = 1, kStructClass = 2, kCharClass = 4, kDoubleClass = 6, kUint64Class = 15;

struct Element {
  uint32_t type = 0;
  std::string_view data;
};

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Reads elements one after another. Positions in messages count from the beginning of the (inflated) bytes.
class Reader {
 public:
  Reader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  bool AtEnd() const { return at_ >= bytes_.size(); }
  absl::Status Corrupt(std::string_view why) const { return DataLoss(StrCat(what_, ": byte ", at_, ": ", why)); }

  absl::StatusOr<Element> Next() {
    if (bytes_.size() - at_ < 8) return Corrupt("truncated: an element needs 8 bytes");
    const uint32_t first = Load<uint32_t>(bytes_.data() + at_), small = first >> 16;
    if (small != 0) {  // type, size and up to four bytes of data in one tag
      if (small > 4) return Corrupt(StrCat("corrupt: a small element of ", small, " bytes; allowed: 1 .. 4"));
      const Element element{first & 0xffffu, bytes_.substr(at_ + 4, small)};
      at_ += 8;
      return element;
    }
    const size_t size = Load<uint32_t>(bytes_.data() + at_ + 4), left = bytes_.size() - at_ - 8;
    if (size > left) return Corrupt(StrCat("truncated: an element of ", size, " bytes; ", left, " are left"));
    const Element element{first, bytes_.substr(at_ + 8, size)};
    const size_t padded = first == kCompressed ? size : (size + 7) / 8 * 8;
    at_ += 8 + std::min(padded, left);
    return element;
  }

  absl::StatusOr<Element> Expect(uint32_t type, std::string_view name) {
    LC_ASSIGN_OR_RETURN(const Element element, Next());
    if (element.type == type) return element;
    return Corrupt(StrCat("corrupt: ", name, " has type ", element.type, "; allowed: ", type));
  }

 private:
  std::string_view bytes_, what_;
  size_t at_ = 0;
};

absl::StatusOr<std::string> Inflate(std::string_view packed, std::string_view what, size_t bytes_max) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return Internal("zlib: inflateInit");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK && out.size() <= bytes_max) {
    char block[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(block);
    stream.avail_out = sizeof(block);
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(block, sizeof(block) - stream.avail_out);
  }
  inflateEnd(&stream);
  if (out.size() > bytes_max) {
    return ResourceExhausted(StrCat(what, ": inflates to over ", kInflatedBytesMax, " bytes"));
  }
  if (result != Z_STREAM_END) return DataLoss(StrCat(what, ": corrupt or truncated compressed variable"));
  return out;
}

template <typename T>
void AppendNumbers(std::string_view data, std::vector<double>* out) {
  for (size_t i = 0; i + sizeof(T) <= data.size(); i += sizeof(T)) {
    out->push_back(static_cast<double>(Load<T>(data.data() + i)));
  }
}

absl::Status AppendAny(const Reader& reader, const Element& element, std::vector<double>* out) {
  const std::string_view data = element.data;
  switch (element.type) {
    case kInt8:
      AppendNumbers<int8_t>(data, out);
      break;
    case kUint8:
    case kUtf8:
      AppendNumbers<uint8_t>(data, out);
      break;
    case kInt16:
      AppendNumbers<int16_t>(data, out);
      break;
    case kUint16:
    case kUtf16:
      AppendNumbers<uint16_t>(data, out);
      break;
    case kInt32:
      AppendNumbers<int32_t>(data, out);
      break;
    case kUint32:
      AppendNumbers<uint32_t>(data, out);
      break;
    case kSingle:
      AppendNumbers<float>(data, out);
      break;
    case kDouble:
      AppendNumbers<double>(data, out);
      break;
    case kInt64:
      AppendNumbers<int64_t>(data, out);
      break;
    case kUint64:
      AppendNumbers<uint64_t>(data, out);
      break;
    default:
      return reader.Corrupt(StrCat("corrupt: data of type ", element.type));
  }
  return absl::OkStatus();
}

struct Named {
  std::string name;
  MatArray array;
};

absl::StatusOr<Named> ParseMatrix(std::string_view bytes, std::string_view what, int depth);

// `count` nested arrays. They cannot be more than the bytes hold, whatever the shape says.
absl::Status ParseItems(Reader* reader, int64_t count, std::string_view what, int depth, std::vector<MatArray>* items) {
  constexpr int64_t kItemsMax = int64_t{1} << 20;
  if (count > kItemsMax) {
    return reader->Corrupt(StrCat("corrupt: ", count, " cells or fields; allowed: 0 .. ", kItemsMax));
  }
  for (int64_t i = 0; i < count; ++i) {
    LC_ASSIGN_OR_RETURN(const Element element, reader->Expect(kMatrix, "a cell or field"));
    LC_ASSIGN_OR_RETURN(Named item, ParseMatrix(element.data, what, depth + 1));
    items->push_back(std::move(item.array));
  }
  return absl::OkStatus();
}

absl::Status ParseFieldNames(Reader* reader, std::vector<std::string>* fields) {
  LC_ASSIGN_OR_RETURN(const Element length, reader->Expect(kInt32, "the length of field names"));
  const int32_t bytes = length.data.size() == 4 ? Load<int32_t>(length.data.data()) : 0;
  LC_ASSIGN_OR_RETURN(const Element names, reader->Expect(kInt8, "field names"));
  constexpr size_t kFieldsMax = 4096;
  if (bytes < 1 || names.data.size() % static_cast<size_t>(bytes) != 0 ||
      names.data.size() / static_cast<size_t>(bytes) > kFieldsMax) {
    return reader->Corrupt(StrCat("corrupt: ", names.data.size(), " bytes of field names of ", bytes));
  }
  for (size_t i = 0; i < names.data.size(); i += static_cast<size_t>(bytes)) {
    const std::string_view padded = names.data.substr(i, static_cast<size_t>(bytes));
    fields->emplace_back(padded.substr(0, std::min(padded.find('\0'), padded.size())));
  }
  return absl::OkStatus();
}

absl::Status ParseShape(Reader* reader, std::vector<int64_t>* shape) {
  LC_ASSIGN_OR_RETURN(const Element element, reader->Expect(kInt32, "the shape"));
  int64_t size = 1;
  for (size_t i = 0; i + 4 <= element.data.size(); i += 4) {
    const int64_t side = Load<int32_t>(element.data.data() + i);
    if (side < 0) return reader->Corrupt(StrCat("corrupt: a side of ", side));
    shape->push_back(side);
    size *= side;
    if (size > (int64_t{1} << 31)) return reader->Corrupt("corrupt: over 2^31 numbers in an array");
  }
  if (shape->size() < 2) return reader->Corrupt("corrupt: a shape of fewer than two sides");
  return absl::OkStatus();
}

absl::Status ParseContent(Reader* reader, uint32_t array_class, std::string_view what, int depth, MatArray* array) {
  if (array_class == kCellClass) {
    array->kind = MatArray::Kind::kCells;
    return ParseItems(reader, array->size(), what, depth, &array->items);
  }
  if (array_class == kStructClass) {
    array->kind = MatArray::Kind::kStructs;
    LC_RETURN_IF_ERROR(ParseFieldNames(reader, &array->fields));
    return ParseItems(reader, array->size() * static_cast<int64_t>(array->fields.size()), what, depth, &array->items);
  }
  const bool text = array_class == kCharClass;
  if (!text && (array_class < kDoubleClass || array_class > kUint64Class)) {
    return InvalidField(StrCat(what, ": class of an array"), StrCat(array_class),
                        "cells, structs, text and real numbers (1, 2, 4, 6 .. 15)");
  }
  if (array->size() > 0) {
    LC_ASSIGN_OR_RETURN(const Element data, reader->Next());
    LC_RETURN_IF_ERROR(AppendAny(*reader, data, &array->numbers));
  }
  if (!text && static_cast<int64_t>(array->numbers.size()) != array->size()) {  // a text's length may differ in UTF-8
    return reader->Corrupt(StrCat("corrupt: ", array->numbers.size(), " numbers; the shape has ", array->size()));
  }
  if (!text) return absl::OkStatus();
  array->kind = MatArray::Kind::kText;
  for (const double code : array->numbers) array->text += code > 0 && code < 128 ? static_cast<char>(code) : '?';
  array->numbers.clear();
  return absl::OkStatus();
}

absl::StatusOr<Named> ParseMatrix(std::string_view bytes, std::string_view what, int depth) {
  Named out;
  if (bytes.empty()) return out;  // MATLAB may write an empty array without content
  Reader reader(bytes, what);
  if (depth > kDepthMax) return reader.Corrupt(StrCat("corrupt: nested deeper than ", kDepthMax));
  LC_ASSIGN_OR_RETURN(const Element flags, reader.Expect(kUint32, "array flags"));
  if (flags.data.size() < 4) return reader.Corrupt("corrupt: array flags of under 4 bytes");
  const uint32_t word = Load<uint32_t>(flags.data.data());
  if ((word & 0x800u) != 0) return InvalidField(StrCat(what, ": an array"), "complex", "real numbers");
  LC_RETURN_IF_ERROR(ParseShape(&reader, &out.array.shape));
  LC_ASSIGN_OR_RETURN(const Element name, reader.Expect(kInt8, "the name"));
  out.name = std::string(name.data);
  LC_RETURN_IF_ERROR(ParseContent(&reader, word & 0xffu, what, depth, &out.array));
  return out;
}

absl::Status CheckFileHeader(std::string_view bytes, std::string_view what) {
  if (bytes.starts_with("\x89HDF") || bytes.starts_with("MATLAB 7.3")) {
    return InvalidField(StrCat(what, ": format"), "MATLAB 7.3 (HDF5)", "MATLAB 5 (save with -v7 or -v6)");
  }
  if (bytes.size() < kFileHeaderBytes) {
    return DataLoss(StrCat(what, ": truncated: has ", bytes.size(), " bytes; the header has ", kFileHeaderBytes));
  }
  if (bytes.substr(126, 2) == "IM" && bytes[125] == 1) return absl::OkStatus();
  return InvalidField(StrCat(what, ": format"), "no little-endian MATLAB 5 header", "MATLAB 5, little-endian");
}

}  // namespace

int64_t MatArray::size() const {
  int64_t product = shape.empty() ? 0 : 1;
  for (const int64_t side : shape) product *= side;
  return product;
}

absl::StatusOr<std::map<std::string, MatArray>> ParseMat(std::string_view bytes, std::string_view what) {
  LC_RETURN_IF_ERROR(CheckFileHeader(bytes, what));
  std::map<std::string, MatArray> variables;
  Reader reader(bytes.substr(kFileHeaderBytes), what);
  size_t inflated_bytes = 0;
  while (!reader.AtEnd()) {
    LC_ASSIGN_OR_RETURN(Element element, reader.Next());
    std::string inflated;
    if (element.type == kCompressed) {
      LC_ASSIGN_OR_RETURN(inflated, Inflate(element.data, what, kInflatedBytesMax - inflated_bytes));
      inflated_bytes += inflated.size();
      Reader inner(inflated, what);
      LC_ASSIGN_OR_RETURN(element, inner.Next());
    }
    if (element.type != kMatrix) return reader.Corrupt(StrCat("corrupt: a variable of type ", element.type));
    LC_ASSIGN_OR_RETURN(Named variable, ParseMatrix(element.data, what, 0));
    variables.insert_or_assign(std::move(variable.name), std::move(variable.array));
  }
  return variables;
}

}  // namespace lightcone

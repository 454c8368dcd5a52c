// Writers of small files in the layouts of the papers' data sets.
#pragma once

#include <zlib.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/trainer/data_files.h"

namespace lightcone::testing_data {

// Decoders go by content, so a PNG may stand in for a .jpg file.
inline std::string ColourPng(int height, int width, int red, int green, int blue) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < height * width; ++i) {
    for (const int value : {red, green, blue}) pixels.push_back(static_cast<uint8_t>(value));
  }
  return EncodePng(pixels.data(), height, width, 3).value();
}

inline std::string Little32(uint32_t v) {
  return {static_cast<char>(v), static_cast<char>(v >> 8), static_cast<char>(v >> 16), static_cast<char>(v >> 24)};
}

// --- RecordIO ---

inline std::string RecordPart(uint32_t part, std::string_view data) {
  std::string bytes = Little32(0xced7230a) + Little32(part << 29 | static_cast<uint32_t>(data.size()));
  bytes += data;
  while (bytes.size() % 4 != 0) bytes += '\0';
  return bytes;
}

// IRHeader and image: one label in the header, or a list of labels after it.
inline std::string ImageRecord(const std::vector<float>& labels, bool listed, std::string_view image) {
  const auto number = [](float v) { return Little32(std::bit_cast<uint32_t>(v)); };
  std::string data = Little32(listed ? static_cast<uint32_t>(labels.size()) : 0) + number(listed ? 0 : labels[0]);
  data.append(16, '\0');
  for (const float label : labels) data += listed ? number(label) : "";
  data += image;
  return data;
}

// A .rec and its .idx, with the keys 0, 1, 2 ...
struct RecordFiles {
  std::string rec, idx;
  void Add(std::string_view data) {
    idx += StrCat(count++, "\t", rec.size(), "\n");
    rec += RecordPart(0, data);
  }
  int count = 0;
};

// --- MATLAB 5 ---

inline std::string MatElement(uint32_t type, std::string_view data) {
  std::string bytes = Little32(type) + Little32(static_cast<uint32_t>(data.size()));
  bytes += data;
  while (bytes.size() % 8 != 0) bytes += '\0';
  return bytes;
}

inline std::string MatSmallElement(uint32_t type, std::string_view data) {
  std::string bytes = Little32(static_cast<uint32_t>(data.size()) << 16 | type);
  bytes += data;
  bytes.resize(8, '\0');
  return bytes;
}

// A whole array: class, shape, name and what follows them.
inline std::string MatMatrix(uint32_t array_class, const std::vector<int32_t>& shape, std::string_view name,
                             std::string_view content) {
  std::string sides;
  for (const int32_t side : shape) sides += Little32(static_cast<uint32_t>(side));
  std::string body = MatElement(6, Little32(array_class) + Little32(0)) + MatElement(5, sides) + MatElement(1, name);
  body += content;
  return MatElement(14, body);
}

inline std::string MatText(std::string_view text, std::string_view name = "") {
  return MatMatrix(4, {1, static_cast<int32_t>(text.size())}, name, MatElement(16, text));
}

// A number stored as one byte, in a small element, as MATLAB does.
inline std::string MatByte(int value, std::string_view name = "") {
  return MatMatrix(9, {1, 1}, name, MatSmallElement(2, std::string(1, static_cast<char>(value))));
}

inline std::string MatHeader() {
  std::string header = "MATLAB 5.0 MAT-file, Platform: GLNXA64";
  header.resize(124, ' ');
  header += std::string("\x00\x01", 2);
  return header + "IM";
}

inline std::string MatCompressed(std::string_view element) {
  uLongf size = compressBound(static_cast<uLong>(element.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(element.data()),
           static_cast<uLong>(element.size()));
  packed.resize(size);
  return Little32(15) + Little32(static_cast<uint32_t>(size)) + packed;
}

struct Car {
  std::string path;
  int label, test;
};

// The variables annotations and class_names of cars_annos.mat.
inline std::string CarAnnotations(const std::vector<Car>& cars) {
  std::string names;
  for (std::string name : {"relative_im_path", "class", "test"}) {
    name.resize(32, '\0');
    names += name;
  }
  std::string content = MatSmallElement(5, Little32(32)) + MatElement(1, names);
  for (const Car& car : cars) content += MatText(car.path) + MatByte(car.label) + MatByte(car.test);
  return MatMatrix(2, {1, static_cast<int32_t>(cars.size())}, "annotations", content);
}

inline std::string CarClasses(const std::vector<std::string>& classes) {
  std::string content;
  for (const std::string& name : classes) content += MatText(name);
  return MatMatrix(1, {1, static_cast<int32_t>(classes.size())}, "class_names", content);
}

}  // namespace lightcone::testing_data

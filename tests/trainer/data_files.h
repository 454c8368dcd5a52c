// Small data set files for tests, made on the spot.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/npy.h"
#include "base/status.h"
#include "tests/support/temporary_folder.h"
#include "trainer/data/dataset.h"

namespace lightcone::testing_data {

// A fresh folder, removed at the end of the test.
class Folder {
 public:
  const std::string& path() const { return folder_.path(); }
  void Write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    ASSERT_TRUE(WriteFileAtomically(folder_ / name, bytes).ok());
  }

 private:
  TemporaryFolder folder_;
};

inline std::string BigEndian32(uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8), static_cast<char>(v)};
}

inline std::string IdxImages(int count, int height, int width) {
  std::string bytes = BigEndian32(0x803) + BigEndian32(count) + BigEndian32(height) + BigEndian32(width);
  for (int i = 0; i < count * height * width; ++i) bytes += static_cast<char>(i % 251);
  return bytes;
}

inline std::string IdxLabels(const std::vector<int>& labels) {
  std::string bytes = BigEndian32(0x801) + BigEndian32(static_cast<uint32_t>(labels.size()));
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

// One CIFAR-100 row whose red, green and blue planes are filled with three values.
inline std::string CifarRow(int coarse, int fine, int red, int green, int blue) {
  std::string row{static_cast<char>(coarse), static_cast<char>(fine)};
  for (const int value : {red, green, blue}) row.append(1024, static_cast<char>(value));
  return row;
}

inline std::string NpyImages(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t side : shape) n *= side;
  std::string data;
  for (int64_t i = 0; i < n; ++i) data += static_cast<char>(i * 7 % 253);
  return EncodeNpy(NpyType::kUint8, shape, data);
}

inline std::string NpyLabels(const std::vector<int64_t>& labels) {
  const std::string_view data(reinterpret_cast<const char*>(labels.data()), labels.size() * 8);
  return EncodeNpy(NpyType::kInt64, {static_cast<int64_t>(labels.size())}, data);
}

inline std::string GreyPng(int height, int width, int value) {
  const std::vector<uint8_t> pixels(static_cast<size_t>(height) * width, static_cast<uint8_t>(value));
  return EncodePng(pixels.data(), height, width, 1).value();
}

// Opens `name` and expects an error of this code whose message holds every one of the texts.
inline void ExpectOpenError(const std::string& name, absl::StatusCode code, const std::vector<std::string>& texts) {
  const auto dataset = OpenDataset(name, 1);
  ASSERT_FALSE(dataset.ok()) << name;
  EXPECT_EQ(dataset.status().code(), code) << MessageOf(dataset.status());
  for (const std::string& text : texts) EXPECT_THAT(MessageOf(dataset.status()), ::testing::HasSubstr(text));
}

}  // namespace lightcone::testing_data

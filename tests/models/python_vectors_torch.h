// For tests: what Python's torch.jit.load computes with an encoder's file, beside what this program does.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/encoder.h"
#include "tests/models/small_encoders_torch.h"

namespace lightcone {

// Relative to the largest number of `expected`.
inline double WorstError(const torch::Tensor& values, const torch::Tensor& expected) {
  return ((values - expected).abs().max() / expected.abs().max()).item<double>();
}

class PythonVectors {
 public:
  // `folder` is there; files of this class go there.
  explicit PythonVectors(std::string folder) : folder_(std::move(folder)) {}

  // `encoder` was loaded from the file `path`; `name` is for people.
  void Add(const std::string& name, const std::string& path, const Encoder& encoder) {
    constexpr int kImages = 3;
    const ManifestInput& shape = encoder.manifest().input;
    const std::vector<float> input = Flat(torch::randn({kImages, shape.channels, shape.height, shape.width}));
    const std::string images = StrCat(folder_, "/", cases_.size(), ".in");
    ASSERT_TRUE(
        WriteFileAtomically(images, {reinterpret_cast<const char*>(input.data()), input.size() * sizeof(float)}).ok());
    absl::StatusOr<std::vector<float>> vectors = encoder.EmbedTensors(input, kImages);
    ASSERT_TRUE(vectors.ok()) << name << ": " << MessageOf(vectors.status());
    EXPECT_EQ(static_cast<int64_t>(vectors->size()), kImages * encoder.dimension()) << name;
    list_ += StrCat(path, " ", images, " ", shape.channels, " ", shape.height, " ", shape.width, "\n");
    cases_.push_back({name, images + ".out", *std::move(vectors)});
  }

  // To 1e-6 of the largest number.
  void ExpectTheSame() const {
    ASSERT_FALSE(Python().empty()) << "no python3 with torch: deploy/install-deps.sh test installs it";
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/program.py", kProgram).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/list", list_).ok());
    const std::string command = StrCat(Python(), " ", folder_, "/program.py ", folder_, "/list");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    for (const Case& one : cases_) {
      const std::string bytes = ReadFile(one.output).value_or("");
      std::vector<float> z(bytes.size() / sizeof(float));
      ASSERT_EQ(z.size(), one.vectors.size()) << one.name;
      std::memcpy(z.data(), bytes.data(), bytes.size());
      EXPECT_LE(WorstError(torch::tensor(z), torch::tensor(one.vectors)), 1e-6) << one.name;
    }
  }

 private:
  struct Case {
    std::string name, output;
    std::vector<float> vectors;
  };

  // A Python with torch: the distribution's first, then the one in the path; empty when this machine has none.
  static const std::string& Python() {
    static const auto* const kPython = [] {
      for (const std::string python : {"/usr/bin/python3", "python3"}) {
        if (std::system((python + " -c 'import torch' >/dev/null 2>&1").c_str()) == 0) return new std::string(python);
      }
      return new std::string;
    }();
    return *kPython;
  }

  static constexpr char kProgram[] = R"(
import array, sys, torch
for line in open(sys.argv[1]):
    encoder, images, channels, height, width = line.split()
    values = array.array('f')
    values.frombytes(open(images, 'rb').read())
    x = torch.tensor(list(values)).reshape(-1, int(channels), int(height), int(width))
    z = torch.jit.load(encoder)(x)
    open(images + '.out', 'wb').write(array.array('f', z.flatten().tolist()).tobytes())
)";

  const std::string folder_;
  std::string list_;
  std::vector<Case> cases_;
};

}  // namespace lightcone

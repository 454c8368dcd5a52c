// An experiment of seconds: a data set of patterns with noise as IDX files, and recipes for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "research/experiment/experiment.h"
#include "tests/trainer/data_files.h"
#include "tests/trainer/tiny_set.h"

namespace lightcone {

inline constexpr int kTinyClasses = 4, kTinyTrainImages = 72;

inline void WriteIdx(const testing_data::Folder& folder, const std::string& prefix, const ImageSet& set) {
  using testing_data::BigEndian32;
  folder.Write(prefix + "-images-idx3-ubyte", BigEndian32(0x803) + BigEndian32(static_cast<uint32_t>(set.size())) +
                                                  BigEndian32(static_cast<uint32_t>(set.height)) +
                                                  BigEndian32(static_cast<uint32_t>(set.width)) +
                                                  std::string(set.pixels.begin(), set.pixels.end()));
  folder.Write(prefix + "-labels-idx1-ubyte", testing_data::IdxLabels({set.labels.begin(), set.labels.end()}));
}

// "idx:FOLDER" of 72 images to train and 32 to test.
inline std::string WriteTinyData(const testing_data::Folder& folder) {
  WriteIdx(folder, "train", TinyImages(kTinyClasses, kTinyTrainImages / kTinyClasses, 1));
  WriteIdx(folder, "t10k", TinyImages(kTinyClasses, 8, 2));
  return "idx:" + folder.path();
}

inline constexpr char kTinyHead[] = R"(
title = "tiny"
data = "idx"

[scenario]
name = "ext-class"

[train]
encoder.architecture = "mlp"
encoder.width = 0.125
encoder.dimension = 8
epochs = 2
batch = 8
threads = 1
)";

inline constexpr int kTinyModels = 4;  // of these rows: old, independent, hbct, hbct without entailment
inline constexpr char kTinyRows[] = R"(
[space.lorentz]
metric = "lorentz"

[row.hbct]
title = "HBCT"
method = "hbct"
paper.p_com.cmc1 = 0.495

[row.no-entailment]
method = "hbct"
hbct.entailment = false
)";

// Data, recipe and results of one test.
class TinyExperiment {
 public:
  TinyExperiment() {
    options.recipe = work_ / "tiny.toml";
    options.out = work_ / "out";
    options.data = WriteTinyData(data_);
    Write(std::string(kTinyHead) + kTinyRows);
  }

  void Write(const std::string& recipe) const { ASSERT_TRUE(WriteFileAtomically(options.recipe, recipe).ok()); }
  // The recipe with the first `from` replaced.
  void Change(const std::string& from, const std::string& to) const {
    std::string text = ReadFile(options.recipe).value();
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Write(text.replace(at, from.size(), to));
  }

  ExperimentOutcome MustRun() const {
    absl::StatusOr<ExperimentOutcome> outcome = RunExperiment(options);
    if (!outcome.ok()) ADD_FAILURE() << MessageOf(outcome.status());
    return outcome.ok() ? *std::move(outcome) : ExperimentOutcome();
  }
  absl::Status Error() const { return RunExperiment(options).status(); }

  // Every file of the results and every encoder, by path below `out`.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.out)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = std::filesystem::relative(entry.path(), options.out).string();
      files[name] = ReadFile(entry.path().string()).value();
    }
    return files;
  }
  std::string Table() const { return ReadFile(options.out + "/tiny/table.json").value_or(""); }

  std::string operator/(const std::string& name) const { return work_ / name; }

  ExperimentOptions options;

 private:
  testing_data::Folder data_;
  TemporaryFolder work_;
};

}  // namespace lightcone

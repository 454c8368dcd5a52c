// The whole story in one run: train, embed, upgrade without backfilling, measure through Search, kill, compare. With
// texts the embeddings are there, and the server fits the adapter.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/demo/demo_result.h"

namespace lightcone::cli {

struct DemoOptions {
  std::string data = "glyphs";  // a name that OpenDataset knows, or text:DIR (cli/demo/text_data.h)
  uint64_t seed = 1;            // seed of drawing, splits and training
  std::string folder;           // folder to create for models, data and report; an earlier demo is replaced
  std::string recipe = "quick";
  bool keep = false;   // leave server, collection and models when done
  std::string binary;  // program of the server to start; empty: lightcone beside this one

  // Of text:DIR alone. Empty names are chosen by dimension.
  std::string old_model = {}, new_model = {};
  std::optional<int64_t> pairs = {};  // texts that both models embed for the adapter; 2,000 or half of a small gallery
};

inline constexpr int64_t kDemoPairs = 2'000, kDemoPairsMin = 64;

// Runs the demo and writes FOLDER/report.html. Progress goes to `out`. Every figure of the result was measured in this
// run. Errors: FAILED_PRECONDITION naming the folder when it holds something but no file LIGHTCONE-DEMO, before
// anything is touched, or when a server runs in it; those of the data set (INVALID_ARGUMENT also for fewer than 4
// classes to train on and for a protocol of its own), before an earlier demo is removed; else those of training and of
// the server, with the step before them.
absl::StatusOr<DemoResult> RunDemo(const DemoOptions& options, std::FILE* out);

// RunDemo of text:DIR, which trains nothing: the embeddings are files. Errors of ReadTextData; INVALID_ARGUMENT for
// fewer pairs than 64 or more than there are; else as RunDemo.
absl::StatusOr<DemoResult> RunTextDemo(const DemoOptions& options, std::FILE* out);

}  // namespace lightcone::cli

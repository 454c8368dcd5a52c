// What the demo measured, and how it is told: JSON for programs, a table for a terminal, a page with plots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/demo/text_story.h"
#include "cli/served/demo_gallery.h"

namespace lightcone::cli {

// An item adapter that carries the old gallery into the space of a newer model.
struct DemoAdapter {
  std::string model;  // independent, new or lightcone
  std::string loss;
  int64_t pairs = 0;   // pairs that the adapter was fitted to
  double seconds = 0;  // seconds of embedding the pairs and of fitting
  double p_com_cmc1 = 0, p_com_map = 0;
  double p_up_cmc1 = 0, p_up_map = 0;  // figures of the model alone
};

// The new model's queries on the old gallery while `share` of it is embedded anew.
struct BackfillPoint {
  double share = 0;
  double cmc1 = 0, map = 0;
  std::optional<double> p10 = {}, mrr10 = {}, ndcg10 = {}, recall10 = {};  // figures as of DemoRow
  std::optional<int64_t> embedded = {};                                    // items that the new model has embedded
};

struct DemoNeighbour {
  std::string png;  // the picture, PNG bytes
  std::string class_name;
  bool right = false;
  double distance = 0;
};

// One query with what the old and the new model found in the same old gallery.
struct DemoExample {
  std::string png, class_name;
  std::vector<DemoNeighbour> by_old, by_new;
};

struct DemoEvent {
  std::string what;
  double start_s = 0, end_s = 0;  // seconds since the demo began
};

struct DemoResult {
  std::string dataset;
  uint64_t seed = 0;
  std::vector<DemoRow> rows;
  double p_com_cmc1 = 0, p_com_map = 0, p_up_cmc1 = 0, p_up_map = 0;
  std::vector<DemoAdapter> adapters;
  int64_t reembedded_items = 0;                                      // number of items embedded before the backfill
  std::vector<BackfillPoint> backfill_curve, backfill_curve_random;  // curves in the server's order and in a random one
  std::string backfill_order;                                        // figure that orders the items
  double activation_ms = 0, rollback_ms = 0;                         // medians, while searches go on
  double live_after_training_ms = 0;
  bool restart_identical = false;
  double train_seconds = 0, total_seconds = 0;
  double auroc_pre_clip = 0, auroc_clipped = 0;
  std::string config_json;  // recipe and versions

  int classes = 0, classes_trained = 0,
      classes_old = 0;  // trained: with training images, of which the old model has half
  int64_t train_images = 0, gallery_items = 0, queries = 0;
  std::vector<DemoExample> examples;
  std::vector<double> uncertainty_seen,
      uncertainty_unseen;  // gallery items by whether the old model knew the class
  std::vector<DemoEvent> events;
  std::optional<TextStory> text;  // absent of a demo with images

  const DemoRow* Row(const std::string& query, const std::string& gallery) const;
};

// "+0.123"; "-" where the gain is undefined (NaN): there was nothing to gain.
std::string GainText(double gain);

std::string DemoJson(const DemoResult& result);
std::string DemoTable(const DemoResult& result);
// A self-contained page: no scripts, no external files.
std::string DemoHtml(const DemoResult& result);

// Table and page of a demo with texts. REQUIRES: result.text.
std::string TextDemoTable(const DemoResult& result);
std::string TextDemoHtml(const DemoResult& result);

}  // namespace lightcone::cli

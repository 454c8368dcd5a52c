// What a demo with texts tells beyond what one with images does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lightcone::cli {

struct TextHit {
  std::string label, text;
  bool right = false;
};

// One query with what the old and the new model found in the gallery before the backfill.
struct TextExample {
  std::string label, text;
  std::vector<TextHit> by_old, by_new;
};

struct TextStory {
  std::string old_model, new_model;
  int old_dimension = 0, new_dimension = 0;
  int64_t pairs = 0, probes = 0;
  int64_t map_queries = 0, map_depth = 0;  // queries that mAP is the mean of, and the depth of their rankings
  // Numbers of rows without a direction, which are left out.
  int64_t gallery_zero_old = 0, gallery_zero_new = 0, queries_left_out = 0;

  bool gate_passed = false, gate_both_passes = false, forced = false;
  std::string gate_way;      // way of searches by the new vector: "item adapter"; "none" where none passed
  std::string gate_summary;  // the server's words
  std::string adapter_map;   // kind of the adapter
  std::vector<TextExample> examples;
};

}  // namespace lightcone::cli

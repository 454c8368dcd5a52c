#include "cli/demo/demo_result.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace lightcone::cli {
namespace {

std::string Line(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// Figures that only texts have, of a row or a point.
void AddTextFigures(const auto& of, nlohmann::ordered_json* json) {
  if (of.p10.has_value()) (*json)["p10"] = *of.p10;
  if (of.mrr10.has_value()) (*json)["mrr10"] = *of.mrr10;
  if (of.ndcg10.has_value()) (*json)["ndcg10"] = *of.ndcg10;
  if (of.recall10.has_value()) (*json)["recall10"] = *of.recall10;
}

nlohmann::ordered_json CurveJson(const std::vector<BackfillPoint>& curve) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const BackfillPoint& point : curve) {
    nlohmann::ordered_json& one = json.emplace_back();
    one = {{"share", point.share}, {"cmc1", point.cmc1}, {"map", point.map}};
    AddTextFigures(point, &one);
    if (point.embedded.has_value()) one["embedded"] = *point.embedded;
  }
  return json;
}

nlohmann::ordered_json RowJson(const DemoRow& row) {
  nlohmann::ordered_json json = {
      {"query", row.query}, {"gallery", row.gallery}, {"cmc1", row.cmc1}, {"cmc5", row.cmc5}, {"map", row.map}};
  AddTextFigures(row, &json);
  json["measured_by"] = row.how;
  return json;
}

nlohmann::ordered_json AdapterFigures(const DemoAdapter& adapter, bool with_p_up) {
  nlohmann::ordered_json json = {{"to", adapter.model},
                                 {"loss", adapter.loss},
                                 {"pairs", adapter.pairs},
                                 {"seconds", adapter.seconds},
                                 {"p_com", {{"cmc1", adapter.p_com_cmc1}, {"map", adapter.p_com_map}}}};
  if (with_p_up) json["p_up"] = {{"cmc1", adapter.p_up_cmc1}, {"map", adapter.p_up_map}};
  return json;
}

// What only images have.
void AddTraining(const DemoResult& result, nlohmann::ordered_json* json) {
  (*json)["train_seconds"] = result.train_seconds;
  (*json)["total_seconds"] = result.total_seconds;
  (*json)["uncertainty_auroc"] = {{"pre_clip", result.auroc_pre_clip}, {"clipped", result.auroc_clipped}};
  (*json)["classes"] = result.classes;
  (*json)["classes_old"] = result.classes_old;
  (*json)["train_images"] = result.train_images;
}

void AddTextStory(const DemoResult& result, nlohmann::ordered_json* json) {
  const TextStory& text = *result.text;
  (*json)["total_seconds"] = result.total_seconds;
  (*json)["classes"] = result.classes;
  (*json)["old_model"] = {{"name", text.old_model}, {"dimension", text.old_dimension}};
  (*json)["new_model"] = {{"name", text.new_model}, {"dimension", text.new_dimension}};
  (*json)["pairs"] = text.pairs;
  (*json)["probes"] = text.probes;
  (*json)["map_queries"] = text.map_queries;
  (*json)["map_depth"] = text.map_depth;
  (*json)["left_out"] = {{"gallery_old", text.gallery_zero_old},
                         {"gallery_new", text.gallery_zero_new},
                         {"queries", text.queries_left_out}};
  (*json)["gate"] = {{"passed", text.gate_passed},
                     {"way", text.gate_way},
                     {"both_passes", text.gate_both_passes},
                     {"forced", text.forced},
                     {"summary", text.gate_summary}};
}

std::string CurveLine(const char* name, const std::vector<BackfillPoint>& curve) {
  std::string line = Line("  %-38s", name);
  for (const BackfillPoint& point : curve) line += Line("  %6.3f", point.map);
  return line + "\n";
}

std::string BackfillTable(const DemoResult& result) {
  if (result.backfill_curve.empty()) return "";
  std::string text = Line("\n  %-38s", "mAP while the gallery is embedded anew");
  for (const BackfillPoint& point : result.backfill_curve) text += Line("  %4.0f %%", 100 * point.share);
  text += "\n" + CurveLine(StrCat("by ", result.backfill_order).c_str(), result.backfill_curve);
  text += CurveLine("in a random order", result.backfill_curve_random);
  return text + Line("  a rollback takes %.1f ms, an activation %.1f ms (medians, while searches go on)\n\n",
                     result.rollback_ms, result.activation_ms);
}

}  // namespace

std::string GainText(double gain) { return std::isnan(gain) ? "-" : Line("%+.3f", gain); }

const DemoRow* DemoResult::Row(const std::string& query, const std::string& gallery) const {
  for (const DemoRow& row : rows) {
    if (row.query == query && row.gallery == gallery) return &row;
  }
  return nullptr;
}

std::string DemoJson(const DemoResult& result) {
  nlohmann::ordered_json json;
  json["dataset"] = result.dataset;
  json["seed"] = result.seed;
  json["rows"] = nlohmann::ordered_json::array();
  for (const DemoRow& row : result.rows) {
    json["rows"].push_back(RowJson(row));
  }
  json["p_com"] = {{"cmc1", result.p_com_cmc1}, {"map", result.p_com_map}};
  const bool images = !result.text.has_value();
  if (images) json["p_up"] = {{"cmc1", result.p_up_cmc1}, {"map", result.p_up_map}};
  json["adapters"] = nlohmann::ordered_json::array();
  for (const DemoAdapter& adapter : result.adapters) {
    json["adapters"].push_back(AdapterFigures(adapter, images));
  }
  json["reembedded_items"] = result.reembedded_items;
  json["backfill_order"] = result.backfill_order;
  json["backfill_curve"] = CurveJson(result.backfill_curve);
  if (images) json["backfill_curve_random"] = CurveJson(result.backfill_curve_random);
  json["activation_ms"] = result.activation_ms;
  json["rollback_ms"] = result.rollback_ms;
  if (images) json["live_after_training_ms"] = result.live_after_training_ms;
  json["restart_identical"] = result.restart_identical;
  images ? AddTraining(result, &json) : AddTextStory(result, &json);
  json["gallery_items"] = result.gallery_items;
  json["queries"] = result.queries;
  json["config"] = nlohmann::ordered_json::parse(result.config_json, nullptr, /*allow_exceptions=*/false);
  return json.dump(2) + "\n";
}

std::string DemoTable(const DemoResult& result) {
  struct Note {
    const char *query, *gallery, *text;
  };
  static constexpr Note kNotes[] = {
      {"old", "old", "before the upgrade"},
      {"independent", "old", "an ordinary new model: useless until the gallery is backfilled"},
      {"new", "old", "a compatible model (HBCT): live at once, nothing re-embedded"},
      {"independent+adapter", "old", "an ordinary new model behind an adapter"},
      {"new+adapter", "old", "the compatible model behind an adapter"},
      {"lightcone+adapter", "old", "method lightcone: pulled early, then behind an adapter"},
      {"independent", "independent", "the ordinary one after a full backfill"},
      {"new", "new", "the compatible one after a full backfill"},
      {"lightcone", "lightcone", "method lightcone after a full backfill"},
  };
  std::string text;
  text += "\n  queries by           gallery by     CMC@1   CMC@5     mAP\n";
  text += "  -------------------  -----------   ------  ------  ------\n";
  for (const DemoRow& row : result.rows) {
    const auto* note = std::find_if(std::begin(kNotes), std::end(kNotes), [&row](const Note& each) {
      return row.query == each.query && row.gallery == each.gallery;
    });
    text += Line("  %-19s  %-11s   %6.3f  %6.3f  %6.3f  %s\n", row.query.c_str(), row.gallery.c_str(), row.cmc1,
                 row.cmc5, row.map, note == std::end(kNotes) ? "" : note->text);
  }
  const auto gains = [](double cmc1, double map) {
    return StrCat("CMC@1 ", GainText(cmc1), ", mAP ", GainText(map), "\n");
  };
  text += "\n  P_com (share of the possible gain that is there without backfilling): " +
          gains(result.p_com_cmc1, result.p_com_map);
  for (const DemoAdapter& adapter : result.adapters) {
    const std::string whose = StrCat("of the ", adapter.model, " model behind an adapter, fitted in ",
                                     static_cast<int64_t>(adapter.seconds), " s:");
    text += Line("        %-63s ", whose.c_str()) + gains(adapter.p_com_cmc1, adapter.p_com_map);
  }
  text += "  P_up  (what the training costs or gives the new model alone):         " +
          gains(result.p_up_cmc1, result.p_up_map);
  for (const DemoAdapter& adapter : result.adapters) {
    if (adapter.model != "lightcone") continue;
    text += Line("        %-63s ", "of the lightcone model:") + gains(adapter.p_up_cmc1, adapter.p_up_map);
  }
  text += BackfillTable(result);
  text += Line("  items re-embedded when the new model went live: %lld of %lld\n",
               static_cast<long long>(result.reembedded_items), static_cast<long long>(result.gallery_items));
  text += Line("  live %.0f ms after the end of training; identical answers after kill -9 and restart: %s\n",
               result.live_after_training_ms, result.restart_identical ? "yes" : "NO");
  text += Line("  uncertainty tells badly placed items: AUROC %.3f (norm before the clip), %.3f (clipped)\n",
               result.auroc_pre_clip, result.auroc_clipped);
  text += Line("  training %.0f s, everything %.0f s\n", result.train_seconds, result.total_seconds);
  return text;
}

}  // namespace lightcone::cli

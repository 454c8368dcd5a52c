// The table of a demo with texts, for a terminal.
#include <algorithm>
#include <iterator>

#include "base/dcheck.h"
#include "base/strings.h"
#include "cli/demo/demo_page.h"
#include "cli/demo/demo_result.h"

namespace lightcone::cli {
namespace {

std::string TextRowsTable(const DemoResult& result) {
  struct Note {
    const char *query, *gallery, *text;
  };
  static constexpr Note kTextNotes[] = {
      {"old", "old", "before the upgrade"},
      {"new", "old", "the new model, as the gate chose"},
      {"both", "old", "queries with the vectors of both"},
      {"new", "new", "after a full re-embedding"},
  };
  std::string table = "\n  queries by  gallery by   CMC@1    P@10  MRR@10  nDCG@10     mAP  recall@10\n";
  table += "  ----------  ----------  ------  ------  ------  -------  ------  ---------\n";
  for (const DemoRow& row : result.rows) {
    const auto* note = std::find_if(std::begin(kTextNotes), std::end(kTextNotes), [&row](const Note& each) {
      return row.query == each.query && row.gallery == each.gallery;
    });
    table += Printed("  %-10s  %-10s  %6.3f  %6.3f  %6.3f   %6.3f  %6.3f     %6.3f  %s\n", row.query.c_str(),
                     row.gallery.c_str(), row.cmc1, row.p10.value_or(0), row.mrr10.value_or(0), row.ndcg10.value_or(0),
                     row.map, row.recall10.value_or(0), note == std::end(kTextNotes) ? "" : note->text);
  }
  return table;
}

std::string TextBackfillTable(const DemoResult& result) {
  if (result.backfill_curve.empty()) return "";
  std::string head = Printed("\n  %-42s", "queries with both, while embedded anew");
  std::string cmc1 = Printed("  %-42s", "CMC@1"), map = Printed("  %-42s", "mAP");
  for (const BackfillPoint& point : result.backfill_curve) {
    head += Printed("  %4.0f %%", 100 * point.share);
    cmc1 += Printed("  %6.3f", point.cmc1);
    map += Printed("  %6.3f", point.map);
  }
  return head + "\n" + cmc1 + "\n" + map + "\n";
}

}  // namespace

std::string TextDemoTable(const DemoResult& result) {
  LC_DCHECK(result.text.has_value());
  const TextStory& text = *result.text;
  std::string table = TextRowsTable(result);
  table += StrCat("  mAP: of ", text.map_queries, " queries, over the first ", text.map_depth, " hits of ",
                  result.gallery_items, "\n\n");
  table += StrCat("  the gate of ", text.probes, " probes ", text.gate_passed ? "passed" : "refused",
                  text.forced ? "; the demo went on by force" : "", "; way of new queries: ", text.gate_way,
                  text.gate_both_passes ? "; queries with both vectors pass" : "", "\n  ", text.gate_summary, "\n");
  table += StrCat("  adapter: ", text.adapter_map, ", fitted to ", text.pairs, " pairs by the server\n");
  table += TextBackfillTable(result);
  table += StrCat("\n  items re-embedded when the new model went live: ", result.reembedded_items, " of ",
                  result.gallery_items, "\n");
  if (text.gallery_zero_old + text.gallery_zero_new + text.queries_left_out > 0) {
    table += StrCat("  rows of zeros have no direction and were left out: ", text.gallery_zero_old,
                    " texts of the old model, ", text.gallery_zero_new, " of the new one, ", text.queries_left_out,
                    " queries of either\n");
  }
  table += Printed("  a rollback takes %.1f ms, an activation %.1f ms (medians, while searches go on)\n",
                   result.rollback_ms, result.activation_ms);
  table += StrCat("  identical answers after kill -9 and restart: ", result.restart_identical ? "yes" : "NO", "\n");
  return table + Printed("  everything %.0f s\n", result.total_seconds);
}

}  // namespace lightcone::cli

// The page of a demo with texts: the upgrade in figures, the gate's words, and sentences that were found.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/dcheck.h"
#include "base/strings.h"
#include "base/svg.h"
#include "cli/demo/demo_page.h"
#include "cli/demo/demo_result.h"

namespace lightcone::cli {
namespace {

struct TextBar {
  const char *query, *gallery, *label, *color;
};
constexpr TextBar kTextBars[] = {{"old", "old", "old queries, old gallery", "var(--old)"},
                                 {"new", "old", "new queries, old gallery", "var(--indep)"},
                                 {"both", "old", "queries with both vectors, old gallery", "var(--new)"},
                                 {"new", "new", "new queries, everything re-embedded", "#8fb4ec"}};

std::string TextBars(const DemoResult& result) {
  BarPlot plot;
  plot.title = "Figures by query and gallery model";
  plot.groups = {"CMC@1", "P@10", "mAP", "recall@10"};
  plot.values.resize(plot.groups.size());
  for (const TextBar& bar : kTextBars) {
    plot.series.push_back({bar.label, bar.color});
    const DemoRow* row = result.Row(bar.query, bar.gallery);
    const auto value = [row](std::optional<double> figure) {
      return row == nullptr || !figure ? std::nullopt : std::optional<BarValue>({*figure, 0});
    };
    plot.values[0].push_back(value(row == nullptr ? std::nullopt : std::optional(row->cmc1)));
    plot.values[1].push_back(value(row == nullptr ? std::nullopt : row->p10));
    plot.values[2].push_back(value(row == nullptr ? std::nullopt : std::optional(row->map)));
    plot.values[3].push_back(value(row == nullptr ? std::nullopt : row->recall10));
  }
  return BarsSvg(plot);
}

std::string TextRows(const DemoResult& result) {
  std::string html =
      "<table><tr><th>queries by</th><th>gallery "
      "by</th><th>CMC@1</th><th>P@10</th><th>MRR@10</th><th>nDCG@10</th><th>mAP</th><th>recall@10</th>"
      "<th>measured by</th></tr>";
  for (const DemoRow& row : result.rows) {
    html += StrCat("<tr", row.query == "both" ? " class='key'" : "", "><td>", row.query, "</td><td>", row.gallery);
    html +=
        Printed("</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td>", row.cmc1,
                row.p10.value_or(0), row.mrr10.value_or(0), row.ndcg10.value_or(0), row.map, row.recall10.value_or(0));
    html += StrCat("<td class='soft'>", EscapeXml(row.how), "</td></tr>");
  }
  return html + "</table>";
}

std::string TextFacts(const DemoResult& result) {
  const TextStory& text = *result.text;
  return StrCat("<div class='facts'><div class='fact'><b>", text.gate_passed ? "passed" : "refused",
                "</b>says the gate of ", text.probes, " probes", text.forced ? "; activated by --force" : "",
                "</div><div class='fact'><b>", result.reembedded_items, "</b>of ", result.gallery_items,
                " items re-embedded when the new model went live</div>") +
         Printed("<div class='fact'><b>%.1f ms</b>to roll back</div>", result.rollback_ms) +
         StrCat("<div class='fact'><b>", result.restart_identical ? "identical" : "DIFFERENT",
                "</b>answers after kill -9 and restart</div></div>");
}

std::string TextBackfill(const DemoResult& result) {
  if (result.backfill_curve.empty()) return "";
  BarPlot plot;
  plot.title = "Figures while the gallery is embedded anew";
  plot.decimals = 3;
  plot.series = {{"CMC@1", "var(--old)"}, {"P@10", "var(--indep)"}, {"mAP", "var(--new)"}};
  for (const BackfillPoint& point : result.backfill_curve) {
    plot.groups.push_back(Printed("%.0f %%", 100 * point.share));
    plot.values.push_back({BarValue{point.cmc1, 0}, BarValue{point.p10.value_or(0), 0}, BarValue{point.map, 0}});
  }
  return StrCat(
      "<h2>The gallery embedded anew, while it serves</h2><p class='soft'>Queries with both vectors, as items "
      "are leased from the server (",
      EscapeXml(result.backfill_order), ") and embedded by the new model.</p>", BarsSvg(plot));
}

std::string TextHits(const char* name, const std::vector<TextHit>& hits) {
  std::string html = StrCat("<div><span class='soft'>", name, "</span>");
  for (const TextHit& hit : hits) {
    html += StrCat("<div class='", hit.right ? "right" : "wrong", "'>",
                   hit.right ? "right: " : "wrong: ", EscapeXml(hit.text), " <span class='soft'>", EscapeXml(hit.label),
                   "</span></div>");
  }
  return html + "</div>";
}

std::string TextExamples(const TextStory& text) {
  std::string html =
      "<h2>What was found in the same old gallery</h2><p class='soft'>Queries whose nearest text became right, or "
      "wrong. "
      "The label stands behind each text.</p>";
  for (const TextExample& example : text.examples) {
    html += StrCat("<blockquote>", EscapeXml(example.text), " <span class='soft'>", EscapeXml(example.label),
                   "</span></blockquote><div class='hits'>", TextHits("the old model found", example.by_old),
                   TextHits("the new model found", example.by_new), "</div>");
  }
  return html;
}

}  // namespace

std::string TextDemoHtml(const DemoResult& result) {
  LC_DCHECK(result.text.has_value());
  const TextStory& text = *result.text;
  std::string html = PageStart(result.dataset, "A new text model, live on the old gallery");
  html += StrCat("<p class='soft'>", EscapeXml(result.dataset), ", seed ", result.seed, ": ", result.gallery_items,
                 " texts, ", result.classes, " labels, ", result.queries,
                 " queries. Old model: ", EscapeXml(text.old_model), ", ", text.old_dimension,
                 " numbers. New model: ", EscapeXml(text.new_model), ", ", text.new_dimension, " numbers. ", text.pairs,
                 " texts were embedded by both, and the server fitted an adapter (", EscapeXml(text.adapter_map),
                 ") to these pairs.</p>");
  html += TextFacts(result);
  html += "<h2>Before and after</h2>" + TextBars(result) + TextRows(result);
  html += StrCat(
      "<p class='soft'>All but recall@10 ask for texts of the query's label. Recall@10 asks for the ten "
      "texts that the new model itself finds after a full re-embedding. mAP is of ",
      text.map_queries, " queries and counts the first ", text.map_depth,
      " hits.</p><p>The gate: ", EscapeXml(text.gate_summary),
      ". Way of searches by the new vector: ", EscapeXml(text.gate_way), ".</p>");
  return html + TextBackfill(result) + TextExamples(text) + PageEnd(result);
}

}  // namespace lightcone::cli

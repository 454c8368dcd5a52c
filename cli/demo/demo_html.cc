// The demo's report: one page, plots drawn as SVG, pictures inside as data URIs.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/escaping.h"
#include "base/strings.h"
#include "base/svg.h"
#include "cli/demo/demo_page.h"
#include "cli/demo/demo_result.h"

namespace lightcone::cli {
namespace {

std::string DataUri(const std::string& png) {
  std::string encoded;
  absl::Base64Escape(ToAbsl(png), &encoded);
  return "data:image/png;base64," + encoded;
}

std::string Bars(const DemoResult& result) {
  struct Group {
    const char* title;
    double DemoRow::*value;
  };
  const Group groups[] = {{"CMC@1", &DemoRow::cmc1}, {"CMC@5", &DemoRow::cmc5}, {"mAP", &DemoRow::map}};
  struct Bar {
    const char *query, *gallery, *label, *color;
  };
  const Bar bars[] = {{"old", "old", "old model, old gallery", "var(--old)"},
                      {"independent", "old", "ordinary new model, old gallery", "var(--indep)"},
                      {"independent+adapter", "old", "ordinary new model behind an adapter", "#e3b36f"},
                      {"new", "old", "compatible new model (HBCT), old gallery", "var(--new)"},
                      {"new+adapter", "old", "compatible new model behind an adapter", "#5b8fdb"},
                      {"lightcone+adapter", "old", "method lightcone: with its adapter", "var(--good)"},
                      {"new", "new", "compatible new model, everything re-embedded", "#8fb4ec"},
                      {"lightcone", "lightcone", "method lightcone, everything re-embedded", "#8cc9a8"},
                      {"independent", "independent", "ordinary new model, everything re-embedded", "#ecc58f"}};
  BarPlot plot;
  plot.title = "Recall by query and gallery model";
  for (const Bar& bar : bars) plot.series.push_back({bar.label, bar.color});
  for (const Group& group : groups) {
    plot.groups.emplace_back(group.title);
    std::vector<std::optional<BarValue>>& values = plot.values.emplace_back();
    for (const Bar& bar : bars) {
      const DemoRow* row = result.Row(bar.query, bar.gallery);
      values.push_back(row == nullptr ? std::nullopt : std::optional<BarValue>({row->*(group.value), 0}));
    }
  }
  return BarsSvg(plot);
}

std::string BackfillBars(const DemoResult& result) {
  BarPlot plot;
  plot.title = "mAP by the share of the gallery that is embedded anew";
  plot.decimals = 3;  // the two orders differ in the third
  double most = 0;
  for (size_t i = 0; i < result.backfill_curve.size(); ++i) {
    most = std::max({most, result.backfill_curve[i].map, result.backfill_curve_random[i].map});
  }
  plot.high = std::clamp(0.2 * std::ceil(most / 0.2), 0.2, 1.0);
  plot.series = {{StrCat("by ", result.backfill_order), "var(--new)"}, {"in a random order", "var(--old)"}};
  for (size_t i = 0; i < result.backfill_curve.size(); ++i) {
    plot.groups.push_back(Printed("%.0f %%", 100 * result.backfill_curve[i].share));
    plot.values.push_back(
        {BarValue{result.backfill_curve[i].map, 0}, BarValue{result.backfill_curve_random[i].map, 0}});
  }
  return BarsSvg(plot);
}

std::string Backfill(const DemoResult& result) {
  if (result.backfill_curve.empty()) return "";
  return Printed(
             "<h2>The gallery embedded anew, while it serves</h2><p class='soft'>mAP of the new model's queries as "
             "items are leased from the server and embedded by the new model. A rollback takes %.1f ms, an activation "
             "%.1f ms (medians of 20, while searches go on).</p>",
             result.rollback_ms, result.activation_ms) +
         BackfillBars(result);
}

std::string Histogram(const DemoResult& result) {
  return HistogramSvg({"Histogram of uncertainty",
                       {{"classes the old model was trained on", "#2463c4", result.uncertainty_seen},
                        {"classes it never saw", "#d08a2e", result.uncertainty_unseen}}});
}

std::string Strip(const char* name, const std::vector<DemoNeighbour>& neighbours) {
  std::string html = StrCat("<div class='strip'><span>", name, "</span>");
  for (const DemoNeighbour& neighbour : neighbours) {
    html += StrCat("<figure class='", neighbour.right ? "right" : "wrong", "'><img alt='' src='",
                   DataUri(neighbour.png), "'>", EscapeXml(neighbour.class_name), "</figure>");
  }
  return html + "</div>";
}

std::string Examples(const DemoResult& result) {
  std::string html;
  for (const DemoExample& example : result.examples) {
    html += StrCat("<div class='example'><figure><img alt='' src='", DataUri(example.png),
                   "'>query: ", EscapeXml(example.class_name), "</figure><div>", Strip("old", example.by_old),
                   Strip("new", example.by_new), "</div></div>");
  }
  return html;
}

std::string ResultTable(const DemoResult& result) {
  std::string html =
      "<table><tr><th>queries by</th><th>gallery by</th><th>CMC@1</th><th>CMC@5</th><th>mAP</th><th>measured "
      "by</th></tr>";
  for (const DemoRow& row : result.rows) {
    const bool key = row.query == "new" && row.gallery == "old";
    html += Printed("<tr%s><td>%s</td><td>%s</td><td>%.3f</td><td>%.3f</td><td>%.3f</td>", key ? " class='key'" : "",
                    row.query.c_str(), row.gallery.c_str(), row.cmc1, row.cmc5, row.map);
    html += StrCat("<td class='soft'>", EscapeXml(row.how), "</td></tr>");
  }
  return html + "</table>";
}

std::string Facts(const DemoResult& result) {
  const auto percent = [](double gain) { return std::isnan(gain) ? "-" : Printed("%+.0f %%", 100 * gain); };
  return StrCat("<div class='facts'><div class='fact'><b>", percent(result.p_com_cmc1),
                "</b>of the possible gain in CMC@1 is there at once (mAP ", percent(result.p_com_map),
                ")</div><div class='fact'><b>", result.reembedded_items, "</b>of ", result.gallery_items,
                " items re-embedded</div>") +
         Printed(
             "<div class='fact'><b>%.0f ms</b>from the end of training to the first answered query</div>"
             "<div class='fact'><b>%s</b>answers after kill -9 and restart</div></div>",
             result.live_after_training_ms, result.restart_identical ? "identical" : "DIFFERENT");
}

}  // namespace

std::string DemoHtml(const DemoResult& result) {
  std::string html = PageStart(result.dataset, "A new model, live on the old gallery");
  html += StrCat("<p class='soft'>", EscapeXml(result.dataset), ", seed ", result.seed, ": ", result.classes,
                 " classes, ", result.gallery_items, " items in the gallery, ", result.queries,
                 " queries. The old model was trained on the first ", result.classes_old, " classes; the new one on ",
                 result.classes_trained == result.classes ? "all" : StrCat("the first ", result.classes_trained),
                 ", compatible with the old (HBCT).</p>");
  html += Facts(result);
  html += "<h2>Recall before and after</h2>" + Bars(result) + ResultTable(result);
  const auto gains = [](double cmc1, double map) { return StrCat("CMC@1 ", GainText(cmc1), ", mAP ", GainText(map)); };
  html +=
      StrCat("<p class='soft'>P_com: ", gains(result.p_com_cmc1, result.p_com_map),
             " (1: as good as after a full backfill; 0: no better than the old model; -: there was nothing to gain). "
             "P_up: ",
             gains(result.p_up_cmc1, result.p_up_map), " (what compatibility costs the new model).</p>");
  for (const DemoAdapter& adapter : result.adapters) {
    html += StrCat("<p class='soft'>P_com of the ", adapter.model, " model with an item adapter, fitted by ",
                   adapter.loss, " to ", adapter.pairs, " pairs in ", Printed("%.0f s", adapter.seconds),
                   " and applied by the server: ", gains(adapter.p_com_cmc1, adapter.p_com_map),
                   ". P_up of that model: ", gains(adapter.p_up_cmc1, adapter.p_up_map), ".</p>");
  }
  html += Backfill(result);
  html +=
      "<h2>Nearest neighbours in the same old gallery</h2><p class='soft'>Queries whose nearest item changed. Green: "
      "right class, red: wrong.</p>" +
      Examples(result);
  html += Printed(
              "<h2>Uncertainty of the gallery</h2><p class='soft'>1 - tanh(|z|), from the norm before the clip, as "
              "stored with each item. It predicts which items the new model finds badly with AUROC %.3f; after the "
              "clip %.3f (0.5 is chance).</p>",
              result.auroc_pre_clip, result.auroc_clipped) +
          Histogram(result);
  return html + PageEnd(result);
}

}  // namespace lightcone::cli

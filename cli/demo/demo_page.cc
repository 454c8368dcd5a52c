#include "cli/demo/demo_page.h"

#include <algorithm>

#include "base/strings.h"
#include "base/svg.h"

namespace lightcone::cli {
namespace {

constexpr char kStyle[] = R"(
:root{--ink:#1c2430;--soft:#5d6b7c;--line:#dfe4ea;--old:#8a97a6;--indep:#d08a2e;--new:#2463c4;--bad:#c23b3b;
--good:#2a8a57}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .4rem}p{margin:.4rem 0 .8rem}.soft{color:var(--soft)}
table{border-collapse:collapse;width:100%}
th,td{padding:.35rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2),td:last-child,th:last-child{text-align:left}
.key{font-weight:600;color:var(--new)}.facts{display:flex;flex-wrap:wrap;gap:1rem;margin:1rem 0}
.fact{border:1px solid var(--line);border-radius:8px;padding:.6rem .9rem;flex:1 1 150px}
.fact b{display:block;font-size:1.5rem}
svg{width:100%;height:auto;display:block}
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}svg .s{fill:var(--soft)}
.example{display:grid;grid-template-columns:84px 1fr;gap:.3rem 1rem;
align-items:center;margin:.7rem 0;border-bottom:1px solid var(--line);padding-bottom:.6rem}
.strip{display:flex;gap:.4rem;align-items:center}.strip span{width:3.2rem;color:var(--soft)}
figure{margin:0;text-align:center;font-size:.72rem;color:var(--soft)}
figure img{width:52px;height:52px;image-rendering:pixelated;border:3px solid var(--line);border-radius:5px;
display:block;margin:0 auto}
.hits{display:grid;grid-template-columns:1fr 1fr;gap:.2rem 1rem;font-size:.9rem}.hits .right{color:var(--good)}
.hits .wrong{color:var(--bad)}blockquote{margin:.9rem 0 .2rem;font-weight:600}
figure.right img{border-color:var(--good)}figure.wrong img{border-color:var(--bad)})";

}  // namespace

std::string PageStart(const std::string& dataset, const std::string& heading) {
  return StrCat(
      "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width,initial-scale=1'><title>Lightcone demo: ",
      EscapeXml(dataset), "</title><style>", kStyle, "</style></head><body><h1>", EscapeXml(heading), "</h1>");
}

std::string PageEnd(const DemoResult& result) {
  return StrCat("<h2>Time line</h2>", TimeLineSvg(result),
                "<h2>Recipe and versions</h2><details><summary>JSON</summary><pre style='white-space:pre-wrap'>",
                EscapeXml(result.config_json), "</pre></details></body></html>\n");
}

std::string TimeLineSvg(const DemoResult& result) {
  const double total = std::max(1e-9, result.total_seconds);
  const int height = 26 * static_cast<int>(result.events.size()) + 30;
  std::string svg = Printed("<svg viewBox='0 0 960 %d' role='img' aria-label='Time line'>", height);
  for (size_t i = 0; i < result.events.size(); ++i) {
    const DemoEvent& event = result.events[i];
    const double x = 400 + 450 * event.start_s / total;
    const double width = std::max(2.0, 450 * (event.end_s - event.start_s) / total);
    const double y = 8 + 26.0 * static_cast<double>(i);
    svg += StrCat(
        Printed("<text x='390' y='%.0f' text-anchor='end'>", y + 13), EscapeXml(event.what), "</text>",
        Printed("<rect x='%.1f' y='%.0f' width='%.1f' height='16' rx='3' fill='var(--new)'/>", x, y, width),
        Printed("<text class='s' x='%.1f' y='%.0f'>%.1f s</text>", x + width + 6, y + 13, event.end_s - event.start_s));
  }
  return svg + Printed(
                   "<text class='s' x='400' y='%d'>0 s</text><text class='s' x='850' y='%d' "
                   "text-anchor='end'>%.0f s</text></svg>",
                   height - 6, height - 6, total);
}

}  // namespace lightcone::cli

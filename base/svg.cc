#include "base/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_replace.h"
#include "base/dcheck.h"
#include "base/strings.h"

namespace lightcone {
namespace {

constexpr char kLine[] = "#dfe4ea", kSoft[] = "#5d6b7c", kInk[] = "#1c2430";
constexpr double kWidth = 960, kLeft = 40, kRight = 950;

std::string Format(const char* format, auto... values) {
  char text[400];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string Open(double height, std::string_view title) {
  return StrCat(Format("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' font-family='system-ui,"
                       "sans-serif' font-size='13' fill='%s' role='img' aria-label='",
                       kWidth, height, kInk),
                EscapeXml(title), "'>");
}

std::string Text(double x, double y, const char* anchor, std::string_view text, bool soft = false) {
  return StrCat(Format("<text x='%.1f' y='%.1f' text-anchor='%s'", x, y, anchor),
                soft ? StrCat(" class='s' fill='", kSoft, "'") : std::string(), ">", EscapeXml(text), "</text>");
}

std::string Box(double x, double y, double width, double height, std::string_view color, const char* more = "") {
  return StrCat(Format("<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='", x, y, width, height),
                EscapeXml(color), "'", more, "/>");
}

std::string Line(double x1, double y1, double x2, double y2, const char* color) {
  return Format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s'/>", x1, y1, x2, y2, color);
}

// Two columns of a coloured square and a name each.
template <typename Sets>
std::string Legend(double top, const Sets& sets, const char* more) {
  std::string svg;
  for (size_t i = 0; i < sets.size(); ++i) {
    const double x = 60 + static_cast<double>(i % 2) * 440, y = top + static_cast<double>(i / 2) * 20;
    svg += Box(x, y, 14, 14, sets[i].color, more) + Text(x + 20, y + 12, "start", sets[i].label);
  }
  return svg;
}

template <typename Sets>
double LegendHeight(const Sets& sets) {
  return 20.0 * static_cast<double>((sets.size() + 1) / 2);
}

constexpr double kBarsTop = 30, kBarsBottom = 230;

double HeightOf(const BarPlot& plot, double value) {
  const double share = (std::clamp(value, plot.low, plot.high) - plot.low) / (plot.high - plot.low);
  return kBarsBottom - (kBarsBottom - kBarsTop) * share;
}

std::string Bar(const BarPlot& plot, const BarValue& bar, double x, double width, std::string_view color) {
  const double zero = HeightOf(plot, 0), end = HeightOf(plot, bar.value);
  std::string svg = Box(x, std::min(zero, end), width, std::max(1.0, std::abs(zero - end)), color, " rx='3'");
  double label = std::min(zero, end) - 5;
  if (bar.deviation > 0) {
    const double top = HeightOf(plot, bar.value + bar.deviation), bottom = HeightOf(plot, bar.value - bar.deviation);
    const double middle = x + width / 2, cap = std::min(5.0, width / 3);
    svg += Line(middle, top, middle, bottom, kInk) + Line(middle - cap, top, middle + cap, top, kInk) +
           Line(middle - cap, bottom, middle + cap, bottom, kInk);
    label = std::min(label, top - 5);
  }
  const bool cut = bar.value < plot.low || bar.value > plot.high;
  if (cut) svg += Box(x - 1, end + (bar.value < 0 ? -8 : 5), width + 2, 3, "#ffffff");  // a gap: the bar continues
  if (cut || width >= 24) svg += Text(x + width / 2, label, "middle", Format("%.*f", plot.decimals, bar.value));
  return svg;
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  return absl::StrReplaceAll(ToAbsl(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string SeriesColor(size_t i) {
  // Steps of the golden angle around the colour circle, in two brightnesses.
  return Format("hsl(%d,55%%,%d%%)", static_cast<int>(std::fmod(210 + 137.508 * static_cast<double>(i), 360.0)),
                i % 2 == 0 ? 45 : 62);
}

std::string BarsSvg(const BarPlot& plot) {
  LC_DCHECK(plot.low <= 0 && 0 < plot.high);
  std::string svg = Open(272 + LegendHeight(plot.series), plot.title);
  for (int tick = 0; tick <= 4; ++tick) {
    const double value = plot.low + (plot.high - plot.low) * tick / 4, y = HeightOf(plot, value);
    svg += Line(kLeft, y, kRight, y, kLine) + Text(kLeft - 6, y + 4, "end", Format("%.2f", value), /*soft=*/true);
  }
  if (plot.low < 0) svg += Line(kLeft, HeightOf(plot, 0), kRight, HeightOf(plot, 0), kSoft);
  const double group_width = (kRight - kLeft - 20) / static_cast<double>(std::max<size_t>(1, plot.groups.size()));
  const double pitch =
      std::min(52.0, (group_width - 20) / static_cast<double>(std::max<size_t>(1, plot.series.size())));
  for (size_t g = 0; g < plot.groups.size(); ++g) {
    const double left = kLeft + 20 + static_cast<double>(g) * group_width;
    for (size_t s = 0; s < plot.series.size(); ++s) {
      if (!plot.values[g][s].has_value()) continue;
      svg += Bar(plot, *plot.values[g][s], left + static_cast<double>(s) * pitch, 0.88 * pitch, plot.series[s].color);
    }
    const double middle = left + pitch * static_cast<double>(plot.series.size()) / 2;
    svg += Text(middle, kBarsBottom + 22, "middle", plot.groups[g]);
  }
  return svg + Legend(kBarsBottom + 42, plot.series, " rx='3'") + "</svg>";
}

std::string HistogramSvg(const HistogramPlot& plot) {
  constexpr int kBins = 30;
  std::vector<double> all;
  for (const HistogramPlot::Set& set : plot.sets) all.insert(all.end(), set.values.begin(), set.values.end());
  if (all.empty()) return "";
  const double low = *std::min_element(all.begin(), all.end());
  const double high = std::max(low + 1e-9, *std::max_element(all.begin(), all.end()));
  std::vector<std::vector<double>> shares;
  double top = 1e-9;
  for (const HistogramPlot::Set& set : plot.sets) {
    std::vector<double>& bins = shares.emplace_back(kBins, 0.0);
    for (const double v : set.values) {
      bins[static_cast<size_t>(std::min(kBins - 1, static_cast<int>((v - low) / (high - low) * kBins)))] += 1;
    }
    for (double& bin : bins) bin /= static_cast<double>(std::max<size_t>(1, set.values.size()));
    top = std::max(top, *std::max_element(bins.begin(), bins.end()));
  }
  std::string svg = Open(232 + LegendHeight(plot.sets), plot.title);
  for (size_t s = 0; s < plot.sets.size(); ++s) {
    for (int i = 0; i < kBins; ++i) {
      const double height = 180 * shares[s][static_cast<size_t>(i)] / top;
      svg += Box(kLeft + i * 30.3, 200 - height, 28, height, plot.sets[s].color, " fill-opacity='.55'");
    }
  }
  for (int tick = 0; tick <= 4; ++tick) {
    svg += Text(kLeft + tick * 227.0, 220, "middle", Format("%.4g", low + (high - low) * tick / 4), /*soft=*/true);
  }
  return svg + Legend(232, plot.sets, " fill-opacity='.55'") + "</svg>";
}

std::string HeatSvg(const HeatPlot& plot) {
  LC_DCHECK(plot.side >= 1 && plot.cells.size() == plot.side * plot.side);
  constexpr double kTop = 20, kSize = 400, kX = 200;
  const double cell = kSize / static_cast<double>(plot.side);
  double top = std::max(1e-9, *std::max_element(plot.cells.begin(), plot.cells.end()));
  std::string svg = Open(kTop + kSize + 30, plot.title);
  svg += Box(kX, kTop, kSize, kSize, "#ffffff", Format(" stroke='%s'", kLine).c_str());
  for (size_t row = 0; row < plot.side; ++row) {
    for (size_t column = 0; column < plot.side; ++column) {
      const double share = plot.cells[row * plot.side + column] / top;
      if (share < 0.004) continue;  // the cell stays white
      // The square root keeps small shares of confusion visible beside a strong diagonal.
      svg += Box(kX + static_cast<double>(column) * cell, kTop + static_cast<double>(row) * cell, cell, cell, "#1c4f9c",
                 Format(" fill-opacity='%.2f'", std::sqrt(share)).c_str());
    }
  }
  return svg + Text(kX - 10, kTop + kSize / 2, "end", plot.rows, true) +
         Text(kX + kSize / 2, kTop + kSize + 20, "middle", plot.columns, true) + "</svg>";
}

std::string CurveSvg(const CurvePlot& plot) {
  constexpr double kTop = 20, kBottom = 360, kCurveLeft = 80;
  double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = 0;
  for (const CurvePlot::Series& series : plot.series) {
    for (const CurvePlot::Point& point : series.points) {
      if (!(point.y > 0)) continue;
      x_low = std::min(x_low, point.x);
      x_high = std::max(x_high, point.x);
      y_low = std::min(y_low, point.y);
      y_high = std::max(y_high, point.y);
    }
  }
  if (!(y_high > 0)) return "";
  const double pad = std::max(1e-6, 0.06 * (x_high - x_low));
  x_low -= pad;
  x_high += pad;
  y_low = std::log10(0.8 * y_low);
  y_high = std::log10(1.25 * y_high);
  const auto x_of = [&](double x) { return kCurveLeft + (kRight - kCurveLeft) * (x - x_low) / (x_high - x_low); };
  const auto y_of = [&](double y) { return kBottom - (kBottom - kTop) * (std::log10(y) - y_low) / (y_high - y_low); };
  std::string svg = Open(kBottom + 60 + LegendHeight(plot.series), plot.title);
  for (int decade = static_cast<int>(std::floor(y_low)); decade <= static_cast<int>(y_high); ++decade) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double value = step * std::pow(10.0, decade), y = y_of(value);
      if (y < kTop || y > kBottom) continue;
      svg += Line(kCurveLeft, y, kRight, y, kLine) + Text(kCurveLeft - 6, y + 4, "end", Format("%.6g", value), true);
    }
  }
  for (int tick = 0; tick <= 4; ++tick) {
    const double value = x_low + pad + (x_high - x_low - 2 * pad) * tick / 4;
    svg += Text(x_of(value), kBottom + 18, "middle", Format("%.4g", value), /*soft=*/true);
  }
  svg += Text((kCurveLeft + kRight) / 2, kBottom + 38, "middle", plot.x_label) +
         Text(kCurveLeft, kTop - 6, "end", plot.y_label);
  for (const CurvePlot::Series& series : plot.series) {
    std::string path;
    for (const CurvePlot::Point& point : series.points) {
      if (!(point.y > 0)) continue;
      path += Format("%s%.1f %.1f", path.empty() ? "M" : " L", x_of(point.x), y_of(point.y));
      svg += Format("<circle cx='%.1f' cy='%.1f' r='4' fill='%s'/>", x_of(point.x), y_of(point.y),
                    EscapeXml(series.color).c_str()) +
             Text(x_of(point.x) + 8, y_of(point.y) - 8, "start", point.label);
    }
    svg += StrCat("<path d='", path, "' fill='none' stroke='", EscapeXml(series.color), "' stroke-width='2'/>");
  }
  return svg + Legend(kBottom + 50, plot.series, " rx='7'") + "</svg>";
}

std::string StackSvg(const std::vector<std::string>& titles, const std::vector<std::string>& plots) {
  std::string body;
  double y = 0;
  for (size_t i = 0; i < plots.size(); ++i) {
    if (plots[i].empty()) continue;
    double height = 0;
    const size_t box = plots[i].find("viewBox='0 0 960 ");
    if (box != std::string::npos) height = std::strtod(plots[i].c_str() + box + 17, nullptr);
    body += Text(kLeft, y + 22, "start", titles[i]);
    // A nested SVG keeps its own coordinates.
    body +=
        StrCat(Format("<svg y='%.0f' width='960' height='%.0f'", y + 30, height), std::string_view(plots[i]).substr(4));
    y += height + 40;
  }
  return StrCat(Open(std::max(1.0, y), "plots"), body, "</svg>");
}

}  // namespace lightcone

// Plots as SVG text for reports: bars with whiskers, histograms, heat maps, curves. A plot needs no script, font or
// other file, so it may stand alone or in a page. The same input gives the same bytes. Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lightcone {

// `text` for XML and HTML: & < > " ' are escaped.
std::string EscapeXml(std::string_view text);

// A colour for the i-th series of a plot with many; neighbours differ clearly.
std::string SeriesColor(size_t i);

struct BarValue {
  double value = 0;
  double deviation = 0;  // length of the whisker up and down; 0: no whisker
};

// Groups of bars side by side, their values above them where there is room, one legend.
struct BarPlot {
  struct Series {
    std::string label, color;  // name and SVG colour
  };
  std::string title;                // text for screen readers
  std::vector<std::string> groups;  // names under the axis
  std::vector<Series> series;
  std::vector<std::vector<std::optional<BarValue>>> values;  // bars by [group][series]; an absent one is left out
  int decimals = 2;                                          // decimals of the values above the bars
  double low = 0, high = 1;                                  // ends of the axis, where longer bars are cut off
};
// REQUIRES: low <= 0 < high. Bars grow from 0.
std::string BarsSvg(const BarPlot& plot);

// The share of each set's values in each of 30 bins between the least and the largest value. Empty without a value.
struct HistogramPlot {
  struct Set {
    std::string label, color;
    std::vector<double> values;
  };
  std::string title;
  std::vector<Set> sets;
};
std::string HistogramSvg(const HistogramPlot& plot);

// A square matrix, row 0 on top: white for 0, darkest for the largest value (or 1 when that is more).
struct HeatPlot {
  std::string title, rows, columns;  // title and names of the two axes
  size_t side = 0;
  std::vector<double> cells;  // values >= 0, side x side, row major
};
// REQUIRES: cells.size() == side * side, side >= 1.
std::string HeatSvg(const HeatPlot& plot);

// Lines through points over a logarithmic y axis. A point's label stands beside the point.
struct CurvePlot {
  struct Point {
    double x = 0, y = 0;
    std::string label;
  };
  struct Series {
    std::string label, color;
    std::vector<Point> points;  // points with y <= 0 are left out
  };
  std::string title, x_label, y_label;
  std::vector<Series> series;
};
// Empty without a point of y > 0.
std::string CurveSvg(const CurvePlot& plot);

// Several plots, one below the other, as one SVG of the same width, each under its title.
std::string StackSvg(const std::vector<std::string>& titles, const std::vector<std::string>& plots);

}  // namespace lightcone

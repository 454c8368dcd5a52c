// Plots as SVG text for reports: bars with whiskers, histograms, heat maps, curves. No scripts, no fonts or files from
// elsewhere: each is a file of its own, and may stand within a page. The same input gives the same bytes. Threads: pure
// functions.
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
  double deviation = 0;  // whisker of this length up and down; 0: none
};

// Groups of bars side by side, their values above them where there is room, one legend.
struct BarPlot {
  struct Series {
    std::string label, color;  // any colour that SVG takes
  };
  std::string title;                // for screen readers
  std::vector<std::string> groups;  // names under the axis
  std::vector<Series> series;
  std::vector<std::vector<std::optional<BarValue>>> values;  // [group][series]; absent: no bar
  int decimals = 2;                                          // of the values above the bars
  double low = 0, high = 1;  // of the axis; bars grow from 0, values outside are cut off. REQUIRES: low <= 0 < high
};
std::string BarsSvg(const BarPlot& plot);

// The shares of each set of values in 30 bins between the least and the largest of all. Empty without any value.
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
  std::string title, rows, columns;  // what the two axes are
  size_t side = 0;
  std::vector<double> cells;  // side x side, row major, >= 0
};
// REQUIRES: cells.size() == side * side, side >= 1.
std::string HeatSvg(const HeatPlot& plot);

// Lines through points whose y spans decades: a logarithmic y axis. A point's label stands beside it.
struct CurvePlot {
  struct Point {
    double x = 0, y = 0;
    std::string label;
  };
  struct Series {
    std::string label, color;
    std::vector<Point> points;  // those with y <= 0 have no place on the axis and are left out
  };
  std::string title, x_label, y_label;
  std::vector<Series> series;
};
// Empty without any point that has a place.
std::string CurveSvg(const CurvePlot& plot);

// Several plots, one below the other, as one SVG of the same width, each under its title.
std::string StackSvg(const std::vector<std::string>& titles, const std::vector<std::string>& plots);

}  // namespace lightcone

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "base/svg.h"
#include "geometry/uncertainty.h"
#include "research/experiment/result.h"

namespace lightcone {
namespace {

constexpr char kSeen[] = "#2463c4", kUnseen[] = "#d08a2e";

std::string GainsPlot(const ExperimentResult& result) {
  BarPlot plot;
  plot.title = "P_com by method";
  plot.groups = {"P_com CMC@1", "P_com mAP"};
  plot.values.resize(2);
  for (const ExperimentRow& row : result.rows) {
    if (row.kind == "old") continue;
    plot.series.push_back({row.title, SeriesColor(plot.series.size())});
    for (size_t g = 0; g < 2; ++g) {
      const std::optional<MeanDeviation> gain = Summarise(row, g == 0 ? "p_com.cmc1" : "p_com.map");
      plot.values[g].push_back(gain.has_value() ? std::optional<BarValue>({gain->mean, gain->deviation})
                                                : std::nullopt);
      if (!gain.has_value()) continue;
      // Models trained alone lie far below 0: -1 is low enough to see it.
      plot.low = std::min(plot.low, std::max(-1.0, std::floor(4 * (gain->mean - gain->deviation)) / 4));
      plot.high = std::max(plot.high, std::min(2.0, std::ceil(4 * (gain->mean + gain->deviation)) / 4));
    }
  }
  return StackSvg({result.title}, {BarsSvg(plot)});
}

std::string UncertaintyPlot(const ExperimentPlots& plots) {
  const auto histogram = [&](const char* title, auto value) {
    HistogramPlot plot;
    plot.title = title;
    plot.sets = {{"classes the old model was trained on", kSeen, {}}, {"classes it never saw", kUnseen, {}}};
    for (const double norm : plots.norms_seen) plot.sets[0].values.push_back(value(norm));
    for (const double norm : plots.norms_unseen) plot.sets[1].values.push_back(value(norm));
    return HistogramSvg(plot);
  };
  const double k = plots.curvature;
  return StackSvg(
      {"Radius of the old embeddings, clipped", "Uncertainty 1 - |s|/t of the clipped embeddings",
       "Norm before the clip", "Uncertainty from the norm before the clip"},
      {histogram("Radius", [&](double r) { return std::min(r, plots.clip_radius); }),
       histogram("Uncertainty", [&](double r) { return UncertaintyOfRadius(std::min(r, plots.clip_radius), k); }),
       histogram("Norm before the clip", [](double r) { return r; }),
       histogram("Uncertainty before the clip", [&](double r) { return UncertaintyOfRadius(r, k); })});
}

std::string ConfusionPlot(const ExperimentPlots& plots) {
  std::vector<std::string> titles, svgs;
  for (const auto& [title, cells] : plots.confusions) {
    HeatPlot plot;
    plot.title = StrCat("Nearest neighbours of ", title);
    plot.rows = "class of the query";
    plot.columns = "class of its nearest old item";
    plot.side = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(cells.size()))));
    plot.cells = cells;
    titles.push_back(title);
    svgs.push_back(HeatSvg(plot));
  }
  return StackSvg(titles, svgs);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> Plots(const ExperimentResult& result) {
  std::vector<std::pair<std::string, std::string>> files = {{"p_com.svg", GainsPlot(result)}};
  if (!result.plots.norms_seen.empty() || !result.plots.norms_unseen.empty())
    files.emplace_back("uncertainty.svg", UncertaintyPlot(result.plots));
  if (!result.plots.confusions.empty()) files.emplace_back("confusion.svg", ConfusionPlot(result.plots));
  return files;
}

}  // namespace lightcone

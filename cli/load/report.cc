#include "cli/load/report.h"

#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "base/svg.h"
#include "cli/table.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

constexpr double kBehind = 0.99;  // share of the rate below which the server falls behind

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Rate(double value) {
  return value < 100 ? Format("%.1f", value) : Grouped(static_cast<uint64_t>(std::llround(value)));
}

std::string NameOf(const LoadPoint& point) {
  if (point.exact) return "exact";
  if (point.target_recall > 0) return StrCat("for ", Number(point.target_recall));
  return point.ef == 0 ? "default" : StrCat(point.ef);
}

std::string SettingOf(const LoadPoint& point) {
  if (point.exact) return "exact";
  return point.target_recall > 0 ? "target_recall" : point.ef > 0 ? "ef" : "default";
}

nlohmann::ordered_json JsonOf(const CallFigures& figures) {
  nlohmann::ordered_json json = {{"calls", figures.calls},
                                 {"failed", figures.failed},
                                 {"per_s", figures.rate},
                                 {"ms",
                                  {{"p50", figures.ms.p50},
                                   {"p90", figures.ms.p90},
                                   {"p99", figures.ms.p99},
                                   {"p999", figures.ms.p999},
                                   {"max", figures.ms.max}}}};
  if (!figures.error.empty()) json["first_error"] = figures.error;
  return json;
}

void AddRow(Table& table, const std::string& what, const std::string& recall, const CallFigures& figures) {
  table.Add({what, recall, Rate(figures.rate), Format("%.3f", figures.ms.p50), Format("%.3f", figures.ms.p90),
             Format("%.3f", figures.ms.p99), Format("%.3f", figures.ms.p999), Format("%.3f", figures.ms.max),
             Grouped(static_cast<uint64_t>(figures.failed))});
}

// What a reader of the point's rows has to know besides.
std::string NotesOn(const LoadPoint& point, const LoadPlan& plan) {
  const LoadFigures& load = point.load;
  const std::string where = StrCat("ef ", NameOf(point), ": ");
  std::string notes;
  for (const CallFigures* figures : {&load.search, &load.upsert, &load.remove}) {
    if (!figures->error.empty()) notes += StrCat(where, "first failure: ", figures->error, "\n");
  }
  if (plan.rate > 0 && load.calls_a_second < kBehind * plan.rate) {
    notes += StrCat(where, Rate(load.calls_a_second), " calls/s of the ", Rate(plan.rate),
                    " asked for; the server, or too few --clients, did not keep up, and times count the waiting\n");
  }
  if (load.missed > 0) {
    notes += StrCat(where, Grouped(static_cast<uint64_t>(load.missed)),
                    " calls that were due were never made: the times would be longer still\n");
  }
  return notes;
}

std::string HowItRan(const LoadReport& report) {
  const LoadPlan& plan = report.plan;
  std::string text =
      StrCat(Grouped(static_cast<uint64_t>(report.items)), " x ", report.dimension, " (", report.data, ", ",
             report.metric, ") at ", report.server, ": ", plan.clients, plan.clients == 1 ? " client" : " clients");
  if (plan.batch > 1) text += StrCat(", ", plan.batch, " a call");
  text += plan.rate > 0 ? StrCat(", open loop of ", Rate(plan.rate), " calls/s") : ", closed loop";
  text += StrCat(", ", Number(plan.seconds), " s a point\n");
  if (report.filled) {
    const double rows = static_cast<double>(report.items);
    text += StrCat("filled in ", Format("%.1f", report.times.fill_s), " s (", Rate(rows / report.times.fill_s),
                   " rows/s), sealed in ", Format("%.1f", report.times.seal_s), " s\n");
  }
  return text;
}

}  // namespace

std::string LoadText(const LoadReport& report) {
  const LoadPlan& plan = report.plan;
  Table table({"ef", StrCat("recall@", plan.k), plan.mix.writes() ? "operations/s" : "searches/s", "p50 ms", "p90 ms",
               "p99 ms", "p99.9 ms", "max ms", "failed"});
  std::string notes;
  for (const LoadPoint& point : report.points) {
    if (plan.mix.search > 0) AddRow(table, NameOf(point), Format("%.4f", point.recall), point.load.search);
    if (plan.mix.upsert > 0) AddRow(table, "  upsert", "", point.load.upsert);
    if (plan.mix.remove > 0) AddRow(table, "  delete", "", point.load.remove);
    notes += NotesOn(point, plan);
  }
  if (plan.mix.search > 0) {
    notes += StrCat("recall over ", Grouped(static_cast<uint64_t>(report.recall_queries)), " queries",
                    plan.mix.writes() ? ", after the writes of the point" : "", "; times are those of calls\n");
  }
  return HowItRan(report) + "\n" + table.Text() + notes;
}

nlohmann::ordered_json LoadJson(const LoadReport& report) {
  const LoadPlan& plan = report.plan;
  nlohmann::ordered_json json = {
      {"lightcone", report.version},
      {"server", report.server},
      {"data", report.data},
      {"metric", report.metric},
      {"items", report.items},
      {"dimension", report.dimension},
      {"queries", report.queries},
      {"recall_queries", report.recall_queries},
      {"k", plan.k},
      {"clients", plan.clients},
      {"batch", plan.batch},
      {"loop", plan.rate > 0 ? "open" : "closed"},
      {"rate", plan.rate},
      {"seconds", plan.seconds},
      {"warm_up_seconds", plan.warm_up_seconds},
      {"mix", {{"search", plan.mix.search}, {"upsert", plan.mix.upsert}, {"delete", plan.mix.remove}}}};
  if (report.filled) {
    json["fill_s"] = report.times.fill_s;
    json["seal_s"] = report.times.seal_s;
  }
  json["points"] = nlohmann::ordered_json::array();
  for (const LoadPoint& point : report.points) {
    nlohmann::ordered_json one = {{"setting", SettingOf(point)},
                                  {"ef", point.ef},
                                  {"exact", point.exact},
                                  {"calls_per_s", point.load.calls_a_second},
                                  {"missed", point.load.missed}};
    if (point.target_recall > 0) one["target_recall"] = point.target_recall;
    if (plan.mix.search > 0) {
      one["recall"] = point.recall;
      one["search"] = JsonOf(point.load.search);
    }
    if (plan.mix.upsert > 0) one["upsert"] = JsonOf(point.load.upsert);
    if (plan.mix.remove > 0) one["delete"] = JsonOf(point.load.remove);
    json["points"].push_back(std::move(one));
  }
  return json;
}

std::string LoadSvg(const LoadReport& report) {
  CurvePlot plot;
  plot.title = "Searches a second over recall";
  plot.x_label = StrCat("recall@", report.plan.k);
  plot.y_label = "searches/s";
  CurvePlot::Series series{StrCat(report.data, ", ", Grouped(static_cast<uint64_t>(report.items)), " x ",
                                  report.dimension, ", ", report.metric, "; labels: ef"),
                           SeriesColor(0),
                           {}};
  for (const LoadPoint& point : report.points) {
    series.points.push_back({point.recall, point.load.search.rate, NameOf(point)});
  }
  plot.series.push_back(std::move(series));
  return CurveSvg(plot);
}

}  // namespace lightcone::cli

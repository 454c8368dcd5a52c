#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "nlohmann/json.hpp"
#include "research/experiment/result.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

std::string Fixed(double value, int digits = 3) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string Cell(const std::optional<MeanDeviation>& value, const char* plus_minus, const char* none) {
  if (!value.has_value()) return none;
  std::string text = Fixed(value->mean);
  if (value->count > 1) text += StrCat(plus_minus, Fixed(value->deviation));
  return value->count < value->of ? StrCat(text, " (", value->count, " of ", value->of, ")") : text;
}

std::string PaperCell(const PaperFigures& paper, const std::string& measure, const char* none) {
  const auto found = paper.find(measure);
  return found == paper.end() ? none : Fixed(found->second);
}

std::string SeedsText(const std::vector<uint64_t>& seeds) {
  std::string text;
  for (const uint64_t seed : seeds) text += StrCat(text.empty() ? "" : ", ", seed);
  return text;
}

// "", or what a reader must know before any figure.
std::string ValidationText(const ExperimentResult& result) {
  if (result.validation == 0) return "";
  return StrCat("Measured on validation images, ", result.validation, " of each class's training images.");
}

// "", or how many queries of each seed count, where not all do.
std::string QueriesText(const ExperimentResult& result) {
  std::string text;
  bool skipped = false, alike = true;
  for (const TestQueries& seed : result.queries) {
    skipped = skipped || seed.counted < seed.all;
    alike = alike && seed.all == result.queries[0].all && seed.counted == result.queries[0].counted;
  }
  if (!skipped) return "";
  for (const TestQueries& seed : result.queries) {
    text += StrCat(text.empty() ? "" : ", ", seed.counted, " of ", seed.all);
    if (alike) break;
  }
  return StrCat(text, " queries count", alike ? "" : " (by seed)", "; the others have no other item of their class.");
}

SeedValues MatrixValues(const std::vector<GainMatrix>& seeds, size_t at) {
  SeedValues values;
  for (const GainMatrix& matrix : seeds) values.push_back(matrix[at]);
  return values;
}

std::optional<MeanDeviation> MatrixCell(const std::vector<GainMatrix>& seeds, size_t at) {
  return Summarise(MatrixValues(seeds, at));
}

SeedValues ValuesOf(const ExperimentRow& row, const std::string& measure) {
  SeedValues values;
  for (const auto& seed : row.values) {
    const auto found = seed.find(measure);
    values.push_back(found == seed.end() ? std::nullopt : std::optional<double>(found->second));
  }
  return values;
}

std::string Escaped(std::string_view text, std::string_view special, std::string_view escape) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += escape;
    out += c;
  }
  return out;
}

// As text that LaTeX prints as it stands.
std::string LatexText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\textbackslash{}";
    } else if (c == '~') {
      out += "\\textasciitilde{}";
    } else if (c == '^') {
      out += "\\textasciicircum{}";
    } else {
      out += Escaped(std::string_view(&c, 1), "&%$#_{}", "\\");
    }
  }
  return out;
}

struct ShownMeasure {
  std::string key, title;
};

// The measures that any row has. A TAR says at which FAR.
std::vector<ShownMeasure> ShownMeasures(const ExperimentResult& result) {
  std::vector<ShownMeasure> shown;
  for (const MeasureInfo& measure : ExperimentMeasures()) {
    for (const ExperimentRow& row : result.rows) {
      if (!row.paper.contains(measure.key) && !Summarise(row, measure.key).has_value()) continue;
      const bool tar = result.far > 0 && std::string_view(measure.key).ends_with(".tar");
      shown.push_back({measure.key, tar ? StrCat(measure.title, "@FAR=", result.far) : measure.title});
      break;
    }
  }
  return shown;
}

// What the queries of generation `i` gain over each older gallery; later ones have empty cells.
std::string MatrixLine(const ExperimentRow& row, int steps, int i, const char* next, const char* pm, const char* none) {
  std::string text = StrCat(i);
  for (int j = 0; j + 1 < steps; ++j) {
    const size_t at = static_cast<size_t>(i * steps + j);
    text += next;
    if (j >= i) continue;
    text += StrCat(Cell(MatrixCell(row.p_com_cmc1, at), pm, none), " / ");
    text += Cell(MatrixCell(row.p_com_map, at), pm, none);
  }
  return text;
}

std::string MatrixMarkdown(const ExperimentRow& row, int steps) {
  std::string text = StrCat("\n**", Escaped(row.title, "|", "\\"),
                            "**, P_com (CMC@1 / mAP): row = generation of the queries, column = of the gallery\n\n|");
  for (int j = 0; j + 1 < steps; ++j) text += StrCat(" | ", j);
  text += " |\n| ---";
  for (int j = 0; j + 1 < steps; ++j) text += " | ---:";
  text += " |\n";
  for (int i = 1; i < steps; ++i) text += StrCat("| ", MatrixLine(row, steps, i, " | ", " ± ", "–"), " |\n");
  return text;
}

std::string MatrixLatex(const ExperimentRow& row, int steps) {
  std::string text = StrCat("\n% P_com (CMC@1 / mAP): row = generation of the queries, column = of the gallery\n",
                            "\\begin{tabular}{l", std::string(static_cast<size_t>(steps - 1), 'r'), "}\n\\hline\n",
                            LatexText(row.title));
  for (int j = 0; j + 1 < steps; ++j) text += StrCat(" & ", j);
  text += " \\\\\n\\hline\n";
  for (int i = 1; i < steps; ++i) text += StrCat(MatrixLine(row, steps, i, " & ", "$\\pm$", "--"), " \\\\\n");
  return text + "\\hline\n\\end{tabular}\n";
}

ordered_json JsonOf(const std::vector<GainMatrix>& seeds, int steps) {
  ordered_json matrix = ordered_json::array();
  for (int i = 0; i < steps; ++i) {
    ordered_json line = ordered_json::array();
    for (int j = 0; j < steps; ++j) {
      line.push_back(SummaryJson(MatrixValues(seeds, static_cast<size_t>(i * steps + j))));
    }
    matrix.push_back(std::move(line));
  }
  return matrix;
}

}  // namespace

std::optional<MeanDeviation> Summarise(const SeedValues& seeds) {
  std::vector<double> values;
  for (const std::optional<double>& seed : seeds) {
    if (seed.has_value()) values.push_back(*seed);
  }
  if (values.empty()) return std::nullopt;
  MeanDeviation out;
  out.count = static_cast<int64_t>(values.size());
  out.of = static_cast<int64_t>(seeds.size());
  for (const double v : values) out.mean += v / static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  if (values.size() > 1) out.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return out;
}

std::optional<MeanDeviation> Summarise(const std::vector<double>& values) {
  return Summarise(SeedValues(values.begin(), values.end()));
}

std::optional<MeanDeviation> Summarise(const ExperimentRow& row, const std::string& measure) {
  return Summarise(ValuesOf(row, measure));
}

std::string MeanCell(const SeedValues& values) { return Cell(Summarise(values), " ± ", "–"); }

ordered_json SummaryJson(const SeedValues& seeds) {
  const std::optional<MeanDeviation> summary = Summarise(seeds);
  if (!summary.has_value()) return nullptr;
  ordered_json values = ordered_json::array();
  for (const std::optional<double>& seed : seeds) {
    values.push_back(seed.has_value() ? ordered_json(*seed) : ordered_json(nullptr));
  }
  return {{"mean", summary->mean}, {"deviation", summary->deviation}, {"values", std::move(values)}};
}

std::string TableHead(const ExperimentResult& result, const std::string& title) {
  std::string text = StrCat("# ", title, "\n\nRecipe `", result.name, "`, scenario `", result.scenario, "`, data `",
                            result.data, "`, seeds ", SeedsText(result.seeds));
  text += result.seeds.size() > 1 ? " (mean ± standard deviation)." : ".";
  for (const std::string& note : {ValidationText(result), QueriesText(result)}) {
    if (!note.empty()) text += " " + note;
  }
  return text + "\n";
}

std::string DumpJson(const ordered_json& json) {
  return json.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

std::string TableMarkdown(const ExperimentResult& result) {
  const std::vector<ShownMeasure> measures = ShownMeasures(result);
  std::string text = TableHead(result, result.title);
  if (!result.source.empty()) text += StrCat("Source: ", result.source, ".\n");
  if (!result.settings.empty()) text += StrCat("Settings: ", result.settings, "\n");
  text += "\n| model";
  for (const ShownMeasure& measure : measures) text += StrCat(" | ", measure.title);
  text += " |\n| ---";
  for (size_t i = 0; i < measures.size(); ++i) text += " | ---:";
  text += " |\n";
  for (const ExperimentRow& row : result.rows) {
    text += StrCat("| ", Escaped(row.title, "|", "\\"));
    for (const ShownMeasure& measure : measures) {
      text += StrCat(" | ", Cell(Summarise(row, measure.key), " ± ", "–"));
    }
    text += " |\n";
    if (row.paper.empty()) continue;
    text += "| *paper*";
    for (const ShownMeasure& measure : measures) {
      text += StrCat(" | ", PaperCell(row.paper, measure.key, ""));
    }
    text += " |\n";
  }
  if (result.steps <= 2) return text;
  for (const ExperimentRow& row : result.rows) {
    if (row.kind != "old") text += MatrixMarkdown(row, result.steps);
  }
  return text;
}

std::string TableJson(const ExperimentResult& result) {
  ordered_json json = {{"recipe", result.name}, {"title", result.title},          {"source", result.source},
                       {"data", result.data},   {"scenario", result.scenario},    {"generations", result.steps},
                       {"seeds", result.seeds}, {"validation", result.validation}};
  if (result.far > 0) json["far"] = result.far;
  if (!QueriesText(result).empty()) {
    for (const TestQueries& seed : result.queries) {
      json["queries"].push_back({{"all", seed.all}, {"counted", seed.counted}});
    }
  }
  json["rows"] = ordered_json::array();
  for (const ExperimentRow& row : result.rows) {
    ordered_json measures = ordered_json::object();
    for (const ShownMeasure& measure : ShownMeasures(result)) {
      measures[measure.key] = SummaryJson(ValuesOf(row, measure.key));
    }
    ordered_json one = {{"name", row.name},     {"title", row.title}, {"kind", row.kind},
                        {"method", row.method}, {"space", row.space}, {"measures", std::move(measures)}};
    one["paper"] = ordered_json::object();
    for (const auto& [measure, value] : row.paper) one["paper"][measure] = value;
    if (row.kind != "old") {
      one["p_com_matrix"] = {{"cmc1", JsonOf(row.p_com_cmc1, result.steps)},
                             {"map", JsonOf(row.p_com_map, result.steps)}};
    }
    json["rows"].push_back(std::move(one));
  }
  return DumpJson(json);
}

std::string TableLatex(const ExperimentResult& result) {
  const std::vector<ShownMeasure> measures = ShownMeasures(result);
  std::string text = StrCat("% ", result.title, "; recipe ", result.name, ", seeds ", SeedsText(result.seeds),
                            result.validation > 0 ? StrCat("; ", ValidationText(result)) : "",
                            QueriesText(result).empty() ? "" : StrCat("; ", QueriesText(result)),
                            "\n\\begin{tabular}{l", std::string(measures.size(), 'r'), "}\n\\hline\nmodel");
  for (const ShownMeasure& measure : measures) text += StrCat(" & ", LatexText(measure.title));
  text += " \\\\\n\\hline\n";
  for (const ExperimentRow& row : result.rows) {
    text += LatexText(row.title);
    for (const ShownMeasure& measure : measures) {
      text += StrCat(" & ", Cell(Summarise(row, measure.key), "$\\pm$", "--"));
    }
    text += " \\\\\n";
    if (row.paper.empty()) continue;
    text += "\\quad\\emph{paper}";
    for (const ShownMeasure& measure : measures) {
      text += StrCat(" & ", PaperCell(row.paper, measure.key, ""));
    }
    text += " \\\\\n";
  }
  text += "\\hline\n\\end{tabular}\n";
  if (result.steps <= 2) return text;
  for (const ExperimentRow& row : result.rows) {
    if (row.kind != "old") text += MatrixLatex(row, result.steps);
  }
  return text;
}

std::string CostMarkdown(const ExperimentResult& result) {
  std::string text =
      StrCat("# Cost of `", result.name, "`\n\n| model | seconds to train | images/s |\n| --- | ---: | ---: |\n");
  for (const ExperimentRow& row : result.rows) {
    const auto cell = [](const std::vector<double>& values) {
      const std::optional<MeanDeviation> s = Summarise(values);
      if (!s.has_value()) return std::string("–");
      return s->count > 1 ? StrCat(Fixed(s->mean, 1), " ± ", Fixed(s->deviation, 1)) : Fixed(s->mean, 1);
    };
    text += StrCat("| ", Escaped(row.title, "|", "\\"), " | ", cell(row.seconds), " | ", cell(row.images_per_second),
                   " |\n");
  }
  return text;
}

std::string CostJson(const ExperimentResult& result) {
  ordered_json rows = ordered_json::array();
  for (const ExperimentRow& row : result.rows) {
    rows.push_back({{"name", row.name},
                    {"seconds", SummaryJson({row.seconds.begin(), row.seconds.end()})},
                    {"images_per_second", SummaryJson({row.images_per_second.begin(), row.images_per_second.end()})}});
  }
  return DumpJson({{"recipe", result.name}, {"seeds", result.seeds}, {"rows", std::move(rows)}});
}

}  // namespace lightcone

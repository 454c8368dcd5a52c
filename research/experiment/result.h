// What an experiment found, and how it is told: tables (Markdown, JSON, LaTeX) and plots (SVG). The same result gives
// the same bytes. No torch here. Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "research/experiment/recipe.h"
#include "research/uncertainty/study.h"

namespace lightcone {

// P_com of every pair of generations, row major, [query][gallery]; empty where the query is not the newer one.
using GainMatrix = std::vector<std::optional<double>>;

struct ExperimentRow {
  std::string name, title, method, space;
  std::string kind;  // old, independent (models trained alone) or row
  PaperFigures paper;
  // One a seed. Measures (by MeasureInfo::key) of the newest generation; cross: its queries on the gallery of the one
  // before. Absent where not defined.
  std::vector<std::map<std::string, double>> values;
  std::vector<GainMatrix> p_com_cmc1, p_com_map;   // P_com of all pairs of generations; none for the kind "old"
  std::vector<double> seconds, images_per_second;  // cost of the row's own models, and speed of the newest
};

struct ExperimentPlots {
  // Of the first space with Lorentz embeddings and the first seed: of the test items by the old model.
  std::vector<double> norms_seen, norms_unseen;  // norms before the clip
  double curvature = 1, clip_radius = 1;
  // Title, and shares of the first seed's cross retrieval (PairMeasure::confusion).
  std::vector<std::pair<std::string, std::vector<double>>> confusions;
};

// How many queries the test set has (by its protocol where it has one), and how many of them have another item of
// their class to find: only these count.
struct TestQueries {
  int64_t all = 0, counted = 0;
};

struct ExperimentResult {
  std::string name, title, source, settings, data, scenario;
  std::vector<uint64_t> seeds;
  int steps = 2;                     // number of generations
  double validation = 0;             // share of the training images that replaced the test set; 0: none
  double far = 0;                    // false accept rate for TAR (Recipe::far)
  std::vector<TestQueries> queries;  // test queries by seed
  std::vector<ExperimentRow> rows;
  std::string studied_row;                // name of the studied row (Recipe::uncertainty)
  std::vector<UncertaintyStudy> studies;  // studies by seed; empty without a studied row
  ExperimentPlots plots;
};

struct MeanDeviation {
  double mean = 0, deviation = 0;  // mean and deviation of a sample (n - 1); 0 for one value
  int64_t count = 0, of = 0;       // number of values, and of seeds
};
using SeedValues = std::vector<std::optional<double>>;  // values by seed; nullopt where undefined

// Empty without any value.
std::optional<MeanDeviation> Summarise(const SeedValues& values);
std::optional<MeanDeviation> Summarise(const std::vector<double>& values);
// Over the seeds that have it.
std::optional<MeanDeviation> Summarise(const ExperimentRow& row, const std::string& measure);

// "0.123", of several values "0.123 ± 0.004", with " (1 of 2)" where not all seeds have one; "–" without any.
std::string MeanCell(const SeedValues& values);
// {"mean", "deviation", "values"}, values in the order of the seeds, null where a seed has none; null without any.
nlohmann::ordered_json SummaryJson(const SeedValues& values);
// A heading, and what was run: recipe, scenario, data, seeds, validation images, queries where not all count.
std::string TableHead(const ExperimentResult& result, const std::string& title);
std::string DumpJson(const nlohmann::ordered_json& json);

std::string TableMarkdown(const ExperimentResult& result);
std::string TableJson(const ExperimentResult& result);
std::string TableLatex(const ExperimentResult& result);

// Seconds and images/s. Apart from the tables, since no two trainings take the same time.
std::string CostMarkdown(const ExperimentResult& result);
std::string CostJson(const ExperimentResult& result);

// File name and content: p_com.svg, uncertainty.svg (where an old model is Lorentz), confusion.svg.
std::vector<std::pair<std::string, std::string>> Plots(const ExperimentResult& result);

}  // namespace lightcone

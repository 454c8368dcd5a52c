#include "research/experiment/rows.h"

#include <map>
#include <optional>
#include <utility>

#include "base/status.h"
#include "stats/metrics.h"

namespace lightcone {
namespace {

// A row of the table with what it is measured from.
struct RowMaterial {
  ExperimentRow* row = nullptr;
  const PlannedChain* chain = nullptr;
  const PlannedChain* reference = nullptr;  // models trained alone, the base of P_com and P_up
  bool own_reference = true;                // whether the reference is of the same space
  const RecipeAdapter* adapter = nullptr;
};

class RowMeasurer {
 public:
  RowMeasurer(const Recipe& recipe, const ExperimentPlan& plan, const Dataset& whole,
              const std::vector<ModelCost>& costs, Measurer& measurer, ExperimentResult* result)
      : recipe_(recipe), plan_(plan), whole_(whole), costs_(costs), measurer_(measurer), result_(result) {}

  absl::Status Measure(const RowMaterial& material) {
    ExperimentRow& row = *material.row;
    row.values.emplace_back();
    const bool old = row.kind == "old";
    const std::vector<int>& models = material.chain->models;
    const size_t last = old ? 0 : models.size() - 1;
    AddCost(models, old, &row);
    std::map<std::string, double>& values = row.values.back();
    LC_ASSIGN_OR_RETURN(const std::optional<PairMeasure> self, measurer_.Measure(models[last], models[last], nullptr));
    Put("self", *self, &values);
    if (old) return KeepNorms(*self);
    if (row.kind != "independent") {
      LC_ASSIGN_OR_RETURN(const std::optional<PairMeasure> base, SelfOf(material.reference->models[last]));
      PutGain("p_up.cmc1", PUp(self->figures.cmc1, base->figures.cmc1), &values);
      PutGain("p_up.map", PUp(self->figures.map, base->figures.map), &values);
    }
    if (models.size() == 1) return absl::OkStatus();
    return MeasureGains(material, &values);
  }

 private:
  absl::StatusOr<std::optional<PairMeasure>> SelfOf(int model) { return measurer_.Measure(model, model, nullptr); }

  void AddCost(const std::vector<int>& models, bool old, ExperimentRow* row) const {
    double seconds = 0;
    for (size_t i = old || models.size() == 1 ? 0 : 1; i < (old ? 1 : models.size()); ++i) {
      seconds += costs_[static_cast<size_t>(models[i])].seconds;
    }
    row->seconds.push_back(seconds);
    row->images_per_second.push_back(costs_[static_cast<size_t>(old ? models[0] : models.back())].images_per_second);
  }

  void Put(const std::string& side, const PairMeasure& m, std::map<std::string, double>* values) const {
    (*values)[side + ".cmc1"] = m.figures.cmc1;
    (*values)[side + ".cmc5"] = m.figures.cmc5;
    (*values)[side + ".map"] = m.figures.map;
    if (recipe_.far > 0) (*values)[side + ".tar"] = m.tar;
  }

  static void PutGain(const std::string& key, const std::optional<double>& gain,
                      std::map<std::string, double>* values) {
    if (gain.has_value()) (*values)[key] = *gain;
  }

  absl::Status MeasureGains(const RowMaterial& material, std::map<std::string, double>* values) {
    const std::vector<int>& models = material.chain->models;
    const size_t n = models.size();
    GainMatrix cmc1(n * n), map(n * n);
    for (size_t i = 1; i < n; ++i) {
      LC_ASSIGN_OR_RETURN(const std::optional<PairMeasure> base, SelfOf(material.reference->models[i]));
      for (size_t j = 0; j < i; ++j) {
        LC_ASSIGN_OR_RETURN(const std::optional<PairMeasure> cross,
                            measurer_.Measure(models[i], models[j], material.adapter));
        if (!cross.has_value()) continue;
        LC_ASSIGN_OR_RETURN(const std::optional<PairMeasure> old,
                            SelfOf(material.own_reference ? models[j] : material.reference->models[j]));
        cmc1[i * n + j] = PCom(cross->figures.cmc1, old->figures.cmc1, base->figures.cmc1);
        map[i * n + j] = PCom(cross->figures.map, old->figures.map, base->figures.map);
        if (i + 1 == n && j + 1 == i) {
          Put("cross", *cross, values);
          PutGain("p_com.cmc1", cmc1[i * n + j], values);
          PutGain("p_com.map", map[i * n + j], values);
          if (FirstSeed() && !cross->confusion.empty())
            result_->plots.confusions.emplace_back(material.row->title, cross->confusion);
        }
      }
    }
    material.row->p_com_cmc1.push_back(std::move(cmc1));
    material.row->p_com_map.push_back(std::move(map));
    return absl::OkStatus();
  }

  bool FirstSeed() const { return plan_.seed == result_->seeds.front(); }

  absl::Status KeepNorms(const PairMeasure& old) {
    ExperimentPlots& plots = result_->plots;
    if (!FirstSeed() || old.norms.empty() || !plots.norms_seen.empty() || !plots.norms_unseen.empty())
      return absl::OkStatus();
    const std::vector<uint8_t> known = KnownItems(whole_, plan_.steps[0].dataset);
    for (size_t i = 0; i < old.norms.size(); ++i) {
      (known[i] != 0 ? plots.norms_seen : plots.norms_unseen).push_back(old.norms[i]);
    }
    plots.curvature = old.curvature;
    plots.clip_radius = old.clip_radius;
    return absl::OkStatus();
  }

  const Recipe& recipe_;
  const ExperimentPlan& plan_;
  const Dataset& whole_;
  const std::vector<ModelCost>& costs_;
  Measurer& measurer_;
  ExperimentResult* const result_;
};

size_t SpaceIndex(const Recipe& recipe, const std::string& name) {
  return static_cast<size_t>(recipe.Space(name) - recipe.spaces.data());
}

}  // namespace

TestQueries CountQueries(const Dataset& whole) {
  const std::vector<int32_t>& labels = whole.test.labels;
  const auto label = [&](int64_t row) { return labels[static_cast<size_t>(row)]; };
  TestQueries queries;
  std::map<int32_t, int64_t> items;                            // items that a query may find, by class
  std::map<std::pair<int32_t, int32_t>, int64_t> own_cameras;  // items by class and camera
  if (!whole.protocol.has_value()) {
    for (const int32_t one : labels) ++items[one];
    queries.all = whole.test.size();
    for (const int32_t one : labels) queries.counted += items[one] >= 2;
    return queries;
  }
  const TestProtocol& protocol = *whole.protocol;
  const auto camera = [&](int64_t row) { return std::pair(label(row), protocol.cameras[static_cast<size_t>(row)]); };
  const bool cameras = !protocol.cameras.empty();
  for (const int64_t row : protocol.gallery) {
    ++items[label(row)];
    if (cameras) ++own_cameras[camera(row)];
  }
  queries.all = static_cast<int64_t>(protocol.queries.size());
  for (const int64_t row : protocol.queries) {
    queries.counted += items[label(row)] > (cameras ? own_cameras[camera(row)] : 0);
  }
  return queries;
}

absl::Status CheckQueries(const Recipe& recipe, const Dataset& whole) {
  const TestQueries queries = CountQueries(whole);
  if (queries.counted > 0) return absl::OkStatus();
  if (recipe.validation > 0) {
    return InvalidField("validation", StrCat(recipe.validation, ", which holds out no two images of one class"),
                        "0, or a data set with 3 training images or more of a class");
  }
  return InvalidField("test images", StrCat(queries.all, " queries, of which none has another item of its class"),
                      "a data set with at least 2 test images of a class");
}

std::vector<ExperimentRow> EmptyRows(const Recipe& recipe, int steps) {
  std::vector<ExperimentRow> rows;
  const auto add = [&](const std::string& name, const std::string& title, const std::string& method,
                       const std::string& space, const char* kind, const PaperFigures& paper) {
    ExperimentRow& row = rows.emplace_back();
    row.name = name;
    row.title = title;
    row.method = method;
    row.space = space;
    row.kind = kind;
    row.paper = paper;
  };
  for (const RecipeSpace& space : recipe.spaces) {
    const std::string where = recipe.spaces.size() > 1 ? StrCat(" (", space.name, ")") : "";
    if (steps > 1) add("old-" + space.name, "old" + where, "independent", space.name, "old", space.paper_old);
    add("independent-" + space.name, "independent" + where, "independent", space.name, "independent",
        space.paper_independent);
  }
  for (const RecipeRow& row : recipe.rows) add(row.name, row.title, row.method, row.space, "row", row.paper);
  return rows;
}

absl::Status MeasureRows(const Recipe& recipe, const ExperimentPlan& plan, const Dataset& whole,
                         const std::vector<ModelCost>& costs, Measurer& measurer, const std::atomic<bool>* stop,
                         ExperimentResult* result) {
  std::vector<RowMaterial> all;
  size_t next = 0;
  for (size_t s = 0; s < recipe.spaces.size(); ++s) {
    const PlannedChain* const alone = &plan.independent[s];
    if (plan.steps.size() > 1) all.push_back({&result->rows[next++], alone, alone, true, nullptr});
    all.push_back({&result->rows[next++], alone, alone, true, nullptr});
  }
  for (size_t r = 0; r < recipe.rows.size(); ++r) {
    const RecipeRow& row = recipe.rows[r];
    all.push_back({&result->rows[next++], &plan.rows[r], &plan.independent[SpaceIndex(recipe, row.reference)],
                   row.reference == row.space, row.adapter.has_value() ? &*row.adapter : nullptr});
  }
  RowMeasurer rows(recipe, plan, whole, costs, measurer, result);
  for (const RowMaterial& material : all) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) {
      return absl::CancelledError(ToAbsl("stopped while measuring; all models are trained"));
    }
    LC_RETURN_IF_ERROR(Annotate(rows.Measure(material), StrCat("row '", material.row->name, "', seed ", plan.seed)));
  }
  return absl::OkStatus();
}

}  // namespace lightcone

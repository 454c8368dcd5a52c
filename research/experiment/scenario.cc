#include "research/experiment/scenario.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/dcheck.h"
#include "base/rng.h"
#include "base/status.h"
#include "trainer/data/split.h"

namespace lightcone {
namespace {

constexpr size_t kStepsMax = 64;

std::string KnownNames() {
  std::string text;
  for (const ScenarioInfo& info : ScenarioKinds()) text += StrCat(text.empty() ? "" : ", ", info.name);
  return text;
}

// The classes that have training images, in the order in which scenarios take them.
std::vector<int32_t> OrderedClasses(const Dataset& dataset, const std::string& order) {
  const std::set<int32_t> present(dataset.train.labels.begin(), dataset.train.labels.end());
  std::vector<int32_t> classes(present.begin(), present.end());
  if (order == "lexicographic") {
    std::sort(classes.begin(), classes.end(), [](int32_t a, int32_t b) { return StrCat(a) < StrCat(b); });
  }
  return classes;
}

std::vector<int64_t> RowsOfClasses(const Dataset& dataset, const std::vector<int32_t>& classes) {
  const std::set<int32_t> wanted(classes.begin(), classes.end());
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < dataset.train.size(); ++i) {
    if (wanted.contains(dataset.train.labels[static_cast<size_t>(i)])) rows.push_back(i);
  }
  return rows;
}

std::vector<int64_t> RowsBeside(const Dataset& dataset, const std::vector<int64_t>& taken) {
  std::vector<int64_t> rows;
  size_t next = 0;
  for (int64_t i = 0; i < dataset.train.size(); ++i) {
    if (next < taken.size() && taken[next] == i) {
      ++next;
    } else {
      rows.push_back(i);
    }
  }
  return rows;
}

// What every builder needs.
struct Material {
  const Dataset& dataset;
  const ScenarioOptions& options;
  double share = 0;
  std::vector<int32_t> classes;

  ScenarioStep Whole() const { return {RowsOfClasses(dataset, classes), classes, false}; }
  ScenarioStep Classes(size_t begin, size_t end) const {
    ScenarioStep step;
    step.classes.assign(classes.begin() + static_cast<std::ptrdiff_t>(begin),
                        classes.begin() + static_cast<std::ptrdiff_t>(end));
    step.rows = RowsOfClasses(dataset, step.classes);
    return step;
  }
  size_t FirstClasses(double of_all) const {
    return static_cast<size_t>(std::llround(of_all * static_cast<double>(classes.size())));
  }
};

std::vector<ScenarioStep> ExtendData(const Material& m) {
  return {{FractionRows(m.dataset.train.labels, m.share, m.options.seed), m.classes, false}, m.Whole()};
}

std::vector<ScenarioStep> ExtendClasses(const Material& m) {
  return {m.Classes(0, m.FirstClasses(m.share)), m.Whole()};
}

absl::StatusOr<std::vector<ScenarioStep>> OpenData(const Material& m) {
  const std::vector<int64_t> old_rows = FractionRows(m.dataset.train.labels, m.share, m.options.seed);
  std::vector<int64_t> new_rows = RowsBeside(m.dataset, old_rows);
  std::set<int32_t> left;
  for (const int64_t row : new_rows) left.insert(m.dataset.train.labels[static_cast<size_t>(row)]);
  for (const int32_t c : m.classes) {
    if (left.contains(c)) continue;
    return InvalidField(StrCat("training images of class '", m.dataset.class_names[static_cast<size_t>(c)], "'"),
                        "too few for open-data", StrCat("enough that old_share ", m.share, " of them leaves some"));
  }
  return std::vector<ScenarioStep>{{old_rows, m.classes, false}, {std::move(new_rows), m.classes, false}};
}

std::vector<ScenarioStep> OpenClasses(const Material& m) {
  const size_t first = m.FirstClasses(m.share);
  return {m.Classes(0, first), m.Classes(first, m.classes.size())};
}

std::vector<ScenarioStep> Sequence(const Material& m) {
  std::vector<ScenarioStep> steps;
  for (const double share : m.options.chain_shares) {
    steps.push_back(m.Classes(0, m.FirstClasses(share)));
    steps.back().architecture_changes =
        m.options.chain_change > 0 && static_cast<int64_t>(steps.size()) == m.options.chain_change + 1;
  }
  return steps;
}

absl::StatusOr<std::vector<ScenarioStep>> Build(std::string_view name, const Material& m) {
  if (name == "ext-data") return ExtendData(m);
  if (name == "open-data") return OpenData(m);
  if (name == "open-class") return OpenClasses(m);
  if (name == "sequential") return Sequence(m);
  std::vector<ScenarioStep> steps =
      name == "new-arch" ? std::vector<ScenarioStep>{m.Whole(), m.Whole()} : ExtendClasses(m);
  steps[1].architecture_changes = name != "ext-class";
  return steps;
}

absl::Status CheckSteps(const Scenario& scenario) {
  for (size_t i = 0; i < scenario.steps.size(); ++i) {
    const ScenarioStep& step = scenario.steps[i];
    const std::string field = StrCat("step ", i, " of scenario '", scenario.name, "'");
    if (step.classes.size() < 2)
      return InvalidField(field, StrCat(step.classes.size(), " classes"), "at least 2 classes");
    if (step.rows.size() < 2) return InvalidField(field, StrCat(step.rows.size(), " images"), "at least 2 images");
    const bool grows = scenario.name == "ext-data" || scenario.name == "ext-class" || scenario.name == "both" ||
                       scenario.name == "sequential";
    if (i > 0 && grows && step.rows.size() <= scenario.steps[i - 1].rows.size()) {
      return InvalidField(field, StrCat(step.rows.size(), " images"),
                          StrCat("more than the ", scenario.steps[i - 1].rows.size(), " of the step before"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ScenarioOptions::Validate() const {
  if (!(old_share >= 0 && old_share < 1)) {
    return InvalidField("old_share", StrCat(old_share), "above 0 and below 1, or 0 for the scenario's default");
  }
  if (class_order != "ascending" && class_order != "lexicographic") {
    return InvalidField("class_order", StrCat("'", class_order, "'"), "ascending, lexicographic");
  }
  if (chain_shares.size() < 2 || chain_shares.size() > kStepsMax) {
    return InvalidField("chain_shares", StrCat(chain_shares.size(), " numbers"),
                        StrCat("2 .. ", kStepsMax, " numbers"));
  }
  double before = 0;
  for (size_t i = 0; i < chain_shares.size(); ++i) {
    if (!(chain_shares[i] > before && chain_shares[i] <= 1)) {
      return InvalidField(StrCat("chain_shares[", i, "]"), StrCat(chain_shares[i]),
                          StrCat("above ", before, ", up to 1"));
    }
    before = chain_shares[i];
  }
  const int64_t last = static_cast<int64_t>(chain_shares.size()) - 1;
  if (chain_change >= 0 && chain_change <= last) return absl::OkStatus();
  return InvalidField("chain_change", StrCat(chain_change), StrCat("0 .. ", last));
}

const std::vector<ScenarioInfo>& ScenarioKinds() {
  const std::vector<std::string> divided = {"old_share", "class_order"};
  static const std::vector<ScenarioInfo> kinds = {
      {"ext-data", "old: a share (0.3) of each class's images; new: all images", 0.3, divided},
      {"ext-class", "old: the first share (0.5) of the classes; new: all classes", 0.5, divided},
      {"open-data", "old: a share (0.5) of each class's images; new: the other images", 0.5, divided},
      {"open-class", "old: the first share (0.5) of the classes; new: the other classes", 0.5, divided},
      {"new-arch", "old and new: all images; the new model has another architecture", 0, {"class_order"}},
      {"both", "ext-class, and the new model has another architecture", 0.5, divided},
      {"sequential",
       "a chain on 20, 40, 60, 80, 100 % of the classes; from the third model another architecture",
       0,
       {"class_order", "chain_shares", "chain_change"}},
  };
  return kinds;
}

absl::StatusOr<Scenario> MakeScenario(std::string_view name, const Dataset& dataset, const ScenarioOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  const std::vector<ScenarioInfo>& kinds = ScenarioKinds();
  const auto info =
      std::find_if(kinds.begin(), kinds.end(), [&](const ScenarioInfo& kind) { return kind.name == name; });
  if (info == kinds.end()) return InvalidField("scenario", StrCat("'", name, "'"), KnownNames());
  if (options.old_share > 0 && info->old_share == 0) {
    return InvalidField("old_share", StrCat(options.old_share), StrCat("0: scenario '", name, "' takes none"));
  }
  Material material{dataset, options, options.old_share > 0 ? options.old_share : info->old_share,
                    OrderedClasses(dataset, options.class_order)};
  Scenario scenario{info->name, info->help, {}};
  LC_ASSIGN_OR_RETURN(scenario.steps, Build(name, material));
  LC_RETURN_IF_ERROR(CheckSteps(scenario));
  return scenario;
}

Dataset StepDataset(const Dataset& dataset, const ScenarioStep& step) {
  LC_DCHECK(
      std::all_of(step.rows.begin(), step.rows.end(), [&](int64_t r) { return r >= 0 && r < dataset.train.size(); }));
  std::map<int32_t, int32_t> ids;
  Dataset out;
  for (const int32_t c : step.classes) {
    ids.emplace(c, static_cast<int32_t>(ids.size()));
    out.class_names.push_back(dataset.class_names[static_cast<size_t>(c)]);
  }
  std::vector<int64_t> test_rows;
  for (int64_t i = 0; i < dataset.test.size(); ++i) {
    if (ids.contains(dataset.test.labels[static_cast<size_t>(i)])) test_rows.push_back(i);
  }
  out.name = dataset.name;
  out.notes = dataset.notes;
  out.normalisation = dataset.normalisation;
  out.augment = dataset.augment;
  out.train = SelectRows(dataset.train, step.rows);
  out.test = SelectRows(dataset.test, test_rows);
  for (ImageSet* set : {&out.train, &out.test}) {
    for (int32_t& label : set->labels) label = ids.at(label);
  }
  return out;
}

absl::Status HoldOut(double share, uint64_t seed, Dataset* dataset) {
  const std::vector<int32_t>& labels = dataset->train.labels;
  const std::vector<int64_t> held = FractionRows(labels, share, MixSeed({seed, 0x4e1d007}), /*least=*/2);
  std::vector<int64_t> kept;
  std::vector<bool> stays(static_cast<size_t>(dataset->classes()), false);
  for (int64_t i = 0; i < dataset->train.size(); ++i) {
    if (std::binary_search(held.begin(), held.end(), i)) continue;
    kept.push_back(i);
    stays[static_cast<size_t>(labels[static_cast<size_t>(i)])] = true;
  }
  for (const int64_t row : held) {
    const auto label = static_cast<size_t>(labels[static_cast<size_t>(row)]);
    if (stays[label]) continue;
    return InvalidField("validation", StrCat(share),
                        StrCat("a share that leaves class '", dataset->class_names[label],
                               "' something to train on: 0 .. 0.5, with 2 images or more a class"));
  }
  dataset->test = SelectRows(dataset->train, held);
  dataset->train = SelectRows(dataset->train, kept);
  dataset->protocol.reset();
  return absl::OkStatus();
}

}  // namespace lightcone

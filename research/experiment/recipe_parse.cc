// From TOML to a Recipe, key by key; every error names the file and the line.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "base/status.h"
#include "base/toml.h"
#include "geometry/adapter.h"
#include "nlohmann/json.hpp"
#include "research/experiment/recipe.h"
#include "research/experiment/steps.h"
#include "trainer/adapt/model_pairs.h"
#include "trainer/adapt/options.h"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

constexpr char kTopKeys[] =
    "title, source, settings, data, data_help, preset, seeds, validation, far, uncertainty, scenario.*, train.*, "
    "old.*, new.*, "
    "step.N.*, "
    "space.NAME.*, row.NAME.*";
constexpr size_t kRowsMax = 100, kSpacesMax = 32, kNameMax = 48;

std::string NamesOf(const auto& infos) {
  std::string names;
  for (const auto& info : infos) names += StrCat(names.empty() ? "" : ", ", info.name);
  return names;
}

// Takes the part of `key` before the first dot; the rest stays.
std::string_view TakePart(std::string_view* key) {
  const size_t dot = std::min(key->find('.'), key->size());
  const std::string_view part = key->substr(0, dot);
  key->remove_prefix(std::min(dot + 1, key->size()));
  return part;
}

absl::StatusOr<double> NumberOf(const TomlEntry& entry) {
  double value = 0;
  const char* end = entry.value.data() + entry.value.size();
  const auto [stopped, error] = std::from_chars(entry.value.data(), end, value);
  if (entry.is_text || !std::isfinite(value) || error != std::errc() || stopped != end) {
    return InvalidField(entry.key, StrCat("'", entry.value, "'"), "a number");
  }
  return value;
}

absl::Status SetText(const TomlEntry& entry, std::string* out) {
  if (!entry.is_text) return InvalidField(entry.key, StrCat("'", entry.value, "'"), "a text in quotes");
  *out = entry.value;
  return absl::OkStatus();
}

absl::Status SetPaper(const TomlEntry& entry, std::string_view measure, PaperFigures* out) {
  std::string known;
  for (const MeasureInfo& info : ExperimentMeasures()) {
    known += StrCat(known.empty() ? "" : ", ", info.key);
    if (measure != info.key) continue;
    LC_ASSIGN_OR_RETURN((*out)[info.key], NumberOf(entry));
    return absl::OkStatus();
  }
  return InvalidField("measure", StrCat("'", measure, "'"), known);
}

bool SetByExperiment(std::string_view option) {
  constexpr std::string_view kOwn[] = {"name", "recipe", "method", "seed", "old_model", "bt2.base_model"};
  return std::find(std::begin(kOwn), std::end(kOwn), option) != std::end(kOwn);
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : file_(file) {
    recipe_.name = std::filesystem::path(file).stem().string();
    recipe_.text = std::string(text);
  }

  absl::StatusOr<Recipe> Parse() {
    LC_ASSIGN_OR_RETURN(const std::vector<TomlEntry> entries, ParseToml(recipe_.text, file_));
    for (const TomlEntry& entry : entries) LC_RETURN_IF_ERROR(Annotate(Take(entry), Where(entry)));
    LC_RETURN_IF_ERROR(Annotate(Finish(), file_));
    return std::move(recipe_);
  }

 private:
  std::string Where(const TomlEntry& entry) const { return StrCat(file_, ":", entry.line); }

  absl::Status Take(const TomlEntry& entry) {
    std::string_view key = entry.key;
    const std::string_view head = TakePart(&key);
    if (key.empty()) return TakeTop(entry);
    if (head == "scenario") return TakeScenario(entry, key);
    if (head == "train") return AddOption(entry, key, &recipe_.train);
    if (head == "old") return AddOption(entry, key, &recipe_.steps[0]);
    if (head == "new") return AddOption(entry, key, &recipe_.fresh);
    const std::string_view name = TakePart(&key);
    if (head == "step") return TakeStep(entry, name, key);
    if (head == "space" && !key.empty()) return TakeSpace(entry, name, key);
    if (head == "row" && !key.empty()) return TakeRow(entry, name, key);
    return UnknownKey(entry);
  }

  static absl::Status UnknownKey(const TomlEntry& entry) {
    return InvalidField("key", StrCat("'", entry.key, "'"), kTopKeys);
  }

  absl::Status TakeTop(const TomlEntry& entry) {
    const std::map<std::string_view, std::string*> texts = {{"title", &recipe_.title},
                                                            {"source", &recipe_.source},
                                                            {"settings", &recipe_.settings},
                                                            {"data", &recipe_.data},
                                                            {"data_help", &recipe_.data_help},
                                                            {"preset", &recipe_.preset},
                                                            {"uncertainty", &recipe_.uncertainty}};
    if (const auto text = texts.find(entry.key); text != texts.end()) {
      LC_RETURN_IF_ERROR(SetText(entry, text->second));
    } else if (entry.key == "seeds") {
      LC_ASSIGN_OR_RETURN(recipe_.seeds, ParseSeeds(entry.value, "seeds"));
    } else if (entry.key == "validation") {
      LC_ASSIGN_OR_RETURN(recipe_.validation, NumberOf(entry));
      if (!(recipe_.validation >= 0 && recipe_.validation <= 0.5)) {
        return InvalidField("validation", entry.value, "0 .. 0.5");
      }
    } else if (entry.key == "far") {
      LC_ASSIGN_OR_RETURN(recipe_.far, NumberOf(entry));
      if (!(recipe_.far >= 0 && recipe_.far < 1)) return InvalidField("far", entry.value, "0 .. 1, below 1");
    } else {
      return UnknownKey(entry);
    }
    if (entry.key == "preset") {
      for (const RecipeInfo& preset : TrainRecipes()) {
        if (preset.name == entry.value) return absl::OkStatus();
      }
      return InvalidField("preset", StrCat("'", entry.value, "'"), NamesOf(TrainRecipes()));
    }
    return absl::OkStatus();
  }

  absl::Status TakeScenario(const TomlEntry& entry, std::string_view key) {
    if (key != "name") {
      recipe_.scenario_options.push_back({std::string(key), entry.value, Where(entry)});
      return absl::OkStatus();
    }
    return SetText(entry, &recipe_.scenario);
  }

  // An option of a training: known, of its type and in its range by itself.
  absl::Status AddOption(const TomlEntry& entry, std::string_view name, RecipeSettings* out) const {
    if (SetByExperiment(name)) {
      return InvalidField("key", StrCat("'", entry.key, "'"),
                          StrCat("options that the experiment does not set itself; it sets '", name, "'"));
    }
    if (!entry.is_text && nlohmann::json::parse(entry.value, nullptr, false).is_discarded()) {
      return InvalidField(entry.key, StrCat("'", entry.value, "'"), "a number, true, false or a text in quotes");
    }
    TrainConfig scratch;
    LC_RETURN_IF_ERROR(Annotate(SetTrainOption(scratch, name, entry.value), StrCat("key '", entry.key, "'")));
    out->push_back({std::string(name), entry.value, Where(entry)});
    return absl::OkStatus();
  }

  absl::Status TakeStep(const TomlEntry& entry, std::string_view number, std::string_view key) {
    int step = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), step);
    if (error != std::errc() || end != number.data() + number.size() || step < 0 || step > 99 || key.empty()) {
      return InvalidField("key", StrCat("'", entry.key, "'"), "step.N.OPTION with N of 0 .. 99");
    }
    return AddOption(entry, key, &recipe_.steps[step]);
  }

  template <typename Named>
  absl::StatusOr<Named*> ByName(std::string_view name, size_t max, std::vector<Named>* all) const {
    for (Named& one : *all) {
      if (one.name == name) return &one;
    }
    if (name.empty() || name.size() > kNameMax) {
      return InvalidField("name", StrCat("'", name, "'"), StrCat("1 .. ", kNameMax, " characters"));
    }
    if (all->size() == max) return InvalidField("sections", StrCat(max + 1), StrCat("at most ", max, " of a kind"));
    all->emplace_back().name = std::string(name);
    return &all->back();
  }

  absl::Status TakeSpace(const TomlEntry& entry, std::string_view name, std::string_view key) {
    LC_ASSIGN_OR_RETURN(RecipeSpace* const space, ByName(name, kSpacesMax, &recipe_.spaces));
    for (const auto& [prefix, figures] :
         {std::pair("paper.old.", &space->paper_old), std::pair("paper.independent.", &space->paper_independent)}) {
      if (key.starts_with(prefix)) return SetPaper(entry, key.substr(std::string_view(prefix).size()), figures);
    }
    return AddOption(entry, key, &space->set);
  }

  absl::Status TakeRow(const TomlEntry& entry, std::string_view name, std::string_view key) {
    LC_ASSIGN_OR_RETURN(RecipeRow* const row, ByName(name, kRowsMax, &recipe_.rows));
    if (key == "title") return SetText(entry, &row->title);
    if (key == "space") return SetText(entry, &row->space);
    if (key == "reference") return SetText(entry, &row->reference);
    if (key.starts_with("paper.")) return SetPaper(entry, key.substr(6), &row->paper);
    if (key.starts_with("adapter.")) {
      if (!row->adapter.has_value()) row->adapter.emplace();
      const std::string_view given = key.substr(8);
      LC_RETURN_IF_ERROR(TakeAdapter(entry, given, &*row->adapter));
      row->adapter->given.push_back({std::string(given), entry.value, Where(entry)});
      return absl::OkStatus();
    }
    if (key != "method") return AddOption(entry, key, &row->set);
    if (FindTrainingMethod(entry.value) == nullptr) {
      return InvalidField(entry.key, StrCat("'", entry.value, "'"), NamesOf(TrainingMethods()));
    }
    return SetText(entry, &row->method);
  }

  static absl::Status TakeAdapter(const TomlEntry& entry, std::string_view key, RecipeAdapter* adapter) {
    struct Count {
      const char* name;
      int64_t* value;
      double min, max;
    };
    const Count counts[] = {{"pairs", &adapter->pairs, 0, 1e9},
                            {"views", &adapter->views, 0, kViewsMax},
                            {"width", &adapter->width, 0, kAdapterWidthMax},
                            {"rank", &adapter->rank, 1, kAdapterWidthMax},
                            {"steps", &adapter->steps, 1, 1e6}};
    for (const Count& count : counts) {
      if (key != count.name) continue;
      LC_ASSIGN_OR_RETURN(const double number, NumberOf(entry));
      if (!(number >= count.min && number <= count.max) ||
          number != static_cast<double>(static_cast<int64_t>(number))) {
        return InvalidField(entry.key, entry.value, StrCat(count.min, " .. ", count.max));
      }
      *count.value = static_cast<int64_t>(number);
      return absl::OkStatus();
    }
    if (key == "direction") {
      LC_RETURN_IF_ERROR(ParseAdapterDirection(entry.value).status());
      return SetText(entry, &adapter->direction);
    }
    if (key == "map") {
      LC_RETURN_IF_ERROR(ParseAdapterKind(entry.value).status());
      return SetText(entry, &adapter->map);
    }
    if (key == "loss") {
      LC_RETURN_IF_ERROR(ParseAdaptLoss(entry.value, /*has_labels=*/true).status());
      return SetText(entry, &adapter->loss);
    }
    return InvalidField("key", StrCat("'", entry.key, "'"),
                        "adapter.direction, .map, .loss, .pairs, .views, .width, .rank, .steps");
  }

  // An option that the row's method never reads would change nothing.
  static absl::Status CheckRead(const RecipeRow& row) {
    const MethodInfo& method = *FindTrainingMethod(row.method);
    for (const RecipeSetting& setting : row.set) {
      if (ReadsOption(method, setting.name)) continue;
      std::string switches;
      for (const std::string& one : method.switches) {
        if (!SetByExperiment(one)) switches += one + ", ";
      }
      return Annotate(InvalidField("key", StrCat("'row.", row.name, ".", setting.name, "'"),
                                   StrCat(switches, "and the options of every method: '", method.name,
                                          "' does not read '", setting.name, "'")),
                      setting.where);
    }
    return absl::OkStatus();
  }

  // Nor would a key that the adapter's map does not read.
  static absl::Status CheckAdapterRead(const RecipeRow& row) {
    LC_ASSIGN_OR_RETURN(const AdapterKind map, ParseAdapterKind(row.adapter->map));
    for (const RecipeSetting& given : row.adapter->given) {
      const std::string_view read_by = MapsThatRead(given.name, map);
      if (read_by.empty() || (given.name == "loss" && given.value == "auto")) continue;
      return Annotate(InvalidField("key", StrCat("'row.", row.name, ".adapter.", given.name, "'"),
                                   StrCat("nothing with adapter.map '", row.adapter->map, "': it is for ", read_by)),
                      given.where);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (recipe_.title.empty()) return InvalidField("title", "absent", "a line that says what the experiment shows");
    if (recipe_.data.empty()) return InvalidField("data", "absent", "a data set, or its kind");
    if (recipe_.rows.empty()) return InvalidField("row", "absent", "at least one section [row.NAME]");
    if (recipe_.spaces.empty()) recipe_.spaces.emplace_back().name = "default";
    for (RecipeRow& row : recipe_.rows) {
      const std::string field = StrCat("row.", row.name);
      if (row.title.empty()) row.title = row.name;
      if (row.method.empty()) {
        return InvalidField(StrCat(field, ".method"), "absent", NamesOf(TrainingMethods()));
      }
      LC_RETURN_IF_ERROR(CheckRead(row));
      if (row.adapter.has_value()) LC_RETURN_IF_ERROR(CheckAdapterRead(row));
      if (row.space.empty() && recipe_.spaces.size() == 1) row.space = recipe_.spaces[0].name;
      if (row.reference.empty()) row.reference = row.space;
      for (const std::string* space : {&row.space, &row.reference}) {
        if (recipe_.Space(*space) == nullptr) {
          return InvalidField(StrCat(field, ".space"), StrCat("'", *space, "'"), NamesOf(recipe_.spaces));
        }
      }
    }
    LC_ASSIGN_OR_RETURN(const int steps, CountSteps(recipe_));
    for (RecipeRow& row : recipe_.rows) {
      const bool needed = steps > 1 && FindTrainingMethod(row.method)->ends_with_adapter;
      if (needed && !row.adapter.has_value()) row.adapter.emplace();
    }
    return CheckRecipe(recipe_, steps);
  }

  const std::string file_;
  Recipe recipe_;
};

}  // namespace

absl::StatusOr<Recipe> ParseRecipe(std::string_view text, const std::string& file) {
  return Parser(text, file).Parse();
}

}  // namespace lightcone

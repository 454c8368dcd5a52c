#include "cli/model/adapt_report.h"

#include <utility>
#include <vector>

#include "base/strings.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

OrderedJson FiguresJson(const RetrievalFigures& figures) {
  return {{"cmc1", figures.cmc1}, {"cmc5", figures.cmc5}, {"map", figures.map}};
}

OrderedJson OptionalJson(const std::optional<double>& value) {
  return value.has_value() ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson GainsJson(const CompatibilityGains& gains) {
  return {{"cmc1", OptionalJson(gains.cmc1)}, {"cmc5", OptionalJson(gains.cmc5)}, {"map", OptionalJson(gains.map)}};
}

OrderedJson EvaluationJson(const AdapterEvaluation& e) {
  OrderedJson json;
  json["old_old"] = FiguresJson(e.old_old);
  json["new_old"] = e.plain.has_value() ? FiguresJson(*e.plain) : OrderedJson(nullptr);
  json["new_old_adapted"] = FiguresJson(e.adapted);
  json["new_new"] = FiguresJson(e.new_new);
  json["base"] = FiguresJson(e.base);
  json["base_given"] = e.base_given;
  json["p_com"] = GainsJson(e.p_com_plain);
  json["p_com_adapted"] = GainsJson(e.p_com_adapted);
  json["p_up"] = GainsJson(e.p_up);
  for (const MixedPoint& point : e.mixed) {
    OrderedJson one = FiguresJson(point.figures);
    one["share"] = point.share;
    json["mixed"].push_back(std::move(one));
  }
  json["dip"] = {{"cmc1", e.dip_cmc1}, {"map", e.dip_map}, {"passed", e.NoDip()}};
  json["mean_error"] = e.mean_error;
  json["error_auroc"] = OptionalJson(e.error_auroc);
  json["queries"] = e.old_old.queries;
  return json;
}

std::string Cell(const std::optional<double>& value) { return value.has_value() ? Number(*value) : "-"; }

void AddRow(Table& table, const std::string& queries, const std::string& gallery, const RetrievalFigures& figures,
            const CompatibilityGains& gains) {
  table.Add({queries, gallery, Number(figures.cmc1), Number(figures.cmc5), Number(figures.map), Cell(gains.cmc1),
             Cell(gains.map)});
}

std::string EvaluationText(const AdapterEvaluation& e, bool item) {
  Table table({"queries", "gallery", "CMC@1", "CMC@5", "mAP", "P_com CMC@1", "P_com mAP"});
  AddRow(table, "old", "old", e.old_old, {});
  if (e.plain.has_value()) AddRow(table, "new", "old", *e.plain, e.p_com_plain);
  AddRow(table, item ? "new" : "new, adapted", item ? "old, adapted" : "old", e.adapted, e.p_com_adapted);
  AddRow(table, "new", "new", e.new_new, {});
  if (e.base_given) AddRow(table, "base", "base", e.base, {});
  std::string text = table.Text();
  if (e.base_given) text += StrCat("P_up CMC@1 ", Cell(e.p_up.cmc1), ", mAP ", Cell(e.p_up.map), "\n");
  if (!e.mixed.empty()) {
    Table mixed({"backfilled", "CMC@1", "CMC@5", "mAP"});
    for (const MixedPoint& point : e.mixed) {
      mixed.Add({StrCat(Number(point.share * 100), " %"), Number(point.figures.cmc1), Number(point.figures.cmc5),
                 Number(point.figures.map)});
    }
    text +=
        StrCat("\n", mixed.Text(), e.NoDip() ? "no dip" : "DIPS", ": at most ", Number(e.dip_cmc1), " in CMC@1 and ",
               Number(e.dip_map), " in mAP below a smaller share (allowed: ", Number(kDipMax), ")\n");
  }
  text += StrCat("error of the adapted embeddings ", Number(e.mean_error));
  if (e.error_auroc.has_value()) {
    text += StrCat("; the adapter's uncertainty tells the worst quarter with AUROC ", Number(*e.error_auroc));
  }
  return text + "\n";
}

}  // namespace

void ShowAdapter(const Context& context, const std::string& path, const AdapterFile& file,
                 const std::optional<AdapterEvaluation>& evaluation, const std::string& not_evaluated,
                 const std::optional<MatchedRows>& matched) {
  if (context.json) {
    OrderedJson json;
    json["file"] = path;
    json["adapter"] = OrderedJson::parse(AdapterHeaderJson(file));
    if (matched) {
      json["matched"] = {
          {"rows", matched->matched}, {"looked_at", matched->looked_at}, {"agreement", matched->agreement}};
    }
    json["evaluation"] = evaluation.has_value() ? EvaluationJson(*evaluation) : OrderedJson(nullptr);
    context.PrintJson(json);
    return;
  }
  const AdapterSpec& spec = file.spec;
  context.Print(StrCat(path, " holds a ", AdapterKindName(spec.kind), " adapter of the ",
                       AdapterDirectionName(spec.direction), " side, '", file.from, "' -> '", file.to, "', ",
                       spec.input_dimension, " -> ", spec.output_dimension(), "\nfitted by ", file.fit.loss, " to ",
                       Grouped(static_cast<uint64_t>(file.fit.pairs)), " pairs in ", file.fit.steps,
                       " steps; error over ", Grouped(static_cast<uint64_t>(file.fit.held_out_pairs)),
                       " held-out pairs ", Number(file.fit.held_out_error), " (least squares ",
                       Number(file.fit.baseline_error), "), of its prediction R^2 ", Number(file.fit.head_r2), "\n"));
  if (const std::string why = ChoiceText(file); !why.empty()) context.Print(why + "\n");
  if (matched) {
    context.Print(StrCat("pairs are matches, not items: ", Grouped(static_cast<uint64_t>(matched->matched)), " of ",
                         Grouped(static_cast<uint64_t>(matched->looked_at)),
                         " old rows that were looked at; two starts agree on ", Number(matched->agreement),
                         " of the nearest rows\n"));
  }
  if (!evaluation.has_value()) {
    context.Print(StrCat("retrieval was not evaluated: ", not_evaluated, "\n"));
    return;
  }
  context.Print(StrCat("\n", EvaluationText(*evaluation, spec.direction == AdapterDirection::kItem)));
}

}  // namespace lightcone::cli

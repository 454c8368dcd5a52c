#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json/message_json.h"
#include "cli/model/commands.h"
#include "cli/model/eval_faces.h"
#include "cli/served/served.h"
#include "cli/served/served_chain.h"
#include "cli/table.h"
#include "models/encoders/device.h"
#include "models/encoders/encoder.h"
#include "trainer/data/dataset.h"
#include "trainer/evaluate.h"

namespace lightcone::cli {
namespace {

struct EvalFlags {
  std::string query, gallery, data = "glyphs", split = "test", adapter, faces, device = "auto", order = "random";
  std::vector<std::string> chain;
  std::vector<double> backfilled = {0};
  int64_t queries = 0;
  bool served = false;
  uint64_t seed = 1;
  std::vector<const CLI::Option*> of_server;  // flags that only --served reads
  std::vector<const CLI::Option*> of_pair;    // flags that --chain does not read
  std::vector<const CLI::Option*> of_images;  // flags that --faces does not read
  std::vector<const CLI::Option*> in_memory;  // flags that --served does not read
};

absl::Status CheckComparable(const Manifest& query, const Manifest& gallery) {
  const bool two = query.encoder_crc32c != gallery.encoder_crc32c;
  if (two && (query.through_adapter || gallery.through_adapter)) {
    return FailedPrecondition(StrCat("the models cannot be compared as they are: '",
                                     (query.through_adapter ? query : gallery).name,
                                     "' is reached through an adapter; see --served and --adapter"));
  }
  // A longer vector's first numbers compare with the gallery's.
  const bool fits = query.dimension == gallery.dimension ||
                    (query.dimension > gallery.dimension && query.compatible_prefix >= gallery.dimension);
  if (!fits || query.metric != gallery.metric || (query.metric == "lorentz" && query.curvature != gallery.curvature)) {
    const auto shown = [](const Manifest& m) {
      return StrCat(m.metric, " of dimension ", m.dimension, ", K ", Number(m.curvature));
    };
    return FailedPrecondition(
        StrCat("the models cannot be compared: --query is ", shown(query), "; --gallery is ", shown(gallery)));
  }
  return absl::OkStatus();
}

void ShowEval(const Context& context, const EvalFlags& flags, const RetrievalFigures& figures,
              const std::optional<UncertaintyFigures>& uncertainty) {
  if (context.json) {
    OrderedJson json = {{"query", flags.query},       {"gallery", flags.gallery},
                        {"dataset", flags.data},      {"split", flags.split},
                        {"seed", flags.seed},         {"cmc1", figures.cmc1},
                        {"cmc5", figures.cmc5},       {"map", figures.map},
                        {"queries", figures.queries}, {"queries_skipped", figures.queries_skipped}};
    if (uncertainty.has_value()) {
      json["uncertainty_auroc"] = {{"pre_clip", uncertainty->auroc_pre_clip}, {"clipped", uncertainty->auroc_clipped}};
      json["items_wrong"] = uncertainty->items_wrong;
    }
    context.PrintJson(json);
    return;
  }
  Table table({"query", "gallery", "CMC@1", "CMC@5", "mAP", "queries"});
  table.Add({flags.query, flags.gallery, Number(figures.cmc1), Number(figures.cmc5), Number(figures.map),
             Grouped(static_cast<uint64_t>(figures.queries))});
  context.Print(table.Text());
  if (uncertainty.has_value()) {
    context.Print(StrCat("uncertainty tells wrongly retrieved items with AUROC ", Number(uncertainty->auroc_pre_clip),
                         " (norm before the clip), ", Number(uncertainty->auroc_clipped), " (clipped)\n"));
  }
}

absl::Status RunServed(const Context& context, const EvalFlags& flags) {
  LC_ASSIGN_OR_RETURN(const Dataset dataset, OpenDataset(flags.data, flags.seed));
  ServedPair pair;
  pair.query = flags.query;
  pair.gallery = flags.gallery.empty() ? flags.query : flags.gallery;
  pair.adapter = flags.adapter;
  pair.queries_max = flags.queries;
  pair.seed = flags.seed;
  pair.order = flags.order;
  const StopOnInterrupt interrupt;
  pair.stop = interrupt.flag();
  const absl::StatusOr<ServedFigures> measured = MeasureServed(pair, dataset, flags.backfilled);
  LC_RETURN_IF_ERROR(measured.status());
  const ServedFigures& figures = *measured;
  if (context.json) {
    OrderedJson json = {
        {"query", pair.query},    {"gallery", pair.gallery},    {"dataset", flags.data},         {"seed", flags.seed},
        {"through", figures.how}, {"queries", figures.queries}, {"points", OrderedJson::array()}};
    for (const ServedPoint& point : figures.points) {
      json["points"].push_back(
          {{"backfilled", point.share}, {"cmc1", point.cmc1}, {"cmc5", point.cmc5}, {"map", point.map}});
    }
    if (figures.auroc) json["order_auroc"] = *figures.auroc;
    context.PrintJson(json);
    return absl::OkStatus();
  }
  Table table({"backfilled", "CMC@1", "CMC@5", "mAP", "through", "queries"});
  for (const ServedPoint& point : figures.points) {
    table.Add({Number(point.share), Number(point.cmc1), Number(point.cmc5), Number(point.map), figures.how,
               Grouped(static_cast<uint64_t>(figures.queries))});
  }
  context.Print(table.Text());
  if (figures.auroc) {
    context.Print(StrCat("the server's order tells wrongly retrieved items with AUROC ", Number(*figures.auroc), "\n"));
  }
  return absl::OkStatus();
}

absl::Status RunChain(const Context& context, const EvalFlags& flags) {
  LC_ASSIGN_OR_RETURN(const Dataset dataset, OpenDataset(flags.data, flags.seed));
  const StopOnInterrupt interrupt;
  const absl::StatusOr<std::vector<ChainCell>> measured = MeasureServedChain(
      {.models = flags.chain, .binary = "", .queries_max = flags.queries, .seed = flags.seed, .stop = interrupt.flag()},
      dataset);
  LC_RETURN_IF_ERROR(measured.status());
  OrderedJson json = {
      {"chain", flags.chain}, {"dataset", flags.data}, {"seed", flags.seed}, {"cells", OrderedJson::array()}};
  Table table({"query", "gallery", "CMC@1", "CMC@5", "mAP"});
  for (const ChainCell& cell : *measured) {
    json["cells"].push_back({{"query", cell.query},
                             {"gallery", cell.gallery},
                             {"cmc1", cell.cmc1},
                             {"cmc5", cell.cmc5},
                             {"map", cell.map}});
    table.Add({StrCat(cell.query), StrCat(cell.gallery), Number(cell.cmc1), Number(cell.cmc5), Number(cell.map)});
  }
  if (context.json) {
    context.PrintJson(json);
  } else {
    context.Print(table.Text());
  }
  return absl::OkStatus();
}

absl::Status RunFaces(const Context& context, const EvalFlags& flags, const Encoder& query, const Encoder& gallery) {
  for (const CLI::Option* option : flags.of_images) {
    if (option->count() > 0) return InvalidField(option->get_name(), "set", "not with --faces");
  }
  LC_ASSIGN_OR_RETURN(const FaceLists lists, OpenFaceLists(flags.faces));
  LC_ASSIGN_OR_RETURN(const FaceFigures figures, MeasureFaces(query, gallery, lists));
  if (!context.json) {
    context.Print(FacesText(figures));
    return absl::OkStatus();
  }
  OrderedJson json = {{"query", flags.query}, {"gallery", flags.gallery}, {"faces", flags.faces}};
  json.update(FacesJson(figures));
  context.PrintJson(json);
  return absl::OkStatus();
}

absl::Status RunEval(Context& context, const EvalFlags& flags) {
  if (flags.query.empty() == flags.chain.empty()) {
    return InvalidField("--query", flags.query.empty() ? "absent" : "together with --chain",
                        "the folder of a model, or --chain with --served");
  }
  if (flags.served) {
    for (const CLI::Option* option : flags.in_memory) {
      if (option->count() > 0) return InvalidField(option->get_name(), "set", "not with --served");
    }
    if (flags.queries < 0) return InvalidField("--queries", StrCat(flags.queries), "0 (all) or more");
    if (flags.split != "test") return InvalidField("--split", flags.split, "test, with --served");
    if (flags.chain.empty()) return RunServed(context, flags);
    for (const CLI::Option* option : flags.of_pair) {
      if (option->count() > 0) return InvalidField(option->get_name(), "set", "not with --chain");
    }
    return RunChain(context, flags);
  }
  for (const CLI::Option* option : flags.of_server) {
    if (option->count() > 0) return InvalidField(option->get_name(), "set", "only with --served");
  }
  if (flags.split != "test" && flags.split != "train") {
    return InvalidField("--split", StrCat("'", flags.split, "'"), "test, train");
  }
  const std::string gallery_folder = flags.gallery.empty() ? flags.query : flags.gallery;
  EvalFlags shown = flags;
  shown.gallery = gallery_folder;
  LC_ASSIGN_OR_RETURN(const std::string device, DeviceFor(flags.device, "--device"));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> query, Encoder::LoadFolder(flags.query, {.device = device}));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> gallery, Encoder::LoadFolder(gallery_folder, {.device = device}));
  LC_RETURN_IF_ERROR(CheckComparable(query->manifest(), gallery->manifest()));
  if (!flags.faces.empty()) return RunFaces(context, shown, *query, *gallery);
  LC_ASSIGN_OR_RETURN(const Dataset dataset, OpenDataset(flags.data, flags.seed));
  const ImageSet& images = flags.split == "test" ? dataset.test : dataset.train;
  LC_ASSIGN_OR_RETURN(std::vector<float> query_z, EmbedSplit(*query, images));
  query_z = FirstNumbers(query_z, query->dimension(), gallery->dimension());
  LC_ASSIGN_OR_RETURN(const std::vector<float> gallery_z, EmbedSplit(*gallery, images));
  const RetrievalSpace space = {
      .metric = query->manifest().metric, .curvature = query->manifest().curvature, .dimension = gallery->dimension()};
  const LabelledEmbeddings queries = {query_z, images.labels, query->manifest().clip_radius};
  const LabelledEmbeddings items = {gallery_z, images.labels, gallery->manifest().clip_radius};
  RetrievalFigures figures;
  if (flags.split == "test") {  // A test split has the data set's protocol, if any.
    LC_ASSIGN_OR_RETURN(
        figures, EvaluateTestSet(space, dataset, {query_z, queries.clip_radius}, {gallery_z, items.clip_radius}));
  } else {
    LC_ASSIGN_OR_RETURN(figures, EvaluateRetrieval(space, queries, items, /*same_items=*/true));
  }
  std::optional<UncertaintyFigures> uncertainty;
  // Of all images as queries and items, which those of a protocol are not.
  if (space.metric == "lorentz" && !(flags.split == "test" && dataset.protocol.has_value())) {
    LC_ASSIGN_OR_RETURN(uncertainty, EvaluateUncertainty(space, queries, items, /*same_items=*/true));
  }
  ShowEval(context, shown, figures, uncertainty);
  return absl::OkStatus();
}

}  // namespace

void AddEval(CLI::App& root, Context& context) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* app = AddHeldCommand(root, "eval");
  app->add_option("--query", flags->query, "Folder of the model that embeds the queries");
  flags->of_pair = {app->add_option("--gallery", flags->gallery,
                                    "Folder of the model that embeds the gallery; default: the folder of --query")};
  flags->of_images = {
      app->add_option("--data", flags->data, DatasetNames())->capture_default_str(),
      app->add_option("--split", flags->split, "Split of the data set: test or train")->capture_default_str(),
      app->add_option("--seed", flags->seed, "Seed of drawing and splits, as in training")->capture_default_str()};
  flags->in_memory = {
      app->add_option("--device", flags->device, "Device that embeds the images: auto, cpu or cuda; not with --served")
          ->capture_default_str(),
      app->add_option(
          "--faces", flags->faces,
          "In place of --data: a folder with the lists and crops of IJB-B or IJB-C; verification, identification")};
  app->add_flag("--served", flags->served, "Measure through Search of a server of its own, not in memory");
  flags->of_server = {
      app->add_option("--adapter", flags->adapter, "Adapter between the two models; needs --served"),
      app->add_option("--backfilled", flags->backfilled,
                      "Shares of the gallery, ascending, that the query model embedded; needs --served")
          ->delimiter(',')
          ->capture_default_str(),
      app->add_option("--queries", flags->queries, "Number of test images to ask for; 0: all; needs --served")
          ->capture_default_str(),
      app->add_option("--chain", flags->chain,
                      "In place of --query: folders of a chain of models, oldest first; all pairs; needs --served")
          ->delimiter(',')};
  flags->of_server.push_back(app->add_option("--order", flags->order,
                                             "In which items are embedded anew: random, neighbourhood (the server's "
                                             "own), or a file of `backfill fit`; needs --served")
                                 ->capture_default_str());
  flags->of_pair.push_back(flags->of_server.back());
  flags->of_pair.push_back(flags->of_server[0]);
  flags->of_pair.push_back(flags->of_server[1]);
  app->callback([&context, flags] { context.Finish(RunEval(context, *flags)); });
}

}  // namespace lightcone::cli

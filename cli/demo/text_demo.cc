// The demo with texts: a gallery that one model embedded, and the upgrade to another whose embeddings are there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/programs.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/child_server.h"
#include "cli/demo/demo.h"
#include "cli/demo/demo_backfill.h"
#include "cli/demo/demo_folder.h"
#include "cli/demo/step_log.h"
#include "cli/demo/text_data.h"
#include "cli/demo/text_figures.h"
#include "cli/demo/text_upgrade.h"
#include "cli/served/demo_gallery.h"
#include "cli/served/served_backfill.h"
#include "client/client.h"
#include "nlohmann/json.hpp"
#include "stats/metrics.h"

namespace lightcone::cli {
namespace {

constexpr char kTextGallery[] = "gallery";         // embedded by the old model; the upgrade happens here
constexpr char kTextGalleryNew[] = "gallery-new";  // a full re-embedding by the new model
constexpr uint64_t kPairStream = 0x9a125, kProbeStream = 0x9406e;
constexpr int64_t kTextQueriesMax = 1'500;  // queries of the figures; more are sampled
constexpr int64_t kTextDepthMax = 10'000;   // hits of a deep ranking: the server's default limit
constexpr int64_t kDeepHits = 3'000'000;    // hits of all deep rankings of a row
constexpr int64_t kDeepQueriesMin = 100;
constexpr size_t kTextProbesMax = 10'000;  // probes: the server's default limit
constexpr size_t kTextRestartQueries = 50;
constexpr size_t kExamplesOfTexts = 8, kExampleHits = 3, kExampleQueries = 400;

class TextDemo {
 public:
  TextDemo(const DemoOptions& options, std::FILE* out) : options_(options), out_(out) {}
  absl::StatusOr<DemoResult> Run();

 private:
  absl::Status Prepare();
  absl::Status ChoosePairs();
  void ChooseQueriesAndProbes();
  absl::Status Serve();
  // A gallery of the rows that the model gives a direction; generation 1 of the collection.
  absl::Status MakeTextGallery(const std::string& collection, const TextModel& model, bool scanned);
  absl::Status MeasureTextRow(const std::string& query, const std::string& gallery, const GalleryQueries& what);
  absl::Status MeasureReembedded();
  absl::Status Upgrade();
  absl::Status KillAndCompare();
  absl::Status CollectTextExamples();
  absl::Status Backfill();
  absl::Status RollBack();
  void Summarise();
  void Tell() const;

  GalleryQueries AskOld() const;
  GalleryQueries AskNew(const std::string& collection, uint32_t generation) const;
  GalleryQueries AskBoth() const;
  std::string PayloadOf(int64_t row) const;
  std::vector<int64_t> RowsWhere(bool zero_old, bool zero_new) const;

  const DemoOptions& options_;
  std::FILE* const out_;
  StepLog log_{out_};
  TextData data_;
  std::vector<int64_t> pairs_, probes_, queries_;
  TextTruth truth_;
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  UpgradeOutcome upgrade_;
  DemoResult result_;
  TextStory story_;
};

// The gallery's rows whose vectors by the two models are zero, or not.
std::vector<int64_t> TextDemo::RowsWhere(bool zero_old, bool zero_new) const {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < data_.gallery.size(); ++i) {
    const bool old_is = data_.old_model.gallery.zero[i] != 0, new_is = data_.new_model.gallery.zero[i] != 0;
    if (old_is == zero_old && new_is == zero_new) rows.push_back(static_cast<int64_t>(i));
  }
  return rows;
}

absl::Status TextDemo::ChoosePairs() {
  pairs_ = RowsWhere(false, false);
  const auto there = static_cast<int64_t>(pairs_.size());
  if (there < kDemoPairsMin) {
    return InvalidField("gallery texts with a direction by both models", StrCat(there),
                        StrCat(kDemoPairsMin, " or more: the adapter is fitted to such pairs"));
  }
  const int64_t wanted = options_.pairs.value_or(std::max(kDemoPairsMin, std::min(kDemoPairs, there / 2)));
  if (wanted < kDemoPairsMin || wanted > there) {
    return InvalidField("--pairs", StrCat(wanted), StrCat(kDemoPairsMin, " .. ", there));
  }
  Rng rng(MixSeed({options_.seed, kPairStream}));
  rng.Shuffle(&pairs_);
  pairs_.resize(static_cast<size_t>(wanted));
  return absl::OkStatus();
}

void TextDemo::ChooseQueriesAndProbes() {
  std::vector<int64_t> usable;
  for (size_t i = 0; i < data_.queries.size(); ++i) {
    const bool zero = data_.old_model.queries.zero[i] != 0 || data_.new_model.queries.zero[i] != 0;
    if (!zero) usable.push_back(static_cast<int64_t>(i));
  }
  story_.queries_left_out = static_cast<int64_t>(data_.queries.size() - usable.size());
  Rng rng(MixSeed({options_.seed, kProbeStream}));
  rng.Shuffle(&usable);
  const size_t probes = std::min(usable.size() / 3, kTextProbesMax);
  probes_.assign(usable.begin(), usable.begin() + static_cast<std::ptrdiff_t>(probes));
  queries_.assign(usable.begin() + static_cast<std::ptrdiff_t>(probes), usable.end());
  if (static_cast<int64_t>(queries_.size()) > kTextQueriesMax) queries_.resize(kTextQueriesMax);

  truth_.gallery_labels = data_.gallery_labels;
  truth_.query_labels = data_.query_labels;
  truth_.label_items.assign(data_.label_names.size(), 0);
  for (const int32_t label : data_.gallery_labels) ++truth_.label_items[static_cast<size_t>(label)];
  truth_.own_nearest.resize(data_.queries.size());
  truth_.depth = std::min<int64_t>(static_cast<int64_t>(data_.gallery.size()), kTextDepthMax);
  truth_.deep_queries =
      std::min<int64_t>(static_cast<int64_t>(queries_.size()), std::max(kDeepQueriesMin, kDeepHits / truth_.depth));
}

absl::Status TextDemo::Prepare() {
  LC_RETURN_IF_ERROR(ClaimDemoFolder(options_.folder));
  LC_RETURN_IF_ERROR(log_.Timed("open data set " + options_.data, [&]() -> absl::Status {
    const std::string folder = options_.data.substr(options_.data.find(':') + 1);
    LC_ASSIGN_OR_RETURN(data_, ReadTextData(folder, options_.old_model, options_.new_model));
    LC_RETURN_IF_ERROR(ChoosePairs());
    ChooseQueriesAndProbes();
    if (probes_.empty()) {
      return InvalidField("queries with a direction by both models", StrCat(queries_.size()),
                          "3 or more: a third of them are probes");
    }
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(ClearDemoFolder(options_.folder));
  story_.old_model = data_.old_model.name;
  story_.new_model = data_.new_model.name;
  story_.old_dimension = data_.old_model.dimension;
  story_.new_dimension = data_.new_model.dimension;
  story_.pairs = static_cast<int64_t>(pairs_.size());
  story_.probes = static_cast<int64_t>(probes_.size());
  story_.map_queries = truth_.deep_queries;
  story_.map_depth = truth_.depth;
  story_.gallery_zero_old = data_.old_model.gallery.zeros;
  story_.gallery_zero_new = data_.new_model.gallery.zeros;
  result_.dataset = options_.data;
  result_.seed = options_.seed;
  result_.classes = static_cast<int>(data_.label_names.size());
  result_.gallery_items = static_cast<int64_t>(data_.gallery.size());
  result_.queries = static_cast<int64_t>(queries_.size());
  log_.Say(StrCat(story_.old_model, " (", story_.old_dimension, " numbers) -> ", story_.new_model, " (",
                  story_.new_dimension, "): ", result_.gallery_items, " texts, ", story_.pairs, " pairs, ",
                  story_.probes, " probes, ", result_.queries, " other queries"));
  if (story_.gallery_zero_old + story_.gallery_zero_new + story_.queries_left_out > 0) {
    log_.Say(StrCat("rows of zeros are left out: ", story_.gallery_zero_old, " texts of ", story_.old_model, ", ",
                    story_.gallery_zero_new, " of ", story_.new_model, ", ", story_.queries_left_out, " queries"));
  }
  return absl::OkStatus();
}

absl::Status TextDemo::Serve() {
  const std::string binary = options_.binary.empty() ? ProgramBeside("lightcone") : options_.binary;
  // The fit need not stand back: nobody else asks this server.
  const std::vector<std::string> extra = {"--helper-niceness", "0"};
  LC_ASSIGN_OR_RETURN(server_,
                      ChildServer::Start(binary, options_.folder + "/server", extra, absl::Seconds(60), options_.keep));
  LC_ASSIGN_OR_RETURN(client_, client::Client::Connect({.address = server_->address()}));
  return client_->WaitUntilServing(absl::Seconds(30));
}

std::string TextDemo::PayloadOf(int64_t row) const {
  const TextLine& line = data_.gallery[static_cast<size_t>(row)];
  return nlohmann::json{{"id", line.id}, {"label", line.label}, {"text", line.text}}.dump();
}

absl::Status TextDemo::MakeTextGallery(const std::string& collection, const TextModel& model, bool scanned) {
  LC_RETURN_IF_ERROR(CreateTextCollection(*client_, collection, scanned));
  LC_ASSIGN_OR_RETURN(const uint32_t generation, RegisterTextModel(*client_, collection, model.name, model.dimension,
                                                                   /*expects_adapter=*/false));
  LC_RETURN_IF_ERROR(ActivateModel(*client_, collection, generation));
  std::vector<int64_t> rows;
  for (size_t i = 0; i < model.gallery.zero.size(); ++i) {
    if (model.gallery.zero[i] == 0) rows.push_back(static_cast<int64_t>(i));
  }
  const GalleryRows what = {
      .collection = collection, .generation = generation, .z = model.gallery.z, .dimension = model.dimension};
  return UpsertRows(*client_, what, rows, [this](int64_t row) { return PayloadOf(row); });
}

GalleryQueries TextDemo::AskOld() const {
  return {.collection = kTextGallery,
          .generation = kOldGeneration,
          .evaluate_generations = {},
          .z = data_.old_model.queries.z,
          .dimension = data_.old_model.dimension,
          .queries = queries_,
          .adapters = v1::ADAPTER_MODE_UNSPECIFIED};
}

GalleryQueries TextDemo::AskNew(const std::string& collection, uint32_t generation) const {
  return {.collection = collection,
          .generation = generation,
          .evaluate_generations = {},
          .z = data_.new_model.queries.z,
          .dimension = data_.new_model.dimension,
          .queries = queries_,
          .adapters = v1::ADAPTER_MODE_UNSPECIFIED};
}

GalleryQueries TextDemo::AskBoth() const {
  GalleryQueries both = AskNew(kTextGallery, kNewGeneration);
  both.older = OlderQueries{kOldGeneration, data_.old_model.queries.z, data_.old_model.dimension};
  return both;
}

absl::Status TextDemo::MeasureTextRow(const std::string& query, const std::string& gallery,
                                      const GalleryQueries& what) {
  return log_.Timed(StrCat("measure ", query, " queries on the ", gallery, " gallery"), [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(DemoRow row, MeasureTexts(*client_, what, truth_));
    row.query = query;
    row.gallery = gallery;
    result_.rows.push_back(std::move(row));
    return absl::OkStatus();
  });
}

// What the new model finds in a gallery of its own, which recall@10 of every row is measured against.
absl::Status TextDemo::MeasureReembedded() {
  LC_RETURN_IF_ERROR(log_.Timed("embed all texts by the new model, for comparison",
                                [&] { return MakeTextGallery(kTextGalleryNew, data_.new_model, /*scanned=*/true); }));
  const GalleryQueries own = AskNew(kTextGalleryNew, kOldGeneration);
  LC_ASSIGN_OR_RETURN(const Neighbours nearest, NearestThroughSearch(*client_, own, 10));
  for (size_t i = 0; i < queries_.size(); ++i) {
    for (const auto& [id, distance] : nearest[i]) {
      truth_.own_nearest[static_cast<size_t>(queries_[i])].push_back(id);
    }
  }
  return MeasureTextRow("new", "new", own);
}

absl::Status TextDemo::Upgrade() {
  LC_RETURN_IF_ERROR(log_.Timed("register the new model and embed the pairs", [&]() -> absl::Status {
    LC_RETURN_IF_ERROR(RegisterTextModel(*client_, kTextGallery, data_.new_model.name, data_.new_model.dimension,
                                         /*expects_adapter=*/true)
                           .status());
    const GalleryRows what = {.collection = kTextGallery,
                              .generation = kNewGeneration,
                              .z = data_.new_model.gallery.z,
                              .dimension = data_.new_model.dimension,
                              .same_content = true};
    return UpsertRows(*client_, what, pairs_, [](int64_t) { return std::string(); });
  }));
  LC_RETURN_IF_ERROR(log_.Timed("the server fits an adapter to the pairs", [&]() -> absl::Status {
    const double begin = log_.Seconds();
    LC_ASSIGN_OR_RETURN(const v1::AdapterInfo adapter, FitTextAdapter(*client_, kTextGallery, options_.seed));
    story_.adapter_map = adapter.kind();
    DemoAdapter fitted;
    fitted.model = "new";
    fitted.loss = adapter.loss();
    fitted.pairs = static_cast<int64_t>(adapter.pairs());
    fitted.seconds = log_.Seconds() - begin;
    result_.adapters = {fitted};
    return absl::OkStatus();
  }));
  LC_RETURN_IF_ERROR(log_.Timed("the gate: validate by the probes", [&]() -> absl::Status {
    LC_RETURN_IF_ERROR(PutTextProbes(*client_, kTextGallery, data_, probes_));
    LC_ASSIGN_OR_RETURN(upgrade_, ValidateTexts(*client_, kTextGallery));
    return absl::OkStatus();
  }));
  story_.gate_passed = upgrade_.passed;
  story_.gate_both_passes = upgrade_.both_passes;
  story_.gate_way = upgrade_.way;
  story_.gate_summary = upgrade_.summary;
  log_.Say(StrCat("the gate ", upgrade_.passed ? "passes" : "refuses", ": ", upgrade_.summary));
  if (!upgrade_.passed) {
    story_.forced = true;
    log_.Say("a real upgrade would stop here; the demo goes on by --force, to show what would have come");
  }
  return log_.Timed("activate the new model", [&]() -> absl::Status {
    LC_RETURN_IF_ERROR(ActivateModel(*client_, kTextGallery, kNewGeneration, upgrade_.force_reason));
    LC_ASSIGN_OR_RETURN(result_.reembedded_items, CountReembedded(*client_, kTextGallery, kOldGeneration));
    return absl::OkStatus();
  });
}

absl::Status TextDemo::KillAndCompare() {
  GalleryQueries plain = AskNew(kTextGallery, kNewGeneration), both = AskBoth();
  plain.queries = both.queries = std::span(queries_).first(std::min(queries_.size(), kTextRestartQueries));
  LC_ASSIGN_OR_RETURN(const Neighbours before, NearestThroughSearch(*client_, plain, 20));
  LC_ASSIGN_OR_RETURN(const Neighbours both_before, NearestThroughSearch(*client_, both, 20));
  client_.reset();
  server_->Kill();
  LC_RETURN_IF_ERROR(Serve());
  LC_ASSIGN_OR_RETURN(const Neighbours after, NearestThroughSearch(*client_, plain, 20));
  LC_ASSIGN_OR_RETURN(const Neighbours both_after, NearestThroughSearch(*client_, both, 20));
  result_.restart_identical = before == after && both_before == both_after;
  return absl::OkStatus();
}

absl::Status TextDemo::CollectTextExamples() {
  GalleryQueries by_old = AskOld(), by_new = AskBoth();
  by_old.queries = by_new.queries = std::span(queries_).first(std::min(queries_.size(), kExampleQueries));
  LC_ASSIGN_OR_RETURN(const Neighbours old_hits, NearestThroughSearch(*client_, by_old, kExampleHits));
  LC_ASSIGN_OR_RETURN(const Neighbours new_hits, NearestThroughSearch(*client_, by_new, kExampleHits));
  for (size_t i = 0; i < by_old.queries.size() && story_.examples.size() < kExamplesOfTexts; ++i) {
    const TextLine& query = data_.queries[static_cast<size_t>(by_old.queries[i])];
    const auto list = [&](const auto& hits) {
      std::vector<TextHit> texts;
      for (const auto& [id, distance] : hits) {
        const TextLine& line = data_.gallery[static_cast<size_t>(id)];
        texts.push_back({line.label, line.text, line.label == query.label});
      }
      return texts;
    };
    TextExample example{query.label, query.text, list(old_hits[i]), list(new_hits[i])};
    if (example.by_old.empty() || example.by_new.empty()) continue;
    if (example.by_old[0].right != example.by_new[0].right) story_.examples.push_back(std::move(example));
  }
  return absl::OkStatus();
}

absl::Status TextDemo::Backfill() {
  const std::vector<int64_t> only_new = RowsWhere(true, false);
  LC_ASSIGN_OR_RETURN(std::vector<v1::LeasedItem> items, LeaseEverything(*client_, kTextGallery, ""));
  std::erase_if(items, [this](const v1::LeasedItem& item) {
    return data_.new_model.gallery.zero[static_cast<size_t>(item.id().number())] != 0;
  });
  result_.backfill_order = "neighbourhoods, worst first";
  const GalleryRows vectors = {.collection = kTextGallery,
                               .generation = kNewGeneration,
                               .z = data_.new_model.gallery.z,
                               .dimension = data_.new_model.dimension};
  const auto measure = [&, points = 0]() mutable -> absl::StatusOr<BackfillPoint> {
    DemoRow row = *result_.Row("both", "old");  // the first point: nothing was embedded since
    if (points++ > 0) {
      // Texts that the old model gives no direction come with the first share.
      if (points == 2) {
        LC_RETURN_IF_ERROR(UpsertRows(*client_, vectors, only_new, [this](int64_t item) { return PayloadOf(item); }));
      }
      LC_ASSIGN_OR_RETURN(row, MeasureTexts(*client_, AskBoth(), truth_));
    }
    LC_ASSIGN_OR_RETURN(const int64_t embedded, CountReembedded(*client_, kTextGallery, kOldGeneration));
    return BackfillPoint{0, row.cmc1, row.map, row.p10, row.mrr10, row.ndcg10, row.recall10, embedded};
  };
  LC_ASSIGN_OR_RETURN(result_.backfill_curve, EmbedByShares(*client_, vectors, items, measure));
  return absl::OkStatus();
}

absl::Status TextDemo::RollBack() {
  LC_ASSIGN_OR_RETURN(
      const SwitchTimes times,
      MeasureSwitches(*client_, server_->address(), AskNew(kTextGallery, kNewGeneration),
                      {.older = kOldGeneration, .searches_name_it = true, .force_reason = upgrade_.force_reason}));
  result_.activation_ms = times.activation_ms;
  result_.rollback_ms = times.rollback_ms;
  return absl::OkStatus();
}

void TextDemo::Summarise() {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();  // null in JSON
  const DemoRow &old_old = *result_.Row("old", "old"), &cross = *result_.Row("new", "old"),
                &own = *result_.Row("new", "new");
  result_.p_com_cmc1 = PCom(cross.cmc1, old_old.cmc1, own.cmc1).value_or(kUndefined);
  result_.p_com_map = PCom(cross.map, old_old.map, own.map).value_or(kUndefined);
  for (DemoAdapter& adapter : result_.adapters) {
    adapter.p_com_cmc1 = result_.p_com_cmc1;
    adapter.p_com_map = result_.p_com_map;
  }
  const auto place = [](const DemoRow& row) {
    return row.gallery == "new" ? 3 : row.query == "old" ? 0 : row.query == "new" ? 1 : 2;
  };
  std::stable_sort(result_.rows.begin(), result_.rows.end(),
                   [&](const DemoRow& a, const DemoRow& b) { return place(a) < place(b); });
  const nlohmann::ordered_json config = {
      {"lightcone", kVersion}, {"compiler", __VERSION__}, {"adapter", story_.adapter_map}};
  result_.config_json = config.dump(2);
  result_.total_seconds = log_.Seconds();
  result_.events = log_.events();
  result_.text = std::move(story_);
}

void TextDemo::Tell() const {
  std::fprintf(out_, "%s\n  report: %s/report.html\n", TextDemoTable(result_).c_str(), options_.folder.c_str());
  const std::string& address = server_->address();
  if (!options_.keep) {
    std::fprintf(out_, "  next: lightcone demo --data text:DIR --keep leaves the server running\n");
    return;
  }
  std::fprintf(out_, "  the server goes on at %s (process %d); try:\n    lightcone -s %s collection get %s\n",
               address.c_str(), server_->pid(), address.c_str(), kTextGallery);
}

absl::StatusOr<DemoResult> TextDemo::Run() {
  LC_RETURN_IF_ERROR(Prepare());
  LC_RETURN_IF_ERROR(log_.Timed("start the server", [&] { return Serve(); }));
  LC_RETURN_IF_ERROR(log_.Timed("upsert the gallery by the old model",
                                [&] { return MakeTextGallery(kTextGallery, data_.old_model, /*scanned=*/false); }));
  LC_RETURN_IF_ERROR(MeasureReembedded());
  LC_RETURN_IF_ERROR(MeasureTextRow("old", "old", AskOld()));
  LC_RETURN_IF_ERROR(Upgrade());
  LC_RETURN_IF_ERROR(MeasureTextRow("new", "old", AskNew(kTextGallery, kNewGeneration)));
  LC_RETURN_IF_ERROR(MeasureTextRow("both", "old", AskBoth()));
  LC_RETURN_IF_ERROR(log_.Timed("collect examples", [&] { return CollectTextExamples(); }));
  LC_RETURN_IF_ERROR(log_.Timed("kill -9, restart, compare", [&] { return KillAndCompare(); }));
  LC_RETURN_IF_ERROR(log_.Timed("roll back and activate, 20 times", [&] { return RollBack(); }));
  LC_RETURN_IF_ERROR(log_.Timed("embed the gallery anew, in the server's order", [&] { return Backfill(); }));
  Summarise();
  LC_RETURN_IF_ERROR(WriteFileAtomically(options_.folder + "/report.html", TextDemoHtml(result_)));
  Tell();
  if (options_.keep) server_->Release();
  return result_;
}

}  // namespace

absl::StatusOr<DemoResult> RunTextDemo(const DemoOptions& options, std::FILE* out) {
  return TextDemo(options, out).Run();
}

}  // namespace lightcone::cli

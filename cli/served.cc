#include "cli/served.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "base/scratch_folder.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "cli/demo_gallery.h"
#include "cli/served_backfill.h"
#include "client/client.h"
#include "geometry/metrics.h"
#include "models/adapter_file.h"
#include "models/encoder.h"
#include "trainer/data/rng.h"
#include "trainer/evaluate.h"
#include "trainer/uncertainty/failure_head.h"

namespace lightcone::cli {
namespace {

constexpr char kCollection[] = "served";
constexpr uint64_t kBackfillStream = 0xbacf111;

class Served {
 public:
  Served(const ServedPair& pair, const Dataset& dataset) : pair_(pair), dataset_(dataset) {}

  absl::StatusOr<ServedFigures> Measure(const std::vector<double>& shares) {
    LC_RETURN_IF_ERROR(Open());
    LC_RETURN_IF_ERROR(Register());
    LC_RETURN_IF_ERROR(ChooseOrder());
    const size_t n = static_cast<size_t>(dataset_.test.size());
    size_t done = 0;
    for (const double share : shares) {
      LC_RETURN_IF_ERROR(Stopped());
      const auto wanted = static_cast<size_t>(std::llround(share * static_cast<double>(n)));
      if (wanted > done) LC_RETURN_IF_ERROR(EmbedAnew(done, wanted - done));
      done = std::max(done, wanted);
      LC_ASSIGN_OR_RETURN(const DemoRow row, MeasureThroughSearch(*client_, what_, dataset_.test.labels));
      figures_.points.push_back({share, row.cmc1, row.cmc5, row.map});
    }
    return std::move(figures_);
  }

 private:
  absl::Status Stopped() const {
    if (pair_.stop == nullptr || !pair_.stop->load(std::memory_order_relaxed)) return absl::OkStatus();
    return absl::CancelledError("interrupted");
  }

  bool own_order() const { return pair_.order != "random"; }

  absl::Status ChooseOrder() {
    if (!own_order()) {
      order_.resize(static_cast<size_t>(dataset_.test.size()));
      std::iota(order_.begin(), order_.end(), 0);
      Rng rng(MixSeed({pair_.seed, kBackfillStream}));
      rng.Shuffle(&order_);
      return absl::OkStatus();
    }
    LC_RETURN_IF_ERROR(ActivateModel(*client_, kCollection, what_.generation));
    const std::string head = pair_.order == "neighbourhood" ? "" : pair_.order;
    LC_ASSIGN_OR_RETURN(leased_, LeaseEverything(*client_, kCollection, head));
    if (std::ssize(leased_) != dataset_.test.size()) {
      return absl::InternalError(StrCat("the server leased ", leased_.size(), " items"));
    }
    const Manifest &query = query_->manifest(), &gallery = gallery_->manifest();
    if (query.dimension != gallery.dimension) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const Failures failures,
                        FailuresOf({query.metric, query.curvature, query.dimension},
                                   {query_z_, dataset_.test.labels, query.clip_radius},
                                   {gallery_z_, dataset_.test.labels, gallery.clip_radius}));
    std::vector<double> scores;
    std::vector<uint8_t> wrong;
    for (const v1::LeasedItem& item : leased_) {
      if (failures.findable[item.id().number()] == 0) continue;
      scores.push_back(item.uncertainty());
      wrong.push_back(failures.wrong[item.id().number()]);
    }
    figures_.auroc = Auroc(scores, wrong);
    return absl::OkStatus();
  }

  // The next `count` items of the order, from the `begin`th on.
  absl::Status EmbedAnew(size_t begin, size_t count) {
    if (own_order()) {
      return EmbedLeased(*client_, kCollection, what_.generation,
                         std::span<const v1::LeasedItem>(leased_).subspan(begin, count), query_z_, what_.dimension);
    }
    return UpsertVectors(*client_, kCollection, what_.generation, query_z_, what_.dimension, dataset_,
                         std::span<const int64_t>(order_).subspan(begin, count));
  }

  // Whether a way leads from the queries' model to the gallery's, before anything is embedded.
  absl::Status CheckWay() {
    const Manifest &query = query_->manifest(), &gallery = gallery_->manifest();
    const bool adapted = !pair_.adapter.empty();
    one_model_ = query.encoder_crc32c == gallery.encoder_crc32c;
    child_ = !adapted && query.parent_crc32c == gallery.encoder_crc32c && !query.through_adapter;
    if (one_model_ && adapted) return InvalidField("--adapter", pair_.adapter, "two models, --query and --gallery");
    if (own_order() && !adapted && !child_) {
      return InvalidField("--order", pair_.order,
                          "random, unless the query model was trained against the gallery's, or has an adapter to it");
    }
    if (one_model_ || adapted || child_) return absl::OkStatus();
    if (query.through_adapter) {
      return InvalidField("--adapter", "absent",
                          StrCat("an adapter: '", query.name, "' compares with no older model as it is"));
    }
    if (query.dimension == gallery.dimension) return absl::OkStatus();
    return InvalidField(
        "--adapter", "absent",
        StrCat("an adapter between vectors of ", query.dimension, " and ", gallery.dimension, " numbers"));
  }

  absl::Status Open() {
    LC_ASSIGN_OR_RETURN(query_, Encoder::LoadFolder(pair_.query));
    LC_ASSIGN_OR_RETURN(gallery_, Encoder::LoadFolder(pair_.gallery));
    LC_RETURN_IF_ERROR(CheckWay());
    LC_ASSIGN_OR_RETURN(query_z_, EmbedSplit(*query_, dataset_.test));
    LC_ASSIGN_OR_RETURN(gallery_z_, EmbedSplit(*gallery_, dataset_.test));
    LC_RETURN_IF_ERROR(Stopped());
    const int64_t n = dataset_.test.size();
    queries_ = ChooseQueries(n, pair_.queries_max > 0 ? pair_.queries_max : n, pair_.seed);
    figures_.queries = static_cast<int64_t>(queries_.size());
    LC_ASSIGN_OR_RETURN(scratch_, ScratchFolder::Make("eval"));
    std::string binary = pair_.binary;
    if (binary.empty()) {
      LC_ASSIGN_OR_RETURN(binary, OwnBinary());
    }
    LC_ASSIGN_OR_RETURN(server_, ChildServer::Start(binary, scratch_->path() + "/data",
                                                    {"--limits-k-max", StrCat(std::max<int64_t>(10'000, n))}));
    LC_ASSIGN_OR_RETURN(client_, client::Client::Connect({.address = server_->address()}));
    return client_->WaitUntilServing(absl::Seconds(30));
  }

  absl::Status Register() {
    const Manifest &query = query_->manifest(), &gallery = gallery_->manifest();
    LC_RETURN_IF_ERROR(CreateGallery(*client_, kCollection, gallery.metric, gallery.curvature));
    LC_ASSIGN_OR_RETURN(const uint32_t old, RegisterModel(*client_, kCollection, pair_.gallery, {}));
    LC_RETURN_IF_ERROR(ActivateModel(*client_, kCollection, old));
    LC_RETURN_IF_ERROR(UpsertVectors(*client_, kCollection, old, gallery_z_, gallery.dimension, dataset_));
    what_ = {.collection = kCollection,
             .generation = old,
             .evaluate_generations = {},
             .z = query_z_,
             .dimension = query.dimension,
             .queries = queries_};
    what_.stop = pair_.stop;
    figures_.how = "itself";
    if (one_model_) return absl::OkStatus();
    const bool adapted = !pair_.adapter.empty();
    LC_ASSIGN_OR_RETURN(what_.generation, RegisterModel(*client_, kCollection, pair_.query,
                                                        {.parent = child_ ? old : 0, .expects_adapter = adapted}));
    if (child_) {
      figures_.how = "native";
    } else if (adapted) {
      LC_ASSIGN_OR_RETURN(const AdapterFile file, ReadAdapter(pair_.adapter));
      const bool item = file.spec.direction == AdapterDirection::kItem;
      LC_RETURN_IF_ERROR(
          PutAdapter(*client_, kCollection, item ? old : what_.generation, item ? what_.generation : old, file));
      what_.adapters = item ? v1::ADAPTER_MODE_ITEM : v1::ADAPTER_MODE_QUERY;
      figures_.how = item ? "item adapter" : "query adapter";
    } else {
      what_.evaluate_generations = {old, what_.generation};
      figures_.how = "override of the reach";
    }
    return absl::OkStatus();
  }

  const ServedPair& pair_;
  const Dataset& dataset_;
  std::unique_ptr<Encoder> query_, gallery_;
  bool one_model_ = false, child_ = false;
  std::vector<float> query_z_, gallery_z_;
  std::vector<int64_t> queries_;
  std::unique_ptr<ScratchFolder> scratch_;  // outlives the server
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  std::vector<int64_t> order_;           // random
  std::vector<v1::LeasedItem> leased_;  // the server's
  GalleryQueries what_;
  ServedFigures figures_;
};

}  // namespace

absl::StatusOr<ServedFigures> MeasureServed(const ServedPair& pair, const Dataset& dataset,
                                            const std::vector<double>& shares) {
  double before = 0;
  for (const double share : shares) {
    if (!(share >= before && share <= 1)) {
      return InvalidField("share", StrCat(share), StrCat(before, " .. 1: shares ascend"));
    }
    before = share;
  }
  if (dataset.protocol.has_value()) {
    return InvalidField(
        "--data", dataset.name,
        "a set without a protocol of its own for queries and gallery: only a measurement in memory follows it");
  }
  if (dataset.test.size() < 2) return InvalidField("test images", StrCat(dataset.test.size()), "2 or more");
  return Served(pair, dataset).Measure(shares);
}

}  // namespace lightcone::cli

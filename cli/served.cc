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
#include "client/client.h"
#include "models/adapter_file.h"
#include "models/encoder.h"
#include "trainer/data/rng.h"
#include "trainer/evaluate.h"

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
    std::vector<int64_t> order(static_cast<size_t>(dataset_.test.size()));
    std::iota(order.begin(), order.end(), 0);
    Rng rng(MixSeed({pair_.seed, kBackfillStream}));
    rng.Shuffle(&order);
    size_t done = 0;
    for (const double share : shares) {
      LC_RETURN_IF_ERROR(Stopped());
      const auto wanted = static_cast<size_t>(std::llround(share * static_cast<double>(order.size())));
      if (wanted > done) {
        const std::span<const int64_t> rows = std::span<const int64_t>(order).subspan(done, wanted - done);
        LC_RETURN_IF_ERROR(
            UpsertVectors(*client_, kCollection, what_.generation, query_z_, what_.dimension, dataset_, rows));
        done = wanted;
      }
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

  // Whether a way leads from the queries' model to the gallery's, before anything is embedded.
  absl::Status CheckWay() {
    const Manifest &query = query_->manifest(), &gallery = gallery_->manifest();
    const bool adapted = !pair_.adapter.empty();
    one_model_ = query.encoder_crc32c == gallery.encoder_crc32c;
    child_ = !adapted && query.parent_crc32c == gallery.encoder_crc32c && !query.through_adapter;
    if (one_model_ && adapted) return InvalidField("--adapter", pair_.adapter, "two models, --query and --gallery");
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

#include "cli/served/served.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/programs.h"
#include "base/rng.h"
#include "base/scratch_folder.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "cli/served/demo_gallery.h"
#include "cli/served/served_backfill.h"
#include "cli/table.h"
#include "client/client.h"
#include "geometry/adapter.h"
#include "models/adapter_file.h"
#include "models/encoders/encoder.h"
#include "models/failure_head_file.h"
#include "stats/metrics.h"
#include "trainer/adapt/model_pairs.h"
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
    LC_ASSIGN_OR_RETURN(const Failures failures, Misses());
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

  // What the query model retrieves wrongly, compared as the server does: behind the adapter, in the space that it leads
  // into, or by the first numbers of a longer vector.
  absl::StatusOr<Failures> Misses() const {
    const Manifest &query = query_->manifest(), &gallery = gallery_->manifest();
    std::vector<float> query_z = query_z_, gallery_z = gallery_z_;
    double query_clip = query.clip_radius, gallery_clip = gallery.clip_radius;
    const bool item = adapter_.has_value() && adapter_->spec.direction == AdapterDirection::kItem;
    if (adapter_.has_value()) {
      LC_ASSIGN_OR_RETURN(const Adapter adapter, Adapter::Make(adapter_->spec));
      std::vector<float>& side = item ? gallery_z : query_z;
      std::vector<float> carried(dataset_.test.labels.size() * static_cast<size_t>(adapter.output_dimension()));
      adapter.Apply(side, carried);
      side = std::move(carried);
      (item ? gallery_clip : query_clip) = adapter.target().clip_radius;
    } else {
      query_z = FirstNumbers(query_z, query.dimension, gallery.dimension);
    }
    const Manifest& space = item ? query : gallery;
    return FailuresOf({space.metric, space.curvature, space.dimension}, {query_z, dataset_.test.labels, query_clip},
                      {gallery_z, dataset_.test.labels, gallery_clip});
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

  // Whether it was fitted to these two trainings: other models of one recipe have spaces of the same shape.
  absl::Status CheckTraining(const char* from, const char* to, const Space& target) const {
    const bool item = adapter_->spec.direction == AdapterDirection::kItem;
    const Manifest &takes = (item ? gallery_ : query_)->manifest(), &gives = (item ? query_ : gallery_)->manifest();
    LC_ASSIGN_OR_RETURN(const Space source, SpaceOf(takes));
    return Annotate(
        CheckFittedBetween(*adapter_, {from, takes.encoder_crc32c, source}, {to, gives.encoder_crc32c, target}),
        StrCat("--adapter '", pair_.adapter, "'"));
  }

  // Whether the adapter leads from one of the two models to the other, as the server will ask.
  absl::Status CheckAdapter() const {
    const AdapterSpec& spec = adapter_->spec;
    const bool item = spec.direction == AdapterDirection::kItem;
    const char *from = item ? "--gallery" : "--query", *to = item ? "--query" : "--gallery";
    const int takes = (item ? gallery_ : query_)->dimension();
    if (spec.input_dimension != takes) {
      return InvalidField("--adapter",
                          StrCat("of direction '", AdapterDirectionName(spec.direction), "' for vectors of ",
                                 spec.input_dimension, " numbers"),
                          StrCat("one for ", takes, " numbers, as ", from, " embeds"));
    }
    LC_ASSIGN_OR_RETURN(const Space wanted, SpaceOf((item ? query_ : gallery_)->manifest()));
    const Space& given = spec.target;
    const bool same = given.metric == wanted.metric && given.dimension == wanted.dimension &&
                      (given.metric != Metric::kLorentz ||
                       (given.curvature == wanted.curvature && given.clip_radius == wanted.clip_radius));
    if (same) return CheckTraining(from, to, wanted);
    const auto text = [](const Space& space) {
      const std::string plain = StrCat(MetricName(space.metric), " of dimension ", space.dimension);
      return space.metric == Metric::kLorentz
                 ? StrCat(plain, ", K ", Number(space.curvature), ", clip radius ", Number(space.clip_radius))
                 : plain;
    };
    return InvalidField("--adapter", StrCat("into ", text(given)),
                        StrCat("into ", text(wanted), ", as ", to, " embeds"));
  }

  // The file of the order, for items of the gallery's model.
  absl::Status CheckHead() const {
    LC_ASSIGN_OR_RETURN(const FailureHeadFile head, ReadFailureHead(pair_.order));
    const size_t wanted = static_cast<size_t>(gallery_->manifest().dimension);
    if (head.means.dimension == wanted) return absl::OkStatus();
    return InvalidField("--order", StrCat("a failure head for vectors of ", head.means.dimension, " numbers"),
                        StrCat(wanted, " numbers, as --gallery embeds"));
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
    if (own_order() && pair_.order != "neighbourhood") LC_RETURN_IF_ERROR(CheckHead());
    if (adapted) {
      LC_ASSIGN_OR_RETURN(adapter_, ReadAdapter(pair_.adapter));
      return CheckAdapter();
    }
    if (one_model_ || child_) return absl::OkStatus();
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
    const std::string binary = pair_.binary.empty() ? ProgramBeside("lightcone") : pair_.binary;
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
      const bool item = adapter_->spec.direction == AdapterDirection::kItem;
      LC_RETURN_IF_ERROR(
          PutAdapter(*client_, kCollection, item ? old : what_.generation, item ? what_.generation : old, *adapter_));
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
  std::optional<AdapterFile> adapter_;
  bool one_model_ = false, child_ = false;
  std::vector<float> query_z_, gallery_z_;
  std::vector<int64_t> queries_;
  std::unique_ptr<ScratchFolder> scratch_;  // outlives the server
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  std::vector<int64_t> order_;          // random
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
      return InvalidField("--backfilled", StrCat(share), StrCat(before, " .. 1: shares ascend"));
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

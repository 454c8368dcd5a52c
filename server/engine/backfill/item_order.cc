#include "server/engine/backfill/item_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "geometry/bound_query.h"
#include "geometry/uncertainty.h"

namespace lightcone::server {
namespace {

constexpr size_t kBatch = 1024;          // items between two reads of the store, and between two views
constexpr size_t kScaleSample = 16'384;  // items whose median is d1
constexpr double kEntropyShare = 0.2;    // tau of the order without a head, in d1

// What one item's own neighbours tell.
struct Standing {
  HeadFeatures features{};
  std::array<uint64_t, kHeadFew> few{};  // internal ids of the nearest; 0: none
  int32_t nearest_class = 0;
};

class OrderEstimate {
 public:
  explicit OrderEstimate(const OrderCall& call)
      : call_(call), space_(call.collection->state()->Find(call.generation)->space) {}

  absl::StatusOr<std::vector<OrderedItem>> Run() {
    LC_RETURN_IF_ERROR(FindItems());
    std::vector<OrderedItem> order(ids_.size());
    for (size_t i = 0; i < ids_.size(); ++i) order[i].internal_id = ids_[i];
    if (space_.metric == Metric::kInnerProduct || ids_.size() < 2) return order;
    LC_RETURN_IF_ERROR(FindScale());
    if (call_.head != nullptr) standings_.resize(ids_.size());
    LC_RETURN_IF_ERROR(ForEachItem(1, [&](size_t i, std::span<const float> z, const SearchResult& near) {
      call_.head != nullptr ? RecordStanding(i, z, near) : RecordEntropy(near, &order[i]);
      if (call_.done != nullptr) call_.done->fetch_add(1, std::memory_order_relaxed);
    }));
    for (size_t i = 0; i < standings_.size(); ++i) {
      if (i % kBatch == 0) LC_RETURN_IF_ERROR(CheckCancelled());
      order[i].uncertainty = PredictFailure(i);
    }
    return order;
  }

 private:
  absl::Status CheckCancelled() const {
    if (!call_.cancelled || !call_.cancelled()) return absl::OkStatus();
    return MakeStatus(absl::StatusCode::kCancelled, "ordering a backfill: stopped");
  }

  // Items that the view serves by this generation.
  absl::Status FindItems() {
    std::vector<uint64_t> batch;
    const auto keep = [&]() -> absl::Status {
      LC_RETURN_IF_ERROR(CheckCancelled());
      LC_ASSIGN_OR_RETURN(const std::vector<ResolvedRow> rows, call_.collection->CurrentRows(batch));
      for (size_t i = 0; i < rows.size(); ++i) {
        if (!rows[i].found) continue;
        const std::vector<uint32_t>& by = rows[i].record.generations;
        if (HeadGeneration(by, call_.view_generation) == call_.generation) ids_.push_back(batch[i]);
      }
      batch.clear();
      return absl::OkStatus();
    };
    LC_RETURN_IF_ERROR(call_.collection->ForEachEmbedding(
        call_.generation, [&](uint64_t id, std::span<const float>, float) -> absl::Status {
          batch.push_back(id);
          return batch.size() < kBatch ? absl::OkStatus() : keep();
        }));
    return keep();
  }

  // Calls visit(i, z, neighbours of item i without itself) for every `stride`-th item, but for items deleted meanwhile.
  absl::Status ForEachItem(size_t stride,
                           const std::function<void(size_t, std::span<const float>, const SearchResult&)>& visit) {
    size_t i = 0, since_pin = 0;
    std::optional<PinnedView> view;
    return call_.collection->ForEachEmbedding(call_.generation,
                                              [&](uint64_t id, std::span<const float> z, float) -> absl::Status {
                                                while (i < ids_.size() && ids_[i] < id) ++i;
                                                if (i == ids_.size() || ids_[i] != id || i % stride != 0)
                                                  return absl::OkStatus();
                                                // A pinned view keeps deleted rows in memory, so none lives long.
                                                if (!view || ++since_pin == kBatch) {
                                                  LC_RETURN_IF_ERROR(CheckCancelled());
                                                  view.reset();
                                                  view.emplace(call_.collection->Pin());
                                                  since_pin = 0;
                                                }
                                                LC_ASSIGN_OR_RETURN(const SearchResult near, Neighbours(**view, id, z));
                                                if (!near.hits.empty()) visit(i, z, near);
                                                return absl::OkStatus();
                                              });
  }

  absl::StatusOr<SearchResult> Neighbours(const IndexView& view, uint64_t id, std::span<const float> z) const {
    LC_ASSIGN_OR_RETURN(const BoundQuery query, BoundQuery::Make(space_, space_, z));
    SearchRequest request;
    request.query = &query;
    request.generation = call_.generation;
    request.view_generation = call_.view_generation;
    request.k = int64_t{kHeadNeighbours} + 1;
    request.cancelled = call_.cancelled ? &call_.cancelled : nullptr;
    LC_ASSIGN_OR_RETURN(SearchResult near, view.Search(request));
    std::erase_if(near.hits, [id](const SearchHit& hit) { return hit.internal_id == id; });
    if (near.hits.size() > kHeadNeighbours) near.hits.resize(kHeadNeighbours);
    return near;
  }

  // d1 is the median distance of an item to its nearest neighbour that is no copy.
  absl::Status FindScale() {
    std::vector<double> apart;
    const size_t stride = (ids_.size() + kScaleSample - 1) / kScaleSample;
    LC_RETURN_IF_ERROR(ForEachItem(stride, [&](size_t, std::span<const float>, const SearchResult& near) {
      const auto other = [](const SearchHit& hit) { return hit.distance > 0; };
      const auto first = std::find_if(near.hits.begin(), near.hits.end(), other);
      if (first != near.hits.end()) apart.push_back(first->distance);
    }));
    if (apart.empty()) return absl::OkStatus();  // All items are copies: any unit gives the same order.
    const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
    std::nth_element(apart.begin(), middle, apart.end());
    d1_ = *middle;
    return absl::OkStatus();
  }

  static std::vector<double> DistancesOf(const SearchResult& near) {
    std::vector<double> distances;
    distances.reserve(near.hits.size());
    for (const SearchHit& hit : near.hits) distances.push_back(hit.distance);
    return distances;
  }

  void RecordEntropy(const SearchResult& near, OrderedItem* item) const {
    const double entropy = NeighbourEntropy(DistancesOf(near), kEntropyShare * d1_);
    item->uncertainty = static_cast<float>(std::clamp(entropy / std::log(double{kHeadNeighbours}), 0.0, 1.0));
  }

  void RecordStanding(size_t i, std::span<const float> z, const SearchResult& near) {
    const std::vector<double> distances = DistancesOf(near);
    Standing& standing = standings_[i];
    const ClassEvidence classes = EvidenceOf(call_.head->means, z);
    standing.features = HeadFeaturesOf({distances, d1_, NormOf(z), classes, /*returned=*/0, /*alike=*/0});
    standing.nearest_class = classes.nearest;
    for (size_t n = 0; n < std::min(kHeadFew, near.hits.size()); ++n) standing.few[n] = near.hits[n].internal_id;
  }

  // Adds the features that depend on the neighbours' own neighbours.
  float PredictFailure(size_t i) const {
    double returned = 0, alike = 0;
    for (const uint64_t id : standings_[i].few) {
      const auto found = std::lower_bound(ids_.begin(), ids_.end(), id);
      if (id == 0 || found == ids_.end() || *found != id) continue;
      const Standing& other = standings_[static_cast<size_t>(found - ids_.begin())];
      returned += std::find(other.few.begin(), other.few.end(), ids_[i]) != other.few.end();
      alike += other.nearest_class == standings_[i].nearest_class;
    }
    const double score = call_.head->head.Score(WithNeighbours(standings_[i].features, returned, alike));
    return static_cast<float>(1.0 / (1.0 + std::exp(-score)));
  }

  const OrderCall& call_;
  const Space space_;
  std::vector<uint64_t> ids_;  // ascending
  double d1_ = 1;
  std::vector<Standing> standings_;  // one an id; empty without a head
};

}  // namespace

absl::StatusOr<std::vector<OrderedItem>> EstimateOrder(const OrderCall& call) { return OrderEstimate(call).Run(); }

}  // namespace lightcone::server

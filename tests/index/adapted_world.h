// An index of one generation, an item adapter that leads to another space, and what exact searches through it have to
// answer, ranked naively in double precision.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/index/index_testing.h"
#include "tests/support/adapter_testing.h"

namespace lightcone {

inline constexpr int64_t kUnlimited = int64_t{1} << 40;

// An index of one generation with rows of dimension 7, and an adapter to a space of dimension 10.
class AdaptedWorld {
 public:
  AdaptedWorld(Metric metric, int rows, uint32_t seed, int64_t growing_rows_max = 10'000,
               SealedKind kind = SealedKind::kHnsw, RowCodes codes = RowCodes::kInt8)
      : random_(seed) {
    from_ = Space{metric, 7, 0.8, 1.0};
    to_ = Space{metric, 10, 0.8, 1.3};
    settings_.kind = kind;
    settings_.codes = codes;
    settings_.growing_rows_max = growing_rows_max;
    settings_.hnsw_m = 8;
    settings_.hnsw_ef_construction = 40;
    index_ = std::move(*CollectionIndex::Open(folder_.path(), settings_, {{1, from_}, {2, from_}}, &oracle_));
    UseAdapter(RandomAdapter(&random_, AdapterDirection::kItem, from_.dimension, to_));
    Oracle::Batch batch;
    for (uint64_t id = 1; id <= static_cast<uint64_t>(rows); ++id) batch.push_back(Oracle::Add(id, 1, Vector(7)));
    EXPECT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
  }

  void UseAdapter(AdapterSpec spec) {
    spec_ = std::move(spec);
    adapter_.emplace(std::move(*Adapter::Make(spec_)));
  }

  std::vector<float> Vector(int dimension) {
    std::normal_distribution<float> normal(0, 0.5f);
    std::vector<float> z(static_cast<size_t>(dimension));
    for (float& x : z) x = normal(random_);
    return z;
  }

  SearchRequest Request(const BoundQuery* adapted, int64_t k) const {
    SearchRequest request;
    request.generation = request.view_generation = 1;
    request.k = k;
    request.exact = true;
    request.adapter = &*adapter_;
    request.adapted_query = adapted;
    return request;
  }

  // All visible rows by their distance as carried, in double precision.
  std::vector<std::pair<double, uint64_t>> Truth(const std::vector<float>& q, uint32_t view_generation = 1) const {
    std::vector<std::pair<double, uint64_t>> all;
    for (const auto& [id, rows] : oracle_.items()) {
      if (!rows.contains(1) || (view_generation > 1 && rows.contains(2))) continue;
      const std::vector<double> carried = CarriedNaively(spec_, rows.at(1).z);
      all.emplace_back(DistanceNaively(to_, Doubles(q), to_, carried), id);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  // Adapters compute in float32, the truth does not: neighbours that are nearer than that may change places.
  static void ExpectRanking(const std::vector<SearchHit>& hits, const std::vector<std::pair<double, uint64_t>>& truth,
                            int64_t k, const std::string& what) {
    ASSERT_EQ(hits.size(), std::min(truth.size(), static_cast<size_t>(k))) << what;
    std::map<uint64_t, double> distance_of;
    for (const auto& [distance, id] : truth) distance_of[id] = distance;
    for (size_t i = 0; i < hits.size(); ++i) {
      ASSERT_TRUE(distance_of.contains(hits[i].internal_id)) << what << ", rank " << i;
      ASSERT_NEAR(hits[i].distance, distance_of[hits[i].internal_id], 2e-5) << what << ", rank " << i;
      ASSERT_NEAR(hits[i].distance, truth[i].first, 2e-5) << what << ", rank " << i;
    }
  }

  std::mt19937 random_;
  TemporaryFolder folder_;
  Space from_, to_;
  IndexSettings settings_;
  Oracle oracle_;
  std::unique_ptr<CollectionIndex> index_;
  AdapterSpec spec_;
  std::optional<Adapter> adapter_;
};

}  // namespace lightcone

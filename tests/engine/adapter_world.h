// A collection "c" of two generations that know nothing of each other, rows of both, adapters between them, and what a
// search has to answer, ranked naively in double precision.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine_testing.h"
#include "models/adapter_file.h"
#include "tests/support/adapter_testing.h"

namespace lightcone::server {

inline std::string FileOf(const AdapterSpec& spec) {
  AdapterFile file;
  file.from = "one";
  file.to = "another";
  file.spec = spec;
  file.fit.loss = "reg";
  file.fit.pairs = 100;
  auto bytes = EncodeAdapter(file);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

class AdapterTest : public EngineTest {
 protected:
  static constexpr uint64_t kOldRows = 700, kNewRows = 90;  // more than a block that is kept, and one that is not full
  using Ranking = std::vector<std::pair<double, uint64_t>>;

  // Generation 1: items 1 .. 700; generation 2: items 1001 .. 1090.
  void MakeWorld(Metric metric = Metric::kLorentz, int old_dimension = 6, int new_dimension = 6) {
    old_ = Space{metric, old_dimension, 1.0, 1.0};
    new_ = Space{metric, new_dimension, 1.0, 1.4};
    CreateCollectionCall call;
    call.name = "c";
    call.metric = metric;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    RegisterSpace(old_, 0, false);
    RegisterSpace(new_, 0, old_dimension != new_dimension);
    Activate(1);
    std::vector<UpsertItem> old_items, new_items;
    for (uint64_t id = 1; id <= kOldRows; ++id) {
      old_rows_[id] = RandomVector(&random_, old_dimension, 0.6f);
      for (size_t d = 0; d < old_factors_.size(); ++d) old_rows_[id][d] *= old_factors_[d];
      old_items.push_back(ItemOf(Id(id), old_rows_[id]));
    }
    for (uint64_t id = 1'001; id <= 1'000 + kNewRows; ++id) {
      new_rows_[id] = RandomVector(&random_, new_dimension, 0.6f);
      new_items.push_back(ItemOf(Id(id), new_rows_[id]));
    }
    Write(BatchOf(std::move(old_items), 1));
    Write(BatchOf(std::move(new_items), 2));
    item_ = RandomAdapter(&random_, AdapterDirection::kItem, old_dimension, new_);
    query_ = RandomAdapter(&random_, AdapterDirection::kQuery, new_dimension, old_);
  }

  void RegisterSpace(const Space& space, uint32_t parent, bool expects_adapter, int prefix = 0) {
    RegisterCall call;
    call.collection = "c";
    call.parent = parent;
    call.expects_adapter = expects_adapter;
    std::string manifest = ManifestFor(space.dimension, space.curvature, space.clip_radius);
    if (prefix > 0) manifest.insert(manifest.size() - 1, StrCat(",\"compatible_prefix\":", prefix));
    call.manifest_json = manifest;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  PutAdapterCall PutOf(const AdapterSpec& spec, const std::string& request_id = "") const {
    const bool item = spec.direction == AdapterDirection::kItem;
    return {request_id, "c", item ? 1u : 2u, item ? 2u : 1u, FileOf(spec)};
  }
  AdapterStatus Put(const AdapterSpec& spec) {
    const auto put = engine_->PutAdapter(PutOf(spec));
    EXPECT_TRUE(put.ok()) << put.status();
    return put.ok() ? *put : AdapterStatus{};
  }
  static DropAdapterCall DropOf(uint32_t from, uint32_t to, bool force = false, const std::string& request_id = "") {
    return {request_id, "c", from, to, force};
  }

  SearchCall Ask(const std::vector<float>& q, int64_t k, AdapterMode mode = AdapterMode::kDefault, bool exact = true) {
    SearchCall call = SearchFor(q, k, 2);
    call.adapter_mode = mode;
    call.exact = exact;
    return call;
  }

  // What queries of generation 2 have to find. `mode` kNone: generation 2 alone.
  Ranking Truth(const std::vector<float>& q, AdapterMode mode) const {
    Ranking all;
    for (const auto& [id, z] : new_rows_) all.emplace_back(DistanceNaively(new_, Doubles(q), new_, Doubles(z)), id);
    for (const auto& [id, z] : old_rows_) {
      if (mode == AdapterMode::kQuery) {
        all.emplace_back(DistanceNaively(old_, CarriedNaively(query_, q), old_, Doubles(z)), id);
      } else if (mode == AdapterMode::kItem) {
        all.emplace_back(DistanceNaively(new_, Doubles(q), new_, CarriedNaively(item_, z)), id);
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  // Adapters compute in float32 and the truth does not: neighbours that are nearer than that may change places.
  static void ExpectRanking(const std::vector<EngineHit>& hits, const Ranking& truth, int64_t k,
                            const std::string& what) {
    ASSERT_EQ(hits.size(), std::min(truth.size(), static_cast<size_t>(k))) << what;
    std::map<ItemId, double> distance_of;
    for (const auto& [distance, id] : truth) distance_of[Id(id)] = distance;
    for (size_t i = 0; i < hits.size(); ++i) {
      ASSERT_TRUE(distance_of.contains(hits[i].id)) << what << ", rank " << i;
      ASSERT_NEAR(hits[i].distance, distance_of[hits[i].id], 2e-5) << what << ", rank " << i;
      ASSERT_NEAR(hits[i].distance, truth[i].first, 2e-5) << what << ", rank " << i;
    }
  }

  // Some queries, few and all hits, exact and not, in one mode.
  void ExpectMode(AdapterMode mode, AdapterMode expected, const std::string& what) {
    for (const bool exact : {true, false}) {
      for (const int64_t k : {int64_t{12}, int64_t{2'000}}) {
        const std::vector<float> q = RandomVector(&random_, new_.dimension, 0.6f);
        ExpectRanking(Hits(Ask(q, k, mode, exact)), Truth(q, expected), k, StrCat(what, " k ", k, " exact ", exact));
        if (HasFatalFailure()) return;
      }
    }
  }

  std::mt19937 random_{20};
  std::vector<float> old_factors_;  // of the first numbers of old rows
  Space old_, new_;
  std::map<uint64_t, std::vector<float>> old_rows_, new_rows_;
  AdapterSpec item_, query_;
};

}  // namespace lightcone::server

// A gallery "c" of two generations on different scales, an adapter between them, labelled probes, and their validation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapter_world.h"
#include "validated.h"

namespace lightcone::server {

// Generation 1 sees 12 of 16 hidden numbers, each at `scale`; generation 2 all of them at full size. A query adapter
// carries queries of 2 into the space of 1. Both have embedded the first kCommon items, generation 1 the rest, too.
class MixtureTest : public EngineTest {
 protected:
  static constexpr int kHidden = 16;
  static constexpr uint64_t kClasses = 80, kItems = 2'400, kCommon = 1'400;

  struct World {
    int old_dimension = 12;
    float scale = 0.6f, old_noise = 0.45f, new_noise = 0.1f;
    bool same_queries = false;  // both models see a query through the very same noise
    size_t probes = 400;
    uint64_t common = kCommon;
  };

  void MakeWorld(const World& world) {
    world_ = world;
    old_ = Space{Metric::kEuclidean, world.old_dimension, 1.0, 1.0};
    new_ = Space{Metric::kEuclidean, kHidden, 1.0, 1.0};
    CreateCollectionCall call;
    call.name = "c";
    call.metric = Metric::kEuclidean;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    RegisterModel(old_.dimension);
    Activate(1);
    RegisterModel(new_.dimension);
    for (uint64_t c = 0; c < kClasses; ++c) classes_.push_back(RandomVector(&random_, kHidden));
    std::vector<UpsertItem> items, again;
    for (uint64_t id = 0; id < kItems; ++id) {
      const std::vector<float> hidden = Draw(id % kClasses);
      old_rows_.push_back(OldModel(hidden));
      items.push_back(ItemOf(Id(id), old_rows_.back(), StrCat("{\"class\":", id % kClasses, "}")));
      if (id >= world.common) continue;
      new_rows_.push_back(Noisy(hidden, world.new_noise));
      again.push_back(ItemOf(Id(id), new_rows_.back()));
    }
    Write(BatchOf(std::move(items), 1));
    Write(BatchOf(std::move(again), 2, /*same_content=*/true));
    adapter_.direction = AdapterDirection::kQuery;
    adapter_.kind = AdapterKind::kAffine;
    adapter_.input_dimension = kHidden;
    adapter_.target = old_;
    adapter_.offset.assign(static_cast<size_t>(old_.dimension), 0.0f);
    for (int i = 0; i < old_.dimension; ++i) {
      for (int j = 0; j < kHidden; ++j) adapter_.linear.push_back(i == j ? world.scale : 0.0f);
    }
    PutTheAdapter();
    PutTheProbes(world.probes);
  }

  void RegisterModel(int dimension) {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ManifestFor(dimension);
    call.expects_adapter = true;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void PutTheAdapter() {
    const auto put = engine_->PutAdapter({"", "c", 2, 1, FileOf(adapter_)});
    ASSERT_TRUE(put.ok()) << put.status();
  }
  void PutTheProbes(size_t probes) {
    PutProbesCall call{"", "c", "daily", "class", {}};
    for (size_t i = 0; i < probes; ++i) {
      const std::vector<float> hidden = Draw(i % kClasses);
      const std::vector<float> query = Noisy(hidden, world_.new_noise);
      Probe probe;
      probe.vectors = {{1, world_.same_queries ? Leading(query) : OldModel(hidden)}, {2, query}};
      probe.label = FilterValue(static_cast<int64_t>(i % kClasses));
      call.probes.push_back(std::move(probe));
    }
    ASSERT_TRUE(engine_->PutProbes(call).ok());
  }

  std::vector<float> Draw(uint64_t label) {
    std::vector<float> hidden = RandomVector(&random_, kHidden, 0.55f);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] += classes_[label][i];
    return hidden;
  }
  std::vector<float> Noisy(std::vector<float> v, float noise) {
    const std::vector<float> n = RandomVector(&random_, static_cast<int>(v.size()), noise);
    for (size_t i = 0; i < v.size(); ++i) v[i] += n[i];
    return v;
  }
  std::vector<float> Leading(std::vector<float> v) const {
    v.resize(static_cast<size_t>(old_.dimension));
    for (float& x : v) x *= world_.scale;
    return v;
  }
  std::vector<float> OldModel(const std::vector<float>& hidden) { return Leading(Noisy(hidden, world_.old_noise)); }
  std::vector<float> NewQuery(uint64_t label) { return Noisy(Draw(label), world_.new_noise); }

  // Waits for the job; the report is the generation's.
  std::shared_ptr<const ValidationReport> Validate(bool calibrate = true) {
    return Validated(engine_.get(), calibrate);
  }
  absl::Status TryActivate(uint32_t generation, const std::string& force_because = "") {
    return server::TryActivate(engine_.get(), generation, force_because);
  }

  std::mt19937 random_{31};
  World world_;
  Space old_, new_;
  AdapterSpec adapter_;
  std::vector<std::vector<float>> classes_, old_rows_, new_rows_;
};

}  // namespace lightcone::server

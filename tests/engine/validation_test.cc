// The gate: what a validation measures, whom it lets through, and that its figures are those of a plain ranking.
#include "server/engine/validation/validation.h"

#include <cmath>
#include <thread>

#include "engine_testing.h"
#include "models/adapter_file.h"
#include "validated.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

// Classes in a hidden space of 16 numbers. The old model sees 12 of them through noise; others see more or less.
constexpr int kHidden = 16, kOld = 12;
constexpr uint64_t kClasses = 100, kItems = 2'500, kSample = 2'000;

// The least-squares map with an offset from rows to rows (normal equations by Gauss's elimination), as an item adapter.
std::string FitAffine(const std::vector<std::vector<float>>& from, const std::vector<std::vector<float>>& to,
                      const Space& target) {
  const size_t in = from[0].size() + 1, out = to[0].size();
  std::vector<std::vector<double>> m(in, std::vector<double>(in + out, 0.0));
  for (size_t r = 0; r < from.size(); ++r) {
    std::vector<double> x(from[r].begin(), from[r].end());
    x.push_back(1);
    for (size_t i = 0; i < in; ++i) {
      for (size_t j = 0; j < in; ++j) m[i][j] += x[i] * x[j];
      for (size_t j = 0; j < out; ++j) m[i][in + j] += x[i] * to[r][j];
    }
  }
  for (size_t i = 0; i < in; ++i) {
    for (size_t r = 0; r < in; ++r) {
      if (r == i) continue;
      const double f = m[r][i] / m[i][i];
      for (size_t c = i; c < in + out; ++c) m[r][c] -= f * m[i][c];
    }
  }
  AdapterFile file;
  file.from = "old";
  file.to = "new";
  file.fit.loss = "reg";
  file.fit.pairs = static_cast<int64_t>(from.size());
  file.spec.direction = AdapterDirection::kItem;
  file.spec.kind = AdapterKind::kAffine;
  file.spec.input_dimension = static_cast<int>(in) - 1;
  file.spec.target = target;
  for (size_t j = 0; j < out; ++j) {
    for (size_t i = 0; i + 1 < in; ++i) file.spec.linear.push_back(static_cast<float>(m[i][in + j] / m[i][i]));
    file.spec.offset.push_back(static_cast<float>(m[in - 1][in + j] / m[in - 1][in - 1]));
  }
  auto bytes = EncodeAdapter(file);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

class GateTest : public EngineTest {
 protected:
  using Model = std::function<std::vector<float>(const std::vector<float>& hidden)>;

  void SetUp() override {
    EngineTest::SetUp();
    CreateCollectionCall call;
    call.name = "c";
    call.metric = Metric::kEuclidean;
    ASSERT_TRUE(engine_->CreateCollection(call).ok());
    RegisterModel(kOld, 0);
    Activate(1);
    for (uint64_t c = 0; c < kClasses; ++c) classes_.push_back(RandomVector(&random_, kHidden));
    std::vector<UpsertItem> items;
    for (uint64_t id = 0; id < kItems; ++id) {
      hidden_.push_back(Draw(id % kClasses));
      old_.push_back(OldModel(hidden_.back()));
      items.push_back(ItemOf(Id(id), old_.back(), StrCat("{\"class\":", id % kClasses, "}")));
    }
    Write(BatchOf(std::move(items), 1));
  }

  std::vector<float> Draw(uint64_t label) {
    std::vector<float> hidden = RandomVector(&random_, kHidden, 0.55f);
    for (int i = 0; i < kHidden; ++i) hidden[i] += classes_[label][i];
    return hidden;
  }
  std::vector<float> Noisy(std::vector<float> v, float noise) {
    const std::vector<float> n = RandomVector(&random_, static_cast<int>(v.size()), noise);
    for (size_t i = 0; i < v.size(); ++i) v[i] += n[i];
    return v;
  }
  std::vector<float> OldModel(const std::vector<float>& hidden) {
    return Noisy({hidden.begin(), hidden.begin() + kOld}, 0.45f);
  }
  // Sees the same numbers as the old one, better.
  std::vector<float> CompatibleModel(const std::vector<float>& hidden) {
    return Noisy({hidden.begin(), hidden.begin() + kOld}, 0.1f);
  }
  // Trained alone: all numbers, in an order and of signs of its own.
  std::vector<float> IndependentModel(const std::vector<float>& hidden, int dimension) {
    std::vector<float> v;
    for (int i = 0; i < dimension; ++i) v.push_back(hidden[(i * 5 + 3) % kHidden] * (i % 3 == 0 ? -1.0f : 1.0f));
    return Noisy(std::move(v), 0.1f);
  }

  void RegisterModel(int dimension, uint32_t parent, bool expects_adapter = false) {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ManifestFor(dimension);
    call.parent = parent;
    call.expects_adapter = expects_adapter;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  // New drawings of the classes, as generation 1 and `generation` see them, labelled.
  void PutProbesFor(const Model& model, size_t probes, uint32_t generation = 2, const std::string& name = "daily") {
    PutDrawnProbes("c", name, probes, [&](const std::vector<float>& hidden) {
      return decltype(Probe::vectors){{1, OldModel(hidden)}, {generation, model(hidden)}};
    });
  }
  // Generation 2 finds exactly what the old one finds: no probe tells them apart.
  void PutProbesAlike(size_t probes, const std::string& collection = "c") {
    PutDrawnProbes(collection, "daily", probes, [&](const std::vector<float>& hidden) {
      const std::vector<float> z = OldModel(hidden);
      return decltype(Probe::vectors){{1, z}, {2, z}};
    });
  }
  void PutDrawnProbes(const std::string& collection, const std::string& name, size_t probes, const auto& vectors_of) {
    PutProbesCall call{"", collection, name, "class", {}};
    for (size_t i = 0; i < probes; ++i) {
      Probe probe;
      probe.vectors = vectors_of(Draw(i % kClasses));
      probe.label = FilterValue(static_cast<int64_t>(i % kClasses));
      call.probes.push_back(std::move(probe));
    }
    const auto put = engine_->PutProbes(call);
    ASSERT_TRUE(put.ok()) << put.status();
  }

  // An item adapter from 1 to 2 that carries every item to one point.
  void PutConstantAdapter(const std::string& collection, float value) {
    AdapterFile file;
    file.from = "old";
    file.to = "new";
    file.fit.loss = "reg";
    file.fit.pairs = 100;
    file.spec.direction = AdapterDirection::kItem;
    file.spec.kind = AdapterKind::kAffine;
    file.spec.input_dimension = kOld;
    file.spec.target = engine_->GetGeneration(collection, 2)->space;
    file.spec.linear.assign(kOld * kOld, 0.0f);
    file.spec.offset.assign(kOld, value);
    const auto bytes = EncodeAdapter(file);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    PutAdapterCall put;
    put.collection = collection;
    put.from = 1;
    put.to = 2;
    put.file = *bytes;
    ASSERT_TRUE(engine_->PutAdapter(put).ok());
  }

  // Generation 2 embeds the first 2,000 items, and an item adapter from 1 to it is fitted from them.
  void EmbedSample(const Model& model) {
    std::vector<UpsertItem> sample;
    for (uint64_t id = 0; id < kSample; ++id) {
      sample_.push_back(model(hidden_[id]));
      sample.push_back(ItemOf(Id(id), sample_.back()));
    }
    Write(BatchOf(std::move(sample), 2, /*same_content=*/true));
  }
  void PutFittedAdapter() {
    const std::vector<std::vector<float>> from(old_.begin(), old_.begin() + kSample);
    const std::string file = FitAffine(from, sample_, engine_->GetGeneration("c", 2)->space);
    ASSERT_TRUE(engine_->PutAdapter({"", "c", 1, 2, file}).ok());
  }

  GenerationStatus Validate(uint32_t generation, uint32_t reference = 0, const std::string& collection = "c") {
    ValidateCall call;
    call.collection = collection;
    call.generation = generation;
    call.reference_generation = reference;
    return Validated(call);
  }
  GenerationStatus Validated(const ValidateCall& call) {
    const auto id = engine_->ValidateGeneration(call);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    JobStatus job = *engine_->GetJob(*id);
    for (; !job.final(); job = *engine_->GetJob(*id)) std::this_thread::yield();
    EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
    return *engine_->GetGeneration(call.collection, call.generation);
  }
  absl::Status TryActivate(uint32_t generation, const std::string& force_because = "") {
    return server::TryActivate(engine_.get(), generation, force_because);
  }

  std::mt19937 random_{11};
  std::vector<std::vector<float>> classes_, hidden_, old_, sample_;
};

TEST_F(GateTest, AnIncompatibleModelIsRefusedWithTheFiguresThatSayWhy) {
  RegisterModel(kOld, 1);  // it claims to be compatible
  PutProbesFor([&](const auto& h) { return IndependentModel(h, kOld); }, 600);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"generation 2", "has not been validated", "force"}));
  const GenerationStatus after = Validate(2);
  ASSERT_NE(after.validation, nullptr);
  EXPECT_EQ(after.state, GenerationState::kRegistered);
  EXPECT_FALSE(after.validation->passed);
  ASSERT_EQ(after.validation->pairs.size(), 1u);
  const PairReport& pair = after.validation->pairs[0];
  EXPECT_EQ(pair.verdict, Verdict::kWorse);
  EXPECT_EQ(pair.items, kItems);
  EXPECT_GT(pair.old_self.cmc1.value, 0.5);
  ASSERT_EQ(pair.ways.size(), 1u);
  EXPECT_LT(pair.ways[0].figures.cmc1.value, 0.15);
  EXPECT_LT(pair.ways[0].cmc1_gain.high, 0);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition,
                    {"did not pass", "items of generation 1", "CMC@1", "mAP", "no way that is open"}));
  Restart();
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"did not pass", "CMC@1"}));
  EXPECT_TRUE(TryActivate(2, "the old model has a licence problem").ok());
  const auto audit = engine_->ListAudit("c", 1);
  ASSERT_TRUE(audit.ok());
  EXPECT_TRUE((*audit)[0].forced);
  EXPECT_FALSE((*audit)[0].validated);
}

TEST_F(GateTest, AModelThatEmbeddedEverythingIsComparedWithTheOneThatServes) {
  // Nothing of the older generation would be searched: without a comparison the gate would have nothing to say.
  const auto embed_all = [&](uint32_t generation, const Model& model) {
    std::vector<UpsertItem> items;
    for (uint64_t id = 0; id < kItems; ++id) items.push_back(ItemOf(Id(id), model(hidden_[id]), ""));
    UpsertBatch batch = BatchOf(std::move(items), generation);
    batch.same_content = true;
    Write(std::move(batch));
  };
  RegisterModel(kOld, 1);
  const Model worse = [&](const auto& h) { return Noisy(std::vector<float>(h.begin(), h.begin() + kOld), 3.0f); };
  embed_all(2, worse);
  PutProbesFor(worse, 600);
  const GenerationStatus after = Validate(2);
  ASSERT_NE(after.validation, nullptr);
  EXPECT_FALSE(after.validation->passed);
  ASSERT_EQ(after.validation->pairs.size(), 1u);
  EXPECT_EQ(after.validation->pairs[0].verdict, Verdict::kWorse);
  EXPECT_EQ(after.validation->pairs[0].item_generation, 1u);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"did not pass", "CMC@1"}));

  RegisterModel(kOld, 1);
  const Model better = [&](const auto& h) { return CompatibleModel(h); };
  embed_all(3, better);
  PutProbesFor(better, 600, 3, "third");
  EXPECT_TRUE(Validate(3).validation->passed);
  EXPECT_TRUE(TryActivate(3).ok());
}

TEST_F(GateTest, AModelThatMakesOneVectorOfEverythingFindsNothing) {
  RegisterModel(kOld, 1);
  PutProbesFor([](const auto&) { return std::vector<float>(kOld, 0.5f); }, 600);
  // All items are equally far from any query.
  PutConstantAdapter("c", 0.25f);
  const GenerationStatus after = Validate(2);
  ASSERT_NE(after.validation, nullptr);
  EXPECT_FALSE(after.validation->passed);
  for (const WayReport& way : after.validation->pairs[0].ways) EXPECT_LT(way.figures.cmc1.value, 0.1);
}

TEST_F(GateTest, AnAdapterThatMakesNoVectorOfAnythingFindsNothing) {
  CreateCollectionCall create;
  create.name = "angles";
  create.metric = Metric::kCosine;
  ASSERT_TRUE(engine_->CreateCollection(create).ok());
  for (uint32_t generation = 1; generation <= 2; ++generation) {
    RegisterCall call;
    call.collection = "angles";
    call.manifest_json = ManifestFor(kOld);
    call.expects_adapter = generation == 2;
    ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
    if (generation != 1) continue;
    ActivateCall activate;
    activate.collection = "angles";
    activate.generation = 1;
    ASSERT_TRUE(engine_->ActivateGeneration(activate).ok());
  }
  std::vector<UpsertItem> items;
  for (uint64_t id = 0; id < 600; ++id)
    items.push_back(ItemOf(Id(id), old_[id], StrCat("{\"class\":", id % kClasses, "}")));
  UpsertBatch batch = BatchOf(std::move(items), 1);
  batch.collection = "angles";
  Write(std::move(batch));
  PutProbesAlike(200, "angles");
  PutConstantAdapter("angles", 0);  // the vector of zeros has no direction
  const GenerationStatus after = Validate(2, 0, "angles");
  ASSERT_NE(after.validation, nullptr);
  EXPECT_FALSE(after.validation->passed);
  ASSERT_EQ(after.validation->pairs.size(), 1u);
  bool seen = false;
  for (const WayReport& way : after.validation->pairs[0].ways) {
    if (way.way != AdapterMode::kItem) continue;
    seen = true;
    EXPECT_EQ(way.figures.cmc1.value, 0);
    EXPECT_LT(way.figures.map.value, 0.1);
  }
  EXPECT_TRUE(seen);
}

TEST_F(GateTest, AnotherDimensionPassesThroughAnAdapterFittedFromTwoThousandItems) {
  RegisterModel(kHidden, 0, /*expects_adapter=*/true);
  const Model model = [this](const auto& h) { return IndependentModel(h, kHidden); };
  EmbedSample(model);
  PutProbesFor(model, 600);

  GenerationStatus now = Validate(2);
  EXPECT_EQ(now.validation->pairs[0].verdict, Verdict::kUnmeasured) << "no adapter, and the spaces differ";
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"did not pass", "no adapter leads there"}));

  PutFittedAdapter();
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"did not pass"}));
  now = Validate(2);
  ASSERT_TRUE(now.validation->passed) << TextOf(now.validation->pairs[0]);
  EXPECT_EQ(now.state, GenerationState::kValidated);
  const PairReport& pair = now.validation->pairs[0];
  EXPECT_EQ(pair.chosen, AdapterMode::kItem);
  EXPECT_EQ(pair.common_items, 2'000u);
  ASSERT_EQ(pair.ways[0].mixture.size(), 5u);
  EXPECT_GT(pair.ways[0].mixture[4].map, pair.ways[0].mixture[0].map) << "the new model's own items are better";
  ASSERT_TRUE(pair.p_com_map.has_value());
  EXPECT_GT(*pair.p_com_map, 0.2);
  EXPECT_LT(*pair.p_com_map, 1.0);
  ASSERT_TRUE(pair.p_com_map_interval.has_value());
  EXPECT_NEAR(pair.p_com_map_interval->value, *pair.p_com_map, 1e-9);
  EXPECT_LT(pair.p_com_map_interval->low, *pair.p_com_map);
  EXPECT_GT(pair.p_com_map_interval->high, *pair.p_com_map);
  EXPECT_LT(pair.p_com_map_interval->high - pair.p_com_map_interval->low, 1.0);
  EXPECT_FALSE(pair.p_up_map.has_value()) << "there is no reference";
  ASSERT_TRUE(now.validation->new_self.has_value());
  ASSERT_TRUE(pair.reverse.has_value()) << "old queries carried by the item adapter";

  Restart();
  EXPECT_EQ(engine_->GetGeneration("c", 2)->state, GenerationState::kValidated);
  ASSERT_TRUE(TryActivate(2).ok());
  EXPECT_TRUE((*engine_->ListAudit("c", 1))[0].validated);
  int right = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const auto hits = Hits(SearchFor(IndependentModel(Draw(i % kClasses), kHidden), 1));
    ASSERT_EQ(hits.size(), 1u);
    right += std::get<uint64_t>(hits[0].id.value) % kClasses == i % kClasses;
  }
  EXPECT_GT(right, 120) << "searches of the mixed gallery find what probes found";
}

// The gate measures an item adapter over all items. A search that let a poor way find 200 of them first would serve
// less.
TEST_F(GateTest, AnItemAdapterThatPassedIsNotLeftToCandidatesOfAWayThatDidNot) {
  RegisterModel(kOld, 1);  // claims to be compatible, and sees the same numbers in another order
  const Model model = [this](const auto& h) {
    std::vector<float> v = CompatibleModel(h);
    std::rotate(v.begin(), v.begin() + 5, v.end());
    return v;
  };
  EmbedSample(model);
  PutProbesFor(model, 600);
  PutFittedAdapter();
  const auto found_of_exact = [&](AdapterMode mode) {
    size_t found = 0;
    for (uint64_t i = 0; i < 50; ++i) {
      SearchCall call = SearchFor(model(Draw(i % kClasses)), 10);
      call.generation = 2;
      call.evaluate_generations = {1};
      call.adapter_mode = mode;
      call.exact = false;
      const auto hits = Hits(call);
      call.exact = true;
      for (const EngineHit& near : Hits(call)) {
        found += std::count_if(hits.begin(), hits.end(), [&](const EngineHit& hit) { return hit.id == near.id; });
      }
    }
    return found;
  };
  EXPECT_LT(found_of_exact(AdapterMode::kDefault), 300u) << "nothing has been measured yet: all ways together";

  const GenerationStatus now = Validate(2);
  ASSERT_TRUE(now.validation->passed) << TextOf(now.validation->pairs[0]);
  const PairReport& pair = now.validation->pairs[0];
  ASSERT_EQ(pair.chosen, AdapterMode::kItem);
  ASSERT_EQ(pair.ways.size(), 2u);
  EXPECT_TRUE(pair.ways[0].in_reach);
  ASSERT_TRUE(pair.ways[1].missed.has_value());
  EXPECT_GT(*pair.ways[1].missed, 0.02) << "25 items of a class: most candidates hold one by chance";
  EXPECT_TRUE(pair.every_item);
  EXPECT_THAT(TextOf(pair), ::testing::HasSubstr("carries every item"));
  EXPECT_EQ(found_of_exact(AdapterMode::kDefault), 500u);
  EXPECT_EQ(found_of_exact(AdapterMode::kItem), 500u);
  EXPECT_EQ(found_of_exact(AdapterMode::kNone), 500u) << "plain distances, where they are asked for";
  Restart();
  EXPECT_EQ(found_of_exact(AdapterMode::kDefault), 500u) << "the record says it, too";
}

TEST_F(GateTest, AWayThatFindsEnoughKeepsFindingTheCandidatesOfAnItemAdapter) {
  RegisterModel(kOld, 1);
  const Model model = [this](const auto& h) { return CompatibleModel(h); };
  EmbedSample(model);
  PutProbesFor(model, 600);
  PutFittedAdapter();
  const GenerationStatus now = Validate(2);
  ASSERT_TRUE(now.validation->passed) << TextOf(now.validation->pairs[0]);
  ASSERT_EQ(now.validation->pairs[0].chosen, AdapterMode::kItem) << TextOf(now.validation->pairs[0]);
  EXPECT_LT(now.validation->pairs[0].ways[1].missed.value(), 0.005);
  EXPECT_FALSE(now.validation->pairs[0].every_item);
  SearchCall call = SearchFor(model(Draw(3)), 10);
  call.generation = 2;
  call.evaluate_generations = {1};
  call.exact = false;
  call.profile = true;
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->profile->legs.at(0).rows_adapted, 200);
}

TEST_F(GateTest, ACompatibleModelPassesAndChangesBehindItMakeThatOutdated) {
  RegisterModel(kOld, 1);
  PutProbesFor([&](const auto& h) { return CompatibleModel(h); }, 600);
  const GenerationStatus now = Validate(2);
  ASSERT_TRUE(now.validation->passed) << TextOf(now.validation->pairs[0]);
  EXPECT_EQ(now.validation->pairs[0].chosen, AdapterMode::kNone);
  EXPECT_GT(now.validation->pairs[0].ways[0].map_gain.low, 0);
  PutProbesFor([&](const auto& h) { return CompatibleModel(h); }, 10, 2, "weekly");
  EXPECT_EQ(engine_->GetGeneration("c", 2)->state, GenerationState::kRegistered);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"passed a validation", "probe sets have changed"}));
  ASSERT_TRUE(engine_->DropProbes("c", "weekly", "").ok());
  EXPECT_TRUE(TryActivate(2).ok()) << "the sets are those that it saw again";
  // The way back is no activation of something new.
  SwitchCall back;
  back.collection = "c";
  EXPECT_TRUE(engine_->RollbackGeneration(back).ok());
  EXPECT_TRUE(TryActivate(2).ok());
  EXPECT_TRUE(TryActivate(1).ok()) << "it served before";
}

TEST_F(GateTest, AModelThatIsWorseOnOldItemsPassesOnceTheNamedShareIsEmbeddedAnew) {
  // Its queries are off by a constant, so they find old items worse than the old model does, and its own items better.
  const Model shifted = [this](const auto& hidden) {
    std::vector<float> v = CompatibleModel(hidden);
    for (float& x : v) x += 0.65f;
    return v;
  };
  const auto embed = [&](uint64_t begin, uint64_t end) {
    std::vector<UpsertItem> items;
    for (uint64_t id = begin; id < end; ++id) items.push_back(ItemOf(Id(id), shifted(hidden_[id])));
    Write(BatchOf(std::move(items), 2, /*same_content=*/true));
  };
  RegisterModel(kOld, 1);
  PutProbesFor(shifted, 600);
  embed(0, kItems / 5);
  const auto refused = server::Validated(engine_.get(), /*calibrate=*/false);
  const PairReport& before = refused->pairs.at(0);
  EXPECT_EQ(before.verdict, Verdict::kWorse) << TextOf(before);
  EXPECT_EQ(before.judged_share, 0.2);
  ASSERT_TRUE(refused->passes_from_share().has_value()) << TextOf(before);
  const double from = *refused->passes_from_share();
  ASSERT_TRUE(from >= 0.5 && from < 1) << TextOf(before);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"did not pass", "would pass from"}));
  const auto enough = static_cast<uint64_t>((from + 0.05) * kItems);
  embed(kItems / 5, enough);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"That share is there now: validate it again"}));
  const auto passed = server::Validated(engine_.get(), /*calibrate=*/false);
  ASSERT_TRUE(passed->passed) << TextOf(passed->pairs.at(0));
  EXPECT_NEAR(passed->pairs.at(0).judged_share, static_cast<double>(enough) / kItems, 1e-9);
  // Items that the old model alone embeds take the share down again.
  std::vector<UpsertItem> items;
  for (uint64_t id = kItems; id < kItems + 500; ++id) {
    hidden_.push_back(Draw(id % kClasses));
    items.push_back(ItemOf(Id(id), OldModel(hidden_.back()), StrCat("{\"class\":", id % kClasses, "}")));
  }
  Write(BatchOf(std::move(items), 1));
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"passed a validation", "embedded anew", "now"}));
  embed(kItems, kItems + 500);
  EXPECT_TRUE(TryActivate(2).ok());
}

TEST_F(GateTest, ABorderlineModelIsRefusedForTooFewProbesAndPassesWithMore) {
  RegisterModel(kOld, 1);
  PutProbesAlike(100);
  GenerationStatus now = Validate(2);
  EXPECT_EQ(now.validation->pairs[0].verdict, Verdict::kUncertain);
  EXPECT_EQ(now.validation->pairs[0].ways[0].map_gain.value, 0);
  EXPECT_TRUE(Fails(TryActivate(2), Code::kFailedPrecondition, {"100 probes are too few", "CMC@1"}));
  PutProbesAlike(300);
  now = Validate(2);
  EXPECT_EQ(now.validation->pairs[0].verdict, Verdict::kPassed) << TextOf(now.validation->pairs[0]);
  EXPECT_TRUE(TryActivate(2).ok());
}

TEST_F(GateTest, WithoutProbesNothingIsGuardedAndNothingCanBeValidated) {
  RegisterModel(kOld, 1);
  ValidateCall call;
  call.collection = "c";
  call.generation = 2;
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kFailedPrecondition, {"no probe set"}));
  EXPECT_TRUE(TryActivate(2).ok());
  EXPECT_FALSE((*engine_->ListAudit("c", 1))[0].validated);
}

TEST_F(GateTest, WhatIsWrongWithACallIsNamedAndTheSameRequestGivesTheSameJob) {
  RegisterModel(kOld, 1);
  PutProbesFor([&](const auto& h) { return CompatibleModel(h); }, 20);
  ValidateCall call;
  call.collection = "c";
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kInvalidArgument, {"generation", "0"}));
  call.generation = 9;
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kNotFound, {"no generation 9"}));
  call.generation = 2;
  call.tolerance = -0.1;
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kInvalidArgument, {"tolerance", "0 .. 1"}));
  call.tolerance = NAN;
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kInvalidArgument, {"tolerance"}));
  call.tolerance = 0.5;
  call.reference_generation = 7;
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kNotFound, {"reference_generation", "7"}));
  call.reference_generation = 0;
  call.request_id = "v1";
  const auto first = engine_->ValidateGeneration(call);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*engine_->ValidateGeneration(call), *first);
  call.tolerance = 0.4;
  EXPECT_TRUE(Fails(engine_->ValidateGeneration(call), Code::kAlreadyExists, {"v1"}));
}

TEST_F(GateTest, FiguresAreThoseOfAPlainRanking) {
  RegisterModel(kOld, 1);
  PutProbesCall call{"", "c", "daily", "class", {}};
  std::vector<std::vector<float>> queries;
  for (uint64_t i = 0; i < 40; ++i) {
    // Each is a copy of an item, which is left out of its ranking.
    queries.push_back(Noisy(old_[i * 7], 0.3f));
    Probe probe;
    probe.vectors = {{1, queries.back()}, {2, queries.back()}};
    probe.label = FilterValue(static_cast<double>(i * 7 % kClasses));
    probe.item = Id(i * 7);
    call.probes.push_back(std::move(probe));
  }
  ASSERT_TRUE(engine_->PutProbes(call).ok());
  const GenerationStatus now = Validate(2);
  RankingAccumulator truth({1, 5});
  double mrr = 0, ndcg10 = 0, recall10 = 0;
  std::vector<int64_t> labels;
  for (uint64_t id = 0; id < kItems; ++id) labels.push_back(static_cast<int64_t>(id % kClasses));
  for (uint64_t i = 0; i < queries.size(); ++i) {
    std::vector<double> distances;
    for (const auto& z : old_) {
      double sum = 0;
      for (int d = 0; d < kOld; ++d) sum += (queries[i][d] - z[d]) * (queries[i][d] - z[d]);
      distances.push_back(sum);
    }
    const std::vector<size_t> ranks = RelevantRanks(labels[i * 7], distances, labels, i * 7);
    truth.Add(SummariseRanks(ranks));
    mrr += 1.0 / static_cast<double>(ranks[0]) / 40;
    double gained = 0, possible = 0, among = 0;
    for (size_t rank = 1; rank <= 10; ++rank) {
      const double gain = 1 / std::log2(static_cast<double>(rank + 1));
      const bool relevant = std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
      possible += gain;  // Each class has more than ten items.
      gained += relevant ? gain : 0;
      among += relevant ? 1 : 0;
    }
    ndcg10 += gained / possible / 40;
    recall10 += among / 10 / 40;
  }
  const RankingMetrics expected = truth.Finish();
  const RankingFigures& found = now.validation->pairs[0].old_self;
  EXPECT_EQ(found.cmc1.samples, 40);
  EXPECT_NEAR(found.cmc1.value, expected.cmc[0], 1e-9);
  EXPECT_NEAR(found.cmc5.value, expected.cmc[1], 1e-9);
  EXPECT_NEAR(found.map.value, expected.map, 1e-6);
  EXPECT_NEAR(found.mrr.value, mrr, 1e-6);
  EXPECT_NEAR(found.ndcg10.value, ndcg10, 1e-6);
  EXPECT_NEAR(found.recall10.value, recall10, 1e-6);
}

TEST_F(GateTest, TheNamedMeasureDecidesAndIsInTheReport) {
  RegisterModel(kOld, 1);
  // A compatible model: better by every measure.
  PutProbesFor([&](const auto& h) { return CompatibleModel(h); }, 600);
  ValidateCall call;
  call.collection = "c";
  call.generation = 2;
  call.measure = *ParseGateMeasure("ndcg10:1,mrr:1");
  const auto report = Validated(call).validation;
  ASSERT_NE(report, nullptr);
  EXPECT_TRUE(report->passed);
  EXPECT_EQ(TextOf(report->measure), "0.5 mrr + 0.5 ndcg10");
  const WayReport& way = report->pairs.at(0).ways.at(0);
  ASSERT_TRUE(way.measure_gain.has_value());
  const RankingFigures& old = report->pairs[0].old_self;
  const double gain = (way.figures.mrr.value - old.mrr.value + way.figures.ndcg10.value - old.ndcg10.value) / 2;
  EXPECT_NEAR(way.measure_gain->value, gain, 1e-9);
}

}  // namespace
}  // namespace lightcone::server

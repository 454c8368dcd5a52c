// Validations beside a canary: each is about the gallery as it then is, and neither begins nor ends the canary.
#include <random>

#include "engine_testing.h"
#include "validated.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

// Generation 2 sees what generation 1 sees, with less noise. Its queries are off by a constant, so that they find old
// items worse than the old model does, and its own items better: it passes once enough is embedded anew.
class CanaryValidation : public EngineTest {
 protected:
  static constexpr int kWide = 12;
  static constexpr uint64_t kClasses = 60, kItems = 1'000, kEmbedded = 850, kAdded = 2'000, kProbes = 400;

  void SetUp() override {
    EngineTest::SetUp();
    CreateCollectionCall create;
    create.name = "c";
    create.metric = Metric::kEuclidean;
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
    RegisterModel(0);
    Activate(1);
    RegisterModel(1);
    for (uint64_t label = 0; label < kClasses; ++label) classes_.push_back(RandomVector(&random_, kWide));
    AddOldItems(kItems);
    Embed(0, kEmbedded);
    PutProbesCall probes{"", "c", "daily", "class", {}};
    for (uint64_t i = 0; i < kProbes; ++i) {
      const std::vector<float> drawn = Draw(i % kClasses);
      Probe probe;
      probe.vectors = {{1, OldModel(drawn)}, {2, NewModel(drawn)}};
      probe.label = FilterValue(static_cast<int64_t>(i % kClasses));
      probes.probes.push_back(std::move(probe));
    }
    ASSERT_TRUE(engine_->PutProbes(probes).ok());
  }

  void RegisterModel(uint32_t parent) {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ManifestFor(kWide);
    call.parent = parent;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  std::vector<float> Noisy(std::vector<float> v, float noise) {
    const std::vector<float> added = RandomVector(&random_, kWide, noise);
    for (size_t i = 0; i < v.size(); ++i) v[i] += added[i];
    return v;
  }
  std::vector<float> Draw(uint64_t label) { return Noisy(classes_[label], 0.55f); }
  std::vector<float> OldModel(const std::vector<float>& drawn) { return Noisy(drawn, 0.45f); }
  std::vector<float> NewModel(const std::vector<float>& drawn) {
    std::vector<float> v = Noisy(drawn, 0.1f);
    for (float& x : v) x += 0.65f;
    return v;
  }
  // Items that generation 1 alone embeds.
  void AddOldItems(uint64_t count) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t id = drawn_.size();
      drawn_.push_back(Draw(id % kClasses));
      items.push_back(ItemOf(Id(id), OldModel(drawn_.back()), StrCat("{\"class\":", id % kClasses, "}")));
    }
    Write(BatchOf(std::move(items), 1));
  }
  // Generation 2 embeds the items of these ids, too.
  void Embed(uint64_t begin, uint64_t end) {
    std::vector<UpsertItem> items;
    for (uint64_t id = begin; id < end; ++id) items.push_back(ItemOf(Id(id), NewModel(drawn_[id])));
    Write(BatchOf(std::move(items), 2, /*same_content=*/true));
  }

  absl::Status SetShare(double share) {
    SetCanaryCall call;
    call.collection = "c";
    call.generation = 2;
    call.share = share;
    return engine_->SetCanary(call).status();
  }
  // Searches by 40 keys; returns the number that the canary served.
  int Search() {
    int served = 0;
    for (int i = 0; i < 40; ++i) {
      SearchCall call = SearchFor(OldModel(drawn_[0]), 1);
      call.queries[0].canary_vector = NewModel(drawn_[0]);
      call.canary_key = StrCat("user-", i);
      const auto answer = engine_->Search(call, {});
      EXPECT_TRUE(answer.ok()) << answer.status();
      served += answer.ok() && answer->canary;
    }
    return served;
  }
  std::string Outdated() { return engine_->GetGeneration("c", 2)->validation_outdated; }

  std::mt19937 random_{47};
  std::vector<std::vector<float>> classes_, drawn_;
};

TEST_F(CanaryValidation, ItGoesOnThroughEveryVerdictAndNeedsAPassThatHoldsToGrow) {
  const auto first = Validated(engine_.get(), /*calibrate=*/false);
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(first->passed) << TextOf(first->pairs.at(0));
  EXPECT_EQ(first->pairs.at(0).judged_share, 0.85);
  ASSERT_TRUE(SetShare(0.5).ok());
  const int served = Search();
  ASSERT_TRUE(served > 0 && served < 40) << served;
  const CanaryStatus begun = *engine_->GetCanary("c");
  // Whether it is still the same canary, whose figures go on.
  const auto goes_on = [&](uint64_t searches) {
    const CanaryStatus now = *engine_->GetCanary("c");
    EXPECT_EQ(now.generation, 2u);
    EXPECT_EQ(now.share, 0.5);
    EXPECT_EQ(now.began, begun.began);
    EXPECT_EQ(now.canary.searches, searches);
  };

  // Nothing has changed: searches by the canary have no part in the verdict.
  const auto same = Validated(engine_.get(), /*calibrate=*/false);
  ASSERT_NE(same, nullptr);
  EXPECT_TRUE(same->passed);
  EXPECT_EQ(same->pairs.at(0).judged_share, 0.85);
  EXPECT_EQ(Outdated(), "");
  goes_on(static_cast<uint64_t>(served));

  // New items of the old model: less than a third is embedded anew.
  AddOldItems(kAdded);
  EXPECT_THAT(Outdated(), testing::HasSubstr("28.3 % are now: validate it again"));
  EXPECT_EQ(Search(), served) << "an outdated validation ends no canary";
  goes_on(2 * static_cast<uint64_t>(served));
  EXPECT_TRUE(Fails(SetShare(0.8), Code::kFailedPrecondition, {"passed a validation", "validate it again", "canary"}));
  EXPECT_TRUE(Fails(TryActivate(engine_.get(), 2, ""), Code::kFailedPrecondition, {"passed a validation"}));

  const auto refused = Validated(engine_.get(), /*calibrate=*/false);
  ASSERT_NE(refused, nullptr);
  EXPECT_FALSE(refused->passed);
  const PairReport& pair = refused->pairs.at(0);
  EXPECT_NEAR(pair.judged_share, static_cast<double>(kEmbedded) / (kItems + kAdded), 1e-9);
  ASSERT_TRUE(refused->passes_from_share().has_value()) << TextOf(pair);
  EXPECT_GT(*refused->passes_from_share(), pair.judged_share);
  EXPECT_EQ(Search(), served) << "nor does a verdict: that is the operator's choice";
  goes_on(3 * static_cast<uint64_t>(served));
  EXPECT_TRUE(Fails(SetShare(0.8), Code::kFailedPrecondition, {"did not pass", "would pass from"}));

  Embed(kItems, kItems + kAdded);
  EXPECT_TRUE(Fails(SetShare(0.8), Code::kFailedPrecondition, {"That share is there now: validate it again"}));
  const auto passed = Validated(engine_.get(), /*calibrate=*/false);
  ASSERT_NE(passed, nullptr);
  ASSERT_TRUE(passed->passed) << TextOf(passed->pairs.at(0));
  EXPECT_EQ(passed->pairs.at(0).judged_share, 0.95);
  goes_on(3 * static_cast<uint64_t>(served));
  ASSERT_TRUE(SetShare(0.8).ok());
  EXPECT_GT(Search(), served);
  EXPECT_TRUE(TryActivate(engine_.get(), 2, "").ok());
  EXPECT_EQ(engine_->GetCanary("c")->generation, 0u) << "it serves everybody now";
}

}  // namespace
}  // namespace lightcone::server

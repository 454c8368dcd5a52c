// Data folders of every released format, kept below tests/data, open and hold what was written.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "models/adapter_file.h"
#include "nlohmann/json.hpp"
#include "tests/engine/encoder_world.h"
#include "tests/system/data_folder.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Writes a folder when it is asked to: LIGHTCONE_WRITE_FOLDER is its path, which must not exist yet.
class DataFolderWriter : public EncoderTest {
 protected:
  void SetUp() override {
    if (std::getenv(kWriteFolderVariable) == nullptr) return;
    EncoderTest::SetUp();
    engine_.reset();
    Open();
  }
  void Open() {
    engine_.reset();
    engine_ = OpenEngine(FolderOptions(std::getenv(kWriteFolderVariable)));
    ASSERT_NE(engine_, nullptr);
  }

  void Create(const std::string& name, Metric metric) {
    CreateCollectionCall call;
    call.name = name;
    call.metric = metric;
    call.index.growing_rows_max = 50;
    if (name == kGallery) call.payload_fields = {{"group", PayloadType::kKeyword}};
    const auto made = engine_->CreateCollection(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void RegisterIn(const std::string& collection, const std::string& manifest, const std::string& encoder) {
    RegisterCall call;
    call.collection = collection;
    call.manifest_json = manifest;
    call.encoder = encoder;
    call.expects_adapter = true;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void ActivateIn(const std::string& collection, uint32_t generation) {
    ActivateCall call;
    call.collection = collection;
    call.generation = generation;
    call.force = true;
    call.reason = StrCat("generation ", generation, " of a test");
    const auto done = engine_->ActivateGeneration(call);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  void WriteTo(const std::string& collection, std::vector<UpsertItem> items, uint32_t generation, bool same = false) {
    UpsertBatch batch = BatchOf(std::move(items), generation, same);
    batch.collection = collection;
    const auto written = engine_->Upsert(std::move(batch), {});
    ASSERT_TRUE(written.ok()) << written.status();
  }
  static UpsertItem NumberedItem(uint64_t item, uint32_t generation, int dimension) {
    return ItemOf(Id(item), FolderVector(item, generation, dimension), FolderPayload(item));
  }

  void WriteOldItems() {
    for (uint64_t first = 1; first <= kGalleryItems; first += 10) {
      std::vector<UpsertItem> items;
      for (uint64_t i = first; i < first + 10; ++i) items.push_back(NumberedItem(i, 1, kGalleryDimension));
      WriteTo(kGallery, std::move(items), 1);
    }
    std::vector<UpsertItem> items, small;
    for (uint64_t i = 1; i <= kFewItems; ++i) {
      const ItemId id{FolderName(i)};
      items.push_back(ItemOf(id, FolderVector(200 + i, 1, kGalleryDimension), FolderPayload(200 + i)));
      small.push_back(NumberedItem(i, 1, kGalleryDimension));
    }
    UpsertItem input = ItemOf(Id(kInputItem), {}, FolderPayload(kInputItem));
    input.content = Tensor(static_cast<float>(kInputSeed));
    WriteTo(kGallery, std::move(items), 1);
    UpsertBatch batch = BatchOf({std::move(input)}, 1);
    batch.collection = kGallery;
    batch.keep_input = true;
    const auto written = engine_->Upsert(std::move(batch), {});
    ASSERT_TRUE(written.ok()) << written.status();
    WriteTo(kSmall, std::move(small), 1);
    std::vector<ItemId> gone;
    for (uint64_t i = 7; i <= kGalleryItems; i += 7) gone.push_back(Id(i));
    ASSERT_TRUE(engine_->Delete(kGallery, gone, Durability::kDurable, {}).ok());
    ChangePayloadCall change;
    change.collection = kGallery;
    change.payload_json = "{\"patched\":true}";
    change.ids = {Id(kPatchedItem)};
    ASSERT_TRUE(engine_->ChangePayload(change, {}).ok());
  }

  void WriteNewItems() {
    std::vector<UpsertItem> again, fresh;
    for (uint64_t i = kEmbeddedFrom; i <= kGalleryItems; ++i) {
      if (i % 7 != 0) again.push_back(ItemOf(Id(i), FolderVector(i, 2, kNewDimension)));
    }
    for (uint64_t i = 0; i < kFewItems; ++i) fresh.push_back(NumberedItem(kNewItem + i, 2, kNewDimension));
    WriteTo(kGallery, std::move(again), 2, /*same=*/true);
    WriteTo(kGallery, std::move(fresh), 2);
  }

  // An affine map between the generations, whose weights are those of vectors.
  void PutAdapterOf(AdapterDirection direction) {
    const bool item = direction == AdapterDirection::kItem;
    const int in = item ? kGalleryDimension : kNewDimension, out = item ? kNewDimension : kGalleryDimension;
    AdapterFile file;
    file.from = "one";
    file.to = "another";
    file.spec.direction = direction;
    file.spec.kind = AdapterKind::kAffine;
    file.spec.input_dimension = in;
    file.spec.target = engine_->GetGeneration(kGallery, item ? 2 : 1)->space;
    file.spec.linear = FolderVector(300, item ? 1 : 2, in * out);
    file.spec.offset = FolderVector(301, item ? 1 : 2, out);
    file.fit.loss = "reg";
    file.fit.pairs = 100;
    const auto bytes = EncodeAdapter(file);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto put = engine_->PutAdapter({"", kGallery, item ? 1u : 2u, item ? 2u : 1u, *bytes});
    ASSERT_TRUE(put.ok()) << put.status();
  }

  void ValidateNew() {
    PutProbesCall probes{"", kGallery, "daily", "", {}};
    for (uint64_t i = kEmbeddedFrom; i < kEmbeddedFrom + 4; ++i) {
      Probe& probe = probes.probes.emplace_back();
      probe.vectors = {{1, FolderVector(i, 1, kGalleryDimension)}, {2, FolderVector(i, 2, kNewDimension)}};
      probe.relevant = {Id(i == 35 ? 36 : i)};
    }
    const auto put = engine_->PutProbes(probes);
    ASSERT_TRUE(put.ok()) << put.status();
    ValidateCall call;
    call.collection = kGallery;
    call.generation = 2;
    const auto id = engine_->ValidateGeneration(call);
    ASSERT_TRUE(id.ok()) << id.status();
    JobStatus job = *engine_->GetJob(*id);
    for (; !job.final(); job = *engine_->GetJob(*id)) std::this_thread::yield();
    ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  }
};

TEST_F(DataFolderWriter, WritesWhereItIsAsked) {
  if (engine_ == nullptr) return;
  Create(kGallery, Metric::kLorentz);
  Create(kSmall, Metric::kCosine);
  RegisterIn(kGallery, ToJson(manifest_), encoder_);
  RegisterIn(kSmall, ManifestFor(kGalleryDimension), "");
  ActivateIn(kGallery, 1);
  ActivateIn(kSmall, 1);
  ASSERT_TRUE(engine_->SetAlias("pictures", kGallery, "").ok());
  ASSERT_NO_FATAL_FAILURE(WriteOldItems());
  RegisterIn(kGallery, ManifestFor(kNewDimension), "");
  ASSERT_NO_FATAL_FAILURE(PutAdapterOf(AdapterDirection::kItem));
  ASSERT_NO_FATAL_FAILURE(PutAdapterOf(AdapterDirection::kQuery));
  ASSERT_NO_FATAL_FAILURE(WriteNewItems());
  ASSERT_NO_FATAL_FAILURE(ValidateNew());
  ActivateIn(kGallery, 2);
  for (const char* const collection : {kGallery, kSmall}) {
    const auto built = engine_->Rebuild(collection, {}, /*wait=*/true, "", {});
    ASSERT_TRUE(built.ok()) << built.status();
  }
  Open();  // what the log held is in tables now
  const auto snapshot = engine_->snapshots().Create({kSnapshot}, {});
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  std::vector<UpsertItem> late;
  for (uint64_t i = 0; i < kLateItems; ++i) late.push_back(NumberedItem(kLateItem + i, 2, kNewDimension));
  WriteTo(kGallery, std::move(late), 2);
  engine_.reset();
}

// A copy of the folder of every format.
class DataFolderOfFormat : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fs::copy(StrCat(LIGHTCONE_SOURCE_DIR, "/tests/data/", GetParam()), folder_ / "data", fs::copy_options::recursive);
    engine_ = OpenEngine(FolderOptions(folder_ / "data"));
    ASSERT_NE(engine_, nullptr);
  }

  void ExpectItem(const ItemId& id, uint64_t value, std::vector<uint32_t> generations) {
    const auto got = engine_->Get(kGallery, {id}, 0, true, {});
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_THAT(got->items, SizeIs(1)) << ToString(id);
    const StoredItem& item = got->items[0];
    EXPECT_EQ(item.generations, generations) << ToString(id);
    auto payload = nlohmann::json::parse(item.payload_json);
    if (id == Id(kPatchedItem)) {
      EXPECT_TRUE(payload["patched"].get<bool>());
      payload.erase("patched");
    }
    EXPECT_EQ(payload, nlohmann::json::parse(FolderPayload(value))) << ToString(id);
    for (const uint32_t generation : generations) {
      if (id == Id(kInputItem)) continue;
      const auto by = engine_->Get(kGallery, {id}, generation, true, {});
      ASSERT_TRUE(by.ok()) << by.status();
      ASSERT_THAT(by->items, SizeIs(1)) << ToString(id);
      const int dimension = by->items[0].generation == 1 ? kGalleryDimension : kNewDimension;
      EXPECT_EQ(by->items[0].vector, FolderVector(value, by->items[0].generation, dimension)) << ToString(id);
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(DataFolderOfFormat, HoldsEveryItemWithItsPayloadAndVectors) {
  uint64_t items = 0;
  for (uint64_t i = 1; i <= kGalleryItems; ++i) {
    if (i % 7 == 0) {
      EXPECT_THAT(engine_->Get(kGallery, {Id(i)}, 0, false, {})->items, IsEmpty()) << i;
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectItem(Id(i), i, i < kEmbeddedFrom ? std::vector{1u} : std::vector{1u, 2u}));
    ++items;
  }
  for (uint64_t i = 0; i < kFewItems; ++i) ExpectItem(Id(kNewItem + i), kNewItem + i, {2});
  for (uint64_t i = 0; i < kLateItems; ++i) ExpectItem(Id(kLateItem + i), kLateItem + i, {2});
  for (uint64_t i = 1; i <= kFewItems; ++i) ExpectItem(ItemId{FolderName(i)}, 200 + i, {1});
  ExpectItem(Id(kInputItem), kInputItem, {1});
  items += 2 * kFewItems + kLateItems + 1;
  EXPECT_EQ(engine_->Count(kGallery, std::nullopt, {})->count, items);
  EXPECT_EQ(engine_->Count(kSmall, std::nullopt, {})->count, kFewItems);
}

TEST_P(DataFolderOfFormat, HoldsGenerationsAdaptersProbesJobsAliasAndSnapshot) {
  const auto generations = engine_->ListGenerations(kGallery);
  ASSERT_TRUE(generations.ok()) << generations.status();
  ASSERT_THAT(*generations, SizeIs(2));
  EXPECT_TRUE((*generations)[0].has_encoder);
  EXPECT_EQ((*generations)[0].space.dimension, kGalleryDimension);
  EXPECT_EQ((*generations)[1].space.dimension, kNewDimension);
  EXPECT_EQ((*generations)[1].state, GenerationState::kActive);
  EXPECT_NE((*generations)[1].validation, nullptr);
  const auto adapters = engine_->ListAdapters(kGallery);
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const AdapterStatus& one : *adapters) pairs.emplace(one.from, one.to);
  EXPECT_THAT(pairs, ElementsAre(std::pair(1u, 2u), std::pair(2u, 1u)));
  const auto probes = engine_->ListProbes(kGallery);
  ASSERT_TRUE(probes.ok()) << probes.status();
  ASSERT_THAT(*probes, SizeIs(1));
  EXPECT_EQ((*probes)[0].probes, 4u);
  EXPECT_THAT(engine_->ListJobs("", "", 0, "")->jobs, SizeIs(1));
  EXPECT_EQ(engine_->ResolveName("pictures"), kGallery);
  EXPECT_THAT(*engine_->ListAudit(kGallery, 0), SizeIs(2));
  const auto verified = engine_->snapshots().Verify(kSnapshot, {});
  EXPECT_TRUE(verified.ok()) << verified.status();
  const auto input = engine_->GetInput(kGallery, Id(kInputItem));
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(std::get<TensorInput>(*input).values, SizeIs(64));
}

TEST_P(DataFolderOfFormat, FindsEachItemByItsVectorFromItsIndexAndTakesWrites) {
  ASSERT_TRUE(AwaitIndexChecked(*engine_));
  EXPECT_EQ(engine_->GetCollection(kGallery)->rebuilds_total, 0) << "the index was built again";
  for (uint64_t i = 1; i <= kGalleryItems; ++i) {
    if (i % 7 == 0) continue;
    const uint32_t generation = i < kEmbeddedFrom ? 1 : 2;
    SearchCall call =
        SearchFor(FolderVector(i, generation, generation == 1 ? kGalleryDimension : kNewDimension), 1, generation);
    call.collection = kGallery;
    const auto found = engine_->Search(call, {});
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_THAT(found->results[0].hits, SizeIs(1)) << i;
    EXPECT_EQ(found->results[0].hits[0].id, Id(i));
    EXPECT_NEAR(found->results[0].hits[0].distance, 0, 1e-2);
  }
  const FolderAnswer embedded = AskEncoder(*engine_).begin()->second;
  EXPECT_TRUE(embedded.error.ok()) << embedded.error;
  UpsertBatch batch = BatchOf({ItemOf(Id(500), FolderVector(500, 2, kNewDimension))}, 2);
  batch.collection = kGallery;
  EXPECT_TRUE(engine_->Upsert(std::move(batch), {}).ok());
  EXPECT_THAT(engine_->Get(kGallery, {Id(500)}, 0, false, {})->items, SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(Formats, DataFolderOfFormat, testing::Values("format-1"), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace lightcone::server

// Putting, dropping and listing adapters: request ids, what is refused and why, damage in the store.
#include "adapter_world.h"
#include "models/manifest.h"
#include "server/engine/collection/meta.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class AdapterCalls : public AdapterTest {};

TEST_F(AdapterCalls, AreIdempotentUnderARequestId) {
  MakeWorld();
  PutAdapterCall put = PutOf(item_, "put-1");
  const auto first = engine_->PutAdapter(put);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->version, 1u);
  EXPECT_EQ(engine_->PutAdapter(put)->version, 1u);
  Restart();
  EXPECT_EQ(engine_->PutAdapter(put)->put, first->put);
  AdapterSpec other = item_;
  other.offset[0] += 1.0f;
  put.file = FileOf(other);
  EXPECT_TRUE(Fails(engine_->PutAdapter(put), Code::kAlreadyExists, {"request_id", "put-1"}));
  put.request_id = "put-2";
  EXPECT_EQ(engine_->PutAdapter(put)->version, 2u);
  EXPECT_TRUE(Fails(engine_->PutAdapter(PutOf(item_, "put-1")), Code::kNotFound, {"1 -> 2", "version 1", "replaced"}));
  ASSERT_TRUE(engine_->DropAdapter(DropOf(1, 2, false, "drop-1")).ok());
  ASSERT_TRUE(engine_->DropAdapter(DropOf(1, 2, false, "drop-1")).ok()) << "the same request again";
  EXPECT_TRUE(Fails(engine_->DropAdapter(DropOf(2, 1, false, "drop-1")), Code::kAlreadyExists, {"drop-1"}));
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
  Restart();
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
  EXPECT_EQ(Put(item_).version, 3u) << "versions are never used twice";
}

TEST_F(AdapterCalls, ADropThatLosesItemsNeedsForce) {
  MakeWorld(Metric::kLorentz, 6, 9);
  Put(item_);
  Put(query_);
  Activate(2);
  ASSERT_TRUE(engine_->DropAdapter(DropOf(1, 2)).ok()) << "the query adapter still leads there";
  EXPECT_TRUE(Fails(engine_->DropAdapter(DropOf(2, 1)), Code::kFailedPrecondition, {"2 -> 1", "700 items", "force"}));
  EXPECT_EQ(engine_->Search(Ask(new_rows_[1'001], 3), {})->out_of_reach, 0u);
  ASSERT_TRUE(engine_->DropAdapter(DropOf(2, 1, /*force=*/true)).ok());
  EXPECT_EQ(engine_->Search(Ask(new_rows_[1'001], 3), {})->out_of_reach, kOldRows);
  EXPECT_TRUE(Fails(engine_->DropAdapter(DropOf(2, 1)), Code::kNotFound, {"2 -> 1", "there are: none"}));
}

TEST_F(AdapterCalls, AnActivationCountsWhatAdaptersReach) {
  MakeWorld(Metric::kLorentz, 6, 9);
  ActivateCall call;
  call.collection = "c";
  call.generation = 2;
  EXPECT_TRUE(Fails(engine_->ActivateGeneration(call), Code::kFailedPrecondition, {"700 items"}));
  Put(query_);
  const auto activated = engine_->ActivateGeneration(call);
  ASSERT_TRUE(activated.ok()) << activated.status();
  EXPECT_EQ(activated->out_of_reach, 0u);
}

TEST_F(AdapterCalls, RefuseAPairThatCannotBe) {
  MakeWorld(Metric::kLorentz, 6, 9);
  const auto refuse = [&](uint32_t from, uint32_t to, Code code, const std::vector<std::string>& texts) {
    PutAdapterCall put = PutOf(item_);
    put.from = from;
    put.to = to;
    EXPECT_TRUE(Fails(engine_->PutAdapter(put), code, texts));
  };
  refuse(0, 2, Code::kInvalidArgument, {"from_generation", "0"});
  refuse(1, 0, Code::kInvalidArgument, {"to_generation", "0"});
  refuse(2, 2, Code::kInvalidArgument, {"to_generation", "2"});
  refuse(1, 7, Code::kNotFound, {"no generation 7", "1, 2"});
  refuse(9, 2, Code::kNotFound, {"no generation 9"});
  refuse(2, 1, Code::kInvalidArgument, {"adapter.direction", "item", "query", "generation 2 to 1"});
  PutAdapterCall nowhere = PutOf(item_);
  nowhere.collection = "nowhere";
  EXPECT_TRUE(Fails(engine_->PutAdapter(nowhere), Code::kNotFound, {"nowhere"}));
  EXPECT_TRUE(Fails(engine_->ListAdapters("nowhere"), Code::kNotFound, {"nowhere"}));
  EXPECT_TRUE(Fails(engine_->DropAdapter(DropOf(1, 2)), Code::kNotFound, {"1 -> 2", "there are: none"}));
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
}

TEST_F(AdapterCalls, RefuseAFileThatDoesNotFitThePair) {
  MakeWorld(Metric::kLorentz, 6, 9);
  const auto refuse = [&](const AdapterSpec& spec, const std::vector<std::string>& texts) {
    EXPECT_TRUE(Fails(engine_->PutAdapter(PutOf(spec)), Code::kInvalidArgument, texts));
  };
  const auto item_of = [&](int in, const Space& target) {
    return RandomAdapter(&random_, AdapterDirection::kItem, in, target);
  };
  refuse(item_of(5, new_), {"adapter.input_dimension", "5", "6, of generation 1"});
  Space target = new_;
  target.dimension = 8;
  refuse(item_of(6, target), {"adapter.target.dimension", "8", "9, of generation 2"});
  target = new_;
  target.clip_radius = 1.2;
  refuse(item_of(6, target), {"adapter.target.clip_radius", "1.2", "1.4, of generation 2"});
  target = new_;
  target.curvature = 0.5;
  refuse(item_of(6, target), {"adapter.target.curvature", "0.5"});
  refuse(item_of(6, Space{Metric::kCosine, 9, 1, 1}), {"adapter.target.metric", "cosine", "lorentz"});
}

TEST_F(AdapterCalls, RefuseAnAdapterThatWasFittedBetweenOtherModelsOfTheSameSizes) {
  MakeWorld();
  const auto registered = [&](uint32_t crc32c) {  // generations 3 and 4
    Manifest manifest;
    manifest.name = StrCat("model-", crc32c);
    manifest.architecture = "mlp";
    manifest.dimension = old_.dimension;
    manifest.input = {28, 28, 1, {0.5f}, {0.25f}};
    manifest.encoder_crc32c = crc32c;
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ToJson(manifest);
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  };
  registered(17);
  registered(23);
  AdapterFile file = ParseAdapter(FileOf(RandomAdapter(&random_, AdapterDirection::kItem, 6, old_))).value();
  const auto put = [&](uint32_t from, uint32_t to) {
    return engine_->PutAdapter({"", "c", from, to, EncodeAdapter(file).value()}).status();
  };
  EXPECT_TRUE(put(3, 4).ok()) << "a file that does not say";
  file.from_crc32c = 17;
  file.to_crc32c = 24;
  EXPECT_TRUE(Fails(put(3, 4), Code::kInvalidArgument, {"adapter.to_crc32c", "24", "23", "generation 4", "another"}));
  file.from_crc32c = 18;
  file.to_crc32c = 23;
  EXPECT_TRUE(Fails(put(3, 4), Code::kInvalidArgument, {"adapter.from_crc32c", "18", "17", "generation 3", "'one'"}));
  file.from_crc32c = 17;
  EXPECT_TRUE(put(3, 4).ok());
  file.source = Space{Metric::kLorentz, 6, 1.0, 1.2};
  EXPECT_TRUE(Fails(put(3, 4), Code::kInvalidArgument, {"adapter.source.clip_radius", "1.2", "1, of generation 3"}));
  file.source->clip_radius = 1.0;
  EXPECT_TRUE(put(3, 4).ok());
  file.from_crc32c = 18;
  EXPECT_TRUE(put(1, 4).ok()) << "nobody knows the encoder of generation 1";
  Restart();
  EXPECT_EQ(engine_->ListAdapters("c")->size(), 2u);
}

TEST_F(AdapterCalls, RefuseBytesThatAreDamagedTooManyOrNone) {
  engine_.reset();
  EngineOptions options = OptionsFor(folder_.path());
  options.limits.adapter_bytes_max = 20'000;
  options.limits.adapters_max = 1;
  engine_ = OpenEngine(options);
  MakeWorld(Metric::kLorentz, 6, 9);
  PutAdapterCall put = PutOf(item_);
  ASSERT_LT(put.file.size(), 20'000u);
  const std::string whole = put.file;
  const auto refused = [&] {
    const absl::Status status = engine_->PutAdapter(put).status();
    return status.code() == Code::kFailedPrecondition ? Fails(status, Code::kFailedPrecondition, {"newer"})
                                                      : Fails(status, Code::kInvalidArgument, {"adapter"});
  };
  for (size_t i = 0; i < whole.size(); i += whole.size() / 23) {
    put.file = whole;
    put.file[i] = static_cast<char>(put.file[i] ^ 0x20);
    EXPECT_TRUE(refused()) << "byte " << i;
    put.file = whole.substr(0, i);
    EXPECT_TRUE(refused()) << "cut at " << i;
  }
  put.file = whole + std::string(20'000, 'x');
  EXPECT_TRUE(Fails(engine_->PutAdapter(put), Code::kInvalidArgument, {"adapter", "1 .. 20000"}));
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
  Put(item_);
  EXPECT_TRUE(Fails(engine_->PutAdapter(PutOf(query_)), Code::kResourceExhausted, {"1 adapters", "at most 1"}));
  Put(item_);  // in its own place it may be put again
}

TEST_F(AdapterCalls, DamageInTheStoreIsNamedAndNeverServed) {
  MakeWorld();
  Put(item_);
  std::string good;
  const std::string key = keys::Adapter(1, 1, 2);
  const auto opens_with = [&](const std::string& value) {
    EditStore([&](Store* store, WriteBatch* batch) {
      if (good.empty()) good = *store->Get(Table::kGenerations, key);
      batch->Put(Table::kGenerations, key, value.empty() ? good : value);
    });
    return Engine::Open(OptionsFor(folder_.path())).status();
  };
  EXPECT_TRUE(opens_with("").ok());
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  EXPECT_TRUE(Fails(opens_with(flipped), Code::kDataLoss, {"collection 'c'", "generations", "key"}));
  EXPECT_TRUE(Fails(opens_with(good.substr(0, good.size() - 1)), Code::kDataLoss, {"collection 'c'", "file_bytes"}));
  EXPECT_TRUE(Fails(opens_with("nonsense"), Code::kDataLoss, {"collection 'c'", "adapter record"}));
  AdapterRecord moved = *DecodeAdapterRecord(good);
  moved.to = 9;
  EXPECT_TRUE(Fails(opens_with(Encode(moved)), Code::kDataLoss, {"from generation 1 to 9"}));
  EXPECT_TRUE(opens_with("").ok());
}

TEST_F(AdapterCalls, AdaptersOfARetiredGenerationAreInForceUntilItIsRemoved) {
  MakeWorld(Metric::kLorentz, 6, 9);
  Put(item_);
  const auto open_with = [&](bool removed) {
    EditStore([&](Store* store, WriteBatch* batch) {
      GenerationRecord record = *DecodeGeneration(*store->Get(Table::kGenerations, keys::Generation(1, 2)));
      record.retired = true;
      record.removed = removed;
      batch->Put(Table::kGenerations, keys::Generation(1, 2), Encode(record));
    });
    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
  };
  open_with(/*removed=*/false);
  EXPECT_EQ(engine_->ListAdapters("c")->size(), 1u);
  EXPECT_TRUE(Fails(engine_->PutAdapter(PutOf(item_)), Code::kFailedPrecondition, {"generation 2", "retired"}));
  open_with(/*removed=*/true);
  EXPECT_TRUE(engine_->ListAdapters("c")->empty());
  EXPECT_TRUE(Fails(engine_->PutAdapter(PutOf(item_)), Code::kFailedPrecondition, {"generation 2", "retired"}));
  EXPECT_TRUE(Fails(engine_->Search(Ask(new_rows_[1'001], 3), {}), Code::kFailedPrecondition, {"retired"}));
}

TEST_F(AdapterCalls, AnotherDimensionIsRegisteredOnlyWhenAnAdapterIsExpected) {
  MakeWorld();
  RegisterCall call;
  call.collection = "c";
  call.parent = 1;
  call.request_id = "r";
  call.manifest_json = ManifestFor(9);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition,
                    {"manifest.dimension", "9", "6", "expects_adapter"}));
  call.expects_adapter = true;
  const auto made = engine_->RegisterGeneration(call);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->reach, ::testing::ElementsAre(3));
  call.expects_adapter = false;
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kAlreadyExists, {"request_id"}));
  call.request_id = "";
  call.manifest_json = R"({"dimension":9,"curvature":1,"clip_radius":1,"compatible_prefix":5})";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition,
                    {"manifest.compatible_prefix", "5", "6", "parent generation 1"}));
  call.manifest_json = R"({"dimension":9,"curvature":1,"clip_radius":1,"compatible_prefix":10})";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"compatible_prefix", "10", "2 .. 9"}));
  call.expects_adapter = true;
  call.manifest_json = R"({"dimension":9,"curvature":0.5,"clip_radius":1})";
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition, {"manifest.curvature"}));
}

TEST_F(AdapterCalls, AModelThatNeedsAnAdapterHasNoParentToCompareWith) {
  MakeWorld();
  Manifest manifest;
  manifest.name = "carried";
  manifest.architecture = "mlp";
  manifest.dimension = new_.dimension;
  manifest.curvature = new_.curvature;
  manifest.clip_radius = new_.clip_radius;
  manifest.input = {28, 28, 1, {0.5f}, {0.25f}};
  manifest.method = "lightcone";
  manifest.through_adapter = true;
  RegisterCall call;
  call.collection = "c";
  call.expects_adapter = true;
  call.manifest_json = ToJson(manifest);
  call.parent = 2;
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kFailedPrecondition, {"parent", "2", "0", "lightcone"}));
  call.parent = 0;
  const auto made = engine_->RegisterGeneration(call);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->reach, ::testing::ElementsAre(3));
}

}  // namespace
}  // namespace lightcone::server

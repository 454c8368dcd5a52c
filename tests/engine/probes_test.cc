// Probe sets: what is put comes back, bad ones are refused by name, and they are gone with their collection.
#include "engine_testing.h"
#include "server/engine/validation/probe_record.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class ProbesTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    MakeCollection(2);
    for (uint64_t id = 1; id <= 20; ++id) {
      Write(BatchOf({ItemOf(Id(id), RandomVector(&random_, kDimension), "{\"class\":\"a\"}")}));
    }
  }
  Probe ProbeOf(uint64_t relevant) {
    Probe probe;
    probe.vectors = {{1, RandomVector(&random_, kDimension)}, {2, RandomVector(&random_, kDimension)}};
    probe.relevant = {Id(relevant)};
    return probe;
  }
  PutProbesCall SetOf(size_t probes, const std::string& request_id = "") {
    PutProbesCall call{request_id, "c", "daily", "", {}};
    for (size_t i = 0; i < probes; ++i) call.probes.push_back(ProbeOf(1 + i % 20));
    return call;
  }

  std::mt19937 random_{7};
};

TEST_F(ProbesTest, ASetIsListedReplacedAndDroppedAndSurvivesARestart) {
  PutProbesCall call = SetOf(3, "p1");
  call.probes[0].vectors.pop_back();
  call.probes[1].input = RawInput(std::string("a file"));
  const auto put = engine_->PutProbes(call);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->probes, 3u);
  EXPECT_EQ(put->inputs, 1u);
  EXPECT_THAT(put->vectors, ::testing::ElementsAre(std::pair(1u, 3u), std::pair(2u, 2u)));
  Restart();
  const auto listed = engine_->ListProbes("c");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0].name, "daily");
  EXPECT_EQ((*listed)[0].put, put->put);
  const auto again = engine_->PutProbes(call);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->put, put->put) << "the same request";
  call.probes.pop_back();
  EXPECT_TRUE(Fails(engine_->PutProbes(call), Code::kAlreadyExists, {"request_id", "p1"}));
  call.request_id = "p2";
  const auto replaced = engine_->PutProbes(call);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(replaced->probes, 2u);
  EXPECT_GT(replaced->put, put->put);
  EXPECT_EQ(engine_->ListProbes("c")->size(), 1u);
  EXPECT_TRUE(Fails(engine_->DropProbes("c", "weekly", ""), Code::kNotFound, {"weekly", "there are: daily"}));
  EXPECT_TRUE(engine_->DropProbes("c", "daily", "d1").ok());
  EXPECT_TRUE(engine_->DropProbes("c", "daily", "d1").ok()) << "the same request";
  EXPECT_TRUE(engine_->ListProbes("c")->empty());
}

TEST_F(ProbesTest, ProbesThatNameMissingItemsAreRefusedAndCounted) {
  PutProbesCall call = SetOf(20);
  call.probes[3].relevant = {Id(3), Id("nobody")};
  call.probes[5].item = Id(999);
  EXPECT_TRUE(Fails(engine_->PutProbes(call), Code::kNotFound, {"probes[5].item", "999", "2 of the 21 items"}));
  EXPECT_TRUE(engine_->ListProbes("c")->empty());
}

TEST_F(ProbesTest, WhatIsWrongIsNamed) {
  const auto refuses = [&](const std::function<void(PutProbesCall*)>& edit, Code code,
                           const std::vector<std::string>& texts) {
    PutProbesCall call = SetOf(2);
    edit(&call);
    return Fails(engine_->PutProbes(call), code, texts);
  };
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->name = "a b"; }, Code::kInvalidArgument, {"name"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes.clear(); }, Code::kInvalidArgument, {"probes", "empty"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->collection = "x"; }, Code::kNotFound, {"no collection 'x'"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes[1].vectors.clear(); }, Code::kInvalidArgument,
                      {"probes[1].vectors", "empty"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes[1].vectors[1].first = 1; }, Code::kInvalidArgument,
                      {"probes[1].vectors[1].generation", "once"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes[1].vectors[1].first = 9; }, Code::kNotFound,
                      {"probes[1].vectors[1]", "no generation 9"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes[0].vectors[0].second.pop_back(); }, Code::kInvalidArgument,
                      {"probes[0].vectors[0].vector"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes[0].relevant.clear(); }, Code::kInvalidArgument,
                      {"probes[0].relevant", "exactly one"}));
  EXPECT_TRUE(refuses([](PutProbesCall* c) { c->probes[0].label = FilterValue(std::string("a")); },
                      Code::kInvalidArgument, {"probes[0].relevant", "exactly one"}));
  EXPECT_TRUE(refuses(
      [](PutProbesCall* c) {
        c->probes[0].relevant.clear();
        c->probes[0].label = FilterValue(std::string("a"));
      },
      Code::kInvalidArgument, {"label_field"}));
}

TEST_F(ProbesTest, LimitsBoundASet) {
  EngineOptions options = OptionsFor(folder_.path());
  options.limits.probes_max = 3;
  options.limits.probe_set_bytes_max = 400;
  engine_.reset();
  engine_ = OpenEngine(options);
  EXPECT_TRUE(Fails(engine_->PutProbes(SetOf(4)), Code::kInvalidArgument, {"probes", "4"}));
  EXPECT_TRUE(engine_->PutProbes(SetOf(3)).ok());
  PutProbesCall large = SetOf(3);
  large.probes[0].input = RawInput(std::string(500, 'x'));
  EXPECT_TRUE(Fails(engine_->PutProbes(large), Code::kInvalidArgument, {"probes", "at most 400 bytes"}));
}

TEST_F(ProbesTest, ADroppedCollectionLeavesNoProbes) {
  ASSERT_TRUE(engine_->PutProbes(SetOf(3)).ok());
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  EditStore([](Store* store, WriteBatch*) {
    const auto rows = store->Scan(Table::kProbes, "", "");
    EXPECT_FALSE(rows->Valid());
  });
}

TEST(ProbeRecordTest, ProbesComeBackAsTheyWereAndDamageIsFound) {
  std::vector<Probe> probes(2);
  probes[0].vectors = {{1, {1, 2, 3}}, {4, {5, 6}}};
  probes[0].relevant = {Id(7), Id("x")};
  probes[0].item = Id("me");
  probes[1].input = RawInput(TensorInput{{1, 2}, {0.5f, 0.25f}});
  probes[1].label = FilterValue(int64_t{-3});
  const std::string bytes = EncodeProbes(probes);
  const auto read = DecodeProbes(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EncodeProbes(*read), bytes);
  EXPECT_EQ((*read)[0].vectors, probes[0].vectors);
  EXPECT_EQ((*read)[0].relevant, probes[0].relevant);
  EXPECT_EQ((*read)[1].label, probes[1].label);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeProbes(bytes.substr(0, size)).status().code(), Code::kDataLoss) << size;
  }
  EXPECT_EQ(DecodeProbes(bytes + "x").status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace lightcone::server

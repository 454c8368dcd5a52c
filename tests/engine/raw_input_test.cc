// Raw inputs through a real, tiny encoder: registered as TorchScript, used by upserts and queries.
#include <thread>

#include "base/files.h"
#include "tests/engine/encoder_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class RawInputs : public EncoderTest {};

TEST_F(RawInputs, AreEmbeddedTheSameForUpsertAndQueryAndSurviveARestart) {
  const auto made = engine_->RegisterGeneration(Call());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->has_encoder);
  Activate(1);
  std::vector<UpsertItem> items(100);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].id = Id(i);
    items[i].content = Tensor(static_cast<float>(i));
  }
  UpsertBatch batch = BatchOf(std::move(items));
  batch.keep_input = true;
  Write(std::move(batch));
  EXPECT_TRUE(engine_->Get("c", {Id(3)}, 0, false, {})->items[0].has_input);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&, c] {
        for (int i = c; i < 40; i += 4) {
          SearchCall call = SearchFor({}, 1);
          call.queries[0].content = Tensor(static_cast<float>(i));
          const auto hits = Hits(call);
          ASSERT_EQ(hits.size(), 1u);
          EXPECT_EQ(hits[0].id, Id(static_cast<uint64_t>(i)));
          EXPECT_NEAR(hits[0].distance, 0, 1e-4);
        }
      });
    }
    for (auto& caller : callers) caller.join();
    Restart();
  }
}

TEST_F(RawInputs, BadOnesAreNamedAndLoseNobodyElse) {
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  Activate(1);
  SearchCall call = SearchFor({}, 1);
  call.queries.resize(3);
  call.queries[0].content = RawInput(std::string("\x89PNG broken"));
  call.queries[1].content = Tensor(1);
  call.queries[2].content = RawInput(TensorInput{{3, 2, 2}, std::vector<float>(12)});
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"queries[0].input"}));
  EXPECT_TRUE(answer->results[1].status.ok());
  EXPECT_TRUE(Fails(answer->results[2].status, Code::kInvalidArgument, {"queries[2].input.tensor.shape", "1 x 8 x 8"}));
  UpsertBatch batch = BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {})});
  batch.items[1].content = RawInput(std::string("GIF89a"));
  EXPECT_TRUE(Fails(engine_->Upsert(std::move(batch), {}), Code::kInvalidArgument, {"items[1].input"}));
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, 0u);
}

TEST_F(RawInputs, ATruncatedOrForeignEncoderIsRefusedAndLeavesNoFile) {
  RegisterCall call = Call();
  call.encoder.resize(call.encoder.size() / 2);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"encoder"}));
  manifest_.encoder_crc32c = Crc32c(call.encoder);
  call.manifest_json = ToJson(manifest_);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"encoder"}));
  call.encoder = "not torch";
  manifest_.encoder_crc32c = Crc32c(call.encoder);
  call.manifest_json = ToJson(manifest_);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"encoder"}));
  EXPECT_TRUE(engine_->ListGenerations("c")->empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/encoders/1"));
}

}  // namespace
}  // namespace lightcone::server

// The engine's own records and tokens: what is written is read back, and damage is said.
#include "server/engine/collection/meta.h"

#include <map>

#include "base/files.h"
#include "engine_testing.h"
#include "server/engine/collection/checks.h"
#include "server/engine/search/scroll_token.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

TEST(Records, ComeBackAsTheyWereWritten) {
  CollectionRecord collection;
  collection.name = "gallery";
  collection.curvature = 0.1;
  collection.active_generation = 2;
  collection.last_generation = 3;
  collection.aliases = {"a", "b"};
  collection.created_us = 1'234'567;
  collection.index.kind = SealedKind::kFlat;
  EXPECT_EQ(Encode(*DecodeCollection(Encode(collection))), Encode(collection));
  GenerationRecord generation;
  generation.generation = 2;
  generation.parent = 1;
  generation.space.dimension = 7;
  generation.manifest_json = R"({"dimension":7})";
  generation.activated_us = 5;
  EXPECT_EQ(Encode(*DecodeGeneration(Encode(generation))), Encode(generation));
  ProgressRecord progress;
  progress.sequence = UINT64_MAX;
  progress.next_internal_id = 99;
  progress.items[{1, 2}] = 5;
  progress.items[{2}] = 0;
  const auto decoded = DecodeProgress(Encode(progress));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->sequence, UINT64_MAX);
  EXPECT_EQ(decoded->items.size(), 1u) << "empty counts are left out";
  collection.last_adapter_version = 7;
  EXPECT_EQ(DecodeCollection(Encode(collection))->last_adapter_version, 7u);
  EXPECT_EQ(Encode(collection).find("foreign_vectors"), std::string::npos) << "what is usual is not written";
  collection.foreign_vectors = ForeignVectors::kIgnore;
  std::string ignoring = Encode(collection);
  EXPECT_EQ(DecodeCollection(ignoring)->foreign_vectors, ForeignVectors::kIgnore);
  ignoring.replace(ignoring.find("\"foreign_vectors\":2"), 19, "\"foreign_vectors\":3");
  EXPECT_TRUE(Fails(DecodeCollection(ignoring), Code::kDataLoss, {"'foreign_vectors'"}));
  collection.foreign_vectors = ForeignVectors::kWarn;
  collection.scale_generation = collection.last_generation;
  EXPECT_EQ(DecodeCollection(Encode(collection))->scale_generation, collection.last_generation);
  collection.scale_generation = collection.last_generation + 1;
  EXPECT_TRUE(Fails(DecodeCollection(Encode(collection)), Code::kDataLoss, {"'scale_generation'"}));
  generation.compatible_prefix = 5;
  EXPECT_EQ(DecodeGeneration(Encode(generation))->compatible_prefix, 5);
  const AdapterRecord adapter{1, 2, 9, 77, std::string("bytes\n\0\xff", 8)};
  const auto again = DecodeAdapterRecord(Encode(adapter));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->file, adapter.file);
  EXPECT_EQ(Encode(*again), Encode(adapter));
  RequestRecord request{"Create", "x|y", 1, 2, 3, 4, 5, 6};
  request.items = 7;
  request.sequence = 8;
  EXPECT_EQ(Encode(*DecodeRequest(Encode(request))), Encode(request));
  EXPECT_EQ(DecodeRequest(Encode(request))->sequence, 8u);
  const BackfillRecord backfill{3, 2, true, true, 77, 5};
  EXPECT_EQ(Encode(*DecodeBackfill(Encode(backfill))), Encode(backfill));
  EXPECT_TRUE(Fails(DecodeBackfill(Encode(BackfillRecord())), Code::kDataLoss, {"'generation'"}));
  const AuditRecord audit{"c", true, 1, 2, true, "why", 7, 5, "r1"};
  EXPECT_EQ(Encode(*DecodeAudit(Encode(audit))), Encode(audit));
  CollectionRecord line;
  line.name = "c";
  line.active_generation = line.last_generation = 3;
  line.earlier_active = {1, 2};
  EXPECT_THAT(DecodeCollection(Encode(line))->earlier_active, testing::ElementsAre(1, 2));
  line.earlier_active = {4};
  EXPECT_TRUE(Fails(DecodeCollection(Encode(line)), Code::kDataLoss, {"'earlier_active'"}));
}

TEST(Records, DamageAndNewerFormatsAreSaid) {
  EXPECT_TRUE(Fails(DecodeCollection("nonsense"), Code::kDataLoss, {"collection record"}));
  EXPECT_TRUE(Fails(DecodeCollection(R"({"format":1})"), Code::kDataLoss, {"'name'"}));
  EXPECT_TRUE(Fails(DecodeProgress(R"({"format":2})"), Code::kFailedPrecondition, {"format 2", "newer"}));
  EXPECT_TRUE(Fails(
      DecodeProgress(R"({"format":1,"sequence":1,"next_internal_id":1,"items":[{"generations":[2,1],"count":1}]})"),
      Code::kDataLoss, {"items"}));
  EXPECT_TRUE(Fails(DecodeGeneration(R"({"format":1,"generation":1,"parent":1})"), Code::kDataLoss, {"generation"}));
  const std::string adapter = Encode(AdapterRecord{1, 2, 9, 77, "file"});
  EXPECT_TRUE(Fails(DecodeAdapterRecord(adapter + "x"), Code::kDataLoss, {"adapter record", "file_bytes"}));
  EXPECT_TRUE(Fails(DecodeAdapterRecord(adapter.substr(0, adapter.find('\n'))), Code::kDataLoss, {"file_bytes"}));
  EXPECT_TRUE(Fails(DecodeAdapterRecord(Encode(AdapterRecord{2, 2, 9, 77, ""})), Code::kDataLoss, {"from_generation"}));
  EXPECT_TRUE(Fails(DecodeAdapterRecord("{\"format\":2}\n"), Code::kFailedPrecondition, {"newer"}));
}

TEST(Digests, DifferWhereLengthAndChecksumAreTheSame) {
  std::map<uint32_t, std::string> by_checksum;
  int pairs = 0;
  uint64_t state = 1;
  for (int i = 0; i < 300'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::string content = StrCat(1'000'000'000'000'000'000u + state % 1'000'000'000'000'000'000u);
    const auto [first, is_new] = by_checksum.try_emplace(Crc32c(content), content);
    if (is_new || first->second == content) continue;
    ++pairs;
    EXPECT_NE(DigestOf(first->second), DigestOf(content));
  }
  EXPECT_GT(pairs, 0);
  EXPECT_EQ(DigestOf("foobar"), StrCat("6:", Crc32c("foobar"), ":", 0x85944171f73967e8u)) << "it is stored";
}

TEST(ScrollTokens, ComeBackAndNothingElseDoes) {
  const ScrollToken token{7, std::string("key\0with\xff", 9)};
  const std::string text = EncodeScrollToken(token);
  const auto decoded = DecodeScrollToken(text);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->collection, 7u);
  EXPECT_EQ(decoded->last_key, token.last_key);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == '0' ? '1' : '0';
    EXPECT_TRUE(Fails(DecodeScrollToken(damaged), Code::kInvalidArgument, {"token"})) << i;
  }
}

}  // namespace
}  // namespace lightcone::server

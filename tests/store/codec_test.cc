// Keys, records and envelopes: what goes in comes out, order is kept, and damage is named.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/status.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/records.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& result) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss);
  return MessageOf(result.status());
}

TEST(Keys, ItemsSortByCollectionThenNumbersThenStrings) {
  const std::vector<std::string> ascending = {
      keys::Item(1, {uint64_t{0}}),       keys::Item(1, {uint64_t{255}}),       keys::Item(1, {uint64_t{256}}),
      keys::Item(1, {~uint64_t{0}}),      keys::Item(1, {std::string("!")}),    keys::Item(1, {std::string("a")}),
      keys::Item(1, {std::string("aa")}), keys::Item(1, {std::string("\xff")}), keys::InternalId(1, 0),
      keys::InternalId(1, ~uint64_t{0}),  keys::Item(2, {uint64_t{0}}),         keys::Item(256, {uint64_t{0}})};
  EXPECT_TRUE(std::is_sorted(ascending.begin(), ascending.end()));
}

TEST(Keys, OrderRunsFromTheMostUncertainToTheLeast) {
  const std::vector<float> falling = {std::numeric_limits<float>::infinity(),   1.5f, 1.0f,   0.99999994f, 0.5f, 1e-30f,
                                      std::numeric_limits<float>::denorm_min(), 0.0f, -1e-3f, -1.0f};
  for (size_t i = 1; i < falling.size(); ++i) {
    EXPECT_LT(keys::Order(3, 1, falling[i - 1], 9), keys::Order(3, 1, falling[i], 0)) << falling[i];
  }
  EXPECT_EQ(keys::Order(3, 1, 0.0f, 9), keys::Order(3, 1, -0.0f, 9));
  EXPECT_LT(keys::Order(3, 1, 0.5f, 9), keys::Order(3, 1, 0.5f, 10));
  EXPECT_LT(keys::Order(3, 1, std::nanf(""), 0), keys::Order(3, 1, falling[0], 0));
}

TEST(Keys, OrderAgreesWithTheFloatsOnRandomPairs) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uncertainty(0, 1);
  for (int i = 0; i < 10000; ++i) {
    const float a = uncertainty(random), b = uncertainty(random);
    EXPECT_EQ(a > b, keys::Order(1, 1, a, 5) < keys::Order(1, 1, b, 5)) << a << " " << b;
  }
}

TEST(Keys, RangesHoldTheirOwnKeysAndNoOthers) {
  const auto in = [](const keys::Range& range, const std::string& key) {
    return range.begin <= key && (range.end.empty() || key < range.end);
  };
  for (const uint32_t c : {0u, 1u, 255u, 0xffffffffu}) {
    EXPECT_TRUE(in(keys::ItemRange(c), keys::Item(c, {uint64_t{0}})));
    EXPECT_TRUE(in(keys::ItemRange(c), keys::Item(c, {std::string(512, '\xff')})));
    EXPECT_FALSE(in(keys::ItemRange(c), keys::InternalId(c, 0)));
    EXPECT_TRUE(in(keys::InternalIdRange(c), keys::InternalId(c, ~uint64_t{0})));
    EXPECT_FALSE(in(keys::InternalIdRange(c), keys::Item(c, {uint64_t{3}})));
    EXPECT_FALSE(in(keys::InternalIdRange(c), keys::InternalId(c + 1, 0)));
    EXPECT_FALSE(in(keys::InternalIdRange(c), keys::Expiry(c, 1, 1)));
    EXPECT_TRUE(in(keys::ExpiryRange(c), keys::Expiry(c, INT64_MAX, ~uint64_t{0})));
    EXPECT_FALSE(in(keys::ExpiryRange(c), keys::InternalId(c, ~uint64_t{0})));
    EXPECT_FALSE(in(keys::ExpiryRange(c, 5, 9), keys::Expiry(c, 5, ~uint64_t{0})));
    EXPECT_TRUE(in(keys::ExpiryRange(c, 5, 9), keys::Expiry(c, 6, 0)));
    EXPECT_TRUE(in(keys::ExpiryRange(c, 5, 9), keys::Expiry(c, 9, ~uint64_t{0})));
    EXPECT_FALSE(in(keys::ExpiryRange(c, 5, 9), keys::Expiry(c, 10, 0)));
    EXPECT_TRUE(in(keys::CollectionRange(c), keys::Change(c, ~uint64_t{0})));
    EXPECT_FALSE(in(keys::CollectionRange(c), keys::Change(c + 1, 0)));
    EXPECT_TRUE(in(keys::GenerationRange(c, 0xffffffffu), keys::Embedding(c, 0xffffffffu, ~uint64_t{0})));
    EXPECT_FALSE(in(keys::GenerationRange(c, 0xffffffffu), keys::Embedding(c + 1, 0, 0)));
    EXPECT_TRUE(in(keys::GenerationRecordRange(c), keys::Generation(c, 0xfffffffeu)));
    EXPECT_FALSE(in(keys::GenerationRecordRange(c), keys::Adapter(c, 1, 2)));
    EXPECT_TRUE(in(keys::AdapterRange(c), keys::Adapter(c, 0xffffffffu, 0xffffffffu)));
    EXPECT_FALSE(in(keys::AdapterRange(c), keys::Generation(c, 0xfffffffeu)));
    EXPECT_FALSE(in(keys::AdapterRange(c), keys::Adapter(c + 1, 0, 0)));
    EXPECT_TRUE(in(keys::CollectionRange(c), keys::Adapter(c, 1, 2))) << "a drop takes the adapters along";
    EXPECT_TRUE(in(keys::GenerationRange(c, 7), keys::Order(c, 7, 0.0f, 1)));
    EXPECT_FALSE(in(keys::GenerationRange(c, 7), keys::Order(c, 8, 1.0f, 1)));
  }
  EXPECT_NE(keys::Meta("a"), keys::CollectionName("a"));
}

TEST(Keys, ParseWhatTheBuildersMade) {
  for (const ItemId& id :
       {ItemId{uint64_t{0}}, ItemId{~uint64_t{0}}, ItemId{std::string("x")}, ItemId{std::string(512, 'y')}}) {
    EXPECT_EQ(*keys::ParseItem(keys::Item(77, id)), id);
    EXPECT_EQ(*keys::DecodeItemId(keys::EncodeItemId(id)), id);
  }
  EXPECT_EQ(*keys::ParseInternalId(keys::InternalId(5, 1234567890123)), 1234567890123u);
  EXPECT_EQ(*keys::ParseInternalId(keys::Input(5, 42)), 42u);
  EXPECT_EQ(keys::ParseExpiry(keys::Expiry(5, 1'700'000'000'000, 42))->expires_ms, 1'700'000'000'000);
  EXPECT_EQ(keys::ParseExpiry(keys::Expiry(5, 1'700'000'000'000, 42))->internal_id, 42u);
  EXPECT_EQ(*keys::ParseChange(keys::Change(5, 99)), 99u);
  for (const auto& parsed :
       {*keys::ParseEmbedding(keys::Embedding(1, 2, 3)), *keys::ParseOrder(keys::Order(1, 2, 0.25f, 3))}) {
    EXPECT_EQ(parsed.collection, 1u);
    EXPECT_EQ(parsed.generation, 2u);
    EXPECT_EQ(parsed.internal_id, 3u);
  }
}

TEST(Keys, RefuseKeysOfAnotherShape) {
  EXPECT_THAT(ErrorOf(keys::ParseItem("abc")), HasSubstr("'abc' is no item key"));
  EXPECT_THAT(ErrorOf(keys::ParseItem(keys::InternalId(1, 2))), HasSubstr("is no item key"));
  EXPECT_THAT(ErrorOf(keys::DecodeItemId(std::string("\x02", 1))), HasSubstr("0x02 is neither"));
  EXPECT_THAT(ErrorOf(keys::DecodeItemId("\x02" + std::string(513, 'a'))), HasSubstr("1 .. 512 bytes"));
  EXPECT_THAT(ErrorOf(keys::ParseInternalId("short")), HasSubstr("internal id key"));
  EXPECT_THAT(ErrorOf(keys::ParseExpiry(keys::InternalId(1, 2))), HasSubstr("is no expiry key"));
  EXPECT_THAT(ErrorOf(keys::ParseEmbedding(keys::Change(1, 2))), HasSubstr("embedding key"));
  EXPECT_THAT(ErrorOf(keys::ParseOrder(keys::Change(1, 2))), HasSubstr("order key"));
  EXPECT_THAT(ErrorOf(keys::ParseChange("")), HasSubstr("change key"));
}

TEST(Records, RoundTrip) {
  const ItemRecord item{7, 8, {1, 5, 9}, R"({"name":"x"})", true};
  const ItemRecord item_back = *DecodeItem(EncodeItem(item));
  EXPECT_EQ(item_back.internal_id, 7u);
  EXPECT_EQ(item_back.sequence, 8u);
  EXPECT_EQ(item_back.generations, item.generations);
  EXPECT_EQ(item_back.payload_json, item.payload_json);
  EXPECT_TRUE(item_back.has_input);
  EXPECT_EQ(item_back.expires_ms, 0);
  const ItemRecord expiring = *DecodeItem(EncodeItem({7, 8, {1}, "{}", false, 1'700'000'000'000}));
  EXPECT_EQ(expiring.expires_ms, 1'700'000'000'000);
  EXPECT_FALSE(expiring.has_input);
  EXPECT_EQ(expiring.payload_json, "{}");

  const EmbeddingRecord embedding{{1.5f, -0.0f, 3e-38f}, 0.75f};
  const EmbeddingRecord embedding_back = *DecodeEmbedding(EncodeEmbedding(embedding));
  EXPECT_EQ(embedding_back.z, embedding.z);
  EXPECT_EQ(embedding_back.uncertainty, 0.75f);
  float z[3];
  EXPECT_EQ(*DecodeEmbeddingInto(EncodeEmbedding(embedding), z, 3), 0.75f);
  EXPECT_EQ(std::vector<float>(z, z + 3), embedding.z);

  ChangeRecord change;
  change.entries = {{ChangeRecord::Kind::kAdd, 3, 11, {1, 2}}, {ChangeRecord::Kind::kDelete, 0, 12, {}}};
  const ChangeRecord change_back = *DecodeChange(EncodeChange(change));
  ASSERT_EQ(change_back.entries.size(), 2u);
  EXPECT_EQ(change_back.entries[0].generation, 3u);
  EXPECT_EQ(change_back.entries[0].supersedes, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(change_back.entries[1].kind, ChangeRecord::Kind::kDelete);
  EXPECT_EQ(change_back.entries[1].internal_id, 12u);
}

TEST(Records, EveryCutOfARecordIsRefusedOrAnotherWholeRecord) {
  ChangeRecord change;
  change.entries = {{ChangeRecord::Kind::kAdd, 3, 11, {1, 2}}};
  const std::string whole_change = EncodeChange(change);
  for (size_t n = 0; n < whole_change.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeChange(whole_change.substr(0, n)).status())) << n;
  }
  const std::string whole_embedding = EncodeEmbedding({{1, 2}, 0.5f});
  for (size_t n = 0; n < whole_embedding.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeEmbedding(whole_embedding.substr(0, n)).status())) << n;
  }
  const std::string head = EncodeItem({1, 2, {3}, "", false});
  for (size_t n = 0; n < head.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeItem(head.substr(0, n)).status())) << n;
  }
  const std::string expiring = EncodeItem({1, 2, {3}, "", true, 5});
  for (size_t n = 0; n < expiring.size(); ++n) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeItem(expiring.substr(0, n)).status())) << n;
  }
}

TEST(Records, DamageIsNamed) {
  EXPECT_THAT(ErrorOf(DecodeItem("")), HasSubstr("item record: is empty"));
  EXPECT_THAT(ErrorOf(DecodeItem("\x09")), HasSubstr("layout is 9; known: 1"));
  EXPECT_THAT(ErrorOf(DecodeItem(EncodeItem({1, 2, {5, 5}, "", false}))), HasSubstr("generations ascend"));
  EXPECT_THAT(ErrorOf(DecodeItem(EncodeItem({1, 2, {5}, "", false, -5}))), HasSubstr("time to expire"));
  EXPECT_THAT(ErrorOf(DecodeEmbedding(EncodeEmbedding({{1}, 0}) + "x")),
              HasSubstr("5 bytes of vector for dimension 1"));
  float z[2];
  EXPECT_THAT(ErrorOf(DecodeEmbeddingInto(EncodeEmbedding({{1}, 0}), z, 2)), HasSubstr("dimension 1; expected 2"));
  EXPECT_THAT(ErrorOf(DecodeChange(EncodeChange({}) + "x")), HasSubstr("1 bytes stand behind"));
  std::string huge = EncodeChange({});
  huge.replace(1, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(ErrorOf(DecodeChange(huge)), HasSubstr("names 4294967295 entries"));
  ChangeRecord change;
  change.entries = {{static_cast<ChangeRecord::Kind>(7), 0, 1, {}}};
  EXPECT_THAT(ErrorOf(DecodeChange(EncodeChange(change))), HasSubstr("kind is 7; known: 1 .. 2"));
}

TEST(Records, ItemIdsPrintAsTheApplicationWroteThem) {
  EXPECT_EQ(ToString(ItemId{uint64_t{12}}), "12");
  EXPECT_EQ(ToString(ItemId{std::string("a b")}), "'a b'");
}

TEST(Envelope, CatchesEveryFlippedBitAndEveryMovedValue) {
  const auto head = EnvelopeOf(Table::kItems, "key", "value");
  const std::string sealed = std::string(head.data(), head.size()) + "value";
  EXPECT_EQ(*OpenEnvelope(Table::kItems, "key", sealed), "value");
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string flipped = sealed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(OpenEnvelope(Table::kItems, "key", flipped).status())) << bit;
  }
  EXPECT_THAT(ErrorOf(OpenEnvelope(Table::kItems, "kez", sealed)), HasSubstr("table 'items' key 'kez'"));
  EXPECT_THAT(ErrorOf(OpenEnvelope(Table::kJobs, "key", sealed)), HasSubstr("checksum does not match"));
  EXPECT_THAT(ErrorOf(OpenEnvelope(Table::kItems, "key", "abc")), HasSubstr("3 bytes are less than an envelope"));
  const auto moved = EnvelopeOf(Table::kItems, "keyv", "alue");
  EXPECT_NE(head, moved);
}

TEST(Envelope, PrintsKeysThatAPersonCanRead) {
  EXPECT_EQ(PrintableKey("m/format"), "'m/format'");
  EXPECT_EQ(PrintableKey(std::string("\0\x1f", 2)), "0x001f");
  EXPECT_EQ(PrintableKey(""), "0x");
  EXPECT_THAT(PrintableKey(std::string(100, 'a')), HasSubstr("... (100 bytes)"));
}

}  // namespace
}  // namespace lightcone

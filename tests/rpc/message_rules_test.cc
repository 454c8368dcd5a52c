// What requests may be before they are parsed: every field of every request, repeated, and the budget of all calls.
#include "server/rpc/message_rules.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "google/protobuf/wire_format_lite.h"
#include "gtest/gtest.h"
#include "lightcone/v1/retrieval.pb.h"
#include "server/rpc/server.h"

namespace lightcone::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using testing::HasSubstr;
using WireFormat = google::protobuf::internal::WireFormatLite;

constexpr int64_t kServerMax = 256 << 20;
constexpr size_t kTestBytes = 768 << 10;  // eight times as much is more than what is free

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void PutTag(int number, int wire_type, std::string* out) {
  PutVarint(static_cast<uint64_t>(number) << 3 | wire_type, out);
}

std::string LengthDelimited(int number, const std::string& content) {
  std::string out;
  PutTag(number, WireFormat::WIRETYPE_LENGTH_DELIMITED, &out);
  PutVarint(content.size(), &out);
  return out + content;
}

bool IsMessage(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }
bool IsText(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING; }

int WireTypeOf(const FieldDescriptor& field) {
  return WireFormat::WireTypeForFieldType(static_cast<WireFormat::FieldType>(field.type()));
}

std::string Scalar(const FieldDescriptor& field) {
  const int wire_type = WireTypeOf(field);
  return wire_type == WireFormat::WIRETYPE_FIXED64   ? std::string(8, '\1')
         : wire_type == WireFormat::WIRETYPE_FIXED32 ? std::string(4, '\1')
                                                     : std::string(1, '\1');
}

// A message of the type with each field once and as short as can be; without `scalars` only fields that are messages.
std::string Short(const Descriptor& type, bool scalars) {
  std::string out;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsMessage(field)) {
      out += LengthDelimited(field.number(), "");
    } else if (scalars && IsText(field)) {
      out += LengthDelimited(field.number(), "a");
    } else if (scalars && !field.is_packed()) {
      PutTag(field.number(), WireTypeOf(field), &out);
      out += Scalar(field);
    }
  }
  return out;
}

// Encodings of one element of the field that take little and may become much.
std::set<std::string> ElementsOf(const FieldDescriptor& field) {
  if (IsMessage(field)) {
    std::set<std::string> elements;
    for (const std::string& content :
         {std::string(), Short(*field.message_type(), false), Short(*field.message_type(), true)}) {
      elements.insert(LengthDelimited(field.number(), content));
    }
    return elements;
  }
  if (IsText(field)) {
    if (!field.is_repeated()) return {};
    return {LengthDelimited(field.number(), ""), LengthDelimited(field.number(), "a"),
            LengthDelimited(field.number(), std::string(16, 'a'))};
  }
  if (!field.is_repeated()) return {};
  std::string alone;
  PutTag(field.number(), WireTypeOf(field), &alone);
  return {alone + Scalar(field)};
}

std::string Repeated(const std::string& element, size_t bytes) {
  std::string out;
  out.reserve(bytes + element.size());
  while (out.size() < bytes) out += element;
  return out;
}

// Contents of a message of the type in which one field is repeated, with their names.
void ForEachContent(const Descriptor& type, const std::function<void(const std::string&, const std::string&)>& see) {
  std::set<int> numbers;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    numbers.insert(field.number());
    for (const std::string& element : ElementsOf(field)) see(field.full_name(), Repeated(element, kTestBytes));
    if (field.is_packed()) {
      see(field.full_name() + ", packed", LengthDelimited(field.number(), Repeated(Scalar(field), kTestBytes)));
    }
  }
  int unknown = 1;
  while (numbers.contains(unknown)) ++unknown;
  std::string varint, group;
  PutTag(unknown, WireFormat::WIRETYPE_VARINT, &varint);
  PutTag(unknown, WireFormat::WIRETYPE_START_GROUP, &group);
  PutTag(unknown, WireFormat::WIRETYPE_END_GROUP, &group);
  const std::string name = type.full_name() + ", unknown ";
  see(name + "numbers", Repeated(varint + '\1', kTestBytes));
  see(name + "texts", Repeated(LengthDelimited(unknown, ""), kTestBytes));
  see(name + "groups", Repeated(group, kTestBytes));
}

// Every type that a message of `type` can hold, by the shortest path of fields.
void ForEachType(const Descriptor& type, const std::function<void(const Descriptor&, const std::vector<int>&)>& see) {
  std::vector<std::pair<const Descriptor*, std::vector<int>>> queue = {{&type, {}}};
  std::set<const Descriptor*> seen = {&type};
  for (size_t at = 0; at < queue.size(); ++at) {
    const auto [next, path] = queue[at];
    see(*next, path);
    for (int i = 0; i < next->field_count(); ++i) {
      const FieldDescriptor& field = *next->field(i);
      if (!IsMessage(field) || !seen.insert(field.message_type()).second) continue;
      queue.emplace_back(field.message_type(), path);
      queue.back().second.push_back(field.number());
    }
  }
}

// `bytes` in slices of `slice` bytes.
grpc::ByteBuffer Buffer(const std::string& bytes, size_t slice = 16 << 10) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice) slices.emplace_back(bytes.substr(at, slice));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

class MessageRulesTest : public testing::Test {
 protected:
  absl::Status Parse(const std::string& bytes, google::protobuf::Message* message, size_t slice = 16 << 10) {
    grpc::ByteBuffer buffer = Buffer(bytes, slice);
    return ParseChecked(rules_.at(message->GetDescriptor()), &budget_, &buffer, message).status();
  }

  Limits limits_;
  RulesByRequest rules_ = MakeMessageRules(kServerMax, limits_);
  ParseBudget budget_{int64_t{1} << 30};
};

TEST_F(MessageRulesTest, EveryMethodHasRules) {
  std::set<std::string> named;
  for (const auto& [type, rules] : rules_) {
    named.insert(std::string(rules.method));
    EXPECT_GE(rules.bytes_max, 1 << 20) << rules.method;
    EXPECT_LE(rules.bytes_max, kServerMax) << rules.method;
  }
  const std::vector<std::string> methods = MethodNames();
  EXPECT_EQ(named, std::set<std::string>(methods.begin(), methods.end()));
}

TEST_F(MessageRulesTest, NoFieldOfAnyRequestTakesMoreThanEightTimesItsBytes) {
  int allowed = 0, refused = 0;
  for (const auto& entry : rules_) {
    const Descriptor* const request = entry.first;
    const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(request);
    ForEachType(*request, [&](const Descriptor& type, const std::vector<int>& path) {
      ForEachContent(type, [&](const std::string& name, std::string bytes) {
        for (size_t i = path.size(); i > 0; --i) bytes = LengthDelimited(path[i - 1], bytes);
        const int64_t most = std::max(kParsedBytesFree, kParsedFactorMax * static_cast<int64_t>(bytes.size()));
        google::protobuf::Arena arena;
        google::protobuf::Message* message = prototype->New(&arena);
        const absl::Status parsed = Parse(bytes, message);
        if (!parsed.ok()) {
          ++refused;
          EXPECT_EQ(parsed.code(), absl::StatusCode::kInvalidArgument) << parsed;
          EXPECT_THAT(MessageOf(parsed), HasSubstr("elements that take")) << name;
          EXPECT_FALSE(PartsOf(parsed).field.empty()) << name;
          return;
        }
        ++allowed;
        EXPECT_LE(static_cast<int64_t>(arena.SpaceUsed()), most) << name << " in " << request->name();
        EXPECT_LE(static_cast<int64_t>(message->SpaceUsedLong()), most) << name << " in " << request->name();
      });
    });
  }
  EXPECT_GT(allowed, 20);
  EXPECT_GT(refused, 100);
  EXPECT_EQ(budget_.taken(), 0);
}

TEST_F(MessageRulesTest, TheEstimateIsAboveWhatParsingTakes) {
  for (const auto& entry : rules_) {
    const Descriptor* const request = entry.first;
    const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(request);
    const MessageShape& shape = *entry.second.shape;
    const MessageShape heap(*request, /*arena=*/false);
    ForEachType(*request, [&](const Descriptor& type, const std::vector<int>& path) {
      ForEachContent(type, [&](const std::string& name, std::string bytes) {
        bytes.resize(bytes.size() / 64);  // as many elements as show their cost
        for (size_t i = path.size(); i > 0; --i) bytes = LengthDelimited(path[i - 1], bytes);
        google::protobuf::Arena arena;
        google::protobuf::Message* in_arena = prototype->New(&arena);
        if (!in_arena->ParseFromString(bytes)) return;  // the end was cut
        google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
        const auto cost = shape.CostOf(&input, static_cast<int>(bytes.size()));
        ASSERT_TRUE(cost.has_value()) << name;
        EXPECT_GE(cost->bytes, static_cast<int64_t>(arena.SpaceUsed())) << name << " in " << request->name();
        const std::unique_ptr<google::protobuf::Message> on_heap(prototype->New());
        ASSERT_TRUE(on_heap->ParseFromString(bytes));
        google::protobuf::io::ArrayInputStream again(bytes.data(), static_cast<int>(bytes.size()));
        EXPECT_GE(heap.CostOf(&again, static_cast<int>(bytes.size()))->bytes,
                  static_cast<int64_t>(on_heap->SpaceUsedLong()))
            << name << " in " << request->name();
      });
    });
  }
}

TEST_F(MessageRulesTest, WhatLimitsAllowIsParsed) {
  v1::UpsertRequest upsert;
  v1::GetRequest get;
  v1::SearchRequest search;
  for (int i = 0; i < 10'000; ++i) {
    v1::Item* item = upsert.add_items();
    item->mutable_id()->set_number(i);
    for (int j = 0; j < 4; ++j) item->mutable_vector()->mutable_floats()->add_values(1);
    get.add_ids()->set_number(i);
  }
  for (int i = 0; i < 65'536; ++i) search.mutable_filter()->mutable_in()->add_values()->set_integer(i);
  for (int i = 0; i < 1'000; ++i) search.add_queries()->mutable_vector()->mutable_floats()->add_values(1);
  for (const google::protobuf::Message* message :
       {static_cast<const google::protobuf::Message*>(&upsert), static_cast<const google::protobuf::Message*>(&get),
        static_cast<const google::protobuf::Message*>(&search)}) {
    const std::unique_ptr<google::protobuf::Message> parsed(message->New());
    EXPECT_EQ(Parse(message->SerializeAsString(), parsed.get()), absl::OkStatus());
    EXPECT_EQ(parsed->ByteSizeLong(), message->ByteSizeLong());
  }
  limits_.batch_items_max = 1'000'000;
  rules_ = MakeMessageRules(kServerMax, limits_);
  get.clear_ids();
  for (int i = 0; i < 1'000'000; ++i) get.add_ids()->set_number((1 << 21) + i);
  v1::GetRequest parsed;
  EXPECT_EQ(Parse(get.SerializeAsString(), &parsed), absl::OkStatus());
  EXPECT_EQ(parsed.ids_size(), 1'000'000);
}

TEST_F(MessageRulesTest, TheSlicesOfAMessageChangeNothing) {
  v1::UpsertRequest request;
  for (int i = 0; i < 300; ++i) {
    v1::Item* item = request.add_items();
    item->mutable_id()->set_name("item-" + std::to_string(i));
    for (int j = 0; j < 7; ++j) item->mutable_vector()->mutable_floats()->add_values(static_cast<float>(j));
    item->set_payload_json("{\"rank\":" + std::to_string(i) + "}");
  }
  const std::string bytes = request.SerializeAsString();
  ASSERT_GT(static_cast<int64_t>(bytes.size()), kWalkedBytesMin);
  for (const size_t slice : {size_t{1}, size_t{3}, size_t{7}, size_t{1'000}, bytes.size()}) {
    v1::UpsertRequest parsed;
    EXPECT_EQ(Parse(bytes, &parsed, slice), absl::OkStatus()) << slice;
    EXPECT_EQ(parsed.SerializeAsString(), bytes) << slice;
    EXPECT_THAT(MessageOf(Parse(bytes.substr(0, bytes.size() - 1), &parsed, slice)),
                HasSubstr("the message is no UpsertRequest"))
        << slice;
  }
}

TEST_F(MessageRulesTest, BytesOfNoMessageSayWhere) {
  v1::GetRequest get;
  EXPECT_THAT(MessageOf(Parse(LengthDelimited(2, LengthDelimited(1, "\xff")), &get)),
              HasSubstr("the message is no GetRequest: field 'ids[0].name' is no UTF-8: byte 0 is 0xff"));
  v1::CountRequest count;
  std::string deep = LengthDelimited(7, "");
  for (int i = 0; i < 60; ++i) deep = LengthDelimited(1, LengthDelimited(1, deep));
  EXPECT_THAT(MessageOf(Parse(LengthDelimited(2, deep), &count)), HasSubstr("nested deeper than 100"));
  const std::string padded = LengthDelimited(2, deep) + LengthDelimited(1, std::string(kWalkedBytesMin, 'a'));
  EXPECT_THAT(MessageOf(Parse(padded, &count)), HasSubstr("nested deeper than 100"));
  EXPECT_EQ(budget_.taken(), 0);
}

// Protobuf parses up to the fault: without the walk's refusal it makes a million items first.
TEST_F(MessageRulesTest, BytesWithAFaultAtTheirEndAreRefusedBeforeAnythingIsMade) {
  const std::string items = Repeated(LengthDelimited(3, ""), 2 << 20);
  for (const std::string& end : {std::string(1, '\0'), std::string("\x1a\x7f", 2), std::string(1, '\x0c')}) {
    v1::UpsertRequest upsert;
    const absl::Status refused = Parse(items + end, &upsert);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(refused), HasSubstr("the message is no UpsertRequest"));
    EXPECT_EQ(upsert.items_size(), 0);
  }
  EXPECT_EQ(budget_.taken(), 0);
}

TEST_F(MessageRulesTest, TheDeepestMessageThatProtobufParsesIsWeighedAndADeeperOneRefused) {
  for (const int levels : {99, 100, 101, 102}) {
    std::string bytes, ends;
    for (int i = 0; i < levels; ++i) {
      PutTag(1'000, WireFormat::WIRETYPE_START_GROUP, &bytes);
      PutTag(1'000, WireFormat::WIRETYPE_END_GROUP, &ends);
    }
    bytes += ends;
    google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
    v1::CountRequest count;
    EXPECT_EQ(count.ParseFromString(bytes),
              rules_.at(count.GetDescriptor()).shape->CostOf(&input, static_cast<int>(bytes.size())).has_value())
        << levels;
  }
}

TEST_F(MessageRulesTest, AMessageLargerThanItsMethodTakesIsRefused) {
  v1::CountRequest count;
  const absl::Status refused = Parse(LengthDelimited(1, std::string(17 << 20, 'a')), &count);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), HasSubstr("at most 16777216 bytes for Retrieval/Count"));
  rules_ = MakeMessageRules(1 << 16, limits_);
  EXPECT_THAT(MessageOf(Parse(LengthDelimited(1, std::string(1 << 16, 'a')), &count)),
              HasSubstr("at most 65536 bytes for Retrieval/Count (rpc.message_bytes_max)"));
}

TEST(ParseBudget, IsNeverPassedAndComesBack) {
  ParseBudget budget(1'000);
  std::atomic<int64_t> granted{0}, most{0}, taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2'000; ++round) {
        const auto part = budget.Take(300);
        if (!part.ok()) continue;
        ++granted;
        int64_t now = taken.fetch_add(300) + 300;
        for (int64_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        taken.fetch_sub(300);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(granted, 0);
  EXPECT_LE(most, 1'000);
  EXPECT_EQ(budget.taken(), 0);
}

TEST(ParseBudget, SaysWhetherALaterAttemptMaySucceed) {
  ParseBudget budget(1'000);
  const auto held = budget.Take(700);
  ASSERT_TRUE(held.ok()) << held.status();
  const absl::Status later = budget.Take(400).status();
  EXPECT_EQ(later.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(later), HasSubstr("field 'rpc.parsed_bytes_max' is 1000"));
  EXPECT_THAT(MessageOf(later), HasSubstr("retry later"));
  const absl::Status never = budget.Take(1'001).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(never), HasSubstr("at least 1001 bytes for this request alone"));
  EXPECT_EQ(budget.taken(), 700);
}

}  // namespace
}  // namespace lightcone::server

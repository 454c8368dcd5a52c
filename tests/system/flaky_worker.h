// A worker of a backfill that goes wrong in every way there is, as its seed says.
// Threads: each belongs to one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "nlohmann/json.hpp"
#include "tests/system/flaky_world.h"

namespace lightcone {

class FlakyWorker {
 public:
  FlakyWorker(int number, FlakyWorld* world)
      : number_(number),
        world_(world),
        random_(1000 + static_cast<uint64_t>(number)),
        client_(ClientOf(world->address())),
        other_connection_(ClientOf(world->address())) {}

  void Run() {
    do {
      SendLate();
      Turn();
    } while (!testing::Test::HasFailure() && !world_->Finished());
    for (; !testing::Test::HasFailure() && !late_.empty(); SendLate()) absl::SleepFor(kPoll);
    // The last lease is given back with one that ends by itself.
    if (!finished_token_.empty()) Lease(1, absl::Milliseconds(1));
    world_->NoteWorkerEnded();
  }

 private:
  struct Batch {
    v1::UpsertRequest request;
    std::string token;
    absl::Time expires;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  Fate DrawFate() {
    if (turns_++ == 0) return static_cast<Fate>(static_cast<size_t>(number_) % kFateCount);
    // Every second batch is good, so that it ends.
    return Draw(2) == 0 ? Fate::kGood : static_cast<Fate>(Draw(kFateCount));
  }

  void Turn() {
    const bool first = turns_ == 0;
    const Fate fate = DrawFate();
    const uint32_t most =
        5 + static_cast<uint32_t>(Draw(std::clamp<uint64_t>(world_->items() / kWorkers, 10, 100) - 5));
    const auto lease = Lease(most, absl::Milliseconds(100 + static_cast<int64_t>(Draw(900))));
    if (first) world_->AwaitFirstLeases();
    if (!lease) return;
    if (lease->items().empty()) {
      ++world_->empty_leases;
      absl::SleepFor(kPoll);  // others hold all that is left, or it is being ordered
      return;
    }
    const std::optional<Batch> batch = Embed(*lease);
    if (!batch) return;
    if (batch->request.items().empty()) {
      ++world_->only_undecodable;
      world_->NoteThrough();
      GiveBack(batch->token);
      absl::SleepFor(kPoll);
      return;
    }
    ++world_->fates[static_cast<size_t>(fate)];
    Meet(fate, *batch);
  }

  std::optional<v1::LeaseResponse> Lease(uint32_t items, absl::Duration timeout) {
    v1::LeaseRequest request;
    request.set_collection(kGallery);
    request.set_items_max(items);
    request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
    request.mutable_timeout()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(timeout) % 1'000'000'000));
    request.set_finished_token(finished_token_);
    auto lease = client_->LeaseBackfill(request);
    if (absl::IsResourceExhausted(lease.status())) {
      ++world_->overloads;
      return std::nullopt;
    }
    EXPECT_TRUE(lease.ok()) << lease.status();
    if (!lease.ok()) return std::nullopt;
    world_->given_back += !finished_token_.empty();
    finished_token_.clear();
    EXPECT_EQ(lease->generation(), kNew);
    EXPECT_EQ(lease->token().empty(), lease->items().empty());
    if (!lease->items().empty()) {
      ++world_->leases;
      world_->leased_items += lease->items_size();
      for (const v1::LeasedItem& item : lease->items()) world_->found_items += item.found_lately();
      world_->NoteExpiry(ExpiryOf(*lease));
    }
    return *std::move(lease);
  }

  static absl::Time ExpiryOf(const v1::LeaseResponse& lease) {
    return absl::FromUnixSeconds(lease.expires().seconds()) + absl::Nanoseconds(lease.expires().nanos());
  }

  // Reads the contents and embeds them. Read after the lease: if a content is newer, its sequence says so.
  std::optional<Batch> Embed(const v1::LeaseResponse& lease) {
    v1::GetRequest get;
    get.set_collection(kGallery);
    for (const v1::LeasedItem& leased : lease.items()) *get.add_ids() = leased.id();
    const auto contents = client_->Get(get);
    EXPECT_TRUE(contents.ok()) << contents.status();
    if (!contents.ok()) return std::nullopt;
    EXPECT_EQ(contents->items_size(), lease.items_size());
    Batch batch{{}, lease.token(), ExpiryOf(lease)};
    batch.request.set_collection(kGallery);
    batch.request.set_generation(lease.generation());
    batch.request.set_same_content(true);
    for (int i = 0; i < std::min(contents->items_size(), lease.items_size()); ++i) {
      const uint64_t item = lease.items(i).id().number();
      EXPECT_EQ(contents->items(i).id().number(), item);
      if (!Decodes(item)) continue;
      const auto version = nlohmann::json::parse(contents->items(i).payload_json())["version"].get<Version>();
      Add(item, EmbeddingOf(item, version, lease.generation()), lease.items(i).sequence(), &batch.request);
    }
    return batch;
  }

  static void Add(uint64_t item, const std::vector<float>& vector, std::optional<uint64_t> sequence,
                  v1::UpsertRequest* request) {
    v1::Item* added = request->add_items();
    added->mutable_id()->set_number(item);
    if (sequence) added->set_expected_sequence(*sequence);
    client::SetVector(vector.data(), static_cast<int64_t>(vector.size()), added->mutable_vector());
  }

  void Meet(Fate fate, const Batch& batch) {
    switch (fate) {
      case Fate::kGood:
        Send(batch);
        GiveBack(batch.token);
        break;
      case Fate::kCrash:
        ++world_->expired;
        break;
      case Fate::kHang:
        while (absl::Now() <= batch.expires) absl::SleepFor(kPoll);
        ++world_->expired;
        Send(batch);
        break;
      case Fate::kLate:
        late_.push_back(batch);
        break;
      case Fate::kDuplicate:
        SendThrice(batch);
        break;
      default:
        SendWrong(fate, batch);
    }
  }

  // Of those whose leases have expired, the oldest.
  void SendLate() {
    if (late_.empty() || absl::Now() <= late_.front().expires) return;
    ++world_->expired;
    Send(late_.front());
    late_.pop_front();
  }

  void GiveBack(const std::string& token) { finished_token_ = token; }

  // A right batch, at whatever time: nothing is refused, what has changed since the lease is left out.
  void Send(const Batch& batch, client::Client* by = nullptr) {
    const bool late = absl::Now() > batch.expires;
    const auto written = (by == nullptr ? *client_ : *by).Upsert(batch.request);
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_EQ(written->items() + static_cast<uint32_t>(written->outdated_size()),
              static_cast<uint32_t>(batch.request.items_size()));
    world_->outdated += written->outdated_size();
    if (late) world_->outdated_late += written->outdated_size();
    if (late) world_->accepted_late += written->items();
    for (const uint32_t place : written->outdated()) {
      const uint64_t item = batch.request.items(static_cast<int>(place)).id().number();
      EXPECT_TRUE(IsReplaced(item)) << item << " was left out, and nobody has replaced its content";
    }
    for (const v1::Item& item : batch.request.items()) {
      if (!IsReplaced(item.id().number())) through_ = item.id().number();
    }
    world_->NoteWritten(written->items());
  }

  void SendThrice(const Batch& batch) {
    Send(batch);
    Send(batch);
    Send(batch, other_connection_.get());
    GiveBack(batch.token);
  }

  // Spoils one item of the batch, or adds one that does not belong there, and checks what the server says to it. Then
  // either sends it as it should have been or gives it back.
  void SendWrong(Fate fate, const Batch& batch) {
    Batch wrong = batch;
    const int place = static_cast<int>(Draw(static_cast<uint64_t>(batch.request.items_size())));
    switch (fate) {
      case Fate::kWrongDimension:
      case Fate::kNan:
        SendSpoiltVector(fate, place, &wrong);
        break;
      case Fate::kUnknownItem: {
        const uint64_t item = world_->items() + Draw(1'000'000);
        Add(item, PoisonOf(item), std::nullopt, &wrong.request);
        ExpectRefused(fate, wrong, absl::StatusCode::kNotFound, {StrCat("no item ", item)});
        break;
      }
      case Fate::kNoToken:
        Send(batch);
        if (!through_) break;
        wrong.request.clear_items();
        Add(*through_, PoisonOf(*through_), std::nullopt, &wrong.request);
        ExpectRefused(fate, wrong, absl::StatusCode::kFailedPrecondition,
                      {StrCat("item ", *through_), StrCat("generation ", kNew)});
        break;
      default:
        SendWrongToken(fate, place, &wrong);
    }
    if (Draw(2) == 0) Send(batch);
    GiveBack(batch.token);
  }

  static bool Holds(const Batch& batch, uint64_t item) {
    return std::any_of(batch.request.items().begin(), batch.request.items().end(),
                       [item](const v1::Item& other) { return other.id().number() == item; });
  }

  void SendSpoiltVector(Fate fate, int place, Batch* wrong) {
    v1::Vector* vector = wrong->request.mutable_items(place)->mutable_vector();
    std::vector<float> values = *client::VectorOf(*vector);
    if (fate == Fate::kNan) values[5] = std::numeric_limits<float>::quiet_NaN();
    client::SetVector(values.data(), kDimension - (fate == Fate::kWrongDimension), vector);
    const std::string field = StrCat("items[", place, fate == Fate::kNan ? "].vector[5]" : "].vector");
    const std::string value = fate == Fate::kNan ? "nan" : StrCat("a vector of ", kDimension - 1, " numbers");
    const FieldErrorParts parts = ExpectRefused(fate, *wrong, absl::StatusCode::kInvalidArgument, {field, value});
    EXPECT_EQ(parts.field, field);
    EXPECT_EQ(parts.value, value);
    EXPECT_FALSE(parts.allowed.empty());
  }

  // The whole batch, in words that hold these texts and the place of the item.
  FieldErrorParts ExpectRefused(Fate fate, const Batch& wrong, absl::StatusCode code,
                                const std::vector<std::string>& texts) {
    const absl::Status status = client_->Upsert(wrong.request).status();
    EXPECT_EQ(status.code(), code) << kFates[static_cast<size_t>(fate)] << ": " << status;
    EXPECT_THAT(MessageOf(status), testing::HasSubstr("items["));
    for (const std::string& text : texts) EXPECT_THAT(MessageOf(status), testing::HasSubstr(text));
    ++world_->refused[static_cast<size_t>(fate)];
    return PartsOf(status);
  }

  // A sequence that is not the item's: the item is left out and named in the answer, the rest is written.
  void SendWrongToken(Fate fate, int place, Batch* wrong) {
    v1::UpsertRequest& request = wrong->request;
    if (fate == Fate::kNotLeased) {
      uint64_t item = Draw(world_->items());
      while (Holds(*wrong, item)) item = Draw(world_->items());
      place = request.items_size();
      Add(item, PoisonOf(item), (uint64_t{1} << 40) + item, &request);
    } else {
      v1::Item* item = request.mutable_items(place);
      uint64_t sequence = item->expected_sequence() - 1;
      for (const v1::Item& other : request.items()) {
        const bool differs = other.expected_sequence() != item->expected_sequence();
        if (fate == Fate::kOthersToken && differs) sequence = other.expected_sequence();
      }
      item->set_expected_sequence(sequence);
      client::SetVector(PoisonOf(item->id().number()).data(), kDimension, item->mutable_vector());
    }
    const auto written = client_->Upsert(request);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_THAT(written->outdated(), testing::Contains(static_cast<uint32_t>(place)))
        << kFates[static_cast<size_t>(fate)];
    world_->refused[static_cast<size_t>(fate)] += 1;
    world_->outdated += written->outdated_size() - 1;
    world_->NoteWritten(written->items());
  }

  const int number_;
  FlakyWorld* const world_;
  std::mt19937_64 random_;
  const std::unique_ptr<client::Client> client_, other_connection_;
  uint64_t turns_ = 0;
  std::string finished_token_;       // for the next lease
  std::deque<Batch> late_;           // by the time of their leases
  std::optional<uint64_t> through_;  // an item that the new generation has embedded for good
};

}  // namespace lightcone

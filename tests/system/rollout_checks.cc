#include "tests/system/rollout_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "client/scroll_cursor.h"

namespace lightcone {
namespace {

constexpr absl::Duration kHangs = absl::Minutes(2);

bool Ended(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

StoredContent ContentOf(const v1::StoredItem& item) {
  return {VersionIn(item.payload_json()), {item.generations().begin(), item.generations().end()}};
}

}  // namespace

std::vector<uint32_t> RolloutChecks::InUse(const std::vector<uint32_t>& generations) const {
  std::vector<uint32_t> in_use;
  for (const uint32_t g : generations) {
    if (!Retired(g)) in_use.push_back(g);
  }
  return in_use;
}

void RolloutChecks::ReadGallery(client::Client& client, Work work) {
  gallery_.clear();
  v1::ScrollRequest request;
  request.set_collection(kRollout);
  request.set_with_vector(true);
  const auto cursor = client.Scroll(request);
  v1::ScrollResponse page;
  for (;;) {
    const auto more = cursor->Next(&page);
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
    for (const v1::StoredItem& item : page.items()) {
      const uint64_t number = item.id().number();
      StoredContent& stored = gallery_[number];
      EXPECT_EQ(stored.version, 0u) << "item " << number << " twice in one scroll";
      stored = ContentOf(item);
      EXPECT_EQ(item.payload_json(), world_->content.PayloadOf(number, stored.version));
      EXPECT_EQ(item.has_input(), KeepsInput(number));
      const auto vector = client::VectorOf(item.vector()).value_or(std::vector<float>());
      EXPECT_TRUE(world_->content.Matches(vector, number, stored.version, item.generation()))
          << "item " << number << " has not the vector of version " << stored.version << " by " << item.generation();
    }
  }
  v1::GetRequest get;
  get.set_collection(kRollout);
  for (uint64_t item = 0; item < items_; ++item) get.add_ids()->set_number(item);
  const auto got = client.Get(get);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(static_cast<size_t>(got->items_size()), gallery_.size());
  for (const v1::StoredItem& item : got->items()) {
    const auto found = gallery_.find(item.id().number());
    ASSERT_NE(found, gallery_.end()) << item.id().number();
    const StoredContent now = ContentOf(item);
    EXPECT_EQ(now.version, found->second.version) << "item " << item.id().number();
    if (work == Work::kEnded) {
      EXPECT_EQ(now.generations, found->second.generations) << "item " << item.id().number();
    }
  }
}

void RolloutChecks::ExpectEmbeddings() {
  for (const auto& [item, stored] : gallery_) {
    for (const uint32_t g : world_->embedded.Of(item, stored.version)) {
      if (Retired(g)) continue;
      EXPECT_TRUE(std::binary_search(stored.generations.begin(), stored.generations.end(), g))
          << "item " << item << " version " << stored.version << " has lost its embedding by " << g << ": "
          << testing::PrintToString(stored.generations);
    }
  }
}

void RolloutChecks::ExpectViews(client::Client& client, Work work) {
  for (const uint32_t g : line_->Live()) ExpectView(client, g, /*as_active=*/false, work);
  ExpectView(client, line_->active, /*as_active=*/true, work);
}

void RolloutChecks::ExpectView(client::Client& client, uint32_t generation, bool as_active, Work work) {
  SCOPED_TRACE(StrCat(as_active ? "active, " : "", "view of generation ", generation));
  v1::SearchRequest request;
  request.set_collection(kRollout);
  if (!as_active) request.set_generation(generation);
  request.set_k(static_cast<uint32_t>(2 * items_));
  request.set_exact(true);
  request.set_with_payload(true);
  request.set_with_vector(true);
  const std::vector<float> vector = VectorOf(generation, 1);
  client::SetVector(vector.data(), kDimension, request.add_queries()->mutable_vector());
  const auto answer = client.Search(request);
  const auto wanted = std::count_if(gallery_.begin(), gallery_.end(), [&](const auto& entry) {
    return ServedBy(InUse(entry.second.generations), generation) != 0;
  });
  if (wanted == 0 && absl::IsFailedPrecondition(answer.status())) return;  // everything is out of its reach
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->serving_generation(), generation);
  std::set<uint64_t> seen;
  for (const v1::Hit& hit : answer->results(0).hits()) {
    EXPECT_TRUE(seen.insert(hit.id().number()).second) << "item " << hit.id().number() << " twice";
    ExpectHit(hit, generation, work);
  }
  for (const auto& [item, stored] : gallery_) {
    const bool serves = ServedBy(InUse(stored.generations), generation) != 0;
    // What only a retired generation serves goes with its rows, some time.
    if (work == Work::kUnderWay && !serves) continue;
    EXPECT_EQ(seen.contains(item), serves) << "item " << item << " version " << stored.version << " embedded by "
                                           << testing::PrintToString(stored.generations);
  }
  if (work == Work::kEnded) {
    EXPECT_EQ(answer->out_of_reach(), gallery_.size() - seen.size());
  }
}

void RolloutChecks::ExpectHit(const v1::Hit& hit, uint32_t view, Work work) {
  const auto found = gallery_.find(hit.id().number());
  ASSERT_NE(found, gallery_.end()) << "item " << hit.id().number() << " is found but not stored";
  const auto& [version, generations] = found->second;
  EXPECT_EQ(VersionIn(hit.payload_json()), version) << "item " << hit.id().number();
  const auto vector = client::VectorOf(hit.vector()).value_or(std::vector<float>());
  const bool under_way = work == Work::kUnderWay;
  if (!(vector.empty() && under_way && Retired(hit.generation()))) {
    EXPECT_TRUE(world_->content.Matches(vector, hit.id().number(), version, hit.generation()))
        << "item " << hit.id().number() << " has not the vector of version " << version << " by " << hit.generation();
  }
  const uint32_t serves = ServedBy(InUse(generations), view);
  const bool changes = Retired(hit.generation()) || hit.generation() == line_->backfill.generation;
  EXPECT_TRUE(hit.generation() == serves || (under_way && changes && hit.generation() <= view))
      << "item " << hit.id().number() << " is served by " << hit.generation() << ", not " << serves;
}

bool RolloutChecks::EmbedsItself(client::Client& client) {
  v1::StatusRequest request;
  request.set_collection(kRollout);
  const auto status = client.BackfillStatus(request);
  EXPECT_TRUE(status.ok()) << status.status();
  if (!status.ok()) return false;
  EXPECT_NE(status->state(), v1::BACKFILL_STATE_FAILED) << status->error();
  EXPECT_EQ(status->items_aside(), 0u);
  if (status->state() == v1::BACKFILL_STATE_ORDERING) return true;
  if (status->state() != v1::BACKFILL_STATE_RUNNING || status->embed_rate() == 0) return false;
  ReadGallery(client, Work::kUnderWay);
  return std::any_of(gallery_.begin(), gallery_.end(), [&](const auto& entry) {
    return KeepsInput(entry.first) && entry.second.generations.back() < status->generation();
  });
}

int RolloutChecks::AwaitOwnWork(client::Client& client) {
  std::set<std::string> unended;
  const absl::Time limit = absl::Now() + kHangs;
  v1::JobsListRequest request;
  request.set_collection(kRollout);
  for (bool works = true; works; absl::SleepFor(absl::Milliseconds(10))) {
    works = false;
    const auto jobs = client.ListJobs(request);
    if (!jobs.ok()) {
      ADD_FAILURE() << jobs.status();
      break;
    }
    for (const v1::JobInfo& job : jobs->jobs()) {
      if (!Ended(job.state())) {
        unended.insert(job.id());
        works = true;
      } else if (job.kind() == "retire") {
        EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.ShortDebugString();
      } else if (job.state() != v1::JOB_STATE_SUCCEEDED) {
        EXPECT_TRUE(Retired(job.generation())) << job.ShortDebugString();
      }
    }
    works = works || EmbedsItself(client);
    if (absl::Now() > limit) {
      ADD_FAILURE() << "the server does not go on by itself: " << jobs->ShortDebugString();
      break;
    }
    if (testing::Test::HasFailure()) break;
  }
  return static_cast<int>(unended.size());
}

void RolloutChecks::ExpectRetiredGone(client::Client& client) {
  v1::GenerationsListRequest list;
  list.set_collection(kRollout);
  const auto generations = client.ListGenerations(list);
  ASSERT_TRUE(generations.ok()) << generations.status();
  for (const v1::GenerationInfo& g : generations->generations()) {
    if (Retired(g.generation())) {
      EXPECT_EQ(g.items(), 0u) << "of retired generation " << g.generation();
    }
  }
  v1::CollectionsGetRequest get;
  get.set_name(kRollout);
  const auto collection = client.GetCollection(get);
  ASSERT_TRUE(collection.ok()) << collection.status();
  for (const auto& segment : collection->collection().segments()) {
    EXPECT_FALSE(Retired(segment.generation())) << "segment " << segment.id() << " of " << segment.generation();
  }
  for (const auto& [item, stored] : gallery_) EXPECT_EQ(InUse(stored.generations), stored.generations) << item;
}

}  // namespace lightcone

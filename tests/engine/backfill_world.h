// A collection whose items are embedded anew by workers, as the tests of the lazy backfill need it.
#pragma once

#include <functional>
#include <thread>

#include "engine_testing.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/collection/meta.h"
#include "store/keys.h"
#include "store/store.h"

namespace lightcone::server {

using Code = absl::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

constexpr absl::Duration kLong = absl::Hours(1);

class Backfills : public EngineTest {
 protected:
  BackfillStatus Start(const std::string& head = "", uint32_t head_generation = 0) {
    const auto started = engine_->StartBackfill({"", "c", head, head_generation});
    EXPECT_TRUE(started.ok()) << started.status();
    return Settled();
  }
  // Once the ordering is over.
  BackfillStatus Settled() {
    while (true) {
      const auto status = engine_->GetBackfill("c");
      EXPECT_TRUE(status.ok()) << status.status();
      if (!status.ok() || status->state != BackfillState::kOrdering) return *status;
      std::this_thread::yield();
    }
  }
  LeaseAnswer Lease(int64_t items, absl::Duration timeout = kLong, const std::string& finished = "") {
    const auto answer = engine_->LeaseBackfill({"c", items, timeout, finished});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : LeaseAnswer();
  }
  // A restart that finds the backfill's record changed by `change`.
  void RestartWith(const std::function<void(BackfillRecord*)>& change) {
    EditStore([&](Store* store, WriteBatch* batch) {
      const std::string key = keys::Meta(BackfillName(1));
      BackfillRecord record = *DecodeBackfill(*store->Get(Table::kMeta, key));
      change(&record);
      batch->Put(Table::kMeta, key, Encode(record));
    });
    Restart();
  }
  static std::vector<std::string> Names(const LeaseAnswer& answer) {
    std::vector<std::string> names;
    for (const LeasedItem& item : answer.items) names.push_back(StrCat(ToString(item.id), "@", item.generation));
    return names;
  }
  // Embeds leased items anew at the point (1, 1, 0, 0).
  WriteResult Embed(const LeaseAnswer& lease) {
    std::vector<UpsertItem> items;
    for (const LeasedItem& leased : lease.items) {
      items.push_back(ItemOf(leased.id, {1, 1, 0, 0}));
      items.back().expected_sequence = leased.sequence;
    }
    const auto written = engine_->Upsert(BatchOf(std::move(items), lease.generation, /*same_content=*/true), {});
    EXPECT_TRUE(written.ok()) << written.status();
    return written.ok() ? *written : WriteResult();
  }
  std::vector<std::vector<float>> FillRandomly(int count, uint32_t generation, uint32_t seed = 3) {
    std::mt19937 random(seed);
    std::vector<std::vector<float>> rows;
    std::vector<UpsertItem> items;
    for (int i = 0; i < count; ++i) {
      rows.push_back(RandomVector(&random, kDimension, i % 3 == 0 ? 0.2f : 1.0f));
      items.push_back(ItemOf(Id(static_cast<uint64_t>(i)), rows.back()));
    }
    Write(BatchOf(std::move(items), generation));
    return rows;
  }
};

}  // namespace lightcone::server

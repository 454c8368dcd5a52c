// The status of a backfill answers at once, whatever its other calls wait for on the disk.
#include <atomic>
#include <future>

#include "backfill_world.h"
#include "server/engine/core/engine_impl.h"
#include "tests/engine/forwarding_store.h"

namespace lightcone::server {
namespace {

enum class Disk { kRuns, kHoldsScans, kHoldsReads, kHoldsWrites };

struct Gate {
  std::atomic<Disk> disk{Disk::kRuns};
  std::atomic<std::thread::id> thread{};  // the one thread that is held
  std::atomic<bool> held{false};
};

// Holds one kind of a thread's calls for as long as `disk` says so.
class SlowStore final : public ForwardingStore {
 public:
  SlowStore(std::unique_ptr<Store> inner, Gate* gate) : ForwardingStore(std::move(inner)), gate_(gate) {}

  absl::Status Write(const WriteBatch& batch, Durability durability) override {
    Hold(Disk::kHoldsWrites);
    return ForwardingStore::Write(batch, durability);
  }
  std::vector<absl::StatusOr<std::string>> MultiGet(Table table, std::span<const std::string> keys) const override {
    Hold(Disk::kHoldsReads);
    return ForwardingStore::MultiGet(table, keys);
  }
  std::unique_ptr<Iterator> Scan(Table table, std::string_view begin, std::string_view end) const override {
    if (table == Table::kOrder) Hold(Disk::kHoldsScans);
    return ForwardingStore::Scan(table, begin, end);
  }

 private:
  void Hold(Disk kind) const {
    if (gate_->disk != kind || gate_->thread.load() != std::this_thread::get_id()) return;
    gate_->held = true;
    while (gate_->disk == kind) std::this_thread::yield();
    gate_->held = false;
  }

  Gate* const gate_;
};

class BackfillStatusTest : public Backfills {
 protected:
  void SetUp() override {
    const EngineOptions options = OptionsFor(folder_.path());
    auto store = OpenStore(options.data_folder + "/store", options.store);
    ASSERT_TRUE(store.ok()) << store.status();
    auto engine = std::make_unique<EngineImpl>(options, std::make_unique<SlowStore>(std::move(*store), &gate_));
    ASSERT_TRUE(engine->Load().ok());
    engine_ = std::move(engine);
    MakeCollection(2);
    FillRandomly(30, 1);
    Activate(2);
    Start();
  }
  // The status while `call` is held by the disk.
  BackfillStatus StatusDuring(Disk disk, const std::function<void()>& call) {
    std::thread caller([&] {
      gate_.thread = std::this_thread::get_id();
      gate_.disk = disk;
      call();
    });
    while (!gate_.held) std::this_thread::yield();
    std::future<BackfillStatus> status = std::async(std::launch::async, [&] { return *engine_->GetBackfill("c"); });
    EXPECT_EQ(status.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "it waits for the disk";
    EXPECT_TRUE(gate_.held);
    gate_.disk = Disk::kRuns;
    caller.join();
    return status.get();
  }

  Gate gate_;
};

TEST_F(BackfillStatusTest, AnswersWhileALeaseScansTheOrder) {
  LeaseAnswer lease;
  const BackfillStatus status = StatusDuring(Disk::kHoldsScans, [&] { lease = Lease(7); });
  EXPECT_EQ(status.state, BackfillState::kRunning);
  EXPECT_EQ(status.items_left, 30u);
  EXPECT_EQ(status.items_leased, 0u);
  EXPECT_EQ(lease.items.size(), 7u);
  EXPECT_EQ(engine_->GetBackfill("c")->items_leased, 7u);
}

TEST_F(BackfillStatusTest, AnswersWhileALeaseReadsItems) {
  const LeaseAnswer before = Lease(4);
  LeaseAnswer lease;
  const BackfillStatus status = StatusDuring(Disk::kHoldsReads, [&] { lease = Lease(7); });
  EXPECT_EQ(status.items_leased, 4u);
  EXPECT_EQ(lease.items.size(), 7u);
}

// A search returned the items of the lease that ends: the store tells which of them are embedded.
TEST_F(BackfillStatusTest, AnswersWhileALeaseIsTakenBack) {
  SearchCall call = SearchFor({1, 1, 0, 0}, 3);
  call.exact = false;
  const std::vector<std::string> returned = HitNames(call);
  const LeaseAnswer before = Lease(3);
  ASSERT_EQ(Names(before), returned);
  LeaseAnswer lease;
  const BackfillStatus status = StatusDuring(Disk::kHoldsReads, [&] { lease = Lease(30, kLong, before.token); });
  EXPECT_EQ(status.items_leased, 0u) << "the lease has ended";
  EXPECT_EQ(lease.items.size(), 30u);
}

TEST_F(BackfillStatusTest, AnswersWhileAPauseIsWritten) {
  const BackfillStatus status =
      StatusDuring(Disk::kHoldsWrites, [&] { EXPECT_TRUE(engine_->PauseBackfill("c", "").ok()); });
  EXPECT_EQ(status.state, BackfillState::kRunning) << "the pause is not in the store yet";
  EXPECT_EQ(engine_->GetBackfill("c")->state, BackfillState::kPaused);
}

TEST_F(BackfillStatusTest, AnswersWhileTheOrderIsWritten) {
  const BackfillStatus status = StatusDuring(Disk::kHoldsWrites, [&] {
    EXPECT_TRUE(engine_->StartBackfill({"", "c", "", 0}).ok());
  });
  EXPECT_EQ(status.items_left, 30u);
  EXPECT_EQ(Settled().state, BackfillState::kRunning);
  EXPECT_EQ(Lease(100).items.size(), 30u);
}

}  // namespace
}  // namespace lightcone::server

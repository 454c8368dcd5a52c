// Acceptance: a server is killed with -9 at random points of activation, rollback, backfill, validation and retirement,
// while writers, workers and searchers go on. After each restart every acknowledged write is there, no deleted item is
// back, every view holds each item exactly once and with its newest content, an operator's call took place as a whole
// or not at all, and jobs and backfill go on by themselves; at the end everything is embedded anew and the space of
// what was retired is free. LIGHTCONE_ROLLOUT_KILLS: how often it is killed; LIGHTCONE_ROLLOUT_SEED: another course of
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"
#include "cli/child_server.h"
#include "store/keys.h"
#include "store/store.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/rollout_checks.h"

namespace lightcone {
namespace {

constexpr int kWriters = 4;
constexpr int kWorkers = 2;
constexpr int kProbes = 40;
constexpr uint64_t kItems = kWriters * kItemsOfAWriter;
// In microseconds, after a call was sent: into the call, its fsync, its publication, the job that it began.
constexpr int64_t kIntoTheCall[] = {1, 500, 2'000, 8'000, 40'000};

int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* const text = getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

class RolloutCrashTest : public testing::Test {
 protected:
  RolloutCrashTest() {
    for (int i = 0; i < kWriters; ++i) writers_.push_back(std::make_unique<RolloutWriter>(i, &world_));
    for (int i = 0; i < kWorkers; ++i) workers_.push_back(std::make_unique<LeaseWorker>(seed_ + 100 + i, &world_));
  }

  void StartServer() {
    const absl::Time begin = absl::Now();
    auto server =
        cli::ChildServer::Start(LIGHTCONE_BINARY_DIR "/bin/lightcone", data_,
                                {"--log-level", "warning", "--helper-niceness", "0"}, /*patience=*/absl::Minutes(5));
    ASSERT_TRUE(server.ok()) << server.status();
    restart_ms_.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
    server_ = std::move(*server);
    client_ = ClientAt(server_->address());
  }

  void MakeCollection() {
    v1::CreateRequest create;
    create.set_name(kRollout);
    create.set_geometry(v1::GEOMETRY_LORENTZ);
    create.set_curvature(1.0);
    create.mutable_index()->set_kind(v1::INDEX_KIND_HNSW);
    create.mutable_index()->set_growing_rows_max(100);
    create.mutable_index()->set_merge_rows_max(400);
    ASSERT_TRUE(client_->CreateCollection(create).ok());
    Operate({.step = Step::kRegister, .generation = 1});
    Operate({.step = Step::kActivate, .generation = 1, .force = false});
    v1::PutProbesRequest put;
    put.set_collection(kRollout);
    put.set_name("daily");
    put.set_label_field("class");
    for (uint64_t i = 0; i < kProbes; ++i) {
      v1::Probe* const probe = put.add_probes();
      *probe->mutable_input() = world_.content.InputOf(i, 1);
      probe->mutable_label()->set_text(StrCat("c", i % kClasses));
    }
    const auto probes = client_->PutProbes(put);
    ASSERT_TRUE(probes.ok()) << probes.status();
  }

  void Operate(const OperatorCall& call) {
    const absl::Status status = operator_.Send(*client_, call);
    EXPECT_TRUE(status.ok()) << NameOf(call.step) << " " << call.generation << ": " << status;
  }

  // Everybody works until the kill.
  void WorkUntilKilled() {
    const std::string address = server_->address();
    world_.meter.Begin();
    const int64_t acknowledged = world_.meter.acknowledged(), sent = world_.meter.sent();
    std::vector<std::thread> threads;
    for (const auto& writer : writers_) threads.emplace_back([&] { writer->Run(address); });
    for (const auto& worker : workers_) threads.emplace_back([&] { worker->Run(address); });
    threads.emplace_back([&] { searcher_.Run(address); });
    threads.emplace_back([&] { operator_.Run(address); });
    if (random_() % 4 == 0) {
      EXPECT_TRUE(world_.meter.AwaitAcknowledged(acknowledged + 30 + static_cast<int64_t>(random_() % 150)))
          << world_.meter.acknowledged() - acknowledged << " writes acknowledged";
    } else {
      EXPECT_TRUE(world_.meter.AwaitSent(sent + 1 + static_cast<int64_t>(random_() % 24)))
          << world_.meter.sent() - sent << " calls sent, " << world_.meter.acknowledged() - acknowledged
          << " writes acknowledged";
      const int64_t most = kIntoTheCall[random_() % std::size(kIntoTheCall)];
      absl::SleepFor(absl::Microseconds(static_cast<int64_t>(random_() % static_cast<uint64_t>(most))));
    }
    server_->Kill();
    world_.meter.End();
    for (std::thread& thread : threads) thread.join();
  }

  void CheckAfterRestart() {
    operator_.Settle(*client_);
    checks_.ReadGallery(*client_, Work::kUnderWay);
    for (const auto& writer : writers_) ExpectKept(writer->oracle(), [&](uint64_t item) { return VersionOf(item); });
    checks_.ExpectEmbeddings();
    checks_.ExpectViews(*client_, Work::kUnderWay);
    if (HasFailure()) return;
    jobs_gone_on_ += checks_.AwaitOwnWork(*client_);
    checks_.ReadGallery(*client_, Work::kEnded);
    checks_.ExpectEmbeddings();
    checks_.ExpectViews(*client_, Work::kEnded);
    checks_.ExpectRetiredGone(*client_);
    if (random_() % 4 == 0) CheckWayBack();
  }

  Version VersionOf(uint64_t item) const {
    const auto found = checks_.gallery().find(item);
    return found == checks_.gallery().end() ? 0 : found->second.version;
  }

  // A rollback serves no older content, and neither does the way forward. A backfill that the server does itself goes
  // on as soon as its generation is back, so that it may be under way.
  void CheckWayBack() {
    const Line& line = operator_.line();
    if (line.earlier.empty()) return;
    const uint32_t active = line.active;
    Operate(operator_.RollbackCall());
    checks_.ExpectView(*client_, line.active, /*as_active=*/true, Work::kUnderWay);
    Operate({.step = Step::kActivate, .generation = active});
    checks_.ExpectView(*client_, line.active, /*as_active=*/true, Work::kUnderWay);
  }

  // Nobody writes any more: the newest generation embeds everything, and all others are retired.
  void FinishRollout() {
    const uint32_t newest = operator_.line().Live().back();
    Operate({.step = Step::kActivate, .generation = newest});
    Operate({.step = Step::kStart, .generation = newest, .embed_rate = 1e6});
    world_.meter.Begin();
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) threads.emplace_back([&] { worker->Run(server_->address()); });
    AwaitBackfilled(newest);
    world_.meter.End();
    for (std::thread& thread : threads) thread.join();
    for (const uint32_t g : operator_.line().Live()) {
      if (g != newest) Operate({.step = Step::kRetire, .generation = g});
    }
    checks_.AwaitOwnWork(*client_);
    checks_.ReadGallery(*client_, Work::kEnded);
    checks_.ExpectEmbeddings();
    checks_.ExpectViews(*client_, Work::kEnded);
    checks_.ExpectRetiredGone(*client_);
    for (const auto& [item, stored] : checks_.gallery()) EXPECT_EQ(stored.generations, std::vector<uint32_t>{newest});
  }

  void AwaitBackfilled(uint32_t generation) {
    v1::StatusRequest request;
    request.set_collection(kRollout);
    for (const absl::Time limit = absl::Now() + absl::Minutes(2);; absl::SleepFor(absl::Milliseconds(2))) {
      const auto status = client_->BackfillStatus(request);
      ASSERT_TRUE(status.ok()) << status.status();
      ASSERT_LT(absl::Now(), limit) << status->ShortDebugString();
      for (int i = 0; i < 5; ++i) world_.meter.Acknowledged();  // workers wait for writes between leases
      if (status->state() != v1::BACKFILL_STATE_DONE) continue;
      EXPECT_EQ(status->generation(), generation);
      EXPECT_EQ(status->items_done(), status->items_total());
      EXPECT_EQ(status->items_total(), checks_.gallery().size());
      return;
    }
  }

  // In the folder of a server that has ended: what every generation but `newest` has left there.
  void ExpectSpaceIsFree(uint32_t newest) {
    const auto store = OpenStore(data_ + "/store");
    ASSERT_TRUE(store.ok()) << store.status();
    const auto count = [&](Table table, const keys::Range& range) {
      size_t keys = 0;
      for (const auto rows = (*store)->Scan(table, range.begin, range.end); rows->Valid(); rows->Next()) ++keys;
      return keys;
    };
    constexpr uint32_t kNumber = 1;  // of the only collection
    EXPECT_EQ(count(Table::kEmbeddings, keys::CollectionRange(kNumber)), checks_.gallery().size());
    EXPECT_EQ(count(Table::kEmbeddings, keys::GenerationRange(kNumber, newest)), checks_.gallery().size());
    EXPECT_EQ(count(Table::kItems, keys::ItemRange(kNumber)), checks_.gallery().size());
    EXPECT_EQ(count(Table::kItems, keys::InternalIdRange(kNumber)), checks_.gallery().size());
    const auto inputs = std::count_if(checks_.gallery().begin(), checks_.gallery().end(),
                                      [](const auto& entry) { return KeepsInput(entry.first); });
    EXPECT_EQ(count(Table::kInputs, keys::CollectionRange(kNumber)), static_cast<size_t>(inputs));
    EXPECT_EQ(count(Table::kOrder, keys::CollectionRange(kNumber)), 0u);
    std::vector<std::string> encoders;
    for (const auto& file : std::filesystem::directory_iterator(data_ + "/encoders/1")) {
      encoders.push_back(file.path().filename().string());
    }
    EXPECT_THAT(encoders, testing::ElementsAre(StrCat(newest, ".pt")));
  }

  void Report(int64_t kills) const;

  const uint64_t seed_ = static_cast<uint64_t>(NumberFrom("LIGHTCONE_ROLLOUT_SEED", 1));
  std::mt19937_64 random_{seed_};
  TemporaryFolder folder_;
  const std::string data_ = folder_ / "data";
  RolloutWorld world_{folder_.path(), kItems};
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  std::vector<std::unique_ptr<RolloutWriter>> writers_;
  std::vector<std::unique_ptr<LeaseWorker>> workers_;
  Searcher searcher_{seed_ + 200, kItems, &world_};
  RolloutOperator operator_{seed_ + 300, &world_};
  RolloutChecks checks_{&world_, &operator_.line(), kItems};
  std::vector<double> restart_ms_;
  int jobs_gone_on_ = 0;
};

void RolloutCrashTest::Report(int64_t kills) const {
  int64_t embedded = 0, outdated = 0;
  for (const auto& worker : workers_) {
    embedded += worker->embedded();
    outdated += worker->outdated();
  }
  std::vector<double> restarts(restart_ms_.begin() + 1, restart_ms_.end());
  std::sort(restarts.begin(), restarts.end());
  std::printf("%lld kills; %lld writes acknowledged, %lld items embedded under a lease (%lld outdated), %lld answers\n",
              static_cast<long long>(kills), static_cast<long long>(world_.meter.acknowledged()),
              static_cast<long long>(embedded), static_cast<long long>(outdated),
              static_cast<long long>(searcher_.answers()));
  const auto number = [](const std::map<Step, int64_t>& counts, Step step) {
    const auto found = counts.find(step);
    return static_cast<long long>(found == counts.end() ? 0 : found->second);
  };
  for (int i = 0; i <= static_cast<int>(Step::kRetire); ++i) {
    const Step step = static_cast<Step>(i);
    std::printf("%8s: %lld done, %lld refused, %lld cut off\n", NameOf(step).c_str(), number(operator_.done(), step),
                number(operator_.refused(), step), number(operator_.cut_off(), step));
  }
  std::printf("%lld calls cut off had taken place; %d jobs went on after a restart\n",
              static_cast<long long>(operator_.cut_off_applied()), jobs_gone_on_);
  if (restarts.empty()) return;
  std::printf("restarts: median %.0f ms, longest %.0f ms\n", restarts[restarts.size() / 2], restarts.back());
}

TEST_F(RolloutCrashTest, NothingIsLostStaleOrHalfDoneAndWhatWasBegunGoesOnByItself) {
  const int64_t kills = NumberFrom("LIGHTCONE_ROLLOUT_KILLS", 12);
  StartServer();
  ASSERT_FALSE(HasFatalFailure());
  MakeCollection();
  for (int64_t kill = 1; kill <= kills && !HasFailure(); ++kill) {
    WorkUntilKilled();
    ASSERT_FALSE(HasFailure()) << "before kill " << kill;
    StartServer();
    ASSERT_FALSE(HasFatalFailure()) << "after kill " << kill;
    CheckAfterRestart();
    ASSERT_FALSE(HasFailure()) << "after kill " << kill;
  }
  const int64_t acknowledged = world_.meter.acknowledged();
  Report(kills);
  FinishRollout();
  ASSERT_FALSE(HasFailure()) << "at the end";
  EXPECT_EQ(server_->Terminate(), 0);
  ExpectSpaceIsFree(operator_.line().active);
  EXPECT_GE(acknowledged, kills);
}

}  // namespace
}  // namespace lightcone

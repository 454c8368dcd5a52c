#include "tests/system/disk_calls_workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/engine/engine_testing.h"
#include "tests/system/power_judge.h"
#include "tests/system/power_oracle.h"
#include "tests/system/power_workload.h"

namespace lightcone {
namespace {

using server::Engine;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGoOnMax{5};  // from the end of a fault to the step's success
constexpr std::chrono::milliseconds kRetryAfter{5};
constexpr absl::Duration kStepMax = absl::Seconds(2);  // the least time after which a step that waits gives up
constexpr int64_t kGrowingRows = 16;                   // few, so that segments are sealed and built
constexpr uint64_t kWrites = 96;
constexpr std::string_view kActions = "uuekupudukeuf";  // as in kPowerActions, without what a clock ends
constexpr uint64_t kStepEvents = 1'000'000;             // numbers of the operator's steps, behind those of the writes

// What an error of the disk is told by.
bool NamesFault(const absl::Status& status) {
  static constexpr std::string_view kNames[] = {"No space left on device", "Input/output error", "I/O error",
                                                "the disk is full"};
  const std::string message = MessageOf(status);
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&message](std::string_view name) { return message.find(name) != std::string::npos; });
}

// It asks for a restart: the log may have lost a record.
bool AsksForRestart(const absl::Status& status) {
  return MessageOf(status).find("read-only since an I/O error") != std::string::npos;
}

class DiskWorkload {
 public:
  DiskWorkload(const DiskPlan& plan, DiskFaults* faults)
      : plan_(plan), faults_(faults), notes_(plan.notes, std::ios::app), random_(1) {}

  void Run() {
    Open();
    SetUp();
    for (uint64_t write = 1; write <= kWrites; ++write) {
      Write(write);
      if (write % 16 == 0) Read();
      switch (write) {
        case 24:
          Activate(kPowerNewGeneration);
          break;
        case 32:
          Rebuild();
          break;
        case 40:
          Copy("a");
          Bring("a");
          break;
        case 48:
          Activate(kPowerGeneration);
          break;
        case 56:
          Restart();
          break;
        case 64:
          Drop();
          Copy("b");
          Remove("a");
          break;
        case 72:
          Bring("b");
          break;
        case 80:
          Rebuild();
          break;
        default:
          break;
      }
    }
    engine_.reset();
  }

 private:
  bool Struck() const { return faults_->failed.load() > 0; }
  bool Full() const { return faults_->error.load() == ENOSPC && faults_->count.load() > 0; }

  void Note(const std::string& note) { notes_ << note << std::endl; }

  // Without the end that a close would make.
  [[noreturn]] void End() {
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }

  // Makes a step until it succeeds. `call(again)` is told whether an earlier try failed.
  template <typename Call>
  void Try(const std::string& name, const Call& call) {
    SCOPED_TRACE(name);
    bool again = false;
    for (SteadyClock::time_point begin = SteadyClock::now();; again = true) {
      const absl::Status status = call(again);
      if (status.ok()) return;
      std::printf("%s: %s\n", name.c_str(), status.ToString().c_str());
      if (!again) begin = SteadyClock::now();
      MeetRefusal(status, again);
      if (Full()) {
        faults_->count = 0;
        begin = SteadyClock::now();
      }
      if (SteadyClock::now() - begin > kGoOnMax) {
        ADD_FAILURE() << "it is still refused seconds after the end of the fault: " << status;
        End();
      }
      if (engine_ != nullptr && AsksForRestart(status)) {
        EXPECT_NE(faults_->error.load(), ENOSPC) << "a full disk needs no restart: " << status;
        Reopen();
      } else if (again) {
        std::this_thread::sleep_for(kRetryAfter);
      }
    }
  }

  void MeetRefusal(const absl::Status& status, bool again) {
    EXPECT_TRUE(Struck()) << "nothing has failed: " << status;
    EXPECT_TRUE(NamesFault(status)) << "what failed is not named: " << status;
    if (!again) ExpectReadable();
    if (plan_.ends_struck || testing::Test::HasFailure()) End();
  }

  // Everything that was acknowledged is read, and nothing of the write under way or all of it.
  void ExpectReadable() {
    if (engine_ == nullptr || active_.empty()) return;
    const auto collection = engine_->GetCollection(kPowerCollection);
    ASSERT_TRUE(collection.ok()) << collection.status();
    const uint32_t active = collection->active_generation;
    EXPECT_TRUE(std::count(active_.begin(), active_.end(), active) > 0) << "generation " << active << " is active";
    std::vector<std::vector<PowerState>> states(kPowerWriters, {PowerState()});
    states[0] = {state_, next_};
    (void)ExpectItems(*engine_, kPowerCollection, states, active);
  }

  void Open() {
    Try("open", [this](bool) {
      auto opened = Engine::Open(PowerOptions(PowerDataOf(plan_.base)));
      if (!opened.ok()) return opened.status();
      const absl::Status started = (*opened)->snapshots().Start({});
      if (started.ok()) engine_ = std::move(*opened);
      return started;
    });
  }

  void Reopen() {
    engine_.reset();
    Open();
    ExpectReadable();
  }

  void Restart() {
    engine_.reset();
    Open();
    Read();
  }

  template <typename Call>
  void Do(const std::string& what, const std::string& argument, const Call& call) {
    const uint64_t number = ++events_;
    const std::string note = NoteOfEvent(number, what, argument);
    Note(note);
    Try(note, call);
    Note(NoteOfDone(number));
  }

  void SetUp() {
    Do("setup", "1", [this](bool again) {
      server::CreateCollectionCall call;
      call.name = kPowerCollection;
      call.index.growing_rows_max = kGrowingRows;
      return Unless(again && engine_->GetCollection(kPowerCollection).ok(),
                    [&] { return engine_->CreateCollection(call).status(); });
    });
    for (uint32_t made = 0; made < kPowerNewGeneration; ++made) {
      Do("setup", StrCat(2 + made), [this, made](bool again) {
        const auto there = engine_->ListGenerations(kPowerCollection);
        if (!there.ok()) return there.status();
        server::RegisterCall call;
        call.collection = kPowerCollection;
        call.manifest_json = server::ManifestFor(kPowerDimension);
        call.parent = made;
        return Unless(again && there->size() > made, [&] { return engine_->RegisterGeneration(call).status(); });
      });
    }
    Activate(kPowerGeneration);
  }

  // A step that failed may have been made all the same.
  template <typename Call>
  static absl::Status Unless(bool made, const Call& call) {
    return made ? absl::OkStatus() : call();
  }

  void Activate(uint32_t generation) {
    if (!active_.empty()) active_.push_back(generation);
    Do("activate", StrCat(generation), [this, generation](bool again) {
      const auto collection = engine_->GetCollection(kPowerCollection);
      if (!collection.ok()) return collection.status();
      server::ActivateCall call;
      call.collection = kPowerCollection;
      call.generation = generation;
      call.force = !active_.empty();
      call.reason = call.force ? "a test" : "";
      return Unless(again && collection->active_generation == generation,
                    [&] { return engine_->ActivateGeneration(call).status(); });
    });
    active_ = {generation};
  }

  void Write(uint64_t number) {
    const PowerCall call = CallOf(number);
    next_ = state_;
    ApplyCall(call, &next_);
    const std::string note = NoteOfCall(call);
    Note(note);
    Try(note, [&](bool) { return MakePowerCall(engine_.get(), call, state_, &random_); });
    Note(NoteOfDone(number));
    state_ = next_;
  }

  PowerCall CallOf(uint64_t number) const {
    PowerCall call;
    call.number = call.version = number;
    call.durable = number % 5 != 0;
    call.action = static_cast<PowerAction>(kActions[number % kActions.size()]);
    if (call.action == PowerAction::kDeleteByFilter) {
      call.version = number % kPowerGroups;
      return call;
    }
    const bool any = call.action == PowerAction::kUpsert || call.action == PowerAction::kDelete;
    for (uint64_t i = 0; i < 1 + number % 6; ++i) {
      const uint64_t item = (number * 7 + i * 11) % kPowerItems;
      const auto found = state_.find(item);
      const bool fits = found != state_.end() && !(call.action == PowerAction::kEmbed && found->second.embedded);
      if (any || fits) call.items.push_back(item);
    }
    if (!call.items.empty()) return call;
    call.action = PowerAction::kUpsert;
    call.items = {number % kPowerItems};
    return call;
  }

  void Read() {
    Try("read", [this](bool) {
      std::vector<ItemId> ids;
      for (uint64_t item = 0; item < kPowerItems; ++item) ids.push_back(ItemId{item});
      LC_RETURN_IF_ERROR(engine_->Get(kPowerCollection, ids, 0, true, {}).status());
      return engine_->Scroll(kPowerCollection, {}, 1'000, "", true, {}).status();
    });
    ExpectReadable();
  }

  void Rebuild() {
    Try("rebuild", [this](bool) {
      server::CallContext context;
      context.deadline = absl::Now() + kStepMax;
      const auto rebuilt = engine_->Rebuild(kPowerCollection, IndexChange(), /*wait=*/true, "", context);
      // The builder tries again by itself. What it met is in the log.
      if (absl::IsDeadlineExceeded(rebuilt.status()) && Struck()) return Unavailable("rebuild: I/O error");
      return rebuilt.status();
    });
  }

  void Copy(const std::string& name) {
    Do("snap", name, [&](bool) { return engine_->snapshots().Create({name, name}, {}).status(); });
  }

  void Remove(const std::string& name) {
    Do("unsnap", name, [&](bool again) {
      const absl::Status removed = engine_->snapshots().Delete(name);
      return Unless(again && absl::IsNotFound(removed), [&] { return removed; });
    });
  }

  void Bring(const std::string& name) {
    Do("bring", name, [&](bool again) {
      server::RestoreCollectionCall call;
      call.snapshot = name;
      call.collection = kPowerCollection;
      call.name = kPowerBeside;
      const auto brought = engine_->snapshots().RestoreCollection(call, {});
      return Unless(again && absl::IsAlreadyExists(brought.status()), [&] { return brought.status(); });
    });
  }

  void Drop() {
    Do("drop", kPowerBeside, [&](bool again) {
      const absl::Status dropped = engine_->DropCollection(kPowerBeside, "");
      return Unless(again && absl::IsNotFound(dropped), [&] { return dropped; });
    });
  }

  const DiskPlan plan_;
  DiskFaults* const faults_;
  std::ofstream notes_;
  std::mt19937_64 random_;
  std::unique_ptr<Engine> engine_;
  uint64_t events_ = kStepEvents;
  PowerState state_, next_;       // what was acknowledged, and with the write under way
  std::vector<uint32_t> active_;  // generations one of which is active; empty: none is yet
};

}  // namespace

void RunDiskPlan(const DiskPlan& plan, DiskFaults* faults) { DiskWorkload(plan, faults).Run(); }

}  // namespace lightcone

#include "tests/system/power_workload.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/status.h"
#include "snapshot/restore.h"
#include "tests/engine/engine_testing.h"
#include "tests/system/power_log.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

using server::Engine;
using server::UpsertBatch;
using server::UpsertItem;

constexpr size_t kBatchItemsMax = 8;
constexpr size_t kTextBytesMax = 1'500;  // of a payload, so that a batch spans pages of the store's log
constexpr uint64_t kTtlMsMax = 300;
constexpr size_t kSnapshotsMax = 2;
constexpr int64_t kGrowingRowsMax = 100;
constexpr int kCyclesMin = 5;  // of the operator: more than there are snapshots, so that old ones go
constexpr uint64_t kCallsFactorMax = 8;

void Note(const std::string& text) {
  using Function = void(const char*, size_t);
  static const auto note = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, kPowerNoteFunction));
  if (note == nullptr) {
    std::cerr << "the recorder is not preloaded\n";
    std::_Exit(11);
  }
  note(text.data(), text.size());
}

// Ends the process: what failed must not.

void Check(const absl::Status& status, const std::string& note) {
  if (status.ok()) return;
  std::cerr << note << ": " << status << "\n";
  std::_Exit(12);
}

ItemId IdOf(uint64_t item) { return ItemId{item}; }

std::string PayloadOf(int writer, uint64_t version, size_t text_bytes) {
  return StrCat("{\"key\":\"", PowerKey(writer, version % kPowerGroups), "\",\"version\":", version, ",\"text\":\"",
                std::string(text_bytes, 'x'), "\"}");
}

Durability DurabilityOf(const PowerCall& call) { return call.durable ? Durability::kDurable : Durability::kProcess; }

absl::Status Upsert(Engine* engine, const PowerCall& call, const PowerState& state, std::mt19937_64* random) {
  const bool embeds = call.action == PowerAction::kEmbed;
  UpsertBatch batch;
  batch.collection = kPowerCollection;
  batch.generation = embeds ? kPowerNewGeneration : kPowerGeneration;
  batch.same_content = embeds;
  batch.keep_payload = call.action == PowerAction::kKeepPayload;
  batch.durability = DurabilityOf(call);
  for (const uint64_t id : call.items) {
    UpsertItem item;
    item.id = IdOf(id);
    // Items of a batch have one version. Their vectors differ by the item.
    const uint64_t version = embeds ? state.at(id).version : call.version;
    item.content = PowerVector(version * kPowerIdStep + id, batch.generation);
    if (!embeds && !batch.keep_payload) {
      item.payload_json = PayloadOf(call.writer, call.version, (*random)() % kTextBytesMax);
      item.ttl_ms = call.action == PowerAction::kUpsertWithTtl ? static_cast<int64_t>(1 + (*random)() % kTtlMsMax) : 0;
    }
    batch.items.push_back(std::move(item));
  }
  return engine->Upsert(std::move(batch), {}).status();
}

class PowerWriter {
 public:
  PowerWriter(Engine* engine, const PowerPlan& plan, int number, PowerState state)
      : engine_(engine),
        number_(number),
        calls_(plan.calls),
        state_(std::move(state)),
        random_(plan.seed * 31 + plan.round * 7 + static_cast<uint64_t>(number)),
        version_(plan.round * 1'000'000 + static_cast<uint64_t>(number) * 500'000) {}

  // Writes on until the operator has done enough beside it, within a limit.
  void Run(const std::atomic<int>& cycles) {
    for (uint64_t i = 0; i < calls_ || (cycles < kCyclesMin && i < kCallsFactorMax * calls_); ++i) {
      const PowerCall call = NextCall();
      const std::string note = NoteOfCall(call);
      Note(note);
      Check(MakePowerCall(engine_, call, state_, &random_), note);
      Note(NoteOfDone(call.number));
      ApplyCall(call, &state_);
    }
  }

 private:
  // Items of which `wanted` is true, at most a batch. Without one the call becomes an upsert.
  template <typename Wanted>
  std::vector<uint64_t> Choose(const Wanted& wanted) {
    std::set<uint64_t> chosen;
    const size_t count = 1 + random_() % kBatchItemsMax;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t id = static_cast<uint64_t>(number_) * kPowerIdStep + random_() % kPowerItems;
      if (wanted(id)) chosen.insert(id);
    }
    return {chosen.begin(), chosen.end()};
  }

  PowerAction NextAction() {
    const uint64_t share = random_() % 100;
    if (share < 38) return PowerAction::kUpsert;
    if (share < 50) return PowerAction::kUpsertWithTtl;
    if (share < 60) return PowerAction::kKeepPayload;
    if (share < 75) return PowerAction::kEmbed;
    if (share < 85) return PowerAction::kChangePayload;
    return share < 95 ? PowerAction::kDelete : PowerAction::kDeleteByFilter;
  }

  PowerCall NextCall() {
    PowerCall call;
    call.version = ++version_;
    call.number = call.version;
    call.writer = number_;
    call.durable = random_() % 5 != 0;
    call.action = NextAction();
    if (call.action == PowerAction::kDeleteByFilter) {
      call.version = random_() % kPowerGroups;
      return call;
    }
    const bool any = call.action == PowerAction::kUpsert || call.action == PowerAction::kUpsertWithTtl ||
                     call.action == PowerAction::kDelete;
    call.items = Choose([&](uint64_t id) {
      const auto found = state_.find(id);
      // An item that expires may be gone by the time of the call.
      const bool stays = found != state_.end() && !found->second.expires;
      return any || (stays && !(call.action == PowerAction::kEmbed && found->second.embedded));
    });
    if (!call.items.empty()) return call;
    call.action = PowerAction::kUpsert;
    call.items = Choose([](uint64_t) { return true; });
    return call;
  }

  Engine* const engine_;
  const int number_;
  const uint64_t calls_;
  PowerState state_;
  std::mt19937_64 random_;
  uint64_t version_;
};

class PowerOperator {
 public:
  PowerOperator(Engine* engine, const PowerPlan& plan)
      : engine_(engine), plan_(plan), number_(plan.round * 1'000'000 + 900'000) {}

  void SetUp() {
    Check(engine_->snapshots().Start({}), "start of the snapshots");
    if (!engine_->GetCollection(kPowerCollection).ok()) {
      Do("setup", "1", [this] {
        server::CreateCollectionCall call;
        call.name = kPowerCollection;
        call.index.growing_rows_max = kGrowingRowsMax;
        return engine_->CreateCollection(call).status();
      });
    }
    const auto generations = engine_->ListGenerations(kPowerCollection);
    Check(generations.status(), "list of the generations");
    for (uint32_t made = static_cast<uint32_t>(generations->size()); made < kPowerNewGeneration; ++made) {
      Do("setup", StrCat(2 + made), [this, made] {
        server::RegisterCall call;
        call.collection = kPowerCollection;
        call.manifest_json = server::ManifestFor(kPowerDimension);
        call.parent = made;
        return engine_->RegisterGeneration(call).status();
      });
    }
    const auto collection = engine_->GetCollection(kPowerCollection);
    Check(collection.status(), "look at the collection");
    RemoveRestored();
    active_ = collection->active_generation;
    if (active_ == 0) Activate(kPowerGeneration);
  }

  // Until no writer runs, and kCyclesMin times at least.
  void Run(const std::atomic<int>& running, std::atomic<int>* cycles) {
    for (; *cycles < kCyclesMin || running > 0; ++*cycles) {
      if (active_ == kPowerGeneration) {
        Activate(kPowerNewGeneration);
      } else {
        RollBack();
      }
      Copy();
    }
  }

 private:
  template <typename Call>
  void Do(const std::string& what, const std::string& argument, const Call& call) {
    const uint64_t number = ++number_;
    const std::string note = NoteOfEvent(number, what, argument);
    Note(note);
    Check(call(), note);
    Note(NoteOfDone(number));
  }

  void Activate(uint32_t generation) {
    Do("activate", StrCat(generation), [this, generation] {
      server::ActivateCall call;
      call.collection = kPowerCollection;
      call.generation = generation;
      call.force = generation != kPowerGeneration;
      call.reason = call.force ? "a test" : "";
      return engine_->ActivateGeneration(call).status();
    });
    active_ = generation;
  }

  void RollBack() {
    Do("activate", StrCat(kPowerGeneration), [this] {
      server::SwitchCall call;
      call.collection = kPowerCollection;
      call.force = true;
      call.reason = "a test";
      const auto answer = engine_->RollbackGeneration(call);
      if (answer.ok() && answer->generation.generation != kPowerGeneration) return Internal("another generation");
      return answer.status();
    });
    active_ = kPowerGeneration;
  }

  void Forget(const std::string& name) {
    Do("forget", name, [&] {
      std::error_code error;
      fs::remove_all(PowerRestoredOf(plan_.base, name), error);
      return error ? Internal(error.message()) : absl::OkStatus();
    });
  }

  // What earlier rounds restored.
  void RemoveRestored() {
    const std::string start = PowerRestoredOf("", "").substr(1);
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(plan_.base)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(start)) names.push_back(name.substr(start.size()));
    }
    for (const std::string& name : names) Forget(name);
  }

  // A cut may leave it.
  void DropBeside() {
    if (!engine_->GetCollection(kPowerBeside).ok()) return;
    Do("drop", kPowerBeside, [this] { return engine_->DropCollection(kPowerBeside, ""); });
  }

  // Makes a snapshot, restores it beside the engine and its collection within, and removes old ones.
  void Copy() {
    const std::string name = StrCat("r", plan_.round, "-", ++copies_);
    std::string folder;
    Do("snap", name, [&] {
      const auto made = engine_->snapshots().Create({name, name}, {});
      if (made.ok()) folder = made->folder;
      return made.status();
    });
    // Asked again, it is there and lasts. Back beside its original, it changes nothing of that.
    Check(engine_->snapshots().Create({name, name}, {}).status(), "the same snapshot again");
    DropBeside();
    Do("bring", name, [&] {
      server::RestoreCollectionCall back;
      back.snapshot = name;
      back.collection = kPowerCollection;
      back.name = kPowerBeside;
      return engine_->snapshots().RestoreCollection(back, {}).status();
    });
    if (copies_ % 2 == 0) DropBeside();
    const std::string restored = PowerRestoredOf(plan_.base, name);
    Do("restore", name, [&] { return RestoreSnapshot(folder, restored).status(); });
    Forget(name);
    const auto all = engine_->snapshots().List();
    Check(all.status(), "list of the snapshots");
    for (size_t i = 0; i + kSnapshotsMax < all->size(); ++i) {
      const std::string& old = (*all)[i].manifest.name;
      if (old != name) Do("unsnap", old, [&] { return engine_->snapshots().Delete(old); });
    }
  }

  Engine* const engine_;
  const PowerPlan plan_;
  uint64_t number_;
  uint32_t active_ = 0;
  int copies_ = 0;
};

std::vector<PowerState> ReadStates(const std::string& path) {
  std::vector<PowerState> states(kPowerWriters);
  std::ifstream file(path);
  size_t writer = 0;
  uint64_t id = 0;
  PowerItem item;
  while (file >> writer >> id >> item.version >> item.payload >> item.patch >> item.embedded >> item.expires) {
    states.at(writer)[id] = item;
  }
  return states;
}

}  // namespace

std::string PowerDataOf(const std::string& base) { return base + "/data"; }

std::string PowerRestoredOf(const std::string& base, const std::string& snapshot) {
  return StrCat(base, "/restored-", snapshot);
}

server::EngineOptions PowerOptions(const std::string& data) {
  server::EngineOptions options = server::OptionsFor(data);
  options.helper_program.clear();
  options.store.memory_bytes = 16 << 20;
  options.store.reserve_bytes = 0;
  return options;
}

std::vector<float> PowerVector(uint64_t version, uint32_t generation) {
  std::mt19937_64 random(version * 2 + generation);
  std::vector<float> vector(kPowerDimension);
  for (float& value : vector) value = static_cast<float>(random() % 100'000) / 100'000.0f - 0.5f;
  return vector;
}

std::string PowerKey(int writer, uint64_t group) { return StrCat("w", writer, "g", group); }

absl::Status MakePowerCall(Engine* engine, const PowerCall& call, const PowerState& state, std::mt19937_64* random) {
  const Durability durability = DurabilityOf(call);
  std::vector<ItemId> ids;
  for (const uint64_t item : call.items) ids.push_back(IdOf(item));
  switch (call.action) {
    case PowerAction::kDelete:
      return engine->Delete(kPowerCollection, ids, durability, {}).status();
    case PowerAction::kDeleteByFilter: {
      server::DeleteByFilterCall made;
      made.collection = kPowerCollection;
      made.filter = server::Leaf(server::FilterNode::Kind::kEquals, "key", {PowerKey(call.writer, call.version)});
      made.durability = durability;
      const auto answer = engine->DeleteByFilter(made, {});
      if (answer.ok() && !answer->token.empty()) return Internal("one batch did not delete the whole group");
      return answer.status();
    }
    case PowerAction::kChangePayload: {
      server::ChangePayloadCall made;
      made.collection = kPowerCollection;
      made.payload_json = StrCat("{\"patch\":", call.version, "}");
      made.ids = ids;
      made.durability = durability;
      const auto answer = engine->ChangePayload(made, {});
      if (answer.ok() && !answer->missing.empty()) return Internal("an item is missing");
      return answer.status();
    }
    default:
      return Upsert(engine, call, state, random);
  }
}

std::string EncodePowerPlan(const PowerPlan& plan) {
  return StrCat(plan.seed, " ", plan.round, " ", plan.calls, " ", plan.base);
}

void WritePowerStates(const std::string& path, const std::vector<PowerState>& states) {
  std::ofstream file(path);
  for (size_t writer = 0; writer < states.size(); ++writer) {
    for (const auto& [id, item] : states[writer]) {
      file << writer << ' ' << id << ' ' << item.version << ' ' << item.payload << ' ' << item.patch << ' '
           << item.embedded << ' ' << item.expires << '\n';
    }
  }
}

int RunPowerPlan(const std::string& text, const std::string& states) {
  PowerPlan plan;
  std::istringstream words(text);
  words >> plan.seed >> plan.round >> plan.calls >> plan.base;
  if (!words) return 10;
  auto opened = Engine::Open(PowerOptions(PowerDataOf(plan.base)));
  Check(opened.status(), "open");
  std::unique_ptr<Engine> engine = std::move(*opened);
  PowerOperator the_operator(engine.get(), plan);
  the_operator.SetUp();
  std::vector<PowerState> begins = ReadStates(states);
  std::atomic<int> running{kPowerWriters}, cycles{0};
  std::vector<std::thread> writers;
  for (int number = 0; number < kPowerWriters; ++number) {
    writers.emplace_back([&, number] {
      PowerWriter(engine.get(), plan, number, begins[static_cast<size_t>(number)]).Run(cycles);
      --running;
    });
  }
  the_operator.Run(running, &cycles);
  for (std::thread& writer : writers) writer.join();
  engine.reset();
  return 0;
}

}  // namespace lightcone

// What a store must hold after a power cut at any record of a log: the oracle reads the notes that the recorded process
// wrote before and after each of its calls (power_workload.h).
// The calls of one writer follow one another and change items of its own. So its items are in the state after some
// number of its calls: at least those that are durable, at most those that had begun. Anything else is a lost write, a
// deleted item that came back, half a batch, or a write without an earlier one.
// A call is durable once it or a later durable call was acknowledged, by whichever writer: the log is one, and its
// syncs cover all that was acknowledged before. Items with a time to live count as gone: whoever compares sets the
// clock so.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lightcone {

inline constexpr int kPowerWriters = 2;
inline constexpr uint64_t kPowerItems = 30;     // items of one writer
inline constexpr uint64_t kPowerIdStep = 1000;  // writer n owns the ids from n * kPowerIdStep on
inline constexpr uint64_t kPowerGroups = 5;     // groups of items that a filter deletes

// Content of an item. All versions are numbers that are used once.
struct PowerItem {
  uint64_t version = 0;   // the vectors follow from it
  uint64_t payload = 0;   // the payload follows from it
  uint64_t patch = 0;     // number that a change of the payload has set; 0: none
  bool embedded = false;  // by the second generation, too
  bool expires = false;
  bool operator==(const PowerItem&) const = default;
};
using PowerState = std::map<uint64_t, PowerItem>;  // items of one writer by their ids

enum class PowerAction : char {
  kUpsert = 'u',
  kUpsertWithTtl = 't',
  kKeepPayload = 'k',  // a new vector
  kEmbed = 'e',        // the same content by the second generation
  kDelete = 'd',
  kDeleteByFilter = 'f',  // of the group `version`
  kChangePayload = 'p',
};
inline constexpr char kPowerActions[] = "utkedfp";

struct PowerCall {
  uint64_t number = 0;
  int writer = 0;
  PowerAction action = PowerAction::kUpsert;
  bool durable = true;
  uint64_t version = 0;
  std::vector<uint64_t> items = {};
};

void ApplyCall(const PowerCall& call, PowerState* state);

// The notes. An operator's events are "setup" STEP, "activate" GENERATION, "snap" NAME, "unsnap" NAME, "restore" NAME
// and "forget" NAME, of what was restored, "bring" NAME and "drop" NAME, of the collection that a snapshot brings back
// beside the original; they follow one another.
std::string NoteOfCall(const PowerCall& call);
std::string NoteOfEvent(uint64_t number, const std::string& what, const std::string& argument);
std::string NoteOfDone(uint64_t number);

class PowerOracle {
 public:
  // A copy of everything at one moment: of each writer the states that it may have.
  struct Copy {
    std::vector<std::vector<PowerState>> states;
    uint32_t active = 0;
    bool whole = false;    // its making was acknowledged
    bool removed = false;  // its removal had begun
  };
  // What was found after a cut, which is the truth for what follows.
  struct Seen {
    std::vector<size_t> calls;  // index of each writer's state in States
    int setups = 0;
    uint32_t active = 0;
    std::set<std::string> snapshots, restored;
    bool brought = false;
  };

  PowerOracle() : writers_(kPowerWriters) {}

  // Empty, or what is wrong with the note.
  std::string Read(const std::string& note);

  // After a kill of the process alone, which loses nothing that was acknowledged.
  void KeepAcknowledged();

  // States in which the items of a writer may be, from the oldest to the newest.
  std::vector<PowerState> States(int writer) const;
  int setups() const { return setups_; }  // steps that were acknowledged
  std::set<uint32_t> Actives() const;
  const std::map<std::string, Copy>& snapshots() const { return snapshots_; }
  const std::map<std::string, Copy>& restored() const { return restored_; }
  // The collection that a snapshot brought back beside the original.
  const std::optional<Copy>& brought() const { return brought_; }
  // Acknowledged calls by PowerAction, and events by their name.
  const std::map<std::string, uint64_t>& acknowledged() const { return acknowledged_; }

  void Settle(const Seen& seen);

 private:
  struct Writer {
    PowerState durable;  // after `calls` calls
    uint64_t calls = 0;
    std::deque<PowerCall> open;  // that may be there or not
    bool pending = false;        // The last of them is not acknowledged.
    PowerState newest;           // after all of them
    uint64_t Acknowledged() const { return calls + open.size() - (pending ? 1 : 0); }
  };
  struct Event {
    uint64_t number = 0;  // 0: none is under way
    std::string what, argument;
  };

  void Begin(const PowerCall& call);
  std::string BeginEvent(Event event);
  std::string End(uint64_t number);
  void EndCall(const PowerCall& call);
  static void MakeDurable(Writer* writer, uint64_t calls);

  std::vector<Writer> writers_;
  std::map<uint64_t, std::vector<uint64_t>> covered_;  // durable calls under way: calls of each writer before them
  Event event_;
  int setups_ = 0;
  uint32_t active_ = 0;
  std::map<std::string, Copy> snapshots_, restored_;
  std::optional<Copy> brought_;
  std::map<std::string, uint64_t> acknowledged_;
};

}  // namespace lightcone

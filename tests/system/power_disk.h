// A disk that loses its power: replays the log of a recorded process (power_log.h) and makes a folder of one state in
// which a cut may leave it.
// The model grants no more than POSIX does, but for the order of a folder's changes. fsync() and fdatasync() make the
// bytes and the length of a file durable, and fsync() of a folder its entries; neither does the other's work (IEEE Std
// 1003.1-2017, fsync; fsync(2) of Linux: "Calling fsync() does not necessarily ensure that the entry in the directory
// containing the file has also reached disk"). rename() is atomic (ibid., rename). Everything else may reach the disk
// or not, in any order, as real file systems do: Pillai et al., "All File Systems Are Not Created Equal: On the
// Complexity of Crafting Crash-Consistent Applications", OSDI 2014, whose states after a crash these are:
// - Data that was not synced: each page of 4,096 bytes is as some moment since the sync left it, the last one perhaps
//   torn between two sectors of 512 bytes. The length is any that the file has had since. What was never written is 0.
// - Entries that were not synced: of each folder the first few changes, as journals keep them in order; of two folders
//   in any order. Of a rename from one folder to another, the second one decides.
// A sync covers what happened before it began. Threads: one at a time; const methods are safe concurrently.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/system/power_log.h"

namespace lightcone {

struct PowerRecord {
  PowerKind kind = kPowerNote;
  uint64_t device = 0, inode = 0;
  uint64_t offset = 0, size = 0;
  std::string path = {}, other = {}, data = {};
};

struct PowerRecords {
  std::vector<PowerRecord> records;
  bool whole = true;  // false: the log ends in a record that is torn or damaged, and was left out
};

// A log that cannot be read has no records and is not whole.
PowerRecords ReadPowerLog(const std::string& path);

enum class PowerPolicy {
  kLost,    // nothing that was not synced
  kKept,    // everything
  kRandom,  // a part of it, by the seed
};
const char* PowerPolicyName(PowerPolicy policy);

class PowerDisk {
 public:
  // Begins with the folder's files, all of them durable. The records that follow are of this very folder.
  explicit PowerDisk(const std::string& folder);
  PowerDisk(const PowerDisk&) = delete;
  PowerDisk& operator=(const PowerDisk&) = delete;

  // Empty, or what is wrong with the record.
  std::string Apply(const PowerRecord& record);

  // Makes the folder `to`, which is not there, with what a cut leaves. The same seed gives the same. Empty, or what
  // failed.
  std::string Materialise(const std::string& to, PowerPolicy policy, uint64_t seed) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Entries = std::map<std::string, NodePtr>;
  // A change of a file.
  struct Change {
    PowerKind kind;  // kPowerWrite, kPowerTruncate, kPowerExtend or kPowerZero
    uint64_t offset, size;
    std::string data;
  };
  // A change of a folder: names of one entry that goes and one that comes, at once.
  struct Edit {
    std::string gone, come;          // an empty name stands for none
    NodePtr node;                    // what comes
    uint64_t move = 0;               // number of a rename from one folder to another; 0: none
    std::weak_ptr<Node> other = {};  // the other folder of a move
  };
  struct Node {
    uint64_t number = 0;  // in the order of their creation
    bool is_folder = false;
    std::string synced;           // of a file: its durable bytes
    std::vector<Change> changes;  // of a file: those since its sync
    Entries synced_entries, entries;
    std::vector<Edit> edits;  // of a folder: those since its sync
    uint64_t done = 0;        // number of changes or edits that became durable
  };
  struct Place {
    NodePtr folder;  // null: there is none
    std::string name;
  };
  // A state that is being made.
  struct Cut {
    PowerPolicy policy;
    uint64_t seed;
    std::map<const Node*, std::string> paths;  // of the files that were made
  };

  NodePtr MakeNode(bool is_folder, uint64_t device, uint64_t inode);
  void Scan(const std::string& path, const NodePtr& folder);
  Place Find(const std::string& path) const;
  NodePtr FindNode(const std::string& path) const;
  static void ApplyEdit(const Edit& edit, Entries* entries);
  static void AddEdit(const NodePtr& folder, Edit edit);
  static void ApplyChange(const Change& change, std::string* bytes);
  static void Commit(const NodePtr& node, uint64_t done);

  std::string ApplyToFile(const PowerRecord& record);
  std::string ApplyToFolder(const PowerRecord& record);
  std::string Rename(const PowerRecord& record);
  std::string Sync(const PowerRecord& record);

  static size_t KeptEdits(const Node& folder, const Cut& cut);
  static bool IsKept(const Node& folder, size_t edit, const Cut& cut);
  static std::string PageOf(const Node& file, uint64_t at, size_t changes);
  static std::string BytesOf(const Node& file, const Cut& cut);
  static std::string Write(const Node& folder, const std::string& to, Cut* cut);

  const std::string folder_;
  NodePtr root_;
  std::map<std::pair<uint64_t, uint64_t>, NodePtr> nodes_;  // by device and inode
  std::map<uint64_t, std::pair<NodePtr, uint64_t>> syncs_;  // syncs under way, and what each covers
  uint64_t nodes_made_ = 0, moves_ = 0;
};

// Empty when both folders hold the same names and bytes, or the first difference.
std::string FirstDifference(const std::string& folder, const std::string& other);

}  // namespace lightcone

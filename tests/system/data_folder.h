// A small data folder with something of every kind in it, and the questions whose answers tell whether it is whole.
// Every released format of the data folder is kept below tests/data, written by this code: what it writes is fixed.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/api/engine.h"

namespace lightcone {

// Environment variable with the folder that the test DataFolderWriter.WritesWhereItIsAsked fills.
inline constexpr char kWriteFolderVariable[] = "LIGHTCONE_WRITE_FOLDER";

inline constexpr char kGallery[] = "gallery";  // collection of two generations; "pictures" is its alias
inline constexpr char kSmall[] = "small";      // collection of one generation
inline constexpr char kSnapshot[] = "first";
inline constexpr int kGalleryDimension = 4;    // of generation 1, which has an encoder
inline constexpr int kNewDimension = 8;        // of generation 2, which serves
inline constexpr uint64_t kGalleryItems = 60;  // 1 .. 60, by generation 1; those that 7 divides are deleted
inline constexpr uint64_t kEmbeddedFrom = 31;  // first item that generation 2 embedded, too
inline constexpr uint64_t kNewItem = 71;       // 71 .. 75, by generation 2 alone
inline constexpr uint64_t kLateItem = 81;      // 81 .. 83, by generation 2, written after the snapshot
inline constexpr uint64_t kFewItems = 5;       // of each of these, of items with a name and of collection "small"
inline constexpr uint64_t kLateItems = 3;      // number of late items
inline constexpr uint64_t kInputItem = 100;    // embedded by the encoder of generation 1
inline constexpr uint64_t kPatchedItem = 3;    // payload changed after it was written
inline constexpr uint64_t kInputSeed = 1;      // of the tensor of kInputItem

// Vector of an item by a generation: the same numbers on every machine.
std::vector<float> FolderVector(uint64_t item, uint32_t generation, int dimension);
std::string FolderPayload(uint64_t item);
std::string FolderName(uint64_t item);  // id of an item that has a name

// What the engine answered: an error, or text and numbers.
struct FolderAnswer {
  absl::Status error;
  std::string text;
  std::vector<double> numbers;  // distances, which may differ by rounding
};
using FolderAnswers = std::map<std::string, FolderAnswer>;  // by the question

// Reads everything that callers can read, but for the encoder: every item, pages, counts, facets, searches by the
// items' own vectors, generations, adapters, probes, jobs, the audit log, inputs and snapshots.
FolderAnswers AskFolder(server::Engine& engine);
// Searches alone, which the index answers.
FolderAnswers AskSearches(server::Engine& engine);
// Embeds a query by the encoder of generation 1.
FolderAnswers AskEncoder(server::Engine& engine);
// Waits until the index has read its files through and has mended what is damaged. False: not within a minute.
bool AwaitIndexChecked(server::Engine& engine);

// Empty, or how the answers differ.
std::string CompareAnswers(const FolderAnswer& truth, const FolderAnswer& answer);

std::string EncodeAnswers(const FolderAnswers& answers);  // JSON; answers that are errors are left out
FolderAnswers DecodeAnswers(const std::string& text);

server::EngineOptions FolderOptions(const std::string& folder);

// How a child of this process ended.
struct ChildEnd {
  bool exited = false;  // it ended by itself, with status 0
  std::string how;      // "signal 11", "exit status 3", "no answer within 2m"
  std::string said;     // what `body` returned
};
// Runs `body` in a fork of this process, which must have no other threads, and brings back what it returns.
ChildEnd RunInChild(const std::function<std::string()>& body);

// Runs DataFolderWriter in a process of its own. False: it failed.
bool WriteFolderInChild(const std::string& folder);

}  // namespace lightcone

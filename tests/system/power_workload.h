// The process whose power is cut: writers, and an operator who activates, rolls back, copies and restores, over an
// engine whose folder is recorded. It notes each call in the recorder's log before it and after it (power_oracle.h).
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/api/engine.h"
#include "tests/system/power_oracle.h"

namespace lightcone {

inline constexpr char kPowerCollection[] = "c";
inline constexpr char kPowerBeside[] = "beside";  // what a snapshot brings back of the collection
inline constexpr int kPowerDimension = 4;
inline constexpr uint32_t kPowerGeneration = 1, kPowerNewGeneration = 2;

// The engine's folder is BASE/data. Restored snapshots are folders BASE/restored-NAME.
std::string PowerDataOf(const std::string& base);
std::string PowerRestoredOf(const std::string& base, const std::string& snapshot);

// Small memory and no reserve, so that files change often and the log stays small.
server::EngineOptions PowerOptions(const std::string& data);

// Of the content `version` of an item, by a generation. Norms are at most 1.
std::vector<float> PowerVector(uint64_t version, uint32_t generation);
// What filters select the items of a group by.
std::string PowerKey(int writer, uint64_t group);

// Makes a call of a writer (power_oracle.h) whose items are in `state`. Lengths of payloads and times to live follow
// from `random`. Errors as of the engine's call; INTERNAL where it has done less than it says.
absl::Status MakePowerCall(server::Engine* engine, const PowerCall& call, const PowerState& state,
                           std::mt19937_64* random);

// What a process begins with. It is a line of text.
struct PowerPlan {
  uint64_t seed = 0;
  uint64_t round = 0;  // Rounds of one oracle use names and versions of their own.
  uint64_t calls = 0;  // of each writer
  std::string base;
};
std::string EncodePowerPlan(const PowerPlan& plan);

// Runs a plan. `states` is what the items of each writer are now, in a file by WritePowerStates. The exit status: 0, or
// a number other than 0 after a call failed; stderr has its error.
int RunPowerPlan(const std::string& plan, const std::string& states);

void WritePowerStates(const std::string& path, const std::vector<PowerState>& states);

}  // namespace lightcone

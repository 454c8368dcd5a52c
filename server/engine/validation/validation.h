// A validation ranks the collection's probes in every gallery that the generation would meet, by every way that leads
// there, and decides. It only reads the store. Threads: pure functions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/collection.h"
#include "server/engine/validation/probe_ranking.h"

namespace lightcone::server {

inline constexpr double kToleranceDefault = 0.02;

// One vector a probe. nullopt: the probe has none. Empty: the encoder makes none of its input, so a search would fail.
using ProbeVectors = std::vector<std::optional<std::vector<float>>>;

struct ValidationInput {
  Collection* collection = nullptr;
  std::shared_ptr<const CollectionState> state;
  uint32_t generation = 0;
  double tolerance = kToleranceDefault;
  GateMeasure measure;
  uint32_t reference_generation = 0;  // 0: none
  bool calibrate = true;
  const std::vector<ProbeSet>* sets = nullptr;
  // The vectors of all probes by a generation, embedded if need be.
  std::function<absl::StatusOr<ProbeVectors>(const GenerationRecord& generation)> vectors;
};

// Errors of the store and the encoder; CANCELLED. FAILED_PRECONDITION when the generation is retired.
absl::StatusOr<ValidationReport> RunValidation(const ValidationInput& input, const RankingRun& run);

// OK if a passing report still holds for the collection: its probe sets, the generation's adapters, the generations
// whose items it would meet, and the share of them embedded anew that let it pass. Else the error says what changed.
absl::Status CheckCurrent(const CollectionState& state, const ProgressRecord& progress, uint32_t generation,
                          const ValidationReport& report);

// Share, from 0 to 1, of the items that generation `older` embedded: those that `generation` embedded, too. Items that
// a view of `generation` serves by a generation between both count as neither. 1 where the view serves nothing of
// `older`.
double EmbeddedShare(const ProgressRecord& progress, uint32_t generation, uint32_t older);

// Whether every pair that did not pass names a share, and as much is embedded anew now. False where all pairs passed.
bool ReachesNamedShares(const ProgressRecord& progress, uint32_t generation, const ValidationReport& report);

// Older generations of which a view of `generation` serves items, ascending.
std::vector<uint32_t> OlderHeads(const ProgressRecord& progress, uint32_t generation);

}  // namespace lightcone::server

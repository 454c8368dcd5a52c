// A validation: ranks the collection's probes in every gallery that the generation would meet, by every way that leads
// there, and decides. Reads the store only. Threads: pure functions.
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

// One a probe, where it has one. An empty one where the encoder makes none of its input: a search would answer with an
// error.
using ProbeVectors = std::vector<std::optional<std::vector<float>>>;

struct ValidationInput {
  Collection* collection = nullptr;
  std::shared_ptr<const CollectionState> state;
  uint32_t generation = 0;
  double tolerance = kToleranceDefault;
  uint32_t reference_generation = 0;  // 0: none
  bool calibrate = true;
  const std::vector<ProbeSet>* sets = nullptr;
  // Vectors of all probes by a generation, embedded if need be.
  std::function<absl::StatusOr<ProbeVectors>(const GenerationRecord& generation)> vectors;
};

// Errors of the store and the encoder; CANCELLED. FAILED_PRECONDITION when the generation is retired.
absl::StatusOr<ValidationReport> RunValidation(const ValidationInput& input, const RankingRun& run);

// Whether a passing report still speaks of the collection as it is: its probe sets, the adapters of the generation, and
// the generations whose items it would meet. Else why not.
absl::Status CheckCurrent(const CollectionState& state, const ProgressRecord& progress, uint32_t generation,
                          const ValidationReport& report);

// Older generations of which a view of `generation` serves items, ascending.
std::vector<uint32_t> OlderHeads(const ProgressRecord& progress, uint32_t generation);

// Decides by the gains of the ways and what they do in mixed galleries as searches would rank them, and fills verdict
// and chosen. stats/bootstrap.h says what an interval holds.
void Decide(double tolerance, PairReport* pair);

}  // namespace lightcone::server

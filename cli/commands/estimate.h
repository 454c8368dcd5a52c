// What a rollout's backfill would take, as an operator reads it before anything begins.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cli/json/field_json.h"
#include "lightcone/v1/backfill.pb.h"

namespace lightcone::cli {

inline constexpr uint32_t kTrialInputs = 64;    // stored inputs that a trial embeds where nobody says how many
inline constexpr double kCharactersAToken = 4;  // usual rule of thumb for English text

// Terms that the server does not know.
struct EstimateTerms {
  double price = 0;       // price of a million tokens, in any currency; 0: not known
  double embed_rate = 0;  // items a second that are to be embedded at most; 0: as the trial went
};

// Errors name --trial, --price or --embed-rate.
absl::Status CheckTerms(const EstimateTerms& terms, uint32_t trial);

// {"items", "inputs", "tokens", "seconds", "price", ...}; null for what is not known.
OrderedJson EstimateJson(const v1::EstimateResponse& estimate, const EstimateTerms& terms);

// The same in sentences, each a line that begins with `indent`.
std::string EstimateText(const v1::EstimateResponse& estimate, const EstimateTerms& terms, const std::string& indent);

}  // namespace lightcone::cli

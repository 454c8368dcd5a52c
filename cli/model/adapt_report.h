// What `lightcone adapt` says. Threads: safe.
#pragma once

#include <optional>
#include <string>

#include "cli/context.h"
#include "models/adapter_file.h"
#include "trainer/adapt/evaluate_adapter.h"

namespace lightcone::cli {

// How the rows of two models were matched without pairs.
struct MatchedRows {
  int64_t matched = 0, looked_at = 0;  // numbers of old rows
  double agreement = 0;                // Alignment::agreement
};

// The adapter at `path`, how it was fitted and what it gains, or why that was not evaluated: as JSON or as tables.
// `matched`: nullopt for pairs that were given.
void ShowAdapter(const Context& context, const std::string& path, const AdapterFile& file,
                 const std::optional<AdapterEvaluation>& evaluation, const std::string& not_evaluated,
                 const std::optional<MatchedRows>& matched);

}  // namespace lightcone::cli

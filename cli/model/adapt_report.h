// What `lightcone adapt` says. Threads: safe.
#pragma once

#include <optional>
#include <string>

#include "cli/context.h"
#include "models/adapter_file.h"
#include "trainer/adapt/evaluate_adapter.h"

namespace lightcone::cli {

// The adapter at `path`, how it was fitted and what it gains, or why that was not evaluated: as JSON or as tables.
// `matched_share`: Alignment::matched_share of pairs that were matched; else nullopt.
void ShowAdapter(const Context& context, const std::string& path, const AdapterFile& file,
                 const std::optional<AdapterEvaluation>& evaluation, const std::string& not_evaluated,
                 std::optional<double> matched_share);

}  // namespace lightcone::cli

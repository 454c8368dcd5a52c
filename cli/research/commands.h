// The subcommands of `lightcone-research`: those of `lightcone-model` and experiments.
#pragma once

#include "cli/model/commands.h"

namespace lightcone::cli {

void AddExperiment(CLI::App& root, Context& context);

// Those that no other program holds, and ModelCommands().
HeldCommands ResearchCommands();

}  // namespace lightcone::cli

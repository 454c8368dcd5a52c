// The subcommands about snapshots (cli/commands.h).
#pragma once

#include "cli/commands.h"

namespace lightcone::cli {

void AddSnapshot(CLI::App& root, Context& context);
void AddRestore(CLI::App& root, Context& context);

}  // namespace lightcone::cli

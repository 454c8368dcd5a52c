#include "cli/research/commands.h"

#include "cli/commands.h"

namespace lightcone::cli {

HeldCommands ResearchCommands() {
  HeldCommands commands = ModelCommands();
  commands["experiment"] = AddExperiment;
  commands["completion"] = AddCompletion;
  return commands;
}

}  // namespace lightcone::cli

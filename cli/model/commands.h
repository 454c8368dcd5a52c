// The subcommands of `lightcone-model`: they run encoders, trainers or image decoders.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "cli/context.h"

namespace lightcone::cli {

void AddDemo(CLI::App& root, Context& context);
void AddTrain(CLI::App& root, Context& context);
void AddEval(CLI::App& root, Context& context);
void AddEmbed(CLI::App& root, Context& context);
void AddEmbedWorker(CLI::App& root, Context& context);
void AddAdapt(CLI::App& root, Context& context);
void AddBackfillFit(CLI::App& backfill, Context& context);

// All of them.
HeldCommands ModelCommands();

// The names of data sets that --data takes, for its help: "glyphs, cifar100:DIR, ...".
std::string DatasetNames();

}  // namespace lightcone::cli

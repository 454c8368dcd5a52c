// The subcommands of `lightcone`, one file each. Each Add... declares its flags and hangs its work onto the callback of
// its subcommand; the work ends with Context::Finish.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/context.h"
#include "lightcone/v1/jobs.pb.h"

namespace lightcone::cli {

class ProgressBar;

// A subcommand of `parent`, which owns it. (A call of CLI11's own from every file would compile most of CLI11 in each.)
CLI::App* AddCommand(CLI::App& parent, const std::string& name, const std::string& help);

// The same for a subcommand that not every program holds, with its help; "backfill fit": `fit` below `backfill`.
CLI::App* AddHeldCommand(CLI::App& parent, std::string_view words);
// What the program holds under these words, or a subcommand that runs the program that does.
void AddHeld(CLI::App& parent, Context& context, const std::string& words);

void AddBench(CLI::App& root, Context& context);
void AddServe(CLI::App& root, Context& context);
void AddTraining(CLI::App& root, Context& context);
void AddCollection(CLI::App& root, Context& context);
void AddGeneration(CLI::App& root, Context& context);
void AddGenerationAdapter(CLI::App& generation, Context& context);  // A subcommand of `generation`.
void AddGenerationProbes(CLI::App& generation, Context& context);   // A subcommand of `generation`.
void AddGenerationCanary(CLI::App& generation, Context& context);   // A subcommand of `generation`.
void AddRollout(CLI::App& root, Context& context);
void AddJob(CLI::App& root, Context& context);
void AddBackfill(CLI::App& root, Context& context);
void AddUpsert(CLI::App& root, Context& context);
void AddSearch(CLI::App& root, Context& context);
void AddGet(CLI::App& root, Context& context);
void AddDelete(CLI::App& root, Context& context);
void AddScroll(CLI::App& root, Context& context);
void AddCount(CLI::App& root, Context& context);
void AddFacet(CLI::App& root, Context& context);
void AddPayload(CLI::App& root, Context& context);
void AddImport(CLI::App& root, Context& context);
void AddExport(CLI::App& root, Context& context);
void AddRepair(CLI::App& root, Context& context);
void AddStatus(CLI::App& root, Context& context);
void AddKey(CLI::App& root, Context& context);
void AddVersion(CLI::App& root, Context& context);
void AddCompletion(CLI::App& root, Context& context);

// Follows a job with a progress bar until it has ended, and shows it. CANCELLED, or the error of a job that failed.
// `call` is absent: the options are Context::Waiting.
absl::StatusOr<v1::JobInfo> WaitForJob(Context& context, const std::string& id, bool show = true,
                                       std::optional<client::CallOptions> call = std::nullopt);

// Shows on a progress bar how far a job is.
void ShowProgress(const v1::JobInfo& job, ProgressBar* bar);

// The completion script of `shell` (bash, zsh or fish) for `root` and its subcommands, as they are declared.
// INVALID_ARGUMENT for another shell.
absl::StatusOr<std::string> CompletionScript(const CLI::App& root, const std::string& shell);

}  // namespace lightcone::cli

// Training inside the server: a job that runs `lightcone train` in a process of its own, from what the collection holds
// or from a data set on this machine, and adds what comes out as a draft.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/api/engine.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/rollout/adapter_calls.h"
#include "server/engine/rollout/generation_calls.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class TrainingCalls {
 public:
  static constexpr std::string_view kJob = Engine::kTrainJob;

  // All must outlive it.
  TrainingCalls(Context& context, GenerationCalls& generations, AdapterCalls& adapters)
      : context_(context), generations_(generations), adapters_(adapters) {}

  absl::StatusOr<std::string> Start(const StartTrainingCall& call);
  absl::StatusOr<std::string> RunJob(const JobRun& run);
  // Removes the folder of an ended training; of all that have ended.
  void Remove(uint64_t job) const;
  void RemoveEnded() const;

 private:
  struct TrainedDraft {
    uint32_t generation = 0;
    uint64_t adapter_version = 0;  // 0: no adapter belongs to the draft
    std::string adapter_error;     // reason why the draft's adapter was not put
  };
  // The draft that the job has added already.
  absl::StatusOr<std::optional<uint32_t>> DraftOf(const JobRecord& job) const;
  absl::StatusOr<TrainedDraft> AddDraft(const JobRecord& job, uint32_t parent, const std::string& model,
                                        const std::function<bool()>& gone);

  Context& context_;
  GenerationCalls& generations_;
  AdapterCalls& adapters_;
};

}  // namespace lightcone::server

// The use cases of a rollout: generations, adapters, probes, validations, canaries, trainings, jobs and backfills.
// Threads and errors: as Engine, of which this is a part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/api/types.h"
#include "server/engine/api/validation_types.h"

namespace lightcone::server {

class RolloutEngine {
 public:
  virtual ~RolloutEngine() = default;

  virtual absl::StatusOr<GenerationStatus> RegisterGeneration(const RegisterCall& call) = 0;
  // By number, without the manifests, which GetGeneration has.
  virtual absl::StatusOr<std::vector<GenerationStatus>> ListGenerations(const std::string& collection) = 0;
  virtual absl::StatusOr<GenerationStatus> GetGeneration(const std::string& collection, uint32_t generation) = 0;
  // FAILED_PRECONDITION when visible items would be out of its reach and `force` is not set (says how many); and in a
  // collection with probe sets, when it has not passed a validation (says the figures), unless it is the first one, the
  // active one, or one that rollbacks lead to.
  virtual absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall& call) = 0;
  // Back to the generation that served before the active one, and with every further call to the one before that: O(1)
  // in the gallery. FAILED_PRECONDITION when none served before, and as ActivateGeneration.
  virtual absl::StatusOr<ActivateAnswer> RollbackGeneration(const SwitchCall& call) = 0;
  // Activations and rollbacks of a collection, newest first, at most `limit`, 1 .. 10,000 (0: 100).
  virtual absl::StatusOr<std::vector<AuditEntry>> ListAudit(const std::string& collection, uint32_t limit) = 0;

  // Adapters: one a pair of generations. Put replaces the pair's; searches that run keep the one they began with.
  // INVALID_ARGUMENT for a damaged file and for one that fits the pair in none of direction, dimension and space.
  virtual absl::StatusOr<AdapterStatus> PutAdapter(const PutAdapterCall& call) = 0;
  // NOT_FOUND lists the adapters there are. FAILED_PRECONDITION when items would get out of the active generation's
  // reach and `force` is not set (says how many).
  virtual absl::Status DropAdapter(const DropAdapterCall& call) = 0;
  virtual absl::StatusOr<std::vector<AdapterStatus>> ListAdapters(const std::string& collection) = 0;

  // Begins a job that fits an adapter in a process of its own and puts it; answers its id. It fails where there are too
  // few pairs: SampleItems says which items to embed. FAILED_PRECONDITION where this server has no program to fit with.
  virtual absl::StatusOr<std::string> FitAdapter(const FitAdapterCall& call) = 0;
  // Those that the newest generation before it embedded, with their sequences.
  virtual absl::StatusOr<std::vector<SampledItem>> SampleItems(const SampleItemsCall& call,
                                                               const CallContext& context) = 0;

  // Probe sets: put replaces the set of that name. NOT_FOUND that counts them when probes name items that are missing;
  // INVALID_ARGUMENT for vectors that fit no generation. They are read again by each validation.
  virtual absl::StatusOr<ProbeSetStatus> PutProbes(const PutProbesCall& call) = 0;
  virtual absl::Status DropProbes(const std::string& collection, const std::string& set,
                                  const std::string& request_id) = 0;
  virtual absl::StatusOr<std::vector<ProbeSetStatus>> ListProbes(const std::string& collection) = 0;  // by name

  // Begins a job that measures the generation by all probe sets, and answers its id. Its report is stored with the
  // generation. FAILED_PRECONDITION without a probe set.
  virtual absl::StatusOr<std::string> ValidateGeneration(const ValidateCall& call) = 0;

  // Ends queries and writes of a generation at once, for good, and begins a job that gives back the space of its
  // embeddings, segments, adapters and encoder; what it embedded last is found by it until then. FAILED_PRECONDITION
  // for the one that serves, and while items could not be reached without it (says how many). Again: the same job.
  virtual absl::StatusOr<RetireAnswer> RetireGeneration(const RetireCall& call) = 0;

  // Lets a generation serve a share of the searches that give a key, before it is active; or ends that. Refuses as
  // ActivateGeneration. Activations and rollbacks end it.
  virtual absl::StatusOr<CanaryStatus> SetCanary(const SetCanaryCall& call) = 0;
  virtual absl::StatusOr<CanaryStatus> GetCanary(const std::string& collection) = 0;

  // Begins a job of kind kTrainJob that trains a model in a process of its own, from stored inputs or a data set on
  // this machine, and adds it as a draft; answers its id. FAILED_PRECONDITION where this server has no program to train
  // with.
  virtual absl::StatusOr<std::string> StartTraining(const StartTrainingCall& call) = 0;
  static constexpr std::string_view kTrainJob = "train";

  // Jobs of this server, newest first; `page_size` 0 .. 1,000 (0: 100), an empty `collection` or `kind` means all.
  // Cancel: FAILED_PRECONDITION for a job that has ended, and for one of a kind that has to be finished.
  virtual absl::StatusOr<JobStatus> GetJob(const std::string& id) = 0;
  virtual absl::StatusOr<JobPage> ListJobs(const std::string& collection, std::string_view kind, uint32_t page_size,
                                           const std::string& token) = 0;
  virtual absl::StatusOr<JobStatus> CancelJob(const std::string& id, const std::string& request_id) = 0;

  // Lazy backfill by the active generation, worst items first. Start orders the items in the background, anew if there
  // is an order already, and ends a pause. FAILED_PRECONDITION without an active generation; INVALID_ARGUMENT for a
  // damaged head, and one of another dimension than its generation. Start and Pause answer with the state they led to.
  virtual absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall& call) = 0;
  virtual absl::StatusOr<BackfillStatus> PauseBackfill(const std::string& collection,
                                                       const std::string& request_id) = 0;
  virtual absl::StatusOr<BackfillStatus> GetBackfill(const std::string& collection) = 0;
  // What embedding the gallery by the generation would take, from a sample of about 512 items; with trial_max also the
  // rate of its encoder, which embeds so many of their inputs meanwhile. A trial that fails says so in the answer.
  virtual absl::StatusOr<EmbeddingEstimate> EstimateBackfill(const EstimateCall& call, const CallContext& context) = 0;
  // The worst items that nobody has leased, oldest generations first. Leases live in memory: after a restart all items
  // are free, and what a worker still writes is checked by expected_sequence. FAILED_PRECONDITION before a start.
  virtual absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) = 0;
};

}  // namespace lightcone::server

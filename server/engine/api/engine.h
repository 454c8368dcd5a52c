// The use cases. Everything that a user can do to Lightcone is a method here, free of wire formats.
// Threads: every method is safe to call concurrently. A call honours its deadline and cancellation.
// Errors: canonical codes; the message names the field, its value and what is allowed; unknown names list what there is
// ("no collection 'foo'; there are: bar, baz").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/api/types.h"
#include "server/engine/api/validation_types.h"

namespace lightcone::server {

class Engine {
 public:
  // Opens or creates the data folder, loads every collection's segments and replays what they lack. Errors as
  // OpenStore.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineOptions& options);
  virtual ~Engine() = default;

  // Collections. A name is 1 .. 128 of [A-Za-z0-9._-]; wherever a collection is named, an alias does too (not in Drop).
  // Calls with a request_id are idempotent: the same id with the same content again gives the first answer;
  // with another content ALREADY_EXISTS.
  virtual absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) = 0;
  virtual absl::StatusOr<std::vector<CollectionStatus>> ListCollections() = 0;
  // Those that are in the store and were refused at the start, by name, and why. Every call about them gets that
  // answer.
  virtual std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const { return {}; }
  virtual absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) = 0;
  virtual absl::Status DropCollection(const std::string& name, const std::string& request_id) = 0;
  // An empty `collection` removes the alias (NOT_FOUND when there is none).
  virtual absl::Status SetAlias(const std::string& alias, const std::string& collection,
                                const std::string& request_id) = 0;
  // What `index` leaves open stays as it is. With `wait`, DEADLINE_EXCEEDED and CANCELLED mean that the caller gave up:
  // the rebuilding goes on.
  virtual absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                                   const std::string& request_id, const CallContext& context) = 0;
  // Fields are indexed in the background while everything serves. What is there already is no change. ALREADY_EXISTS
  // for a path that has an index of another type; NOT_FOUND for one to drop that has none lists those there are. `wait`
  // as in Rebuild.
  virtual absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context) = 0;

  // Generations.
  virtual absl::StatusOr<GenerationStatus> RegisterGeneration(const RegisterCall& call) = 0;
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
  // The worst items that nobody has leased, oldest generations first. Leases live in memory: after a restart all items
  // are free, and what a worker still writes is checked by expected_sequence. FAILED_PRECONDITION before a start.
  virtual absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) = 0;

  // Retrieval.
  virtual absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) = 0;
  virtual absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                             Durability durability, const CallContext& context) = 0;
  virtual absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids,
                                        uint32_t generation, bool with_vector, const CallContext& context) = 0;
  // The raw input of an item. NOT_FOUND without the item, FAILED_PRECONDITION when its input was not kept.
  virtual absl::StatusOr<RawInput> GetInput(const std::string& collection, const ItemId& id) = 0;
  virtual absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) = 0;
  // One page; `page_size` 0: 1,000 or limits.page_items_max. Pages of a chain see each item that stays put just once.
  virtual absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                            int64_t page_size, const std::string& token, bool with_vector,
                                            const CallContext& context) = 0;
  virtual absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                            const CallContext& context) = 0;

  // Seen from outside.
  // A share of the live searches, as EngineOptions::live_recall says, is repeated exactly in the background.
  virtual absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string& collection) = 0;
  virtual LiveSamplerStatus LiveSampling() = 0;
  virtual StoreStats StoreStatistics() = 0;
  virtual const EngineOptions& options() const = 0;
};

}  // namespace lightcone::server

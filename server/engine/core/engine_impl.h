// The engine over one data folder: catalog of collections, and the calls.
// Threads: as Engine. Locks are taken in this order: operator_mu_, a collection's operator mutex, catalog_mu_.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "base/thread_pool.h"
#include "server/engine/api/engine.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/collection/collection.h"
#include "server/engine/embed/embed_worker.h"
#include "server/engine/embed/embedder.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/live/live_figures.h"
#include "server/engine/live/live_sampler.h"
#include "server/engine/rollout/canary.h"
#include "server/engine/search/search.h"
#include "server/engine/validation/validation.h"
#include "server/engine/write/writer.h"

namespace lightcone::server {

// A collection with its writer, as the catalog holds it.
struct Served {
  Served(std::shared_ptr<Collection> c, int64_t queue_max)
      : collection(std::move(c)), writer(collection.get(), queue_max), backfill(collection.get()) {}
  const std::shared_ptr<Collection> collection;
  CollectionWriter writer;
  Backfill backfill;
  LiveFigures live;
  SearchTimes search_times;
  CanaryTally canary;
  // Of EmbedBackfills alone.
  Pace embed_pace;
  absl::Time embed_after = absl::InfinitePast();
  std::unique_ptr<EmbedWorker> embed_worker;   // nullptr: none is needed now
  absl::Time embedded = absl::InfinitePast();  // the last time
  int embed_failures = 0;                      // of the encoder to start, one after another
  uint64_t embed_starts = 0;                   // of the backfill, when that was counted
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, std::unique_ptr<Store> store);
  ~EngineImpl() override;

  // Reads the catalog, ends what a crash interrupted, opens the collections side by side.
  absl::Status Load();

  absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) override;
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override;
  std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const override;
  absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) override;
  absl::Status DropCollection(const std::string& name, const std::string& request_id) override;
  absl::Status SetAlias(const std::string& alias, const std::string& collection,
                        const std::string& request_id) override;
  absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                           const std::string& request_id, const CallContext& context) override;
  absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context) override;

  absl::StatusOr<GenerationStatus> RegisterGeneration(const RegisterCall& call) override;
  absl::StatusOr<std::vector<GenerationStatus>> ListGenerations(const std::string& collection) override;
  absl::StatusOr<GenerationStatus> GetGeneration(const std::string& collection, uint32_t generation) override;
  absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall& call) override;
  absl::StatusOr<ActivateAnswer> RollbackGeneration(const SwitchCall& call) override;
  absl::StatusOr<std::vector<AuditEntry>> ListAudit(const std::string& collection, uint32_t limit) override;
  absl::StatusOr<AdapterStatus> PutAdapter(const PutAdapterCall& call) override;
  absl::Status DropAdapter(const DropAdapterCall& call) override;
  absl::StatusOr<std::vector<AdapterStatus>> ListAdapters(const std::string& collection) override;
  absl::StatusOr<std::string> FitAdapter(const FitAdapterCall& call) override;
  absl::StatusOr<std::vector<SampledItem>> SampleItems(const SampleItemsCall& call,
                                                       const CallContext& context) override;
  absl::StatusOr<ProbeSetStatus> PutProbes(const PutProbesCall& call) override;
  absl::Status DropProbes(const std::string& collection, const std::string& set,
                          const std::string& request_id) override;
  absl::StatusOr<std::vector<ProbeSetStatus>> ListProbes(const std::string& collection) override;
  absl::StatusOr<std::string> ValidateGeneration(const ValidateCall& call) override;
  absl::StatusOr<RetireAnswer> RetireGeneration(const RetireCall& call) override;
  absl::StatusOr<JobStatus> GetJob(const std::string& id) override;
  absl::StatusOr<JobPage> ListJobs(const std::string& collection, std::string_view kind, uint32_t page_size,
                                   const std::string& token) override;
  absl::StatusOr<CanaryStatus> SetCanary(const SetCanaryCall& call) override;
  absl::StatusOr<CanaryStatus> GetCanary(const std::string& collection) override;
  absl::StatusOr<std::string> StartTraining(const StartTrainingCall& call) override;
  absl::StatusOr<JobStatus> CancelJob(const std::string& id, const std::string& request_id) override;
  absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall& call) override;
  absl::StatusOr<BackfillStatus> PauseBackfill(const std::string& collection, const std::string& request_id) override;
  absl::StatusOr<BackfillStatus> GetBackfill(const std::string& collection) override;
  absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) override;

  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) override;
  absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                     Durability durability, const CallContext& context) override;
  absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids, uint32_t generation,
                                bool with_vector, const CallContext& context) override;
  absl::StatusOr<RawInput> GetInput(const std::string& collection, const ItemId& id) override;
  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) override;
  absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                    int64_t page_size, const std::string& token, bool with_vector,
                                    const CallContext& context) override;
  absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                    const CallContext& context) override;

  absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string& collection) override;
  LiveSamplerStatus LiveSampling() override { return live_sampler_.Status(); }
  LiveSampler& live_sampler() { return live_sampler_; }
  StoreStats StoreStatistics() override { return store_->Stats(); }
  const EngineOptions& options() const override { return options_; }

 private:
  using ServedPtr = std::shared_ptr<Served>;

  // By name or alias. NOT_FOUND lists what there is.
  absl::StatusOr<ServedPtr> Find(const std::string& name) const;
  absl::Status NoCollection(const std::string& name) const ABSL_SHARED_LOCKS_REQUIRED(catalog_mu_);
  CollectionStatus StatusOf(const Served& served) const;
  GenerationStatus StatusOf(const Collection& collection, const CollectionState& state, uint32_t generation) const;
  IndexLimits LimitsOfIndex() const {
    return {options_.index_memory_bytes_max, options_.index_unsealed_bytes_max,
            options_.index_build_bytes_per_second_max};
  }
  std::string IndexFolder(uint32_t collection) const;
  std::string EncoderFolder(uint32_t collection) const;
  std::string EncoderPath(uint32_t collection, uint32_t generation) const;

  // Start (engine_load.cc).
  absl::Status FinishDrops();
  absl::Status ForgetOldRequests();
  absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(uint32_t number, const std::string& encoded);
  absl::StatusOr<AdapterSet> LoadAdapters(uint32_t number, const std::string& name,
                                          const std::vector<GenerationRecord>& generations);
  // To the collections that are served, if it could be loaded.
  absl::Status Admit(const CollectionRecord& record, absl::StatusOr<std::shared_ptr<Collection>> collection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(catalog_mu_);
  absl::Status LoadBackfill(Served& served);  // backfill_calls.cc
  void Maintain();                            // a thread: trims change logs
  void CarryGalleries();                      // a thread: carries galleries that item adapters reach
  void EmbedBackfills();                      // a thread (embed_backfills.cc)
  // A few items of a collection's backfill; whether there are more.
  absl::StatusOr<bool> EmbedSome(Served& served);
  absl::StatusOr<bool> EmbedSafely(Served& served);  // what it throws is its status
  // Items `begin` .. of a turn, as many as their inputs' bytes allow; the end of them.
  absl::StatusOr<size_t> EmbedFrom(Served& served, const GenerationRecord& generation, const EmbedTurn& turn,
                                   size_t begin, std::vector<AsideItem>* failed);
  // Inputs as they are stored, in a process beside this one where there is a program for it. Whatever an input of them
  // is refused for there is the input's fault.
  absl::StatusOr<EmbeddedInputs> EmbedStored(Served& served, const GenerationRecord& generation, const EmbedTurn& turn,
                                             const std::vector<std::string>& inputs);
  absl::StatusOr<std::unique_ptr<EmbedWorker>> WorkerFor(const Collection& collection,
                                                         const GenerationRecord& generation,
                                                         std::string_view purpose) const;
  void NoteEncoder(Served& served, const EmbedTurn& turn, const absl::Status& outcome);
  AdapterCaches CachesOf(uint32_t collection) const {
    return {adapted_memory_, carried_disk_, CarriedFolder(IndexFolder(collection))};
  }

  // Idempotency: the record of this request id, if any, which is durable then. ALREADY_EXISTS when it was for something
  // else.
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& request_id, const std::string& method,
                                                           const std::string& fingerprint) const;
  // The same for a call on a collection; NOT_FOUND when that was dropped while the call waited.
  // REQUIRES: the collection's operator mutex is held.
  absl::StatusOr<std::optional<RequestRecord>> FindRequestOn(const Collection& collection,
                                                             const std::string& request_id, const std::string& method,
                                                             const std::string& fingerprint) const;
  // The second half of SetAlias with an empty target. NOT_FOUND when there is no such alias.
  absl::Status RemoveAlias(const std::string& alias, const std::string& request_id, const std::string& fingerprint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(operator_mu_);
  // Writes an operator's batch, durably.
  OperatorWrite WriteOperation(const WriteBatch& batch);
  static void RecordRequest(const std::string& request_id, RequestRecord record, WriteBatch* batch);
  absl::StatusOr<CollectionStatus> AnswerAgain(const RequestRecord& record, const std::string& name);

  // Generations (generations.cc).
  // REQUIRES: the collection's operator mutex is held.
  absl::StatusOr<GenerationStatus> TakeUpDraft(Collection& collection, const RegisterCall& call);
  struct NewGeneration;
  absl::StatusOr<NewGeneration> CheckRegistration(const CollectionState& state, const RegisterCall& call) const;
  absl::Status StoreEncoder(uint32_t collection, const NewGeneration& made, const RegisterCall& call);

  // What serves (activation.cc).
  struct MayServe {
    bool validated = false;  // a passing validation that is still true stands behind it
    uint64_t out_of_reach = 0;
  };
  // FAILED_PRECONDITION unless `force`: for a generation that the gate keeps out (`gate`), or that reaches not every
  // item. `what`: "activate".
  absl::StatusOr<MayServe> CheckMayServe(Collection& collection, const CollectionState& state, uint32_t generation,
                                         bool force, bool gate, std::string_view what) const;
  // `generation`: the one to activate; nullopt: roll back.
  absl::StatusOr<ActivateAnswer> SwitchGeneration(const SwitchCall& call, std::optional<uint32_t> generation);
  // The end of it: `generation` takes over, `earlier` becomes the way back.
  absl::StatusOr<ActivateAnswer> Serve(Served& served, const CollectionState& state, const SwitchCall& call,
                                       uint32_t generation, std::vector<uint32_t> earlier, RequestRecord record);
  // Records of the audit log, oldest first. DATA_LOSS for a damaged one.
  absl::Status ReadAudit(uint32_t collection, absl::FunctionRef<void(AuditRecord)> visit) const;
  // CollectionRecord::earlier_active of a record without: it is as old as the field, or an older server wrote it.
  absl::StatusOr<std::vector<uint32_t>> EarlierByAudit(uint32_t collection, uint32_t active) const;

  // Searching (retrieval.cc); by a key (canary_calls.cc).
  absl::StatusOr<SearchAnswer> SearchServed(const ServedPtr& served, const SearchCall& call,
                                            const CallContext& context);
  absl::StatusOr<SearchAnswer> SearchByKey(const ServedPtr& served, const SearchCall& call, const CallContext& context);

  // Live recall (live_recall.cc): has one query of a search that was answered repeated, now and then. REQUIRES: it was
  // neither exact, which finds everything, nor for an evaluation.
  void SampleSearch(const ServedPtr& served, const SearchCall& call, const std::vector<BoundVector>& queries,
                    const SearchAnswer& answer);
  void RepeatSearch(Served& served, const SearchCall& call, const BoundVector& query, const CallContext& context);

  // Jobs and what they do (validation_calls.cc).
  static constexpr std::string_view kValidateJob = "validate";
  static constexpr std::string_view kRetireJob = "retire";
  static constexpr std::string_view kFitAdapterJob = "fit-adapter";
  // Adds the job to the batch; when that is in the store, calls `written` and begins the job; answers its id.
  // `request`: method and fingerprint. REQUIRES: the collection's operator mutex is held.
  absl::StatusOr<std::string> BeginJob(
      JobRecord job, const std::string& request_id, RequestRecord request, WriteBatch batch = {},
      absl::FunctionRef<void()> written = [] {});
  absl::StatusOr<ServedPtr> FindNumber(const JobRecord& job) const;
  absl::StatusOr<std::vector<ProbeSet>> ReadProbeSets(uint32_t collection, const CollectionRecord& record) const;
  absl::StatusOr<ProbeVectors> VectorsOf(const Collection& collection, const GenerationRecord& generation,
                                         const std::vector<ProbeSet>& sets, const JobRun& run);
  absl::StatusOr<std::string> RunValidateJob(const JobRun& run);
  absl::Status KeepReport(Collection& collection, uint32_t generation, ValidationReport report);

  // Fitting adapters (fit_calls.cc).
  std::string JobsFolder() const { return options_.data_folder + "/jobs"; }  // scratch space of those that run
  absl::StatusOr<std::string> RunFitAdapterJob(const JobRun& run);
  static absl::StatusOr<EmbeddedInputs> EmbedForFit(EmbedWorker& worker, const GenerationRecord& generation,
                                                    const std::vector<std::string>& inputs,
                                                    const std::function<bool()>& gone);

  // Training (training_calls.cc).
  std::string TrainingsFolder() const { return options_.data_folder + "/trainings"; }  // of those that have not ended
  std::string TrainingFolder(uint64_t job) const { return StrCat(TrainingsFolder(), "/", job); }
  void RemoveEndedTrainings() const;
  void RemoveTraining(uint64_t job) const;
  absl::StatusOr<std::string> RunTrainJob(const JobRun& run);
  struct TrainedDraft {
    uint32_t generation = 0;
    uint64_t adapter_version = 0;  // 0: none belongs to it
    std::string adapter_error;     // why one that belongs to it was not put
  };
  absl::StatusOr<std::optional<uint32_t>> DraftOf(const JobRecord& job) const;  // that it has added
  absl::StatusOr<TrainedDraft> AddDraft(const JobRecord& job, uint32_t parent, const std::string& model);

  // Retiring (retire_calls.cc). After OK the generation takes no more writes.
  absl::Status CheckRetirable(Served& served, const CollectionState& state, uint32_t generation);
  static JobRecord RetireJobOf(const CollectionState& state, uint32_t number, uint32_t generation);
  // Takes the generation out of the records of its items, with its embeddings; how many.
  absl::StatusOr<uint64_t> SweepEmbeddings(Served& served, uint32_t generation, const JobRun& run);
  absl::StatusOr<std::string> RunRetireJob(const JobRun& run);

  // Writing (upsert.cc).
  absl::Status PrepareItems(const Collection& collection, const GenerationRecord& generation, UpsertBatch* batch,
                            const CallContext& context, std::vector<PreparedItem>* items);
  absl::Status CheckUpsert(const UpsertBatch& batch) const;
  // The second half of Upsert.
  absl::StatusOr<WriteResult> WriteVectors(Served& served, const GenerationRecord& generation, UpsertBatch batch,
                                           const CallContext& context);
  absl::Status EmbedInputs(const Collection& collection, const GenerationRecord& generation, const UpsertBatch& batch,
                           const CallContext& context, std::vector<PreparedItem>* items);

  const EngineOptions options_;
  const std::unique_ptr<Store> store_;
  ThreadPool pool_;
  const std::shared_ptr<AdaptedBudget> adapted_memory_;
  const std::shared_ptr<AdaptedBudget> carried_disk_;  // nullptr: nothing is carried into files
  Embedder embedder_, background_embedder_;            // of calls; of EmbedBackfills without a program beside this one
  Jobs jobs_;                                          // its runners use the rest: halted first

  absl::Mutex operator_mu_;  // one change of the catalog at a time
  uint32_t next_collection_ ABSL_GUARDED_BY(operator_mu_) = 1;

  mutable absl::Mutex catalog_mu_ ABSL_ACQUIRED_AFTER(operator_mu_);
  std::map<std::string, ServedPtr> collections_ ABSL_GUARDED_BY(catalog_mu_);  // by name
  std::map<std::string, ServedPtr> aliases_ ABSL_GUARDED_BY(catalog_mu_);
  // Why collections that are stored are not served, by their names and aliases: their index needs too much memory, or
  // their records are damaged.
  std::map<std::string, absl::Status> refused_ ABSL_GUARDED_BY(catalog_mu_);
  std::vector<std::string> refused_names_ ABSL_GUARDED_BY(catalog_mu_);  // of them, without the aliases

  std::atomic<bool> ending_{false};
  absl::Mutex maintain_mu_;
  bool stopping_ ABSL_GUARDED_BY(maintain_mu_) = false;
  std::thread maintainer_, carrier_, backfill_embedder_;
  LiveSampler live_sampler_;  // the last: its thread uses what stands above
};

}  // namespace lightcone::server

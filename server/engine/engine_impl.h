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
#include "server/engine/adapters.h"
#include "server/engine/backfill.h"
#include "server/engine/collection.h"
#include "server/engine/embedder.h"
#include "server/engine/engine.h"
#include "server/engine/thread_pool.h"
#include "server/engine/writer.h"

namespace lightcone::server {

// A collection with its writer, as the catalog holds it.
struct Served {
  Served(std::shared_ptr<Collection> c, int64_t queue_max)
      : collection(std::move(c)), writer(collection.get(), queue_max), backfill(collection.get()) {}
  const std::shared_ptr<Collection> collection;
  CollectionWriter writer;
  Backfill backfill;
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, std::unique_ptr<Store> store);
  ~EngineImpl() override;

  // Reads the catalog, ends what a crash interrupted, opens the collections side by side.
  absl::Status Load();

  absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) override;
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override;
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
  absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall& call) override;
  absl::StatusOr<BackfillStatus> PauseBackfill(const std::string& collection, const std::string& request_id) override;
  absl::StatusOr<BackfillStatus> GetBackfill(const std::string& collection) override;
  absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) override;

  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) override;
  absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                     Durability durability, const CallContext& context) override;
  absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids, uint32_t generation,
                                bool with_vector, const CallContext& context) override;
  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) override;
  absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                    int64_t page_size, const std::string& token, bool with_vector,
                                    const CallContext& context) override;
  absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                    const CallContext& context) override;

  StoreStats StoreStatistics() override { return store_->Stats(); }
  const EngineOptions& options() const override { return options_; }

 private:
  using ServedPtr = std::shared_ptr<Served>;

  // By name or alias. NOT_FOUND lists what there is.
  absl::StatusOr<ServedPtr> Find(const std::string& name) const;
  absl::Status NoCollection(const std::string& name) const ABSL_SHARED_LOCKS_REQUIRED(catalog_mu_);
  CollectionStatus StatusOf(const Collection& collection) const;
  GenerationStatus StatusOf(const Collection& collection, const CollectionState& state, uint32_t generation) const;
  std::string IndexFolder(uint32_t collection) const;
  std::string EncoderFolder(uint32_t collection) const;
  std::string EncoderPath(uint32_t collection, uint32_t generation) const;

  // Start (engine_load.cc).
  absl::Status FinishDrops();
  absl::Status ForgetOldRequests();
  absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(uint32_t number, const std::string& encoded);
  absl::StatusOr<AdapterSet> LoadAdapters(uint32_t number, const std::string& name,
                                          const std::vector<GenerationRecord>& generations);
  absl::Status LoadBackfill(Served& served);  // backfill_calls.cc
  void Maintain();  // a thread: trims change logs, carries galleries that item adapters alone reach

  // Idempotency: the record of this request id, if any. ALREADY_EXISTS when it was for something else.
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& request_id, const std::string& method,
                                                           const std::string& fingerprint) const;
  // The second half of SetAlias with an empty target. NOT_FOUND when there is no such alias.
  absl::Status RemoveAlias(const std::string& alias, const std::string& request_id, const std::string& fingerprint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(operator_mu_);
  // Writes an operator's batch, durably. A write that the disk refused may be in the store all the same, but always
  // whole: `in_store` is true when all of it reads back, and then memory has to follow before `status` is answered.
  struct OperatorWrite {
    bool in_store = false;
    absl::Status status;
  };
  OperatorWrite WriteOperation(const WriteBatch& batch);
  static void RecordRequest(const std::string& request_id, RequestRecord record, WriteBatch* batch);
  absl::StatusOr<CollectionStatus> AnswerAgain(const RequestRecord& record, const std::string& name);

  // Generations (generations.cc).
  struct NewGeneration;
  absl::StatusOr<NewGeneration> CheckRegistration(const CollectionState& state, const RegisterCall& call) const;
  absl::Status StoreEncoder(uint32_t collection, const NewGeneration& made, const RegisterCall& call);

  // What serves (activation.cc). `generation`: the one to activate; nullopt: roll back.
  absl::StatusOr<ActivateAnswer> SwitchGeneration(const SwitchCall& call, std::optional<uint32_t> generation);
  // The end of it: `generation` takes over, `earlier` becomes the way back.
  absl::StatusOr<ActivateAnswer> Serve(Served& served, const CollectionState& state, const SwitchCall& call,
                                       uint32_t generation, std::vector<uint32_t> earlier, RequestRecord record);
  // Records of the audit log, oldest first. DATA_LOSS for a damaged one.
  absl::Status ReadAudit(uint32_t collection, absl::FunctionRef<void(AuditRecord)> visit) const;
  // CollectionRecord::earlier_active of a record without: it is as old as the field, or an older server wrote it.
  absl::StatusOr<std::vector<uint32_t>> EarlierByAudit(uint32_t collection, uint32_t active) const;

  // Writing (upsert.cc).
  absl::Status PrepareItems(const Collection& collection, const GenerationRecord& generation, UpsertBatch* batch,
                            const CallContext& context, std::vector<PreparedItem>* items);
  absl::Status CheckUpsert(const UpsertBatch& batch) const;
  absl::Status EmbedInputs(const Collection& collection, const GenerationRecord& generation, const UpsertBatch& batch,
                           const CallContext& context, std::vector<PreparedItem>* items);

  const EngineOptions options_;
  const std::unique_ptr<Store> store_;
  ThreadPool pool_;
  const std::shared_ptr<AdaptedBudget> adapted_budget_;
  Embedder embedder_;

  absl::Mutex operator_mu_;  // one change of the catalog at a time
  uint32_t next_collection_ ABSL_GUARDED_BY(operator_mu_) = 1;

  mutable absl::Mutex catalog_mu_ ABSL_ACQUIRED_AFTER(operator_mu_);
  std::map<std::string, ServedPtr> collections_ ABSL_GUARDED_BY(catalog_mu_);  // by name
  std::map<std::string, ServedPtr> aliases_ ABSL_GUARDED_BY(catalog_mu_);

  std::atomic<bool> ending_{false};
  absl::Mutex maintain_mu_;
  bool stopping_ ABSL_GUARDED_BY(maintain_mu_) = false;
  std::thread maintainer_;
};

}  // namespace lightcone::server

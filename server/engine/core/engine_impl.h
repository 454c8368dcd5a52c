// The engine over one data folder: a facade that forwards each call to its use case, and the owner of all of them.
// Threads: as Engine.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/api/engine.h"
#include "server/engine/backfill/backfill_calls.h"
#include "server/engine/backfill/embed_backfills.h"
#include "server/engine/core/collection_calls.h"
#include "server/engine/core/maintenance.h"
#include "server/engine/jobs/job_calls.h"
#include "server/engine/rollout/activation.h"
#include "server/engine/rollout/adapter_calls.h"
#include "server/engine/rollout/canary_calls.h"
#include "server/engine/rollout/generation_calls.h"
#include "server/engine/rollout/retire_calls.h"
#include "server/engine/search/live_recall.h"
#include "server/engine/search/read_calls.h"
#include "server/engine/search/search_calls.h"
#include "server/engine/services/context.h"
#include "server/engine/training/fit_calls.h"
#include "server/engine/training/training_calls.h"
#include "server/engine/validation/probe_calls.h"
#include "server/engine/validation/validation_calls.h"
#include "server/engine/write/write_calls.h"

namespace lightcone::server {

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, std::shared_ptr<Store> store);
  ~EngineImpl() override;

  // Reads the catalog, ends what a crash interrupted, opens the collections side by side.
  absl::Status Load();

  absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) override {
    return collections_.Create(call);
  }
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override { return collections_.List(); }
  std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const override {
    return context_.catalog.Refused();
  }
  absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) override { return collections_.Get(name); }
  absl::Status DropCollection(const std::string& name, const std::string& request_id) override {
    return collections_.Drop(name, request_id);
  }
  absl::Status SetAlias(const std::string& alias, const std::string& collection,
                        const std::string& request_id) override {
    return collections_.SetAlias(alias, collection, request_id);
  }
  absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                           const std::string& request_id, const CallContext& context) override {
    return collections_.Rebuild(collection, index, wait, request_id, context);
  }
  absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context) override {
    return collections_.IndexPayload(call, context);
  }

  absl::StatusOr<GenerationStatus> RegisterGeneration(const RegisterCall& call) override {
    return generations_.Register(call);
  }
  absl::StatusOr<std::vector<GenerationStatus>> ListGenerations(const std::string& collection) override {
    return generations_.List(collection);
  }
  absl::StatusOr<GenerationStatus> GetGeneration(const std::string& collection, uint32_t generation) override {
    return generations_.Get(collection, generation);
  }
  absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall& call) override {
    return activations_.Activate(call);
  }
  absl::StatusOr<ActivateAnswer> RollbackGeneration(const SwitchCall& call) override {
    return activations_.Rollback(call);
  }
  absl::StatusOr<std::vector<AuditEntry>> ListAudit(const std::string& collection, uint32_t limit) override {
    return activations_.ListAudit(collection, limit);
  }

  absl::StatusOr<AdapterStatus> PutAdapter(const PutAdapterCall& call) override { return adapters_.Put(call); }
  absl::Status DropAdapter(const DropAdapterCall& call) override { return adapters_.Drop(call); }
  absl::StatusOr<std::vector<AdapterStatus>> ListAdapters(const std::string& collection) override {
    return adapters_.List(collection);
  }
  absl::StatusOr<std::string> FitAdapter(const FitAdapterCall& call) override { return fits_.Fit(call); }
  absl::StatusOr<std::vector<SampledItem>> SampleItems(const SampleItemsCall& call,
                                                       const CallContext& context) override {
    return fits_.SampleItems(call, context);
  }

  absl::StatusOr<ProbeSetStatus> PutProbes(const PutProbesCall& call) override { return probes_.Put(call); }
  absl::Status DropProbes(const std::string& collection, const std::string& set,
                          const std::string& request_id) override {
    return probes_.Drop(collection, set, request_id);
  }
  absl::StatusOr<std::vector<ProbeSetStatus>> ListProbes(const std::string& collection) override {
    return probes_.List(collection);
  }
  absl::StatusOr<std::string> ValidateGeneration(const ValidateCall& call) override {
    return validations_.Validate(call);
  }
  absl::StatusOr<RetireAnswer> RetireGeneration(const RetireCall& call) override { return retirements_.Retire(call); }

  absl::StatusOr<JobStatus> GetJob(const std::string& id) override { return jobs_.Get(id); }
  absl::StatusOr<JobPage> ListJobs(const std::string& collection, std::string_view kind, uint32_t page_size,
                                   const std::string& token) override {
    return jobs_.List(collection, kind, page_size, token);
  }
  absl::StatusOr<CanaryStatus> SetCanary(const SetCanaryCall& call) override { return canaries_.Set(call); }
  absl::StatusOr<CanaryStatus> GetCanary(const std::string& collection) override { return canaries_.Get(collection); }
  absl::StatusOr<std::string> StartTraining(const StartTrainingCall& call) override { return trainings_.Start(call); }
  absl::StatusOr<JobStatus> CancelJob(const std::string& id, const std::string& request_id) override {
    return jobs_.Cancel(id, request_id);
  }

  absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall& call) override {
    return backfills_.Start(call);
  }
  absl::StatusOr<BackfillStatus> PauseBackfill(const std::string& collection, const std::string& request_id) override {
    return backfills_.Pause(collection, request_id);
  }
  absl::StatusOr<BackfillStatus> GetBackfill(const std::string& collection) override {
    return backfills_.Get(collection);
  }
  absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) override { return backfills_.Lease(call); }

  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) override {
    return writes_.Upsert(std::move(batch), context);
  }
  absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                     Durability durability, const CallContext& context) override {
    return writes_.Delete(collection, ids, durability, context);
  }
  absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids, uint32_t generation,
                                bool with_vector, const CallContext& context) override {
    return reads_.Get(collection, ids, generation, with_vector, context);
  }
  absl::StatusOr<RawInput> GetInput(const std::string& collection, const ItemId& id) override {
    return reads_.GetInput(collection, id);
  }
  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) override {
    return searches_.Search(call, context);
  }
  absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                    int64_t page_size, const std::string& token, bool with_vector,
                                    const CallContext& context) override {
    return reads_.Scroll(collection, filter, page_size, token, with_vector, context);
  }
  absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                    const CallContext& context) override {
    return reads_.Count(collection, filter, context);
  }

  absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string& collection) override {
    return live_recall_.Get(collection);
  }
  LiveSamplerStatus LiveSampling() override { return live_recall_.sampler().Status(); }
  StoreStats StoreStatistics() override { return context_.store->Stats(); }
  const EngineOptions& options() const override { return context_.options; }

  LiveSampler& live_sampler() { return live_recall_.sampler(); }

 private:
  // The end comes in this order: the destructor halts the jobs, whose runners use everything else; then the members end
  // from the last to the first, threads before what they use, the live sampler's thread the last of them.
  Context context_;
  LiveRecallCalls live_recall_{context_};
  CollectionCalls collections_{context_};
  GenerationCalls generations_{context_};
  ActivationCalls activations_{context_};
  AdapterCalls adapters_{context_};
  CanaryCalls canaries_{context_};
  RetireCalls retirements_{context_};
  ProbeCalls probes_{context_};
  ValidationCalls validations_{context_};
  FitCalls fits_{context_, adapters_};
  TrainingCalls trainings_{context_, generations_, adapters_};
  JobCalls jobs_{context_};
  BackfillCalls backfills_{context_};
  WriteCalls writes_{context_};
  ReadCalls reads_{context_};
  SearchCalls searches_{context_, live_recall_};
  Maintenance maintenance_{context_};
  EmbedBackfills embed_backfills_;
};

}  // namespace lightcone::server

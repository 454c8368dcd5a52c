// An engine whose answers and delays a test decides: for what the RPC layer does around engine calls.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/engine/api/engine.h"

namespace lightcone::server {

class FakeSnapshots : public Snapshots {
 public:
  absl::Status Start(const BackupOptions&) override { return absl::OkStatus(); }
  absl::StatusOr<SnapshotStatus> Create(const CreateSnapshotCall&, const CallContext&) override {
    return SnapshotStatus{};
  }
  absl::StatusOr<RestoredCollection> RestoreCollection(const RestoreCollectionCall&, const CallContext&) override {
    return RestoredCollection{};
  }
  absl::StatusOr<std::vector<SnapshotStatus>> List() override { return std::vector<SnapshotStatus>(); }
  absl::Status Delete(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<SnapshotStatus> Verify(const std::string&, const CallContext&) override { return SnapshotStatus{}; }
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Download(const std::string&) override { return Unimplemented("none"); }
  absl::StatusOr<std::unique_ptr<SnapshotUpload>> Upload(const std::string&) override { return Unimplemented("none"); }
  SnapshotFigures Figures() override { return {}; }
};

class FakeRollout : public Engine {
 public:
  std::function<absl::StatusOr<GenerationStatus>()> on_register;
  absl::StatusOr<GenerationStatus> RegisterGeneration(const RegisterCall&) override {
    return on_register ? on_register() : GenerationStatus{};
  }
  absl::StatusOr<std::vector<GenerationStatus>> ListGenerations(const std::string&) override {
    return std::vector<GenerationStatus>();
  }
  std::function<absl::StatusOr<GenerationStatus>()> on_get_generation;
  absl::StatusOr<GenerationStatus> GetGeneration(const std::string&, uint32_t) override {
    return on_get_generation ? on_get_generation() : GenerationStatus{};
  }
  absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall&) override { return ActivateAnswer{}; }
  std::function<absl::StatusOr<ActivateAnswer>()> on_rollback;
  absl::StatusOr<ActivateAnswer> RollbackGeneration(const SwitchCall&) override {
    return on_rollback ? on_rollback() : ActivateAnswer{};
  }
  absl::StatusOr<std::vector<AuditEntry>> ListAudit(const std::string&, uint32_t) override {
    return std::vector<AuditEntry>();
  }
  absl::StatusOr<AdapterStatus> PutAdapter(const PutAdapterCall&) override { return AdapterStatus{}; }
  absl::Status DropAdapter(const DropAdapterCall&) override { return absl::OkStatus(); }
  std::vector<AdapterStatus> adapters;
  absl::StatusOr<std::vector<AdapterStatus>> ListAdapters(const std::string&) override { return adapters; }
  absl::StatusOr<std::string> FitAdapter(const FitAdapterCall&) override { return std::string("1"); }
  absl::StatusOr<std::vector<SampledItem>> SampleItems(const SampleItemsCall&, const CallContext&) override {
    return std::vector<SampledItem>();
  }
  absl::StatusOr<ProbeSetStatus> PutProbes(const PutProbesCall&) override { return ProbeSetStatus{}; }
  absl::Status DropProbes(const std::string&, const std::string&, const std::string&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<ProbeSetStatus>> ListProbes(const std::string&) override {
    return std::vector<ProbeSetStatus>();
  }
  std::function<absl::StatusOr<std::string>(const ValidateCall&)> on_validate;
  absl::StatusOr<std::string> ValidateGeneration(const ValidateCall& call) override {
    return on_validate ? on_validate(call) : std::string("1");
  }
  absl::StatusOr<RetireAnswer> RetireGeneration(const RetireCall&) override { return RetireAnswer{}; }
  std::function<absl::StatusOr<JobStatus>(const std::string& id)> on_get_job;
  absl::StatusOr<JobStatus> GetJob(const std::string& id) override { return on_get_job ? on_get_job(id) : JobStatus{}; }
  absl::StatusOr<JobPage> ListJobs(const std::string&, std::string_view, uint32_t, const std::string&) override {
    return JobPage{};
  }
  absl::StatusOr<CanaryStatus> SetCanary(const SetCanaryCall&) override { return CanaryStatus{}; }
  absl::StatusOr<CanaryStatus> GetCanary(const std::string&) override { return CanaryStatus{}; }
  absl::StatusOr<std::string> StartTraining(const StartTrainingCall&) override { return std::string("1"); }
  absl::StatusOr<JobStatus> CancelJob(const std::string&, const std::string&) override { return JobStatus{}; }
  absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall&) override { return BackfillStatus{}; }
  absl::StatusOr<BackfillStatus> PauseBackfill(const std::string&, const std::string&) override {
    return BackfillStatus{};
  }
  absl::StatusOr<EmbeddingEstimate> EstimateBackfill(const EstimateCall&, const CallContext&) override {
    return EmbeddingEstimate{};
  }
  std::function<absl::StatusOr<BackfillStatus>()> on_get_backfill;
  absl::StatusOr<BackfillStatus> GetBackfill(const std::string&) override {
    return on_get_backfill ? on_get_backfill() : BackfillStatus{};
  }
  absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall&) override { return LeaseAnswer{}; }
};

class FakeEngine : public FakeRollout {
 public:
  std::function<absl::StatusOr<SearchAnswer>(const SearchCall&, const CallContext&)> on_search;
  std::function<absl::StatusOr<WriteResult>(const UpsertBatch&, const CallContext&)> on_upsert;
  std::function<absl::StatusOr<ScrollPage>(int64_t page_size, const std::string& token, int64_t bytes_max)> on_scroll;
  std::function<absl::StatusOr<CollectionStatus>(const std::string& name)> on_get_collection;
  std::function<absl::StatusOr<CollectionStatus>(const CallContext&)> on_rebuild;

  absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) override {
    CollectionStatus status;
    status.name = call.name;
    status.index = call.index.Over(call.index_defaults);
    return status;
  }
  std::vector<CollectionStatus> collections;
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override { return collections; }
  std::function<std::optional<std::string>(const std::string& name)> on_resolve;
  std::optional<std::string> ResolveName(const std::string& name) const override {
    return on_resolve ? on_resolve(name) : name;
  }
  absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) override {
    return on_get_collection ? on_get_collection(name) : CollectionStatus{};
  }
  absl::Status DropCollection(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::Status SetAlias(const std::string&, const std::string&, const std::string&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<CollectionStatus> UpdateCollection(const UpdateCollectionCall& call) override {
    CollectionStatus status;
    status.name = call.collection;
    status.require_generation = call.require_generation.value_or(false);
    return status;
  }
  absl::StatusOr<CollectionStatus> Rebuild(const std::string&, const IndexChange& index, bool, const std::string&,
                                           const CallContext& context) override {
    if (on_rebuild) return on_rebuild(context);
    CollectionStatus status;
    status.index = index.Over({});
    return status;
  }
  absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall&, const CallContext&) override {
    return CollectionStatus{};
  }
  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) override {
    if (on_upsert) return on_upsert(batch, context);
    return WriteResult{++sequence_, 1, static_cast<uint32_t>(batch.items.size())};
  }
  absl::StatusOr<WriteResult> Delete(const std::string&, const std::vector<ItemId>& ids, Durability,
                                     const CallContext&) override {
    return WriteResult{++sequence_, 0, static_cast<uint32_t>(ids.size())};
  }
  absl::StatusOr<DeleteByFilterAnswer> DeleteByFilter(const DeleteByFilterCall&, const CallContext&) override {
    return DeleteByFilterAnswer{++sequence_, 0, ""};
  }
  absl::StatusOr<GetAnswer> Get(const std::string&, const std::vector<ItemId>&, uint32_t, const ItemParts&,
                                const CallContext&) override {
    return GetAnswer{};
  }
  std::function<absl::StatusOr<ChangePayloadAnswer>(const ChangePayloadCall&)> on_change_payload;
  absl::StatusOr<ChangePayloadAnswer> ChangePayload(const ChangePayloadCall& call, const CallContext&) override {
    return on_change_payload ? on_change_payload(call) : ChangePayloadAnswer{};
  }
  std::function<absl::StatusOr<FacetAnswer>(const FacetCall&)> on_facet;
  absl::StatusOr<FacetAnswer> Facet(const FacetCall& call, const CallContext&) override {
    return on_facet ? on_facet(call) : FacetAnswer{};
  }
  std::function<absl::StatusOr<ScrollPage>(const OrderBy&, const std::string& token)> on_scroll_ordered;
  absl::StatusOr<ScrollPage> ScrollOrdered(const std::string&, const OrderBy& order, const std::optional<FilterNode>&,
                                           int64_t, const std::string& token, const ItemParts&,
                                           const CallContext&) override {
    return on_scroll_ordered ? on_scroll_ordered(order, token) : ScrollPage{};
  }
  absl::StatusOr<RawInput> GetInput(const std::string&, const ItemId&) override { return NotFound("no item"); }
  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) override {
    return on_search ? on_search(call, context) : SearchAnswer{};
  }
  absl::StatusOr<ScrollPage> Scroll(const std::string&, const std::optional<FilterNode>&, int64_t page_size,
                                    const std::string& token, const ItemParts&, const CallContext& context) override {
    return on_scroll ? on_scroll(page_size, token, context.answer_bytes_max) : ScrollPage{};
  }
  absl::StatusOr<CountAnswer> Count(const std::string&, const std::optional<FilterNode>&, const CallContext&) override {
    return CountAnswer{};
  }
  absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string&) override { return LiveRecallStatus{}; }
  LiveSamplerStatus LiveSampling() override { return {}; }
  Snapshots& snapshots() override { return snapshots_; }
  StoreStats StoreStatistics() override { return {}; }
  const EngineOptions& options() const override { return options_; }

 private:
  FakeSnapshots snapshots_;
  EngineOptions options_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace lightcone::server

// The rollout's half of the engine: forwards each call to its use case, and owns these and the context of all.
// Threads: as Engine.
#pragma once

#include <string>
#include <vector>

#include "server/engine/api/engine.h"
#include "server/engine/backfill/backfill_calls.h"
#include "server/engine/jobs/job_calls.h"
#include "server/engine/rollout/activation.h"
#include "server/engine/rollout/adapter_calls.h"
#include "server/engine/rollout/canary_calls.h"
#include "server/engine/rollout/generation_calls.h"
#include "server/engine/rollout/retire_calls.h"
#include "server/engine/services/context.h"
#include "server/engine/training/fit_calls.h"
#include "server/engine/training/training_calls.h"
#include "server/engine/validation/probe_calls.h"
#include "server/engine/validation/validation_calls.h"

namespace lightcone::server {

class RolloutFacade : public Engine {
 public:
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
  absl::StatusOr<EmbeddingEstimate> EstimateBackfill(const EstimateCall& call, const CallContext& context) override {
    return backfills_.Estimate(call, context);
  }
  absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) override { return backfills_.Lease(call); }

 protected:
  RolloutFacade(const EngineOptions& options, std::shared_ptr<Store> store);

  Context context_;
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
};

}  // namespace lightcone::server

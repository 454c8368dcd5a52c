#include "server/engine/core/engine_impl.h"

#include <filesystem>
#include <set>

#include "base/cores.h"
#include "base/files.h"
#include "base/status.h"
#include "server/engine/core/engine_load.h"
#include "server/engine/embed/embedder.h"
#include "server/engine/jobs/jobs.h"

namespace lightcone::server {

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  LC_RETURN_IF_ERROR(CheckDataFolder(options.data_folder));
  LC_RETURN_IF_ERROR(MakeFolders(options.data_folder));
  KeepToOwner(options.data_folder);
  LC_ASSIGN_OR_RETURN(auto store, OpenStore(options.data_folder + "/store", options.store));
  LC_RETURN_IF_ERROR(MakeFolders(options.data_folder + "/index"));
  LC_RETURN_IF_ERROR(MakeFolders(options.data_folder + "/encoders"));
  auto engine = std::make_unique<EngineImpl>(options, std::move(store));
  LC_RETURN_IF_ERROR(engine->Load());
  return engine;
}

RolloutFacade::RolloutFacade(const EngineOptions& options, std::shared_ptr<Store> store)
    : context_(options, store, std::make_shared<Jobs>(store.get()), std::make_shared<Embedder>(options),
               options.search_threads > 0 ? options.search_threads : AvailableCores()) {}

EngineImpl::EngineImpl(const EngineOptions& options, std::shared_ptr<Store> store)
    : RolloutFacade(options, std::move(store)),
      embed_backfills_(context_, [this](const Served& served, const GenerationRecord& generation, UpsertBatch batch,
                                        const CallContext& context) {
        return writes_.WriteVectors(served, generation, std::move(batch), context);
      }) {}

EngineImpl::~EngineImpl() {
  context_.ending = true;
  StopEncoders();
  context_.jobs->Halt();
}

void EngineImpl::StopEncoders() {
  context_.jobs->BeginHalt();  // first: a job whose encoder stops has not failed, and goes on with the next start
  context_.embedder->Stop();
}

absl::Status EngineImpl::Load() {
  Jobs& jobs = *context_.jobs;
  const auto define = [&jobs](auto& calls, bool cancellable, std::function<void(uint64_t job)> ended = {}) {
    jobs.Define(
        std::string(calls.kJob), [&calls](const JobRun& run) { return calls.RunJob(run); }, cancellable,
        std::move(ended));
  };
  define(validations_, /*cancellable=*/true);
  define(retirements_, /*cancellable=*/false);
  define(fits_, /*cancellable=*/true);
  define(trainings_, /*cancellable=*/true, [this](uint64_t job) { trainings_.Remove(job); });
  trainings_.RemoveEnded();
  std::error_code error;
  std::filesystem::remove_all(context_.folders.Jobs(), error);  // A run that was cut short may have left files.
  if (error) return ErrnoStatus(error.value(), "remove", context_.folders.Jobs());
  LC_ASSIGN_OR_RETURN(const std::set<uint32_t> refused, LoadCollections(context_, backfills_));
  return jobs.Load([&](uint32_t number) { return !refused.contains(number); });
}

}  // namespace lightcone::server

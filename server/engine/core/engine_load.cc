// Start and end of the engine: the data folder, the catalog, what a crash interrupted.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "base/cores.h"
#include "base/files.h"
#include "base/priority.h"
#include "base/status.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/core/engine_impl.h"
#include "spdlog/spdlog.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/walk.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kRequestAgeMax = absl::Hours(24 * 30);
constexpr absl::Duration kMaintainEvery = absl::Seconds(1);
constexpr int kCarrierNice = 10;     // searches and writes come first
constexpr int kBackgroundNice = 19;  // of encoders that nobody waits for

// An existing folder must be empty or hold a store: nothing of ours is put among somebody else's files.
absl::Status CheckFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  if (!fs::is_directory(folder, error)) {
    return FailedPrecondition(StrCat("data folder '", folder, "' is not a folder"));
  }
  if (fs::exists(folder + "/store", error)) return absl::OkStatus();
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "lost+found" || name[0] == '.') continue;
    return FailedPrecondition(StrCat("data folder '", folder, "' holds '", name,
                                     "' and no store of Lightcone; give an empty folder or one of ours"));
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  return absl::OkStatus();
}

int ThreadsOf(int asked) { return asked > 0 ? asked : AvailableCores(); }

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  LC_RETURN_IF_ERROR(CheckFolder(options.data_folder));
  LC_RETURN_IF_ERROR(MakeFolders(options.data_folder));
  LC_ASSIGN_OR_RETURN(auto store, OpenStore(options.data_folder + "/store", options.store));
  LC_RETURN_IF_ERROR(MakeFolders(options.data_folder + "/index"));
  LC_RETURN_IF_ERROR(MakeFolders(options.data_folder + "/encoders"));
  auto engine = std::make_unique<EngineImpl>(options, std::move(store));
  LC_RETURN_IF_ERROR(engine->Load());
  return engine;
}

EngineImpl::EngineImpl(const EngineOptions& options, std::unique_ptr<Store> store)
    : options_(options),
      store_(std::move(store)),
      pool_(ThreadsOf(options.search_threads)),
      adapted_memory_(std::make_shared<AdaptedBudget>(options.adapted_rows_bytes_max)),
      carried_disk_(options.carried_disk_bytes_max > 0 ? std::make_shared<AdaptedBudget>(options.carried_disk_bytes_max)
                                                       : nullptr),
      embedder_({options.encoder_threads, options.encoder_batch_max, options.encoder_linger, options.encoder_queue_max,
                 options.limits.input_bytes_max}),
      background_embedder_({options.helper_threads, options.encoder_batch_max, absl::ZeroDuration(),
                            options.encoder_queue_max, options.limits.input_bytes_max, kBackgroundNice}),
      jobs_(store_.get()),
      maintainer_([this] { Maintain(); }),
      carrier_([this] { CarryGalleries(); }),
      backfill_embedder_([this] { EmbedBackfills(); }),
      live_sampler_(options.live_recall, ThreadsOf(options.search_threads)) {}

EngineImpl::~EngineImpl() {
  ending_ = true;
  jobs_.Halt();
  {
    absl::MutexLock lock(&maintain_mu_);
    stopping_ = true;
  }
  maintainer_.join();
  carrier_.join();
  backfill_embedder_.join();
}

absl::Status EngineImpl::FinishDrops() {
  const auto markers = store_->Scan(Table::kMeta, keys::Meta(kDroppingPrefix), keys::Meta("dropping0"));
  const size_t prefix = keys::Meta(kDroppingPrefix).size();
  for (; markers->Valid(); markers->Next()) {
    const std::string key(markers->key());
    LC_ASSIGN_OR_RETURN(const uint32_t number, ParseNumber(std::string_view(key).substr(prefix), "a drop's marker"));
    std::error_code error;
    fs::remove_all(IndexFolder(number), error);
    if (!error) fs::remove_all(EncoderFolder(number), error);
    if (error) return ErrnoStatus(error.value(), "remove", IndexFolder(number));
    LC_RETURN_IF_ERROR(Collection::DeleteKeys(store_.get(), number));
    WriteBatch batch;
    batch.Delete(Table::kMeta, key);
    LC_RETURN_IF_ERROR(store_->Write(batch, Durability::kDurable));
  }
  return markers->status();
}

absl::Status EngineImpl::ForgetOldRequests() {
  const int64_t oldest = absl::ToUnixMicros(absl::Now() - kRequestAgeMax);
  const auto requests = store_->Scan(Table::kMeta, keys::Meta(kRequestPrefix), keys::Meta("request0"));
  WriteBatch batch;
  const auto forget = [&](std::string_view key, std::string_view value) {
    LC_ASSIGN_OR_RETURN(const RequestRecord record, DecodeRequest(value));
    if (record.time_us < oldest) batch.Delete(Table::kMeta, std::string(key));
    return absl::OkStatus();
  };
  // A damaged one refuses its own call, should that come again, and nothing else.
  const auto pass_over = [](std::string_view key, const absl::Status& why) {
    spdlog::error("{}: the memory of a request is damaged: {}", Place(Table::kMeta, key), MessageOf(why));
    return absl::OkStatus();
  };
  LC_RETURN_IF_ERROR(WalkPastDamage(*requests, forget, pass_over));
  return batch.empty() ? absl::OkStatus() : store_->Write(batch, Durability::kDurable);
}

absl::StatusOr<std::shared_ptr<Collection>> EngineImpl::LoadCollection(uint32_t number, const std::string& encoded) {
  LC_ASSIGN_OR_RETURN(CollectionRecord record, DecodeCollection(encoded));
  std::vector<GenerationRecord> generations;
  const keys::Range range = keys::GenerationRecordRange(number);
  const auto rows = store_->Scan(Table::kGenerations, range.begin, range.end);
  for (; rows->Valid(); rows->Next()) {
    LC_ASSIGN_OR_RETURN(GenerationRecord generation, DecodeGeneration(rows->value()));
    if (generation.generation != generations.size() + 1) {
      return DataLoss(
          StrCat("collection '", record.name, "': the record of generation ", generations.size() + 1, " is missing"));
    }
    generations.push_back(std::move(generation));
  }
  LC_RETURN_IF_ERROR(rows->status());
  if (generations.size() != record.last_generation) {
    return DataLoss(StrCat("collection '", record.name, "' has ", generations.size(), " generation records; expected ",
                           record.last_generation));
  }
  LC_ASSIGN_OR_RETURN(AdapterSet adapters, LoadAdapters(number, record.name, generations));
  ProgressRecord progress;
  const auto stored = store_->Get(Table::kMeta, keys::Meta(ProgressName(number)));
  if (stored.ok()) {
    LC_ASSIGN_OR_RETURN(progress, DecodeProgress(*stored));
  } else if (!absl::IsNotFound(stored.status())) {
    return stored.status();
  }
  return Collection::Open(number, store_.get(), IndexFolder(number), std::move(record), encoded, std::move(generations),
                          std::move(adapters), std::move(progress), LimitsOfIndex());
}

absl::StatusOr<AdapterSet> EngineImpl::LoadAdapters(uint32_t number, const std::string& name,
                                                    const std::vector<GenerationRecord>& generations) {
  AdapterSet adapters;
  const keys::Range range = keys::AdapterRange(number);
  const auto rows = store_->Scan(Table::kGenerations, range.begin, range.end);
  for (; rows->Valid(); rows->Next()) {
    const auto refuse = [&](const absl::Status& why) {
      const std::string at = StrCat("collection '", name, "', ", Place(Table::kGenerations, rows->key()));
      return DataLoss(StrCat(at, ": ", MessageOf(why)));
    };
    absl::StatusOr<AdapterRecord> record = DecodeAdapterRecord(rows->value());
    if (absl::IsFailedPrecondition(record.status())) return record.status();
    if (!record.ok()) return refuse(record.status());
    const auto known = [&](uint32_t g) { return g <= generations.size(); };
    if (rows->key() != keys::Adapter(number, record->from, record->to) || !known(record->from) || !known(record->to)) {
      return refuse(DataLoss(StrCat("an adapter from generation ", record->from, " to ", record->to)));
    }
    const GenerationRecord& from = generations[record->from - 1];
    const GenerationRecord& to = generations[record->to - 1];
    if (from.removed || to.removed) continue;  // The end of a retirement ends adapters.
    const auto file = ReadAdapterFor(from, to, record->file);
    if (absl::IsFailedPrecondition(file.status())) return file.status();
    if (!file.ok()) return refuse(file.status());
    LC_ASSIGN_OR_RETURN(adapters[std::pair(record->from, record->to)], ServeAdapter(*record, *file, CachesOf(number)));
  }
  LC_RETURN_IF_ERROR(rows->status());
  return adapters;
}

absl::Status EngineImpl::Load() {
  jobs_.Define(
      std::string(kValidateJob), [this](const JobRun& run) { return RunValidateJob(run); },
      /*cancellable=*/true);
  jobs_.Define(
      std::string(kRetireJob), [this](const JobRun& run) { return RunRetireJob(run); },
      /*cancellable=*/false);
  jobs_.Define(
      std::string(kFitAdapterJob), [this](const JobRun& run) { return RunFitAdapterJob(run); },
      /*cancellable=*/true);
  jobs_.Define(
      std::string(kTrainJob), [this](const JobRun& run) { return RunTrainJob(run); }, /*cancellable=*/true,
      [this](uint64_t job) { RemoveTraining(job); });
  std::error_code error;
  RemoveEndedTrainings();
  fs::remove_all(JobsFolder(), error);  // of a run that was cut short
  if (error) return ErrnoStatus(error.value(), "remove", JobsFolder());
  absl::MutexLock lock(&operator_mu_);
  LC_RETURN_IF_ERROR(FinishDrops());
  LC_RETURN_IF_ERROR(ForgetOldRequests());
  const auto next = store_->Get(Table::kMeta, keys::Meta(kNextCollectionName));
  if (next.ok()) {
    LC_ASSIGN_OR_RETURN(next_collection_, ParseNumber(*next, "next_collection"));
  } else if (!absl::IsNotFound(next.status())) {
    return next.status();
  }
  std::vector<std::pair<uint32_t, std::string>> found;
  const auto rows = store_->Scan(Table::kCollections, "", "");
  for (; rows->Valid(); rows->Next()) {
    LC_ASSIGN_OR_RETURN(const CollectionRecord record, DecodeCollection(rows->value()));
    LC_ASSIGN_OR_RETURN(const std::string number, store_->Get(Table::kMeta, keys::CollectionName(record.name)));
    LC_ASSIGN_OR_RETURN(const uint32_t parsed, ParseNumber(number, StrCat("the number of '", record.name, "'")));
    found.emplace_back(parsed, std::string(rows->value()));
  }
  LC_RETURN_IF_ERROR(rows->status());
  std::vector<absl::StatusOr<std::shared_ptr<Collection>>> opened(found.size(), std::shared_ptr<Collection>());
  LC_RETURN_IF_ERROR(pool_.ParallelFor(static_cast<int64_t>(found.size()), [&](int64_t i) {
    opened[i] = LoadCollection(found[i].first, found[i].second);
  }));
  std::set<uint32_t> not_served;
  absl::Status damaged;  // the first one that is
  absl::MutexLock catalog(&catalog_mu_);
  for (size_t i = 0; i < opened.size(); ++i) {
    LC_ASSIGN_OR_RETURN(const CollectionRecord record, DecodeCollection(found[i].second));
    absl::Status status = Admit(record, std::move(opened[i]));
    if (status.ok()) continue;
    if (absl::IsDataLoss(status)) status = Annotate(status, StrCat("collection '", record.name, "'"));
    // The others have memory enough, and are as they were. What else fails (no descriptor, no permission) ends the
    // start: it would meet them as well.
    const bool too_large = status.GetPayload(ToAbsl(kMemoryLimitUrl)).has_value();
    if (!too_large && !absl::IsDataLoss(status)) return status;
    if (!too_large) damaged.Update(status);
    spdlog::error("{}; it is not served", MessageOf(status));
    refused_[record.name] = status;
    refused_names_.push_back(record.name);
    not_served.insert(found[i].first);
    for (const std::string& alias : record.aliases) refused_[alias] = status;
  }
  if (collections_.empty()) LC_RETURN_IF_ERROR(damaged);  // A server of nothing would hide it.
  return jobs_.Load([&](uint32_t number) { return !not_served.contains(number); });
}

absl::Status EngineImpl::Admit(const CollectionRecord& record, absl::StatusOr<std::shared_ptr<Collection>> collection) {
  LC_RETURN_IF_ERROR(collection.status());
  auto served = std::make_shared<Served>(std::move(*collection), options_.write_queue_max);
  LC_RETURN_IF_ERROR(LoadBackfill(*served));
  for (const std::string& alias : record.aliases) aliases_[alias] = served;
  collections_[record.name] = std::move(served);
  return absl::OkStatus();
}

void EngineImpl::Maintain() {
  const auto stopping = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; };
  absl::MutexLock lock(&maintain_mu_);
  while (!maintain_mu_.AwaitWithTimeout(absl::Condition(&stopping), kMaintainEvery)) {
    std::vector<ServedPtr> all;
    {
      absl::ReaderMutexLock catalog(&catalog_mu_);
      for (const auto& [name, served] : collections_) all.push_back(served);
    }
    // What fails now is tried again in a second; a store that keeps failing shows itself in every write.
    for (const ServedPtr& served : all) (void)served->collection->TrimChanges();
    for (const ServedPtr& served : all) (void)served->collection->payloads().Sweep();
  }
}

void EngineImpl::CarryGalleries() {
  StandBack(kCarrierNice);
  const auto stopping = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; };
  while (true) {
    {
      absl::MutexLock lock(&maintain_mu_);
      if (maintain_mu_.AwaitWithTimeout(absl::Condition(&stopping), kMaintainEvery)) return;
    }
    std::vector<std::weak_ptr<Served>> all;  // none waits to be dropped until others are carried
    {
      absl::ReaderMutexLock catalog(&catalog_mu_);
      for (const auto& [name, served] : collections_) all.push_back(served);
    }
    for (const auto& one : all) {
      const ServedPtr served = one.lock();
      // Errors are logged where they happen, and tried again later.
      if (served != nullptr) (void)served->collection->AdaptGalleries([this] { return ending_.load(); });
    }
  }
}

}  // namespace lightcone::server

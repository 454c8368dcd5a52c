#include "server/engine/core/engine_load.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/core/collection_calls.h"
#include "spdlog/spdlog.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/walk.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kRequestAgeMax = absl::Hours(24 * 30);

absl::Status FinishDrops(Context& context) {
  const auto markers = context.store->Scan(Table::kMeta, keys::Meta(kDroppingPrefix), keys::Meta("dropping0"));
  const size_t prefix = keys::Meta(kDroppingPrefix).size();
  for (; markers->Valid(); markers->Next()) {
    const std::string key(markers->key());
    LC_ASSIGN_OR_RETURN(const uint32_t number, ParseNumber(std::string_view(key).substr(prefix), "a drop's marker"));
    LC_RETURN_IF_ERROR(RemoveRemains(context, number));
  }
  return markers->status();
}

absl::Status ForgetOldRequests(Store& store) {
  const int64_t oldest = absl::ToUnixMicros(absl::Now() - kRequestAgeMax);
  const auto requests = store.Scan(Table::kMeta, keys::Meta(kRequestPrefix), keys::Meta("request0"));
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
  return batch.empty() ? absl::OkStatus() : store.Write(batch, Durability::kDurable);
}

absl::StatusOr<AdapterSet> LoadAdapters(const Context& context, uint32_t number, const std::string& name,
                                        const std::vector<GenerationRecord>& generations) {
  AdapterSet adapters;
  const keys::Range range = keys::AdapterRange(number);
  const auto rows = context.store->Scan(Table::kGenerations, range.begin, range.end);
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
    LC_ASSIGN_OR_RETURN(adapters[std::pair(record->from, record->to)],
                        ServeAdapter(*record, *file, context.CachesOf(number)));
  }
  LC_RETURN_IF_ERROR(rows->status());
  return adapters;
}

// A wall clock that was turned back while no server ran must not bring back what has expired.
absl::Status LoadClock(Context& context) {
  const auto seen = context.store->Get(Table::kMeta, keys::Meta(kClockName));
  if (absl::IsNotFound(seen.status())) return absl::OkStatus();
  int64_t ms = 0;
  if (seen.ok() && absl::SimpleAtoi(*seen, &ms)) {
    context.clock.NeverBefore(ms);
  } else if (seen.ok() || absl::IsDataLoss(seen.status())) {
    spdlog::error("the time that was seen last is damaged; items expire by the machine's clock alone");
  } else {
    return seen.status();
  }
  return absl::OkStatus();
}

absl::Status LoadNextNumber(Context& context) {
  const auto next = context.store->Get(Table::kMeta, keys::Meta(kNextCollectionName));
  if (absl::IsNotFound(next.status())) return absl::OkStatus();
  LC_RETURN_IF_ERROR(next.status());
  LC_ASSIGN_OR_RETURN(const uint32_t number, ParseNumber(*next, "next_collection"));
  absl::MutexLock lock(&context.catalog.operator_mutex());
  context.catalog.SetNextNumber(number);
  return absl::OkStatus();
}

// Adds a collection to the catalog, if it could be loaded.
absl::Status Admit(Context& context, BackfillCalls& backfills, absl::StatusOr<std::shared_ptr<Collection>> collection) {
  LC_RETURN_IF_ERROR(collection.status());
  const ServedPtr served = MakeServed(*std::move(collection), context.options);
  LC_RETURN_IF_ERROR(backfills.Load(*served));
  context.catalog.Add(served);
  return absl::OkStatus();
}

}  // namespace

absl::Status RemoveRemains(Context& context, uint32_t number) {
  std::error_code error;
  fs::remove_all(context.folders.Index(number), error);
  if (!error) fs::remove_all(context.folders.Encoders(number), error);
  if (error) return ErrnoStatus(error.value(), "remove", context.folders.Index(number));
  LC_RETURN_IF_ERROR(DeleteKeysOf(*context.store, number));
  WriteBatch batch;
  batch.Delete(Table::kMeta, keys::Meta(DroppingName(number)));
  return context.store->Write(batch, Durability::kDurable);
}

absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(Context& context, uint32_t number,
                                                           const std::string& encoded,
                                                           const std::function<bool()>& given_up) {
  LC_ASSIGN_OR_RETURN(CollectionRecord record, DecodeCollection(encoded));
  std::vector<GenerationRecord> generations;
  const keys::Range range = keys::GenerationRecordRange(number);
  const auto rows = context.store->Scan(Table::kGenerations, range.begin, range.end);
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
  LC_ASSIGN_OR_RETURN(AdapterSet adapters, LoadAdapters(context, number, record.name, generations));
  ProgressRecord progress;
  const auto stored = context.store->Get(Table::kMeta, keys::Meta(ProgressName(number)));
  if (stored.ok()) {
    LC_ASSIGN_OR_RETURN(progress, DecodeProgress(*stored));
  } else if (!absl::IsNotFound(stored.status())) {
    return stored.status();
  }
  return Collection::Open(number, context.store.get(), &context.clock, context.folders.Index(number), std::move(record),
                          encoded, std::move(generations), std::move(adapters), std::move(progress),
                          IndexLimitsOf(context), given_up);
}

absl::StatusOr<std::vector<std::pair<uint32_t, std::string>>> FindCollections(const Store& store) {
  std::vector<std::pair<uint32_t, std::string>> found;
  const auto rows = store.Scan(Table::kCollections, "", "");
  for (; rows->Valid(); rows->Next()) {
    LC_ASSIGN_OR_RETURN(const CollectionRecord record, DecodeCollection(rows->value()));
    LC_ASSIGN_OR_RETURN(const std::string number, store.Get(Table::kMeta, keys::CollectionName(record.name)));
    LC_ASSIGN_OR_RETURN(const uint32_t parsed, ParseNumber(number, StrCat("the number of '", record.name, "'")));
    found.emplace_back(parsed, std::string(rows->value()));
  }
  LC_RETURN_IF_ERROR(rows->status());
  return found;
}

absl::Status CheckDataFolder(const std::string& folder) {
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

void KeepToOwner(const std::string& folder) {
  constexpr fs::perms kOthers = fs::perms::group_all | fs::perms::others_all;
  std::error_code error;
  const fs::perms before = fs::status(folder, error).permissions();
  if (error || (before & kOthers) == fs::perms::none) return;
  fs::permissions(folder, kOthers, fs::perm_options::remove, error);
  if (error) {
    spdlog::warn("data folder '{}': other users may enter it, and its mode cannot be changed: {}", folder,
                 error.message());
  } else {
    spdlog::warn("data folder '{}': other users could enter it; its mode is 0700 now", folder);
  }
}

absl::StatusOr<std::set<uint32_t>> LoadCollections(Context& context, BackfillCalls& backfills) {
  LC_RETURN_IF_ERROR(FinishDrops(context));
  LC_RETURN_IF_ERROR(ForgetOldRequests(*context.store));
  LC_RETURN_IF_ERROR(LoadNextNumber(context));
  LC_RETURN_IF_ERROR(LoadClock(context));
  LC_ASSIGN_OR_RETURN(const auto found, FindCollections(*context.store));
  std::vector<absl::StatusOr<std::shared_ptr<Collection>>> opened(found.size(), std::shared_ptr<Collection>());
  LC_RETURN_IF_ERROR(context.pool.ParallelFor(static_cast<int64_t>(found.size()), [&](int64_t i) {
    opened[i] = LoadCollection(context, found[i].first, found[i].second);
  }));
  std::set<uint32_t> refused;
  absl::Status damaged;  // the first damage
  for (size_t i = 0; i < opened.size(); ++i) {
    LC_ASSIGN_OR_RETURN(const CollectionRecord record, DecodeCollection(found[i].second));
    absl::Status status = Admit(context, backfills, std::move(opened[i]));
    if (status.ok()) continue;
    if (absl::IsDataLoss(status)) status = Annotate(status, StrCat("collection '", record.name, "'"));
    // The others have memory enough, and are as they were. What else fails (no descriptor, no permission) ends the
    // start: it would meet them as well.
    const bool too_large = status.GetPayload(ToAbsl(kMemoryLimitUrl)).has_value();
    if (!too_large && !absl::IsDataLoss(status)) return status;
    if (!too_large) damaged.Update(status);
    spdlog::error("{}; it is not served", MessageOf(status));
    context.catalog.Refuse(record, status);
    refused.insert(found[i].first);
  }
  if (refused.size() == found.size()) LC_RETURN_IF_ERROR(damaged);  // A server of nothing would hide it.
  return refused;
}

}  // namespace lightcone::server

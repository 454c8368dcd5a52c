#include "server/engine/write/expiry_sweeps.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "server/engine/write/writer.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kEvery = absl::Milliseconds(200);
constexpr absl::Duration kAfterError = absl::Seconds(5);
constexpr int64_t kStoreEveryMs = 1'000, kDurableEveryMs = 10'000;
constexpr size_t kItemsAJob = 128;  // whose payloads are read
constexpr absl::Duration kVisibleMax = absl::Seconds(1);
constexpr absl::Duration kSubmitMax = absl::Seconds(5);

CallContext Within(absl::Duration time) {
  CallContext context;
  context.deadline = absl::Now() + time;
  return context;
}

// Whether everything that the store has by now is in the index as well.
bool IsIndexed(Collection& collection) {
  const auto stored = collection.store()->Get(Table::kMeta, keys::Meta(ProgressName(collection.number())));
  if (!stored.ok()) return absl::IsNotFound(stored.status());
  const absl::StatusOr<ProgressRecord> progress = DecodeProgress(*stored);
  return progress.ok() && collection.WaitVisible(progress->sequence, Within(kVisibleMax)).ok();
}

// The items as the store has them. Those whose records are damaged are given up, and not found.
absl::StatusOr<std::vector<ResolvedRow>> ReadItems(Collection& collection, const std::vector<uint64_t>& ids) {
  absl::StatusOr<std::vector<ResolvedRow>> rows = collection.CurrentRows(ids);
  if (!absl::IsDataLoss(rows.status())) return rows;
  std::vector<ResolvedRow> read;
  for (const uint64_t& id : ids) {
    absl::StatusOr<std::vector<ResolvedRow>> one = collection.CurrentRows({&id, 1});
    if (absl::IsDataLoss(one.status())) {
      spdlog::error("collection '{}': an item that has expired cannot be removed: {}", collection.name(),
                    MessageOf(one.status()));
      collection.expiry().GiveUp(id);
      one = std::vector<ResolvedRow>(1);
    }
    LC_RETURN_IF_ERROR(one.status());
    read.push_back(std::move((*one)[0]));
  }
  return read;
}

}  // namespace

ExpirySweeps::ExpirySweeps(Context& context) : context_(context) {
  thread_ = std::make_unique<RepeatingThread>(/*niceness=*/0, kEvery, [this] {
    try {
      return Work();
    } catch (...) {
      spdlog::error("expired items are not removed yet: {}", MessageOf(StatusOfException()));
      return kAfterError;
    }
  });
}

ExpirySweeps::~ExpirySweeps() {
  thread_.reset();
  stored_ms_ = durable_ms_ = 0;
  if (used_) StoreClock();
}

absl::Duration ExpirySweeps::Work() {
  std::vector<std::weak_ptr<const Served>> all;  // A drop does not wait until the others are swept.
  for (const ServedPtr& served : context_.catalog.All()) all.push_back(served);
  absl::Duration pause = kEvery;
  for (const auto& one : all) {
    const ServedPtr served = one.lock();
    if (served == nullptr || context_.ending.load()) continue;
    used_ = used_ || served->collection->expiry().used();
    if (used_) StoreClock();
    const absl::Status swept = Sweep(*served);
    if (swept.ok() || served->collection->dropped() || context_.ending.load()) continue;
    spdlog::warn("collection '{}': expired items, which no answer shows, are not removed yet: {}",
                 served->collection->name(), MessageOf(swept));
    pause = kAfterError;
  }
  return pause;
}

absl::Status ExpirySweeps::Sweep(const Served& served) {
  Collection& collection = *served.collection;
  Expiry& expiry = collection.expiry();
  LC_RETURN_IF_ERROR(expiry.LookAhead());
  while (!context_.ending.load()) {
    const std::vector<uint64_t> ids = expiry.SomeExpired(kItemsAJob);
    if (ids.empty()) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const std::vector<ResolvedRow> rows, ReadItems(collection, ids));
    const int64_t now_ms = expiry.NowMs();
    WriteJob job;
    job.durability = Durability::kProcess;  // After a crash the items are found expired again.
    job.still_wanted = [now_ms](const ItemId&, const ExpectedHead& read, const ItemRecord& now) {
      return read.internal_id == now.internal_id && IsExpired(now, now_ms);
    };
    std::vector<uint64_t> gone;  // of contents that others have replaced or deleted
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].found && IsExpired(rows[i].record, now_ms)) {
        job.ids.push_back(rows[i].id);
        job.expected.push_back({rows[i].record.internal_id, rows[i].record.sequence});
      } else {
        gone.push_back(ids[i]);
      }
    }
    if (!job.ids.empty()) LC_RETURN_IF_ERROR(served.writer->Submit(&job, Within(kSubmitMax)).status());
    if (gone.empty()) continue;
    if (!IsIndexed(collection)) return absl::OkStatus();  // Views may still show them.
    expiry.Forget(gone);
  }
  return absl::OkStatus();
}

void ExpirySweeps::StoreClock() {
  const int64_t now_ms = context_.clock.NowMs();
  if (now_ms < stored_ms_ + kStoreEveryMs) return;
  const bool durable = now_ms >= durable_ms_ + kDurableEveryMs;
  WriteBatch batch;
  batch.Put(Table::kMeta, keys::Meta(kClockName), StrCat(now_ms));
  if (!context_.store->Write(batch, durable ? Durability::kDurable : Durability::kProcess).ok()) return;
  stored_ms_ = now_ms;
  if (durable) durable_ms_ = now_ms;
}

}  // namespace lightcone::server

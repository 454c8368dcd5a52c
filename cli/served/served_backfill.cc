#include "cli/served/served_backfill.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"

namespace lightcone::cli {
namespace {

constexpr size_t kLeaseItems = 1000;
constexpr int64_t kLeaseSeconds = 24 * 3600;
constexpr absl::Duration kPoll = absl::Milliseconds(20);

}  // namespace

absl::StatusOr<std::vector<v1::LeasedItem>> LeaseEverything(client::Client& client, const std::string& collection,
                                                            const std::string& failure_head) {
  v1::BackfillStartRequest start;
  start.set_collection(collection);
  if (!failure_head.empty()) {
    LC_ASSIGN_OR_RETURN(*start.mutable_failure_head(), ReadFile(failure_head));
  }
  LC_ASSIGN_OR_RETURN(const v1::BackfillStartResponse started, client.StartBackfill(start));
  v1::StatusResponse status = started.status();
  v1::StatusRequest ask;
  ask.set_collection(collection);
  while (status.state() == v1::BACKFILL_STATE_ORDERING) {
    absl::SleepFor(kPoll);
    LC_ASSIGN_OR_RETURN(status, client.BackfillStatus(ask));
  }
  if (status.state() == v1::BACKFILL_STATE_FAILED) return absl::AbortedError(status.error());
  v1::LeaseRequest lease;
  lease.set_collection(collection);
  lease.set_items_max(kLeaseItems);
  lease.mutable_timeout()->set_seconds(kLeaseSeconds);
  std::vector<v1::LeasedItem> all;
  while (true) {
    LC_ASSIGN_OR_RETURN(v1::LeaseResponse leased, client.LeaseBackfill(lease));
    if (leased.items().empty()) return all;
    for (v1::LeasedItem& item : *leased.mutable_items()) all.push_back(std::move(item));
  }
}

absl::Status EmbedLeased(client::Client& client, const std::string& collection, uint32_t generation,
                         std::span<const v1::LeasedItem> items, std::span<const float> z, int dimension) {
  for (size_t begin = 0; begin < items.size(); begin += kLeaseItems) {
    v1::UpsertRequest batch;
    batch.set_collection(collection);
    batch.set_generation(generation);
    batch.set_same_content(true);
    for (const v1::LeasedItem& leased : items.subspan(begin, std::min(kLeaseItems, items.size() - begin))) {
      v1::Item* item = batch.add_items();
      *item->mutable_id() = leased.id();
      item->set_expected_sequence(leased.sequence());
      client::SetVector(z.data() + leased.id().number() * static_cast<uint64_t>(dimension), dimension,
                        item->mutable_vector());
    }
    LC_ASSIGN_OR_RETURN(const v1::UpsertResponse written, client.Upsert(batch));
    if (!written.outdated().empty()) {
      return absl::AbortedError(StrCat(written.outdated_size(), " leased items were changed by somebody else"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lightcone::cli

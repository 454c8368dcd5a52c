#include "server/engine/collection/expiry.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kAheadMs = 60'000;

}  // namespace

absl::Status Expiry::LookAhead() {
  int64_t from_ms = 0, until_ms = 0;
  absl::MutexLock looking(&look_mutex_);
  {
    absl::MutexLock lock(&mutex_);
    const int64_t now_ms = clock_->NowMs();
    if (horizon_ms_ >= now_ms + kAheadMs / 2) return absl::OkStatus();
    from_ms = horizon_ms_;
    // Before the rows are read: a row that is written from here on is either among them, or noted by its writer.
    until_ms = horizon_ms_ = now_ms + kAheadMs;
  }
  std::map<int64_t, std::vector<uint64_t>> found;
  const auto read = [&]() -> absl::Status {
    const keys::Range range = keys::ExpiryRange(number_, from_ms, until_ms);
    const auto rows = store_->Scan(Table::kItems, range.begin, range.end);
    const auto take = [&](std::string_view row) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const keys::ExpiryKey key, keys::ParseExpiry(row));
      found[key.expires_ms].push_back(key.internal_id);
      return absl::OkStatus();
    };
    while (true) {
      for (; rows->Valid(); rows->Next()) LC_RETURN_IF_ERROR(take(rows->key()));
      const std::optional<std::string> damaged = rows->SkipDamaged();  // The key says all that there is to know.
      if (!damaged) break;
      LC_RETURN_IF_ERROR(take(*damaged));
    }
    LC_RETURN_IF_ERROR(rows->status());
    if (used_ || !found.empty()) return absl::OkStatus();
    const keys::Range later = keys::ExpiryRange(number_);
    const auto any = store_->Scan(Table::kItems, later.begin, later.end);
    used_ = any->Valid() || any->SkipDamaged();
    return absl::OkStatus();
  };
  const absl::Status status = read();
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) {
    horizon_ms_ = from_ms;
    return status;
  }
  read_until_ms_ = until_ms;
  if (!found.empty()) used_ = true;
  for (auto& [expires_ms, ids] : found) {
    std::vector<uint64_t>& at = coming_[expires_ms];
    at.insert(at.end(), ids.begin(), ids.end());
  }
  return absl::OkStatus();
}

void Expiry::Note(int64_t expires_ms, uint64_t internal_id) {
  used_ = true;
  absl::MutexLock lock(&mutex_);
  if (expires_ms <= horizon_ms_) coming_[expires_ms].push_back(internal_id);
}

void Expiry::Forget(std::span<const uint64_t> internal_ids) {
  if (!used_ || internal_ids.empty()) return;
  absl::MutexLock lock(&mutex_);
  Advance();
  const auto has = [this](uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return expired_->Contains(id) && !given_up_.Contains(id);
  };
  if (expired_ == nullptr || std::ranges::none_of(internal_ids, has)) return;
  auto left = std::make_shared<IdSet>(*expired_);
  for (const uint64_t id : internal_ids) {
    if (has(id)) left->Remove(id);
  }
  expired_ = left->empty() ? nullptr : std::move(left);
}

void Expiry::GiveUp(uint64_t internal_id) {
  absl::MutexLock lock(&mutex_);
  given_up_.Add(internal_id);
}

std::shared_ptr<const IdSet> Expiry::Expired() {
  if (!used_) return nullptr;
  bool late = false;
  {
    absl::MutexLock lock(&mutex_);
    late = read_until_ms_ < clock_->NowMs();
  }
  if (late) (void)LookAhead();  // Whoever removes items reports an error.
  absl::MutexLock lock(&mutex_);
  Advance();
  return expired_;
}

std::vector<uint64_t> Expiry::SomeExpired(size_t most) {
  std::vector<uint64_t> some;
  const std::shared_ptr<const IdSet> expired = Expired();
  if (expired == nullptr) return some;
  absl::MutexLock lock(&mutex_);
  expired->ForEachIn(0, UINT64_MAX, [&](std::span<const uint64_t> ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const uint64_t id : ids) {
      if (some.size() < most && !given_up_.Contains(id)) some.push_back(id);
    }
    return some.size() < most;
  });
  return some;
}

void Expiry::Advance() {
  const int64_t now_ms = clock_->NowMs();
  const auto end = coming_.upper_bound(now_ms);
  if (end == coming_.begin()) return;
  auto more = expired_ == nullptr ? std::make_shared<IdSet>() : std::make_shared<IdSet>(*expired_);
  for (auto at = coming_.begin(); at != end; ++at) more->AddMany(at->second);
  coming_.erase(coming_.begin(), end);
  expired_ = std::move(more);
}

}  // namespace lightcone::server

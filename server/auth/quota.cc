#include "server/auth/quota.h"

#include <atomic>
#include <utility>

#include "absl/time/time.h"
#include "base/dcheck.h"
#include "base/retry_after.h"
#include "base/status.h"

namespace lightcone::server::auth {
namespace {

// Nobody knows when a call in flight ends.
constexpr int64_t kPlaceRetryNs = 50'000'000;

class QuotaMeter final : public CallMeter {
 public:
  QuotaMeter(QuotaPtr key, QuotaPtr writes) : key_(std::move(key)), writes_(std::move(writes)) {}

  absl::Status BeginRead() override {
    if (key_ == nullptr || reads_) return absl::OkStatus();
    LC_RETURN_IF_ERROR(key_->CheckRows());
    reads_ = true;
    return absl::OkStatus();
  }
  void CountRead(int64_t rows, int64_t bytes) override {
    if (key_ != nullptr) key_->CountRows(rows, bytes);
  }
  absl::Status TakeWrite(int64_t rows, int64_t bytes) override {
    if (writes_some_) {
      for (const QuotaPtr& quota : {key_, writes_}) {
        if (quota != nullptr) quota->CountRows(rows, bytes);
      }
      return absl::OkStatus();
    }
    if (key_ != nullptr) LC_RETURN_IF_ERROR(key_->TakeRows(rows, bytes));
    const absl::Status taken = writes_ == nullptr ? absl::OkStatus() : writes_->TakeRows(rows, bytes);
    if (!taken.ok() && key_ != nullptr) key_->ReturnRows(rows, bytes);
    writes_some_ = taken.ok();
    return taken;
  }

 private:
  const QuotaPtr key_, writes_;           // may be null
  std::atomic<bool> reads_{false};        // a read of the call has begun
  std::atomic<bool> writes_some_{false};  // a write of the call was taken
};

}  // namespace

absl::Status CheckLimit(const LimitRow& row, int64_t value, std::string_view field) {
  if (value >= row.min && value <= row.max) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(row.min, " .. ", row.max, " ", row.unit));
}

void Quota::SetLimits(const CallLimits& limits) {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  figures_.limits = limits;
  calls_.SetRate(limits.calls_per_second, now_ns);
  rows_.SetRate(limits.rows_per_second, now_ns);
  bytes_.SetRate(limits.bytes_per_second, now_ns);
}

absl::Status Quota::Refuse(Limit limit, int64_t wait_ns) {
  ++figures_.refused_total[static_cast<size_t>(limit)];
  const LimitRow& row = kLimitRows[static_cast<size_t>(limit)];
  const std::string message = StrCat(subject_, " has used up its ", prefix_, row.name,
                                     "; allowed: ", figures_.limits.*row.value, " ", row.unit);
  // A status carries whole microseconds.
  return WithRetryAfter(ResourceExhausted(message), absl::Ceil(absl::Nanoseconds(wait_ns), absl::Microseconds(1)));
}

absl::Status Quota::FindCallRefusal(int64_t now_ns) {
  const int64_t places = figures_.limits.calls_in_flight_max;
  if (places != 0 && figures_.in_flight >= places) return Refuse(Limit::kCallsInFlight, kPlaceRetryNs);
  if (const int64_t wait_ns = calls_.WaitFor(1, now_ns); wait_ns > 0) return Refuse(Limit::kCalls, wait_ns);
  return absl::OkStatus();
}

absl::Status Quota::FindRowsRefusal(int64_t rows, int64_t bytes, int64_t now_ns) {
  const int64_t rows_ns = rows_.WaitFor(rows, now_ns), bytes_ns = bytes_.WaitFor(bytes, now_ns);
  if (rows_ns == 0 && bytes_ns == 0) return absl::OkStatus();
  return rows_ns >= bytes_ns ? Refuse(Limit::kRows, rows_ns) : Refuse(Limit::kBytes, bytes_ns);
}

absl::Status Quota::CheckCall() {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  return FindCallRefusal(now_ns);
}

absl::Status Quota::BeginCall() {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  LC_RETURN_IF_ERROR(FindCallRefusal(now_ns));
  calls_.Take(1, now_ns);
  ++figures_.in_flight;
  return absl::OkStatus();
}

void Quota::EndCall() {
  absl::MutexLock lock(&mutex_);
  LC_DCHECK(figures_.in_flight > 0);
  --figures_.in_flight;
}

absl::Status Quota::CheckRows() {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  return FindRowsRefusal(1, 1, now_ns);
}

absl::Status Quota::TakeRows(int64_t rows, int64_t bytes) {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  LC_RETURN_IF_ERROR(FindRowsRefusal(rows, bytes, now_ns));
  rows_.Take(rows, now_ns);
  bytes_.Take(bytes, now_ns);
  return absl::OkStatus();
}

void Quota::CountRows(int64_t rows, int64_t bytes) {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  rows_.Take(rows, now_ns);
  bytes_.Take(bytes, now_ns);
}

void Quota::ReturnRows(int64_t rows, int64_t bytes) {
  const int64_t now_ns = clock_();
  absl::MutexLock lock(&mutex_);
  rows_.Return(rows, now_ns);
  bytes_.Return(bytes, now_ns);
}

QuotaFigures Quota::figures() const {
  absl::MutexLock lock(&mutex_);
  return figures_;
}

absl::StatusOr<CallSlot> CallSlot::Take(QuotaPtr quota) {
  if (quota != nullptr) LC_RETURN_IF_ERROR(quota->BeginCall());
  return CallSlot(std::move(quota));
}

CallSlot& CallSlot::operator=(CallSlot&& other) noexcept {
  if (this == &other) return *this;
  Release();
  quota_ = std::move(other.quota_);
  return *this;
}

void CallSlot::Release() {
  if (const QuotaPtr held = std::move(quota_)) held->EndCall();
}

std::shared_ptr<CallMeter> MeterOf(QuotaPtr key, QuotaPtr writes) {
  if (key == nullptr && writes == nullptr) return nullptr;
  return std::make_shared<QuotaMeter>(std::move(key), std::move(writes));
}

QuotaPtr MakeWriteQuota(int64_t rows_per_second, int64_t bytes_per_second, Quota::Clock clock) {
  const CallLimits limits = {.rows_per_second = rows_per_second, .bytes_per_second = bytes_per_second};
  if (!limits.any()) return nullptr;
  auto quota = std::make_shared<Quota>("the server", std::move(clock), "limits.write_");
  quota->SetLimits(limits);
  return quota;
}

}  // namespace lightcone::server::auth

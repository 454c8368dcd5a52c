// What one caller may take: calls, and rows and bytes that it reads and writes.
// Threads: every method is safe from any thread; a CallSlot belongs to its call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/call_meter.h"
#include "base/trace.h"
#include "server/auth/rate_bucket.h"

namespace lightcone::server::auth {

// 0: no limit.
struct CallLimits {
  int64_t calls_per_second = 0;     // calls that begin; a second's at once
  int64_t calls_in_flight_max = 0;  // calls and streams that have begun and not ended
  int64_t rows_per_second = 0;      // items that are written, and items and hits in answers
  int64_t bytes_per_second = 0;     // size of these rows

  bool any() const { return *this != CallLimits(); }
  friend bool operator==(const CallLimits&, const CallLimits&) = default;
};

enum class Limit { kCalls, kCallsInFlight, kRows, kBytes };

// One limit in the file of keys, on the command line and in metrics.
struct LimitRow {
  std::string_view name;
  int64_t CallLimits::*value;
  int64_t min, max;  // allowed values, beside no limit at all
  std::string_view unit;
};
inline constexpr std::array<LimitRow, 4> kLimitRows = {{
    // by Limit
    {"calls_per_second", &CallLimits::calls_per_second, 1, 1'000'000, "calls a second"},
    {"calls_in_flight_max", &CallLimits::calls_in_flight_max, 1, 100'000, "calls in flight"},
    {"rows_per_second", &CallLimits::rows_per_second, 1, 1'000'000'000, "rows a second"},
    {"bytes_per_second", &CallLimits::bytes_per_second, 1'024, RateBucket::kRateMax, "bytes a second"},
}};

// INVALID_ARGUMENT names `field`, the value and the range of the row.
absl::Status CheckLimit(const LimitRow& row, int64_t value, std::string_view field);

struct QuotaFigures {
  CallLimits limits;
  int64_t in_flight = 0;
  std::array<uint64_t, kLimitRows.size()> refused_total = {};  // refusals by Limit
};

class Quota {
 public:
  using Clock = std::function<int64_t()>;  // nanoseconds of a steady clock; called from any thread

  // Both texts stand in refusals: the subject is "key 'search'", and the prefix stands before the names of limits.
  explicit Quota(std::string subject, Clock clock = SteadyNanos, std::string prefix = "")
      : subject_(std::move(subject)), prefix_(std::move(prefix)), clock_(std::move(clock)) {}

  // Holds from now on. What was taken stays taken.
  void SetLimits(const CallLimits& limits);

  // Each of these refuses with RESOURCE_EXHAUSTED, which names the subject, the limit and its value, and carries the
  // time after which it would pass (base/retry_after.h). A refusal takes nothing and is counted.
  // Whether a call could begin now. Takes nothing.
  absl::Status CheckCall();
  // Takes a call and a place in flight, which EndCall gives back. CallSlot holds one.
  absl::Status BeginCall();
  // Whether rows and bytes are left. Takes nothing.
  absl::Status CheckRows();
  // Takes both or none. More than one second brings passes where anything is left, and later calls wait for the rest.
  absl::Status TakeRows(int64_t rows, int64_t bytes);

  void EndCall();
  // Takes them even if a limit is passed.
  void CountRows(int64_t rows, int64_t bytes);
  // Gives back what TakeRows took.
  void ReturnRows(int64_t rows, int64_t bytes);

  QuotaFigures figures() const;

 private:
  absl::Status FindCallRefusal(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FindRowsRefusal(int64_t rows, int64_t bytes, int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refuse(Limit limit, int64_t wait_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string subject_, prefix_;
  const Clock clock_;
  mutable absl::Mutex mutex_;
  QuotaFigures figures_ ABSL_GUARDED_BY(mutex_);
  RateBucket calls_ ABSL_GUARDED_BY(mutex_), rows_ ABSL_GUARDED_BY(mutex_), bytes_ ABSL_GUARDED_BY(mutex_);
};
using QuotaPtr = std::shared_ptr<Quota>;

// A call's place in flight, given back by Release or at the end of the slot.
class CallSlot {
 public:
  CallSlot() = default;
  ~CallSlot() { Release(); }
  CallSlot(CallSlot&& other) noexcept = default;
  CallSlot& operator=(CallSlot&& other) noexcept;

  // An empty slot where `quota` is null. Errors of Quota::BeginCall.
  static absl::StatusOr<CallSlot> Take(QuotaPtr quota);
  void Release();

 private:
  explicit CallSlot(QuotaPtr quota) : quota_(std::move(quota)) {}
  QuotaPtr quota_;  // null: nothing is held
};

// The meter of one call: `key` holds for reads and writes, `writes` of all callers for writes alone. Either may be
// null; null where both are. A call that reads or writes several times is refused at the first time or not at all: the
// rest is counted, and later calls wait for it. Each page or batch of a stream has a meter of its own.
std::shared_ptr<CallMeter> MeterOf(QuotaPtr key, QuotaPtr writes = nullptr);

// The quota of all writes of a server, by its options `limits.write_rows_per_second` and
// `limits.write_bytes_per_second`; null where both are 0.
QuotaPtr MakeWriteQuota(int64_t rows_per_second, int64_t bytes_per_second, Quota::Clock clock = SteadyNanos);

}  // namespace lightcone::server::auth

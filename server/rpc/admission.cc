#include "server/rpc/admission.h"

#include <algorithm>

namespace lightcone::server {
namespace {

constexpr int kMeanCalls = 16;                              // calls that the moving mean spans
constexpr absl::Duration kWindow = absl::Milliseconds(25);  // least length of a window
constexpr int kWindowCalls = 2;                             // least length of a window, in times of a call
constexpr int kStrikesMax = 3;                              // windows of growth, one after another
constexpr absl::Duration kCalm = absl::Seconds(1);          // time without a refusal after which overload ends
constexpr int kLateFactor = 2;  // A call that was let in is given up only when it waits that many bounds.

}  // namespace

std::string_view RefusalName(Refusal refusal) {
  switch (refusal) {
    case Refusal::kQueueFull:
      return "queue_full";
    case Refusal::kWait:
      return "wait";
    case Refusal::kDeadline:
      return "deadline";
    case Refusal::kExpired:
      return "expired";
  }
  return "";
}

absl::Duration Admission::ExpectedWait(int64_t waiting) const { return call_time_ * (waiting + 1) / threads_; }

bool Admission::Overloaded(absl::Time now) const { return now < overloaded_until_ && overloaded_until_ - now <= kCalm; }

absl::Duration Admission::Bound(absl::Time now) const {
  const absl::Duration bound =
      Overloaded(now) ? std::min(bounds_.overload_wait_max, bounds_.wait_max) : bounds_.wait_max;
  return std::max(bound, call_time_);
}

void Admission::EndWindow(absl::Time now, int64_t waiting) {
  const absl::Duration length = std::max(kWindow, kWindowCalls * call_time_);
  const absl::Duration passed = now - window_begin_;
  if (passed >= absl::ZeroDuration() && passed < length) return;
  // Clients that wait for answers send one call for each that ends: their queue stands, and does not grow.
  const bool grew =
      offered_ * 4 > taken_ * 5 && ExpectedWait(waiting) > std::max(bounds_.overload_wait_max, call_time_);
  const bool adjacent = passed >= absl::ZeroDuration() && passed < 4 * length;
  strikes_ = grew ? (adjacent ? strikes_ + 1 : 1) : 0;
  if (strikes_ >= kStrikesMax) overloaded_until_ = now + kCalm;
  window_begin_ = now;
  offered_ = taken_ = 0;
}

std::optional<Refusal> Admission::Offer(absl::Time now, absl::Time deadline, int64_t waiting) {
  if (!bounded()) return std::nullopt;
  EndWindow(now, waiting);
  ++offered_;
  const absl::Duration wait = ExpectedWait(waiting);
  if (wait > Bound(now)) {
    overloaded_until_ = now + kCalm;
    return Refusal::kWait;
  }
  if (now + wait > deadline) return Refusal::kDeadline;
  return std::nullopt;
}

std::optional<Refusal> Admission::Take(absl::Time now, absl::Time since, absl::Time deadline) {
  if (bounded() && Overloaded(now)) {
    if (now - since > kLateFactor * Bound(now)) return Refusal::kWait;
    if (now + call_time_ > deadline) return Refusal::kDeadline;
  }
  ++taken_;
  return std::nullopt;
}

void Admission::NoteEnd(absl::Duration took) {
  took = std::max(took, absl::ZeroDuration());
  call_time_ = call_time_ == absl::ZeroDuration() ? took : call_time_ + (took - call_time_) / kMeanCalls;
}

}  // namespace lightcone::server

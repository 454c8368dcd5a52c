#include "snapshot/s3/lease.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr absl::Duration kDead = absl::Hours(1), kDoubtful = absl::Minutes(50), kDue = absl::Minutes(5);
constexpr std::string_view kPruneBegins = "prune-";

// Goes on while the machine sleeps, and no clock is set.
absl::Duration SinceBoot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

std::string NewName(S3Lease::Work work) {
  std::random_device source;
  const uint64_t number = uint64_t{source()} << 32 | source();
  return StrCat(work == S3Lease::Work::kPrune ? kPruneBegins : "copy-", absl::StrFormat("%016x", number));
}

}  // namespace

S3Lease::S3Lease(S3Client& client, const std::string& folder, Work work)
    : client_(client), folder_(folder), work_(work), key_(folder + NewName(work)) {}

S3Lease::~S3Lease() {
  if (!released_) (void)client_.DeleteOnce(key_);
}

absl::Status S3Lease::Release() {
  LC_RETURN_IF_ERROR(client_.Delete(key_));
  released_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<S3Lease>> S3Lease::Take(S3Client& client, const std::string& folder, Work work) {
  LC_DCHECK(folder.ends_with('/'));
  auto lease = std::unique_ptr<S3Lease>(new S3Lease(client, folder, work));
  LC_RETURN_IF_ERROR(lease->Renew());
  return lease;
}

absl::Status S3Lease::LookForOthers() {
  LC_ASSIGN_OR_RETURN(const std::vector<S3Object> all, client_.List(folder_));
  absl::Time now = absl::InfiniteFuture();
  for (const S3Object& one : all) {
    if (one.key == key_) now = one.modified;
  }
  taken_ = std::min(taken_, now);
  const std::string bucket = client_.options().bucket;
  if (now == absl::InfiniteFuture()) {
    return FailedPrecondition(
        StrCat("bucket '", bucket, "' does not list object '", key_,
               "', which was just written, with its time; allowed: a store that does so at once"));
  }
  for (const S3Object& one : all) {
    const bool prune = one.key.starts_with(folder_ + std::string(kPruneBegins));
    const bool dead = one.key != key_ && one.modified + kDead < now;
    if (dead && work_ == Work::kPrune) (void)client_.DeleteOnce(one.key);
    if (dead || one.key == key_ || (work_ == Work::kCopy && !prune)) continue;
    return Aborted(StrCat("a ", prune ? "prune" : "copy", " is under way: object '", one.key, "' in bucket '", bucket,
                          "' is of ", absl::FormatTime(absl::RFC3339_sec, one.modified, absl::UTCTimeZone()),
                          "; try again when it has ended. The object of a process that was killed counts for an hour"));
  }
  return absl::OkStatus();
}

absl::Status S3Lease::Renew() {
  // The time before the call: the store's own is later.
  const absl::Duration now = SinceBoot();
  LC_RETURN_IF_ERROR(client_.Put(key_, ""));
  renewed_ = now;
  // The write may have taken so long that the lease was dead meanwhile, and another one was taken.
  return LookForOthers();
}

absl::Status S3Lease::Keep() {
  LC_RETURN_IF_ERROR(CheckAge());
  return SinceBoot() - renewed_ < kDue ? absl::OkStatus() : Renew();
}

absl::Status S3Lease::CheckAge() const {
  const absl::Duration age = SinceBoot() - renewed_;
  if (age < kDoubtful) return absl::OkStatus();
  return Aborted(StrCat("object '", key_, "' was not renewed for ",
                        absl::FormatDuration(absl::Trunc(age, absl::Seconds(1))),
                        ", and others may count this process as dead; run the command again"));
}

}  // namespace lightcone

// Keeps a copy and a prune of the same place in a bucket from running beside each other: the prune would delete a file
// that the copy has found there already. Copies may run beside copies.
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "snapshot/s3/client.h"

namespace lightcone {

// An object below a folder of leases. Each side writes its own, then looks for the other's: of two that begin at once,
// one at least sees the other. The lease of a process that was killed counts as dead when it is an hour old, by the
// clock of the store. The store must list an object as soon as it is written, as S3 does.
class S3Lease {
 public:
  enum class Work { kCopy, kPrune };

  // `folder` ends with a slash. ABORTED names the lease that is in the way. `client` must outlive the lease.
  static absl::StatusOr<std::unique_ptr<S3Lease>> Take(S3Client& client, const std::string& folder, Work work);
  ~S3Lease();
  S3Lease(const S3Lease&) = delete;
  S3Lease& operator=(const S3Lease&) = delete;

  // Renews the lease where that is due: call it before each step. ABORTED when so much time has passed since the last
  // call that others may count the lease as dead, and when another lease is in the way.
  absl::Status Keep();
  // ABORTED as above, without a renewal: whether the lease counted until now.
  absl::Status CheckAge() const;
  // Ends the lease when all is done, with the usual tries. Without it the end is one short try, as behind an error.
  absl::Status Release();
  // When the lease was taken, by the clock of the store.
  absl::Time taken() const { return taken_; }

 private:
  S3Lease(S3Client& client, const std::string& folder, Work work);
  absl::Status Renew();
  absl::Status LookForOthers();

  S3Client& client_;
  const std::string folder_;
  const Work work_;
  const std::string key_;
  bool released_ = false;
  absl::Duration renewed_;  // time since the start of the machine, of the last renewal
  absl::Time taken_ = absl::InfiniteFuture();
};

}  // namespace lightcone

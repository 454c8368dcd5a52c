// Snapshots of a server: made, listed, verified, carried to and from files, and single collections brought back.
// Errors and retries as client/client.h. Create and RestoreCollection are also tried again where another call is in the
// way: after ABORTED, as after UNAVAILABLE; after RESOURCE_EXHAUSTED with a time of the next try, until the deadline
// allows none. Threads: every method is safe concurrently.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/client.h"
#include "lightcone/v1/snapshots.pb.h"

namespace lightcone::client {

class SnapshotClient {
 public:
  // Errors as Client::Connect.
  static absl::StatusOr<std::unique_ptr<SnapshotClient>> Connect(const ClientOptions& options);
  ~SnapshotClient();

  Answer<v1::CreateSnapshotResponse> Create(const v1::CreateSnapshotRequest& request, const CallOptions& = {});
  Answer<v1::ListSnapshotsResponse> List(const CallOptions& = {});
  // Made once: a retry after a lost answer would find no snapshot.
  absl::Status Delete(const std::string& name, const CallOptions& = {});
  Answer<v1::VerifySnapshotResponse> Verify(const std::string& name, const CallOptions& = {});
  Answer<v1::RestoreCollectionResponse> RestoreCollection(const v1::RestoreCollectionRequest& request,
                                                          const CallOptions& = {});

  // Writes the archive to FILE.partial, fsyncs and renames it: FILE is always whole. ALREADY_EXISTS where it is there.
  // `seen` gets the number of bytes so far, and may be empty.
  absl::Status Download(const std::string& name, const std::string& file, const std::function<void(uint64_t)>& seen,
                        const CallOptions& = {});
  // Sends the archive in `file`. `name` empty: the name in the archive.
  Answer<v1::UploadSnapshotResponse> Upload(const std::string& file, const std::string& name,
                                            const std::function<void(uint64_t)>& seen, const CallOptions& = {});

 private:
  struct Impl;
  explicit SnapshotClient(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace lightcone::client

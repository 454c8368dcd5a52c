// What the commands of snapshots do with a bucket of an S3-compatible store. No server takes part.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/commands.h"
#include "snapshot/copy.h"
#include "snapshot/manifest.h"

namespace lightcone::cli {

struct S3Flags {
  std::string endpoint, region = "us-east-1", credentials_file, ca_file;
  uint32_t keep = 0;
  double age_hours_min = 24;
};

// The flags that say where the store is, and with which key.
void AddS3Access(CLI::App* app, S3Flags* flags);
// The flags of retention.
void AddS3Retention(CLI::App* app, S3Flags* flags);

// Each with an address s3://BUCKET/PREFIX, or s3://BUCKET/PREFIX/NAME of one snapshot.
absl::StatusOr<SnapshotCopy> CopyToS3(const std::string& folder, const std::string& to, const S3Flags& flags);
absl::Status ListInS3(Context& context, const std::string& from, const S3Flags& flags);
absl::Status VerifyInS3(Context& context, const std::string& snapshot, const S3Flags& flags);
absl::Status PruneInS3(Context& context, const std::string& from, const S3Flags& flags);
absl::StatusOr<SnapshotManifest> RestoreFromS3(const std::string& snapshot, const std::string& data_folder,
                                               const S3Flags& flags);

}  // namespace lightcone::cli

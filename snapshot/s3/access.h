// Where a bucket is, what lies in it, and the key that opens it.
// Threads: plain values and pure functions; nobody may change the environment meanwhile.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lightcone {

// "s3://BUCKET/PREFIX"
struct S3Location {
  std::string bucket;
  std::string prefix;  // no slash first or last; empty: the bucket itself

  std::string Text() const;
};

struct S3Endpoint {
  std::string url;      // empty: Amazon's of the region
  std::string region;   // region that signatures name
  std::string ca_file;  // PEM file of authorities; empty: those of the system
};

// A secret goes into the signature of requests, a token into one header, and neither anywhere else.
struct S3Credentials {
  std::string key_id, secret, session_token;  // the token may be empty
};

// Errors about an address or an endpoint do not show a value that has an @: there may be a key before it.
bool IsS3Url(std::string_view text);
// INVALID_ARGUMENT for anything but s3://BUCKET or s3://BUCKET/PREFIX whose parts are plain.
absl::StatusOr<S3Location> ParseS3Url(std::string_view text);
// "s3://BUCKET/PREFIX/NAME": gives the location, and the snapshot's name in *name. INVALID_ARGUMENT as above.
absl::StatusOr<S3Location> ParseS3SnapshotUrl(std::string_view text, std::string* name);

// The endpoint with its URL filled in, and no slash behind. INVALID_ARGUMENT names what is not allowed.
absl::StatusOr<S3Endpoint> CompleteS3Endpoint(S3Endpoint endpoint);

// From `file`: lines `access_key_id = ...`, `secret_access_key = ...` and, if there is one, `session_token = ...`.
// Names may begin with aws_, lines with # are passed over, and so is one [section]. Without a file, from the variables
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. FAILED_PRECONDITION names what is missing, never what
// is there.
absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file);

}  // namespace lightcone

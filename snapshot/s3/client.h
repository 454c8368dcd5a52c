// Objects of one bucket of an S3-compatible store, over a connection that is kept open. Requests are signed by libcurl
// (signature version 4) and address the bucket by path. Redirects are not followed, and no proxy is used.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "outbound/curl_easy.h"
#include "snapshot/read.h"
#include "snapshot/s3/access.h"

namespace lightcone {

struct S3Object {
  std::string key;
  uint64_t bytes = 0;
  absl::Time modified = absl::InfiniteFuture();  // time of its last write by the store's clock; infinite: unknown
};

// An upload in parts that was begun, and is no object yet.
struct S3Upload {
  std::string key, id;
};

struct S3ClientOptions {
  S3Endpoint endpoint;  // result of CompleteS3Endpoint
  S3Credentials credentials;
  std::string bucket;
  int tries = 6;                                   // tries of a request that meets a lost connection, 429 or 5xx
  absl::Duration pause = absl::Milliseconds(500);  // pause before the second try; it doubles with each further one
  absl::Duration stall = absl::Minutes(1);         // limit without a byte in either direction
  std::function<bool()> cancelled = {};            // Empty: never.
};

// Errors name the endpoint, the bucket, the key and what the store says, and never hold a secret or a token.
// UNAVAILABLE: no connection, a stall, 429 or 5xx at each try; PERMISSION_DENIED: 401 and 403; NOT_FOUND: no such
// object or bucket; UNIMPLEMENTED: 501; FAILED_PRECONDITION: any other refusal; RESOURCE_EXHAUSTED: an answer too
// large; CANCELLED: within about a second.
class S3Client {
 public:
  static absl::StatusOr<std::unique_ptr<S3Client>> Make(S3ClientOptions options);
  const S3ClientOptions& options() const { return options_; }

  // The store compares the body with its SHA-256, which is a part of the signature.
  absl::Status Put(const std::string& key, std::string_view body);
  // A small object.
  absl::StatusOr<std::string> Get(const std::string& key);
  // Hands the bytes on as they come. After a lost connection it goes on where it was. It does not know the object's
  // size: the caller compares.
  absl::Status Read(const std::string& key, const TakeBytes& take);
  // Ascending by key.
  absl::StatusOr<std::vector<S3Object>> List(const std::string& prefix);
  // An object that is gone is no error.
  absl::Status Delete(const std::string& key);

  // An object in parts, for what is larger than one request should be. Parts count from 1; each but the last has 5 MiB
  // or more.
  absl::StatusOr<std::string> BeginParts(const std::string& key);
  // Gives the part's tag.
  absl::StatusOr<std::string> PutPart(const S3Upload& upload, size_t number, std::string_view body);
  // REQUIRES: `tags` holds one tag or more. `bytes`: size of the whole object.
  absl::Status CompleteParts(const S3Upload& upload, const std::vector<std::string>& tags, uint64_t bytes);
  absl::StatusOr<std::vector<S3Upload>> ListUploads(const std::string& prefix);
  // An upload that is gone is no error.
  absl::Status AbortParts(const S3Upload& upload);

  // Tidying up behind an error or an interrupt: one short try, which `cancelled` does not keep from happening. Whether
  // it succeeded. Destructors call these.
  bool AbortPartsOnce(const S3Upload& upload) noexcept;
  bool DeleteOnce(const std::string& key) noexcept;

 private:
  struct Request;
  struct Reply;
  struct Transfer;

  explicit S3Client(S3ClientOptions options);
  absl::StatusOr<Reply> Send(Request& request);
  absl::StatusOr<Reply> SendOnce(Request& request);
  absl::Status SetOptions(const Request& request, const std::string& url, curl_slist* headers, Transfer* transfer);
  CurlHeaders HeadersFor(const Request& request) const;
  absl::Status Pause(int tries_made) const;
  absl::Status Refused(const Request& request, const Reply& reply) const;
  // What came of a transfer without a whole answer.
  absl::Status Broken(const Request& request, CURLcode result, const Transfer& transfer) const;
  // The store's or libcurl's text, fit for a terminal and without anything secret.
  std::string Shown(std::string text) const;
  std::string PlaceOf(const Request& request) const;

  const S3ClientOptions options_;
  CurlEasy easy_;
};

}  // namespace lightcone

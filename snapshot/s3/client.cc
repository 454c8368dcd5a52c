#include "snapshot/s3/client.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/status.h"
#include "base/without_key.h"
#include "snapshot/manifest.h"
#include "snapshot/s3/xml.h"

namespace lightcone {
namespace {

constexpr size_t kAnswerBytesMax = static_cast<size_t>(kSnapshotManifestBytesMax);  // largest answer in memory
constexpr size_t kMessageBytesMax = 512;
constexpr long kConnectMilliseconds = 10'000;
constexpr long kRequestMilliseconds = 30 * 60'000;  // A part that takes longer is sent again.
constexpr long kCleanupMilliseconds = 10'000;
constexpr absl::Duration kPauseMax = absl::Seconds(20);
constexpr absl::Duration kLook = absl::Milliseconds(50);  // pause between looks for an interrupt
constexpr long kPartialContent = 206, kRangeBehindTheEnd = 416;

std::string Sha256Hex(std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), hash, &length, EVP_sha256(), nullptr);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < length; ++i) out += {kDigits[hash[i] >> 4], kDigits[hash[i] & 15]};
  return out;
}

// As signatures want it: upper-case hex for all but the unreserved characters of RFC 3986 and those of `keep`.
std::string PercentEncoded(std::string_view text, std::string_view keep) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  constexpr std::string_view kUnreserved = "-._~";
  std::string out;
  for (const char c : text) {
    const bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (alnum || kUnreserved.find(c) != std::string_view::npos || keep.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::string QueryValue(std::string_view text) { return PercentEncoded(text, ""); }

}  // namespace

struct S3Client::Request {
  const char* method = "GET";
  std::string key = {};             // empty: the bucket itself
  std::string query = {};           // encoded, ascending by name
  std::string_view body = {};       // content of a PUT or POST
  const TakeBytes* take = nullptr;  // takes the content of a GET; absent: the answer is kept
  std::string_view about = {};      // prefix of a list, for errors
  uint64_t taken = 0;               // bytes that `take` has had
  bool cleanup = false;             // It has one short try, whatever `cancelled` says.
};

struct S3Client::Reply {
  long status = 0;
  std::string body, tag;
};

// What the callbacks of one try share.
struct S3Client::Transfer {
  CURL* easy = nullptr;
  const TakeBytes* take = nullptr;
  uint64_t skip = 0;  // bytes that an earlier try handed on, and this one gives again
  const std::function<bool()>* cancelled = nullptr;
  uint64_t taken = 0;
  absl::Status refused = absl::OkStatus();  // error of `take`, or of what it threw
  bool too_long = false;
  Reply reply = {};

  static size_t TakeBody(char* data, size_t size, size_t count, void* to) {
    return static_cast<Transfer*>(to)->Count(&Transfer::Take, {data, size * count});
  }
  static size_t TakeHeader(char* data, size_t size, size_t count, void* to) {
    return static_cast<Transfer*>(to)->Count(&Transfer::TakeTag, {data, size * count});
  }
  static int Look(void* to, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto* const cancelled = static_cast<Transfer*>(to)->cancelled;
    return cancelled != nullptr && *cancelled && (*cancelled)() ? 1 : 0;
  }

  // Bytes that were taken, as libcurl counts them: less than all of them end the transfer. Throws nothing, for libcurl
  // cannot pass that on.
  size_t Count(bool (Transfer::*taker)(std::string_view), std::string_view bytes) {
    try {
      return (this->*taker)(bytes) ? bytes.size() : 0;
    } catch (...) {
      refused = StatusOfException();
      return 0;
    }
  }
  bool TakeTag(std::string_view line) {
    constexpr std::string_view kTag = "etag:";
    if (!absl::StartsWithIgnoreCase(ToAbsl(line), ToAbsl(kTag))) return true;
    line.remove_prefix(kTag.size());
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    reply.tag = std::string(line);
    return true;
  }
  bool Take(std::string_view bytes) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (take == nullptr || status / 100 != 2) {
      too_long = bytes.size() > kAnswerBytesMax - reply.body.size();
      if (!too_long) reply.body.append(bytes);
      return !too_long;
    }
    if (status != kPartialContent) {  // A store that knows no ranges begins anew.
      const size_t known = std::min<uint64_t>(skip, bytes.size());
      skip -= known;
      bytes.remove_prefix(known);
    }
    if (!bytes.empty()) refused = (*take)(bytes);
    taken += bytes.size();
    return refused.ok();
  }
};

S3Client::S3Client(S3ClientOptions options) : options_(std::move(options)), easy_(MakeCurlEasy()) {}

absl::StatusOr<std::unique_ptr<S3Client>> S3Client::Make(S3ClientOptions options) {
  auto client = std::unique_ptr<S3Client>(new S3Client(std::move(options)));
  if (client->easy_ == nullptr) return Internal("libcurl could not be set up");
  return client;
}

// libcurl 7.88 signs what it finds, and makes little of it right:
// - It adds no x-amz-content-sha256, without which S3 refuses a request. It signs the one that is given.
// - It signs each header of this list, an empty one too, although it does not send that. None may be empty.
// - It takes path and query as they stand. Both are encoded and sorted here, and a name without a value has its "=".
CurlHeaders S3Client::HeadersFor(const Request& request) const {
  std::vector<std::string> lines = {StrCat("x-amz-content-sha256: ", Sha256Hex(request.body))};
  if (HasBody(request.method)) lines.push_back("Content-Type: application/octet-stream");
  if (!options_.credentials.session_token.empty()) {
    lines.push_back(StrCat("x-amz-security-token: ", options_.credentials.session_token));
  }
  return MakeCurlHeaders(lines);
}

absl::Status S3Client::SetOptions(const Request& request, const std::string& url, curl_slist* headers,
                                  Transfer* transfer) {
  CURL* const easy = easy_.get();
  LC_RETURN_IF_ERROR(SetCommonOptions(easy, url, "http,https"));
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  if (!options_.endpoint.ca_file.empty()) {
    LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_CAINFO, options_.endpoint.ca_file));
  }
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, request.cleanup ? kCleanupMilliseconds : kRequestMilliseconds);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  // A store may be silent for minutes while it joins the parts of an upload.
  const absl::Duration stall = std::string_view(request.method) == "POST" ? 10 * options_.stall : options_.stall;
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(absl::ToInt64Seconds(stall))));
  LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_AWS_SIGV4, StrCat("aws:amz:", options_.endpoint.region, ":s3")));
  LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_USERNAME, options_.credentials.key_id));
  LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_PASSWORD, options_.credentials.secret));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  // A body in memory, which a further try sends again. A store may refuse it before it comes (100-continue).
  LC_RETURN_IF_ERROR(SetMethod(easy, request.method, request.body));
  // A range is no part of the signature.
  if (request.taken > 0) LC_RETURN_IF_ERROR(SetText(easy, CURLOPT_RANGE, StrCat(request.taken, "-")));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::TakeBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::TakeHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &Transfer::Look);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, transfer);
  return absl::OkStatus();
}

absl::StatusOr<S3Client::Reply> S3Client::SendOnce(Request& request) {
  std::string url = StrCat(options_.endpoint.url, "/", options_.bucket);
  if (!request.key.empty()) url += StrCat("/", PercentEncoded(request.key, "/"));
  if (!request.query.empty()) url += StrCat("?", request.query);
  Transfer transfer{.easy = easy_.get(), .take = request.take, .skip = request.taken};
  if (!request.cleanup) transfer.cancelled = &options_.cancelled;
  const CurlHeaders headers = HeadersFor(request);
  LC_RETURN_IF_ERROR(SetOptions(request, url, headers.get(), &transfer));
  const CURLcode result = curl_easy_perform(easy_.get());
  request.taken += transfer.taken;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &transfer.reply.status);
  if (result != CURLE_OK) return Broken(request, result, transfer);
  // The connection was lost behind the last byte.
  if (transfer.reply.status == kRangeBehindTheEnd && request.taken > 0) return std::move(transfer.reply);
  // S3 begins its answer to a long request before it knows the outcome: an error may come with status 200.
  const bool refused = transfer.reply.status / 100 != 2 || (std::string_view(request.method) == "POST" &&
                                                            !XmlElements(transfer.reply.body, "Error").empty());
  if (refused) return Refused(request, transfer.reply);
  return std::move(transfer.reply);
}

absl::StatusOr<S3Client::Reply> S3Client::Send(Request& request) {
  for (int tries = 1;; ++tries) {
    const uint64_t before = request.taken;
    absl::StatusOr<Reply> reply = ResourceExhausted("out of memory");
    try {
      reply = SendOnce(request);
    } catch (const std::bad_alloc&) {
      return reply;
    }
    if (!absl::IsUnavailable(reply.status()) || request.cleanup) return reply;
    if (request.taken > before) tries = 1;  // A download that gets on may take any number of connections.
    if (tries >= options_.tries) return reply;
    LC_RETURN_IF_ERROR(Pause(tries));
  }
}

absl::Status S3Client::Pause(int tries_made) const {
  absl::Duration pause = options_.pause;
  for (int i = 1; i < tries_made && pause < kPauseMax; ++i) pause *= 2;
  using Clock = std::chrono::steady_clock;  // A clock that is set must not lengthen the pause.
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(std::min(pause, kPauseMax));
  for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
    if (options_.cancelled && options_.cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(std::min<Clock::duration>(absl::ToChronoNanoseconds(kLook), end - now));
  }
  return absl::OkStatus();
}

std::string S3Client::PlaceOf(const Request& request) const {
  const std::string_view key = request.key.empty() ? request.about : request.key;
  return StrCat("S3 ", request.method, " '", key, "' in bucket '", options_.bucket, "' at ", options_.endpoint.url);
}

std::string S3Client::Shown(std::string text) const {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = ' ';
  }
  const S3Credentials& own = options_.credentials;
  for (const std::string& word : {own.secret, own.session_token, own.key_id}) {
    text = WithoutKey(std::move(text), word);
  }
  text.resize(std::min(text.size(), kMessageBytesMax));  // last: half a key would not be found
  return text;
}

absl::Status S3Client::Refused(const Request& request, const Reply& reply) const {
  const std::string code = XmlText(reply.body, "Code"), message = XmlText(reply.body, "Message");
  const long status = reply.status;
  absl::StatusCode kind = absl::StatusCode::kFailedPrecondition;
  if (status == 404) kind = absl::StatusCode::kNotFound;
  if (status == 401 || status == 403) kind = absl::StatusCode::kPermissionDenied;
  // An upload that stalls is answered 400 RequestTimeout, and an error behind status 200 comes from within the store.
  const bool passing = status == 200 || status == 408 || status == 429 || code == "RequestTimeout";
  if (passing || status >= 500) kind = absl::StatusCode::kUnavailable;
  if (status == 501) kind = absl::StatusCode::kUnimplemented;
  return MakeStatus(kind, StrCat(PlaceOf(request), ": ", status, code.empty() ? "" : " ", Shown(code),
                                 message.empty() ? "" : ": ", Shown(message)));
}

absl::Status S3Client::Broken(const Request& request, CURLcode result, const Transfer& transfer) const {
  LC_RETURN_IF_ERROR(transfer.refused);
  if (transfer.too_long) {
    return ResourceExhausted(StrCat(PlaceOf(request), ": the answer has more than ", kAnswerBytesMax, " bytes"));
  }
  if (result == CURLE_OUT_OF_MEMORY) return ResourceExhausted(StrCat(PlaceOf(request), ": out of memory"));
  if (result == CURLE_ABORTED_BY_CALLBACK) return MakeStatus(absl::StatusCode::kCancelled, "interrupted");
  const std::string what = StrCat(PlaceOf(request), ": ", curl_easy_strerror(result));
  // No further try makes these go away.
  const bool lasting = result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
                       result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL;
  return lasting ? FailedPrecondition(what) : Unavailable(what);
}

absl::Status S3Client::Put(const std::string& key, std::string_view body) {
  Request request{.method = "PUT", .key = key, .body = body};
  return Send(request).status();
}

absl::StatusOr<std::string> S3Client::Get(const std::string& key) {
  Request request{.key = key};
  LC_ASSIGN_OR_RETURN(Reply reply, Send(request));
  return std::move(reply.body);
}

absl::Status S3Client::Read(const std::string& key, const TakeBytes& take) {
  Request request{.key = key, .take = &take};
  return Send(request).status();
}

absl::StatusOr<std::vector<S3Object>> S3Client::List(const std::string& prefix) {
  std::vector<S3Object> out;
  std::string token;
  do {
    const std::string from = token.empty() ? "" : StrCat("continuation-token=", QueryValue(token), "&");
    Request request{.query = StrCat(from, "list-type=2&prefix=", QueryValue(prefix)), .about = prefix};
    LC_ASSIGN_OR_RETURN(const Reply reply, Send(request));
    if (XmlElements(reply.body, "ListBucketResult").empty()) {
      return FailedPrecondition(StrCat(PlaceOf(request), ": the answer is no list of S3"));
    }
    for (const std::string_view one : XmlElements(reply.body, "Contents")) {
      S3Object& object = out.emplace_back();
      object.key = XmlText(one, "Key");
      (void)absl::SimpleAtoi(XmlText(one, "Size"), &object.bytes);
      absl::Time modified;
      if (absl::ParseTime(absl::RFC3339_full, XmlText(one, "LastModified"), &modified, nullptr)) {
        object.modified = modified;
      }
    }
    const std::string next = XmlText(reply.body, "NextContinuationToken");
    const bool more = XmlText(reply.body, "IsTruncated") == "true";
    if (more && (next.empty() || next == token)) {
      return FailedPrecondition(StrCat(PlaceOf(request), ": the list does not say how it goes on"));
    }
    token = more ? next : "";
  } while (!token.empty());
  std::sort(out.begin(), out.end(), [](const S3Object& a, const S3Object& b) { return a.key < b.key; });
  return out;
}

absl::Status S3Client::Delete(const std::string& key) {
  Request request{.method = "DELETE", .key = key};
  const absl::Status deleted = Send(request).status();
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

absl::StatusOr<std::string> S3Client::BeginParts(const std::string& key) {
  Request request{.method = "POST", .key = key, .query = "uploads="};
  LC_ASSIGN_OR_RETURN(const Reply reply, Send(request));
  std::string id = XmlText(reply.body, "UploadId");
  if (id.empty()) return FailedPrecondition(StrCat(PlaceOf(request), ": the answer names no upload"));
  return id;
}

absl::StatusOr<std::string> S3Client::PutPart(const S3Upload& upload, size_t number, std::string_view body) {
  Request request{.method = "PUT",
                  .key = upload.key,
                  .query = StrCat("partNumber=", number, "&uploadId=", QueryValue(upload.id)),
                  .body = body};
  LC_ASSIGN_OR_RETURN(Reply reply, Send(request));
  if (reply.tag.empty()) return FailedPrecondition(StrCat(PlaceOf(request), ": the answer has no ETag"));
  return std::move(reply.tag);
}

absl::Status S3Client::CompleteParts(const S3Upload& upload, const std::vector<std::string>& tags, uint64_t bytes) {
  LC_DCHECK(!tags.empty());
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < tags.size(); ++i) {
    body += StrCat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", tags[i], "</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  Request request{
      .method = "POST", .key = upload.key, .query = StrCat("uploadId=", QueryValue(upload.id)), .body = body};
  const absl::Status completed = Send(request).status();
  if (!absl::IsNotFound(completed)) return completed;
  // The answer to an earlier try was lost: the upload is gone because it has become the object.
  LC_ASSIGN_OR_RETURN(const std::vector<S3Object> found, List(upload.key));
  const bool whole = !found.empty() && found.front().key == upload.key && found.front().bytes == bytes;
  return whole ? absl::OkStatus() : completed;
}

absl::StatusOr<std::vector<S3Upload>> S3Client::ListUploads(const std::string& prefix) {
  std::vector<S3Upload> out;
  std::string key, id;
  do {
    const std::string from = key.empty() ? "" : StrCat("key-marker=", QueryValue(key), "&");
    const std::string behind = key.empty() ? "" : StrCat("upload-id-marker=", QueryValue(id), "&");
    Request request{.query = StrCat(from, "prefix=", QueryValue(prefix), "&", behind, "uploads="), .about = prefix};
    LC_ASSIGN_OR_RETURN(const Reply reply, Send(request));
    for (const std::string_view one : XmlElements(reply.body, "Upload")) {
      out.push_back({XmlText(one, "Key"), XmlText(one, "UploadId")});
    }
    const bool more = XmlText(reply.body, "IsTruncated") == "true";
    // Several uploads of one key may go over a page's end.
    const std::string last_key = std::exchange(key, more ? XmlText(reply.body, "NextKeyMarker") : "");
    const std::string last_id = std::exchange(id, XmlText(reply.body, "NextUploadIdMarker"));
    if (more && (key < last_key || (key == last_key && id == last_id))) {
      return FailedPrecondition(StrCat(PlaceOf(request), ": the list does not say how it goes on"));
    }
  } while (!key.empty());
  return out;
}

absl::Status S3Client::AbortParts(const S3Upload& upload) {
  Request request{.method = "DELETE", .key = upload.key, .query = StrCat("uploadId=", QueryValue(upload.id))};
  const absl::Status aborted = Send(request).status();
  return absl::IsNotFound(aborted) ? absl::OkStatus() : aborted;
}

bool S3Client::AbortPartsOnce(const S3Upload& upload) noexcept {
  try {
    Request request{
        .method = "DELETE", .key = upload.key, .query = StrCat("uploadId=", QueryValue(upload.id)), .cleanup = true};
    return Send(request).ok();
  } catch (const std::exception&) {  // a lack of memory
    return false;
  }
}

bool S3Client::DeleteOnce(const std::string& key) noexcept {
  try {
    Request request{.method = "DELETE", .key = key, .cleanup = true};
    return Send(request).ok();
  } catch (const std::exception&) {  // a lack of memory
    return false;
  }
}

}  // namespace lightcone

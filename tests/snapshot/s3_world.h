// A store on the loopback that speaks what S3 speaks to a backup, keeps its objects in memory, and refuses a request
// whose signature it cannot compute again from the secret.
#pragma once

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strings.h"
#include "httplib.h"
#include "tests/support/loopback_server.h"

namespace lightcone {

inline std::string HexOf(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    out += digits;
  }
  return out;
}

inline std::string Sha256Of(std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), hash, &length, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(hash), length};
}

inline std::string HmacOf(std::string_view key, std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), hash, &length);
  return {reinterpret_cast<const char*>(hash), length};
}

// A request as signature version 4 sees it.
struct SignedRequest {
  std::string method, path, query;  // as in the request's line
  std::vector<std::string> signed_headers;
  std::function<std::string(const std::string& name)> header;
  std::string scope;  // DAY/REGION/SERVICE/aws4_request
};

inline std::string SignatureOf(const SignedRequest& request, const std::string& secret) {
  std::vector<std::string> parameters = absl::StrSplit(request.query, '&', absl::SkipEmpty());
  std::sort(parameters.begin(), parameters.end());
  for (std::string& one : parameters) {
    if (one.find('=') == std::string::npos) one += "=";
  }
  std::string headers;
  for (const std::string& name : request.signed_headers) headers += StrCat(name, ":", request.header(name), "\n");
  const std::string canonical =
      StrCat(request.method, "\n", request.path, "\n", absl::StrJoin(parameters, "&"), "\n", headers, "\n",
             absl::StrJoin(request.signed_headers, ";"), "\n", request.header("x-amz-content-sha256"));
  const std::string text =
      StrCat("AWS4-HMAC-SHA256\n", request.header("x-amz-date"), "\n", request.scope, "\n", HexOf(Sha256Of(canonical)));
  std::string key = "AWS4" + secret;
  const std::vector<std::string> parts = absl::StrSplit(request.scope, '/');
  for (const std::string& part : parts) key = HmacOf(key, part);
  return HexOf(HmacOf(key, text));
}

class StubStore {
 public:
  struct Object {
    std::string body;
    absl::Time modified;
  };
  struct Seen {
    std::string method, key;  // without the bucket
    size_t body_bytes = 0;
  };
  // May answer in place of the store: true says that it did.
  using Intercept =
      std::function<bool(const httplib::Request& request, const std::string& key, httplib::Response& response)>;

  StubStore() {
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    };
    server_.handlers().Get(".*", handle);
    server_.handlers().Put(".*", handle);
    server_.handlers().Post(".*", handle);
    server_.handlers().Delete(".*", handle);
    server_.Start();
  }

  static constexpr char kBucket[] = "backups", kKeyId[] = "KEYID1", kSecret[] = "se:cret/+1", kToken[] = "token/+==";
  std::string url() const { return StrCat("http://127.0.0.1:", server_.port()); }

  void SetIntercept(Intercept intercept) {
    const std::lock_guard lock(mu_);
    intercept_ = std::move(intercept);
  }
  // Runs behind a request, and may change what the store holds and answers.
  using After = std::function<void(const httplib::Request& request, const std::string& key,
                                   std::map<std::string, Object>& objects, httplib::Response& response)>;
  void SetAfter(After after) {
    const std::lock_guard lock(mu_);
    after_ = std::move(after);
  }
  std::map<std::string, Object> objects() {
    const std::lock_guard lock(mu_);
    return objects_;
  }
  // Keys below a prefix.
  std::vector<std::string> Keys(const std::string& prefix) {
    std::vector<std::string> keys;
    for (const auto& [key, object] : objects()) {
      if (key.starts_with(prefix)) keys.push_back(key);
    }
    return keys;
  }
  void Change(const std::string& key, const std::function<void(Object&)>& change) {
    const std::lock_guard lock(mu_);
    change(objects_[key]);
  }
  void Remove(const std::string& key) {
    const std::lock_guard lock(mu_);
    objects_.erase(key);
  }
  size_t uploads() {
    const std::lock_guard lock(mu_);
    return uploads_.size();
  }
  std::vector<Seen> TakeSeen() {
    const std::lock_guard lock(mu_);
    return std::exchange(seen_, {});
  }

  static void Refuse(int status, const std::string& code, const std::string& message, httplib::Response& response) {
    response.status = status;
    response.set_content(StrCat("<?xml version=\"1.0\"?>\n<Error><Code>", code, "</Code><Message>", message,
                                "</Message><RequestId>1</RequestId></Error>"),
                         "application/xml");
  }

 private:
  struct Upload {
    std::string key;
    std::map<int, std::string> parts;
  };
  static constexpr size_t kPage = 2;

  static bool IsSigned(const httplib::Request& request) {
    const std::string authorization = request.get_header_value("Authorization");
    const auto part = [&authorization](const std::string& name) {
      const size_t at = authorization.find(name + "=");
      if (at == std::string::npos) return std::string();
      const size_t begin = at + name.size() + 1;
      return authorization.substr(begin, std::min(authorization.find(',', begin), authorization.size()) - begin);
    };
    const std::string credential = part("Credential");
    if (!credential.starts_with(std::string(kKeyId) + "/")) return false;
    if (request.get_header_value("x-amz-content-sha256") != HexOf(Sha256Of(request.body))) return false;
    if (request.get_header_value("x-amz-security-token") != kToken) return false;
    const size_t mark = std::min(request.target.find('?'), request.target.size());
    SignedRequest one;
    one.method = request.method;
    one.path = request.target.substr(0, mark);
    one.query = mark < request.target.size() ? request.target.substr(mark + 1) : "";
    one.signed_headers = absl::StrSplit(part("SignedHeaders"), ';');
    one.header = [&request](const std::string& name) { return request.get_header_value(name.c_str()); };
    one.scope = credential.substr(std::string_view(kKeyId).size() + 1);
    for (const char* const name : {"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"}) {
      if (std::count(one.signed_headers.begin(), one.signed_headers.end(), name) != 1) return false;
    }
    return part("Signature") == SignatureOf(one, kSecret);
  }

  void Handle(const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard lock(mu_);
    const std::string bucket = StrCat("/", kBucket);
    if (!IsSigned(request)) {
      return Refuse(403, "SignatureDoesNotMatch", StrCat("Check your key &lt;", kKeyId, "&gt;."), response);
    }
    if (request.path != bucket && !request.path.starts_with(bucket + "/")) {
      return Refuse(404, "NoSuchBucket", "The specified bucket does not exist", response);
    }
    const std::string key = request.path.size() > bucket.size() ? request.path.substr(bucket.size() + 1) : "";
    seen_.push_back({request.method, key, request.body.size()});
    if (intercept_ && intercept_(request, key, response)) return;
    Serve(request, key, response);
    if (after_) after_(request, key, objects_, response);
  }

  void Serve(const httplib::Request& request, const std::string& key, httplib::Response& response) {
    if (key.empty()) return List(request, response);
    if (request.has_param("uploadId") || request.has_param("uploads")) return Parts(request, key, response);
    if (request.method == "PUT") {
      objects_[key] = {request.body, absl::Now()};
      return;
    }
    if (request.method == "DELETE") {
      objects_.erase(key);
      response.status = 204;
      return;
    }
    const auto found = objects_.find(key);
    if (found == objects_.end()) return Refuse(404, "NoSuchKey", "The specified key does not exist.", response);
    response.set_content(found->second.body, "application/octet-stream");
  }

  void List(const httplib::Request& request, httplib::Response& response) {
    const std::string prefix = request.get_param_value("prefix");
    if (request.has_param("uploads")) {
      std::string body;
      for (const auto& [id, upload] : uploads_) {
        if (!upload.key.starts_with(prefix)) continue;
        body += StrCat("<Upload><Key>", upload.key, "</Key><UploadId>", id, "</UploadId></Upload>");
      }
      return Answer(StrCat("<ListMultipartUploadsResult>", body, "</ListMultipartUploadsResult>"), response);
    }
    // A token of characters that a query encodes.
    const std::string token = request.get_param_value("continuation-token");
    auto at = objects_.lower_bound(token.empty() ? prefix : token.substr(3));
    std::string body;
    size_t count = 0;
    for (; at != objects_.end() && at->first.starts_with(prefix) && count < kPage; ++at, ++count) {
      body += StrCat("<Contents><Key>", at->first, "</Key><LastModified>",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", at->second.modified, absl::UTCTimeZone()),
                     "</LastModified><Size>", at->second.body.size(), "</Size></Contents>");
    }
    const bool more = at != objects_.end() && at->first.starts_with(prefix);
    const std::string next =
        more ? StrCat("<NextContinuationToken>+&amp;=", at->first, "</NextContinuationToken>") : "";
    Answer(StrCat("<ListBucketResult><Name>", kBucket, "</Name><KeyCount>", count, "</KeyCount><IsTruncated>", more,
                  "</IsTruncated>", body, next, "</ListBucketResult>"),
           response);
  }

  void Parts(const httplib::Request& request, const std::string& key, httplib::Response& response) {
    if (request.has_param("uploads")) {
      const std::string id = StrCat("upload/", ++last_upload_, "+=");
      uploads_[id].key = key;
      return Answer(
          StrCat("<InitiateMultipartUploadResult><UploadId>", id, "</UploadId></InitiateMultipartUploadResult>"),
          response);
    }
    const auto found = uploads_.find(request.get_param_value("uploadId"));
    if (found == uploads_.end() || found->second.key != key) {
      return Refuse(404, "NoSuchUpload", "The specified upload does not exist.", response);
    }
    Upload& upload = found->second;
    if (request.method == "PUT") {
      upload.parts[std::stoi(request.get_param_value("partNumber"))] = request.body;
      response.set_header("ETag", TagOf(request.body));
      return;
    }
    if (request.method == "POST") {
      std::string whole, expected = "<CompleteMultipartUpload>";
      for (const auto& [number, part] : upload.parts) {
        whole += part;
        expected += StrCat("<Part><PartNumber>", number, "</PartNumber><ETag>", TagOf(part), "</ETag></Part>");
      }
      if (request.body != expected + "</CompleteMultipartUpload>") {
        return Refuse(400, "InvalidPart", "One or more of the specified parts could not be found.", response);
      }
      objects_[key] = {whole, absl::Now()};
    }
    uploads_.erase(found);
    Answer("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>", response);
  }

  static std::string TagOf(const std::string& part) { return StrCat("\"", HexOf(Sha256Of(part)).substr(0, 32), "\""); }
  static void Answer(const std::string& xml, httplib::Response& response) {
    response.set_content("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + xml, "application/xml");
  }

  std::mutex mu_;
  Intercept intercept_;
  After after_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  int last_upload_ = 0;
  std::vector<Seen> seen_;
  LoopbackServer server_;  // the last member: its handlers use the others
};

}  // namespace lightcone

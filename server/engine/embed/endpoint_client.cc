#include "server/engine/embed/endpoint_client.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr int kLookMilliseconds = 20;  // pause between looks for a caller that is gone
constexpr long kConnectMilliseconds = 10'000;

struct BoundedBody {
  std::string text;
  size_t bytes_max = 0;
  bool too_long = false;
};

size_t TakeBytes(char* data, size_t size, size_t count, void* to) {
  auto& body = *static_cast<BoundedBody*>(to);
  const size_t bytes = size * count;
  if (bytes > body.bytes_max - body.text.size()) {
    body.too_long = true;
    return 0;
  }
  body.text.append(data, bytes);
  return bytes;
}

// libcurl counts its users, and is set up by the first one.
bool SetUpCurl() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

curl_slist* HeadersFor(const std::string& key) {
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Accept: application/json");
  headers = curl_slist_append(headers, "Expect:");  // Otherwise a large body waits for a word of the endpoint.
  if (!key.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + key).c_str());
  return headers;
}

void SetOptions(CURL* easy, const EndpointManifest& endpoint, const std::string& body, curl_slist* headers,
                BoundedBody* answer) {
  curl_easy_reset(easy);
  curl_easy_setopt(easy, CURLOPT_URL, endpoint.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, endpoint.scheme.c_str());
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, TakeBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
  // A request that is given up does not wait for the look-up of its name, whose thread ends by itself.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
}

}  // namespace

EndpointClient::EndpointClient() : multi_(nullptr, curl_multi_cleanup), easy_(nullptr, curl_easy_cleanup) {
  if (!SetUpCurl()) return;
  multi_.reset(curl_multi_init());
  easy_.reset(curl_easy_init());
}

absl::StatusOr<EndpointReply> EndpointClient::Post(const EndpointManifest& endpoint, const std::string& key,
                                                   const std::string& body, size_t answer_bytes_max,
                                                   absl::Time deadline, const std::function<bool()>& cancelled) {
  if (multi_ == nullptr || easy_ == nullptr) return Internal("libcurl could not be set up");
  BoundedBody answer;
  answer.bytes_max = answer_bytes_max;
  curl_slist* const headers = HeadersFor(key);
  const absl::Cleanup free = [headers] { curl_slist_free_all(headers); };
  SetOptions(easy_.get(), endpoint, body, headers, &answer);
  CURLcode result = CURLE_OK;
  if (absl::Status ended = Transfer(deadline, cancelled, &result); !ended.ok()) {
    return Annotate(ended, endpoint.Name());
  }
  if (answer.too_long) {
    return ResourceExhausted(StrCat(endpoint.Name(), ": the answer has more than ", answer_bytes_max, " bytes"));
  }
  if (result != CURLE_OK) return Unavailable(StrCat(endpoint.Name(), ": ", curl_easy_strerror(result)));
  EndpointReply reply;
  reply.body = std::move(answer.text);
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) reply.retry_after = absl::Seconds(static_cast<int64_t>(seconds));
  return reply;
}

absl::Status EndpointClient::Transfer(absl::Time deadline, const std::function<bool()>& cancelled, CURLcode* result) {
  if (curl_multi_add_handle(multi_.get(), easy_.get()) != CURLM_OK) return Internal("libcurl takes no request");
  // A request that is removed before it has ended closes its connection.
  const absl::Cleanup remove = [this] { curl_multi_remove_handle(multi_.get(), easy_.get()); };
  while (true) {
    int running = 0;
    if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) return Internal("libcurl cannot go on");
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      *result = message->data.result;
      return absl::OkStatus();
    }
    if (cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "the request was given up");
    const absl::Time now = absl::Now();
    if (now >= deadline) return DeadlineExceeded("no whole answer in time");
    const int64_t until = absl::ToInt64Milliseconds(deadline - now) + 1;
    curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(std::min<int64_t>(kLookMilliseconds, until)), nullptr);
  }
}

}  // namespace lightcone::server

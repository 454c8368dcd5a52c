#include "server/trace/collector_client.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "base/trace.h"
#include "server/trace/trace_endpoint.h"

namespace lightcone::server {
namespace {

constexpr int kLookMilliseconds = 50;  // pause between looks for an end that is wanted

constexpr size_t kReplyBytesMax = 64 << 10;

// Takes all of a reply, so that its connection stays open, and keeps the beginning.
size_t KeepBeginning(char* bytes, size_t size, size_t count, void* to) {
  auto* body = static_cast<std::string*>(to);
  try {
    body->append(bytes, std::min(size * count, kReplyBytesMax - body->size()));
  } catch (...) {
    return 0;  // Nothing may be thrown through libcurl: the request fails.
  }
  return size * count;
}

// Seconds, or a date to come. Anything else is left out.
std::optional<absl::Duration> RetryAfterOf(CURL* easy) {
  curl_header* header = nullptr;
  if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return std::nullopt;
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  // libcurl reads what it does not understand as 0.
  if (seconds <= 0 && std::string_view(header->value) != "0") return std::nullopt;
  return absl::Seconds(static_cast<int64_t>(seconds));
}

// libcurl counts its users, and is set up by the first one.
bool SetUpLibrary() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

void SetRequest(CURL* easy, const std::string& url, const std::string& body, curl_slist* headers, std::string* reply) {
  curl_easy_reset(easy);
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, KeepBeginning);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, reply);
  // A request that is given up does not wait for the look-up of its name, whose thread ends by itself.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
}

}  // namespace

CollectorClient::CollectorClient(std::string url)
    : url_(std::move(url)), multi_(nullptr, curl_multi_cleanup), easy_(nullptr, curl_easy_cleanup) {
  LC_DCHECK(!url_.empty() && CheckTraceEndpoint(url_).ok());
  if (!SetUpLibrary()) return;
  multi_.reset(curl_multi_init());
  easy_.reset(curl_easy_init());
}

absl::StatusOr<CollectorReply> CollectorClient::Post(const std::string& body, absl::Duration limit,
                                                     const std::function<bool()>& cancelled) {
  if (multi_ == nullptr || easy_ == nullptr) return Internal("libcurl could not be set up");
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");  // Otherwise a large body waits for a word of the collector.
  const absl::Cleanup free = [headers] { curl_slist_free_all(headers); };
  CollectorReply reply;
  SetRequest(easy_.get(), url_, body, headers, &reply.body);
  CURLcode result = CURLE_OK;
  LC_RETURN_IF_ERROR(Transfer(SteadyNanos() + absl::ToInt64Nanoseconds(limit), cancelled, &result));
  if (result != CURLE_OK) return Unavailable(curl_easy_strerror(result));
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  reply.retry_after = RetryAfterOf(easy_.get());
  return reply;
}

absl::Status CollectorClient::Transfer(int64_t end_ns, const std::function<bool()>& cancelled, CURLcode* result) {
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
    const int64_t left_ns = end_ns - SteadyNanos();
    if (left_ns <= 0) return DeadlineExceeded("no answer in time");
    const int64_t pause = std::min<int64_t>(kLookMilliseconds, left_ns / 1'000'000 + 1);
    curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(pause), nullptr);
  }
}

}  // namespace lightcone::server

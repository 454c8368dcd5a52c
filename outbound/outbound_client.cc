#include "outbound/outbound_client.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "base/trace.h"

namespace lightcone {
namespace {

constexpr int64_t kLookMilliseconds = 20;  // pause between looks for a caller that is gone

// What comes of an answer's body.
struct BoundedBody {
  std::string text;
  const size_t bytes_max;
  const LongAnswer long_answer;
  bool refused = false;
  bool lacks_memory = false;
};

size_t TakeBytes(char* bytes, size_t size, size_t count, void* to) {
  auto& body = *static_cast<BoundedBody*>(to);
  const size_t come = size * count, room = body.bytes_max - body.text.size();
  body.refused = come > room && body.long_answer == LongAnswer::kIsRefused;
  if (body.refused) return 0;
  try {
    body.text.append(bytes, std::min(come, room));
  } catch (...) {
    body.lacks_memory = true;
    return 0;  // Nothing may be thrown through libcurl: the request fails.
  }
  return come;
}

absl::Status StatusOfMulti(CURLMcode done, std::string_view failure) {
  if (done == CURLM_OUT_OF_MEMORY) throw std::bad_alloc();
  return done == CURLM_OK ? absl::OkStatus() : Internal(failure);
}

// Seconds, or a date to come. Anything else is left out.
std::optional<absl::Duration> ReadRetryAfter(CURL* easy) {
  curl_header* header = nullptr;
  if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return std::nullopt;
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  // libcurl reads what it does not understand as 0.
  if (seconds <= 0 && std::string_view(header->value) != "0") return std::nullopt;
  return absl::Seconds(static_cast<int64_t>(seconds));
}

}  // namespace

OutboundClient::OutboundClient() : multi_(nullptr, curl_multi_cleanup) { SetUp(); }

void OutboundClient::SetUp() {
  if (easy_ == nullptr) easy_ = MakeCurlEasy();
  if (easy_ != nullptr && multi_ == nullptr) multi_.reset(curl_multi_init());
}

absl::StatusOr<OutboundReply> OutboundClient::Send(const OutboundRequest& request) {
  LC_DCHECK(!request.url.empty());
  SetUp();  // once more where memory was missing
  if (multi_ == nullptr) return Unavailable("libcurl could not be set up");
  CURL* const easy = easy_.get();
  std::vector<std::string> lines = request.headers;
  lines.push_back("Expect:");  // Otherwise a large body waits for a word of the server.
  const CurlHeaders headers = MakeCurlHeaders(lines);
  BoundedBody body{.text = {},
                   .bytes_max = request.answer_bytes_max,
                   .long_answer = request.long_answer,
                   .refused = false,
                   .lacks_memory = false};
  LC_RETURN_IF_ERROR(SetCommonOptions(easy, request.url, request.schemes));
  LC_RETURN_IF_ERROR(SetMethod(easy, request.method, request.body));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  if (request.connect_limit < absl::InfiniteDuration()) {
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     std::max(1L, static_cast<long>(absl::ToInt64Milliseconds(request.connect_limit))));
  }
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, TakeBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
  LC_ASSIGN_OR_RETURN(const CURLcode result, Transfer(request));
  if (body.refused) {
    return ResourceExhausted(StrCat("the answer has more than ", request.answer_bytes_max, " bytes"));
  }
  // The other server has no part in this: it must not count as one that fails.
  if (result == CURLE_OUT_OF_MEMORY || body.lacks_memory) throw std::bad_alloc();
  if (result != CURLE_OK) return Unavailable(curl_easy_strerror(result));
  OutboundReply reply;
  reply.body = std::move(body.text);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.status);
  reply.retry_after = ReadRetryAfter(easy);
  return reply;
}

absl::StatusOr<CURLcode> OutboundClient::Transfer(const OutboundRequest& request) {
  const int64_t begin_ns = SteadyNanos();
  const int64_t limit_ns = absl::ToInt64Nanoseconds(std::max(request.limit, absl::ZeroDuration()));
  LC_RETURN_IF_ERROR(StatusOfMulti(curl_multi_add_handle(multi_.get(), easy_.get()), "libcurl takes no request"));
  // A request that is removed before it has ended closes its connection.
  const absl::Cleanup remove = [this] { curl_multi_remove_handle(multi_.get(), easy_.get()); };
  while (true) {
    int running = 0;
    LC_RETURN_IF_ERROR(StatusOfMulti(curl_multi_perform(multi_.get(), &running), "libcurl cannot go on"));
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg == CURLMSG_DONE) return message->data.result;
    }
    if (request.cancelled && request.cancelled()) {
      return MakeStatus(absl::StatusCode::kCancelled, "the request was given up");
    }
    const int64_t left_ns = limit_ns - (SteadyNanos() - begin_ns);
    if (left_ns <= 0) return DeadlineExceeded("no whole answer in time");
    const int64_t pause = std::min(kLookMilliseconds, left_ns / 1'000'000 + 1);
    curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(pause), nullptr);
  }
}

}  // namespace lightcone

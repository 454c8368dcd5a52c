#include "server/rest/rest_api.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/number_text.h"
#include "base/retry_after.h"
#include "base/status.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

constexpr int64_t kTimeoutSecondsMax = 3'600;

int HttpCodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kDeadlineExceeded:
      return 408;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

std::string HeaderOf(const HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

// A page of another site may send simple requests through a browser. It can neither leave out Origin nor send JSON.
absl::Status CheckSender(const HttpRequest& request) {
  const std::string origin = HeaderOf(request, "origin"), host = HeaderOf(request, "host");
  if (origin.empty() || origin == "http://" + host || origin == "https://" + host) return absl::OkStatus();
  return FieldError(absl::StatusCode::kPermissionDenied, "Origin", StrCat("'", origin.substr(0, 200), "'"),
                    StrCat("none, or http://", host));
}

bool IsJson(const HttpRequest& request) {
  return absl::StartsWithIgnoreCase(HeaderOf(request, "content-type"), "application/json");
}

absl::StatusOr<absl::Duration> TimeoutOf(const HttpRequest& request, absl::Duration fallback) {
  const auto found = request.query.find("timeout");
  if (found == request.query.end()) return fallback;
  const std::string& text = found->second;
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds >= 1 && seconds <= kTimeoutSecondsMax) {
    return absl::Seconds(seconds);
  }
  return InvalidField("timeout", StrCat("'", text.substr(0, 40), "'"), StrCat("1 .. ", kTimeoutSecondsMax, " s"));
}

// As over gRPC, a search that may have to wait for an encoder must not hold a thread that others could search on. The
// body is parsed on the lane alone, so its text decides: one that names the parameter in vain only runs among the calls
// that wait.
RestLane LaneOf(const Endpoint& endpoint, const HttpRequest& request) {
  const bool may_embed = endpoint.lane == RestLane::kRead && absl::StrContains(request.body, "\"refresh_top\"");
  return may_embed ? RestLane::kWait : endpoint.lane;
}

std::string SecondsText(absl::Duration took) { return NumberText(absl::ToDoubleSeconds(took)); }

}  // namespace

HttpAnswer RestAnswer(std::string_view result, absl::Duration took) {
  return {200, "application/json",
          StrCat("{\"result\":", result, ",\"status\":\"ok\",\"time\":", SecondsText(took), "}")};
}

HttpAnswer RestRefusal(const absl::Status& status, absl::Duration took) {
  HttpAnswer answer{
      HttpCodeOf(status.code()), "application/json",
      StrCat("{\"status\":{\"error\":", TextOfJson(MessageOf(status)), "},\"time\":", SecondsText(took), "}")};
  if (const auto after = RetryAfterOf(status)) {
    answer.headers = {
        {"Retry-After", StrCat(std::max<int64_t>(1, std::llround(std::ceil(absl::ToDoubleSeconds(*after)))))}};
  }
  return answer;
}

std::vector<std::string> RestMethods() {
  std::vector<std::string> names;
  for (const Endpoint& endpoint : Endpoints()) names.emplace_back(endpoint.name);
  return names;
}

RestApi::RestApi(RestOptions options) : options_(std::move(options)), budget_(options_.parsed_bytes_max) {}

void RestApi::Open(RestBackend backend) {
  absl::MutexLock lock(&mu_);
  backend_ = std::move(backend);
}

void RestApi::Close() {
  absl::MutexLock lock(&mu_);
  backend_ = {};
}

HttpAnswer RestApi::Title() const {
  return {200, "application/json",
          TextOfJson({{"title", "lightcone - vector retrieval server"},
                      {"version", kQdrantVersion},
                      {"lightcone", {{"version", options_.version}}}})};
}

void RestApi::AddRoutes(RouteTable* table) {
  for (const Endpoint& endpoint : Endpoints()) {
    table->Add({.method = std::string(endpoint.method),
                .pattern = std::string(endpoint.path),
                .access = endpoint.access,
                .body_bytes_max = endpoint.takes_body ? options_.body_bytes_max : 0,
                .begin = [this, &endpoint](HttpRequest request,
                                           Done done) { Begin(endpoint, std::move(request), std::move(done)); },
                .refuse = [this, &endpoint](const HttpRequest& request,
                                            const absl::Status& status) { return Refuse(endpoint, request, status); },
                .is_timed = options_.tracer != nullptr});
  }
  for (const RefusedEndpoint& refused : RefusedEndpoints()) {
    table->Add({.method = std::string(refused.method),
                .pattern = std::string(refused.path),
                .access = RouteAccess::Open(),
                .lane = HttpLane::kIo,
                .body_bytes_max = options_.body_bytes_max,
                .handle = [&refused](const HttpRequest& request) {
                  return RestRefusal(
                      Unimplemented(StrCat(refused.method, " ", request.path, " is not supported: ", refused.why)), {});
                }});
  }
}

void RestApi::Begin(const Endpoint& endpoint, HttpRequest request, Done done) {
  const absl::Time began = absl::Now();
  const absl::StatusOr<absl::Duration> timeout = TimeoutOf(request, options_.call_time);
  absl::Status refusal = CheckSender(request);
  if (refusal.ok()) refusal = timeout.status();
  if (!refusal.ok()) return done(RestRefusal(refusal, absl::Now() - began));
  if (endpoint.takes_body && !IsJson(request)) {
    HttpAnswer answer =
        RestRefusal(InvalidField("Content-Type", StrCat("'", HeaderOf(request, "content-type").substr(0, 80), "'"),
                                 "application/json"),
                    absl::Now() - began);
    answer.status = 415;
    return done(std::move(answer));
  }
  absl::MutexLock lock(&mu_);
  if (backend_.engine == nullptr)
    return done(RestRefusal(Unavailable("the server starts or drains"), absl::Now() - began));
  const std::optional<TraceParent> parent = ParseTraceParent(HeaderOf(request, "traceparent"));
  const auto call = std::make_shared<Call>(Call{endpoint, std::move(request), backend_.engine, began, began + *timeout,
                                                parent ? parent->trace : TraceId(),
                                                /*trace=*/nullptr});
  call->trace = BeginTrace(endpoint, call->request, parent);
  if (call->trace != nullptr) {
    call->trace_id = call->trace->id();
    call->queued_ns = SteadyNanos();
    if (endpoint.takes_body) {
      call->trace->Add("receive", Trace::kRoot, call->request.auth_ended_ns, call->queued_ns);
    }
  }
  const auto run = [this, call, done = std::move(done)](const absl::Status& admitted) { done(Run(*call, admitted)); };
  backend_.submit(LaneOf(endpoint, call->request), call->deadline, run);
}

HttpAnswer RestApi::Refuse(const Endpoint& endpoint, const HttpRequest& request, const absl::Status& status) {
  // Nobody without a valid key sends spans, and no call has a trace while the server starts.
  if (request.caller.principal != nullptr && !absl::IsUnavailable(status)) {
    const std::optional<TraceParent> parent = ParseTraceParent(HeaderOf(request, "traceparent"));
    EndTrace(endpoint, request, BeginTrace(endpoint, request, parent), status.code(), CallStage::kRefused);
  }
  return RestRefusal(status, absl::ZeroDuration());
}

std::unique_ptr<Trace> RestApi::BeginTrace(const Endpoint& endpoint, const HttpRequest& request,
                                           const std::optional<TraceParent>& parent) const {
  if (options_.tracer == nullptr) return nullptr;
  LC_DCHECK(request.auth_began_ns > 0 && request.auth_ended_ns >= request.auth_began_ns);
  std::unique_ptr<Trace> trace = options_.tracer->Begin(parent, endpoint.name, request.auth_began_ns);
  if (trace != nullptr) trace->Add("auth", Trace::kRoot, request.auth_began_ns, request.auth_ended_ns);
  return trace;
}

void RestApi::EndTrace(const Endpoint& endpoint, const HttpRequest& request, std::unique_ptr<Trace> trace,
                       absl::StatusCode code, CallStage stage) const {
  if (trace == nullptr) return;
  trace->Set(Trace::kRoot, "rpc.method", std::string(endpoint.name));
  const auto collection = request.parameters.find("collection");
  if (collection != request.parameters.end()) {
    trace->Set(Trace::kRoot, "db.collection.name", collection->second);
  }
  options_.tracer->End(std::move(trace), code, stage);
}

HttpAnswer RestApi::Run(Call& call, const absl::Status& admitted) {
  if (call.trace != nullptr) call.trace->Add("queue", Trace::kRoot, call.queued_ns, SteadyNanos());
  const absl::StatusOr<std::string> result = admitted.ok() ? Answer(call) : admitted;
  const absl::Duration took = absl::Now() - call.began;
  if (options_.observe) options_.observe(call.endpoint.name, result.status(), took, call.trace_id);
  EndTrace(call.endpoint, call.request, std::move(call.trace), result.status().code(),
           admitted.ok() ? CallStage::kWorked : CallStage::kRefused);
  return result.ok() ? RestAnswer(*result, took) : RestRefusal(result.status(), took);
}

absl::StatusOr<std::string> RestApi::Answer(const Call& call) {
  try {
    const HttpRequest& request = call.request;
    std::optional<ParsedBody> body;
    if (call.endpoint.takes_body) {
      const Span parse(call.trace.get(), "parse");
      LC_ASSIGN_OR_RETURN(ParsedBody read, ParseJsonBody(request.body, &budget_));
      body.emplace(std::move(read));
    }
    const json none;
    const json& given = body ? std::as_const(body->value) : none;
    RestCall rest{*call.engine, options_.index_defaults, request, given, {}, options_.version};
    rest.context.deadline = call.deadline;
    rest.context.caller = request.caller.name();
    rest.context.sees = [&request](const std::string& collection) { return request.caller.Sees(collection); };
    rest.context.may_write = [&request](const std::string& collection) { return request.caller.MayWrite(collection); };
    rest.context.answer_bytes_max = call.engine->options().limits.answer_bytes_max;
    rest.context.trace_id = call.trace_id;
    rest.context.trace = call.trace.get();
    rest.context.meter = request.caller.meter;
    LC_RETURN_IF_ERROR(rest.QueryFlag("wait", false).status());  // before anything is changed
    return call.endpoint.answer(rest);
  } catch (...) {
    return StatusOfException();
  }
}

}  // namespace lightcone::server

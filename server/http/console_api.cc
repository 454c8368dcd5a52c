#include "server/http/console_api.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "server/http/console_json.h"
#include "server/http/console_search.h"
#include "server/http/http_error.h"
#include "server/http/same_origin.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

constexpr absl::Duration kCallTime = absl::Seconds(20);
constexpr absl::Duration kWatchEvery = absl::Seconds(5);
constexpr int kDepthMax = 32;
constexpr uint32_t kAuditEntries = 200;
constexpr char kOperator[] = "the console";  // Without keys the console does not know its users.
constexpr uint32_t kJobs = 100;              // newest jobs that are listed
constexpr size_t kJsonBytesMax = 4 << 20;    // JSON takes many times its size when it is parsed.
constexpr int kSearchesMax = 4;              // searches at once, because other calls share the threads

std::string Dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);  // Payloads may hold any bytes.
}

json ToJson(const CallFigures& figures) {
  json codes = json::object(), part_errors = json::object(), buckets = json::array();
  for (const auto& [code, count] : figures.codes) codes[code] = count;
  for (const auto& [code, count] : figures.part_errors) part_errors[code] = count;
  for (const auto& [bound, count] : figures.buckets) buckets.push_back({bound, count});
  return {{"method", figures.method},
          {"codes", codes},
          {"part_errors", part_errors},
          {"count", figures.count},
          {"buckets", buckets}};
}

json ToJson(const History::Point& point) {
  json items = json::array();
  for (const auto& [generation, count] : point.items_by_generation) items.push_back({generation, count});
  return {{"time", absl::ToDoubleSeconds(point.time - absl::UnixEpoch())},
          {"active_generation", point.active_generation},
          {"items", std::move(items)},
          {"done", point.items_done},
          {"left", point.items_left},
          {"recall", point.recall < 0 ? json() : json(point.recall)}};
}

template <typename List>
json ListToJson(const List& list) {
  json all = json::array();
  for (const auto& one : list) all.push_back(ToJson(one));
  return all;
}

absl::StatusOr<uint32_t> GenerationFrom(const std::string& text) {
  uint32_t generation = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || text.size() > 9)
      return InvalidField("generation", StrCat("'", text.substr(0, 40), "'"), "a number");
    generation = generation * 10 + static_cast<uint32_t>(c - '0');
  }
  return generation;
}

absl::StatusOr<json> BodyOf(const HttpRequest& request) {
  if (JsonNestsDeeper(request.body, kDepthMax))
    return InvalidField("body", "nested too deeply", StrCat(kDepthMax, " levels"));
  json body = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return InvalidField("body", "no JSON object", "a JSON object");
  return body;
}

// What an operator asks for.
struct Action {
  Engine& engine;
  const std::string& collection;
  const json& body;
  const std::string operator_name = {};

  std::string Text(const char* key) const {
    return body.contains(key) && body[key].is_string() ? body[key].get<std::string>() : std::string();
  }
  std::optional<uint32_t> Number(const char* key) const {
    const bool fits = body.contains(key) && body[key].is_number_unsigned() && body[key].get<uint64_t>() <= UINT32_MAX;
    return fits ? std::optional(body[key].get<uint32_t>()) : std::nullopt;
  }
  uint32_t Generation() const { return Number("generation").value_or(0); }
  template <typename Call>
  Call MakeCall() const {
    Call call;
    call.request_id = Text("request_id");
    call.collection = collection;
    return call;
  }
};

template <typename Answer>
absl::StatusOr<json> ToJsonOrError(const absl::StatusOr<Answer>& answer) {
  LC_RETURN_IF_ERROR(answer.status());
  return ToJson(*answer);
}

absl::StatusOr<json> SwitchGeneration(const Action& action, bool back) {
  ActivateCall call = action.MakeCall<ActivateCall>();
  call.force = action.body.contains("force") && action.body["force"] == true;
  call.reason = action.Text("reason");
  call.operator_name = action.operator_name;
  call.expect_active = action.Number("expect_active");
  if (!call.expect_active) {
    return InvalidField("expect_active", "missing", "the generation that the page showed as active");
  }
  call.generation = action.Generation();
  return ToJsonOrError(back ? action.engine.RollbackGeneration(call) : action.engine.ActivateGeneration(call));
}
absl::StatusOr<json> Activate(const Action& action) { return SwitchGeneration(action, /*back=*/false); }
absl::StatusOr<json> RollBack(const Action& action) { return SwitchGeneration(action, /*back=*/true); }

absl::StatusOr<json> StartBackfill(const Action& action) {
  return ToJsonOrError(action.engine.StartBackfill(action.MakeCall<StartBackfillCall>()));
}

absl::StatusOr<json> PauseBackfill(const Action& action) {
  return ToJsonOrError(action.engine.PauseBackfill(action.collection, action.Text("request_id")));
}

absl::StatusOr<json> Validate(const Action& action) {
  ValidateCall call = action.MakeCall<ValidateCall>();
  call.generation = action.Generation();
  LC_ASSIGN_OR_RETURN(const std::string job, action.engine.ValidateGeneration(call));
  return json{{"job", job}};
}

absl::StatusOr<json> Retire(const Action& action) {
  LC_ASSIGN_OR_RETURN(const RetireAnswer done,
                      action.engine.RetireGeneration({action.Text("request_id"), action.collection, action.Generation(),
                                                      action.Text("reason"), action.operator_name}));
  return json{{"generation", ToJson(done.generation)}, {"job", done.job}};
}

absl::StatusOr<json> TakeUpDraft(const Action& action) {
  RegisterCall call = action.MakeCall<RegisterCall>();
  call.draft = action.Generation();
  if (call.draft == 0) return InvalidField("generation", "missing", "the number of a draft");
  return ToJsonOrError(action.engine.RegisterGeneration(call));
}

absl::StatusOr<json> EndCanary(const Action& action) {
  SetCanaryCall call = action.MakeCall<SetCanaryCall>();
  call.operator_name = action.operator_name;
  return ToJsonOrError(action.engine.SetCanary(call));
}

absl::StatusOr<json> CancelJob(const Action& action) {
  const std::string id = action.Text("job");
  LC_ASSIGN_OR_RETURN(const JobStatus job, action.engine.GetJob(id));
  if (job.collection != action.collection) return NotFound(StrCat("no job '", id, "' of ", action.collection));
  return ToJsonOrError(action.engine.CancelJob(id, action.Text("request_id")));
}

struct ActionHandler {
  std::string_view name;
  absl::StatusOr<json> (*handle)(const Action& action);
};
constexpr ActionHandler kActions[] = {{"activate", Activate},
                                      {"rollback", RollBack},
                                      {"backfill-start", StartBackfill},
                                      {"backfill-pause", PauseBackfill},
                                      {"validate", Validate},
                                      {"retire", Retire},
                                      {"take-up", TakeUpDraft},
                                      {"canary-end", EndCanary},
                                      {"job-cancel", CancelJob}};

// The name for the audit log.
std::string OperatorOf(const HttpRequest& request) {
  return request.caller.principal == nullptr ? kOperator : StrCat(request.caller.name(), " (", kOperator, ")");
}

}  // namespace

HttpAnswer ConsoleErrorOf(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  return {HttpStatusOf(status.code()), "application/json",
          Dumped({{"error", {{"code", code}, {"message", MessageOf(status)}}}}), HeadersOf(status)};
}

std::vector<std::string> ConsoleMethods() {
  std::vector<std::string> names;
  for (const ActionHandler& action : kActions) names.push_back(StrCat("Console/", action.name));
  return names;
}

ConsoleApi::ConsoleApi(ConsoleOptions options, const Metrics* metrics)
    : options_(std::move(options)), metrics_(metrics), watcher_([this] { Watch(); }) {}

ConsoleApi::~ConsoleApi() {
  SetEngine(nullptr, "");
  {
    absl::MutexLock lock(&watch_mu_);
    stopping_ = true;
  }
  watcher_.join();
}

void ConsoleApi::SetEngine(Engine* engine, std::string grpc_address) {
  ending_.store(engine == nullptr);
  absl::MutexLock lock(&engine_mu_);
  engine_ = engine;
  grpc_address_ = std::move(grpc_address);
}

void ConsoleApi::Watch() {
  const auto stopping = [this]() ABSL_SHARED_LOCKS_REQUIRED(watch_mu_) { return stopping_; };
  for (;;) {
    {
      absl::ReaderMutexLock lock(&engine_mu_);
      if (engine_ != nullptr) history_.Sample(*engine_, absl::Now());
    }
    absl::MutexLock lock(&watch_mu_);
    if (watch_mu_.AwaitWithTimeout(absl::Condition(&stopping), kWatchEvery)) return;
  }
}

CallContext ConsoleApi::Context(const HttpRequest& request) const {
  CallContext context = {absl::Now() + kCallTime, [this] { return ending_.load(std::memory_order_relaxed); }};
  context.caller = request.caller.name();
  context.meter = request.caller.meter;
  if (!request.caller.SeesAll()) {
    context.sees = [caller = request.caller](const std::string& collection) { return caller.Sees(collection); };
  }
  return context;
}

bool ConsoleApi::IsReadOnly(const HttpRequest& request, const std::string& collection) const {
  const auth::PrincipalPtr& principal = request.caller.principal;
  return options_.read_only || (principal != nullptr && !principal->MayUse(auth::kOperate, collection));
}

absl::Status ConsoleApi::CheckOrigin(const HttpRequest& request) const {
  LC_RETURN_IF_ERROR(CheckSameOrigin(request.headers, options_.names));
  const std::string& session = request.caller.session;
  if (session.empty() || request.method == "GET" || request.method == "HEAD") return absl::OkStatus();
  const auto token = request.headers.find("x-lightcone-csrf");
  if (token != request.headers.end() && options_.sessions->HasCsrfToken(session, token->second)) {
    return absl::OkStatus();
  }
  return FieldError(absl::StatusCode::kPermissionDenied, "X-Lightcone-Csrf", "missing, or another session's",
                    "the token of GET /api/v1/session");
}

HttpAnswer ConsoleApi::HandleSession(const HttpRequest& request) {
  const auto handle = [&]() -> absl::StatusOr<HttpAnswer> {
    LC_RETURN_IF_ERROR(CheckSameOrigin(request.headers, options_.names));
    if (request.method == "POST") return OpenSession(request);
    if (options_.keys == nullptr) return HttpAnswer{200, "application/json", R"({"keys":false})"};
    const std::optional<Sessions::Found> found = options_.sessions->Find(request);
    if (!found.has_value()) return MakeStatus(absl::StatusCode::kUnauthenticated, "there is no session");
    if (request.method == "DELETE") {
      HttpRequest asked = request;
      asked.caller.session = found->id;
      LC_RETURN_IF_ERROR(CheckOrigin(asked));
      options_.sessions->Close(found->id);
      HttpAnswer answer{200, "application/json", "{}"};
      answer.headers = {{"Set-Cookie", options_.sessions->NoCookie()}};
      return answer;
    }
    return HttpAnswer{200, "application/json",
                      Dumped({{"keys", true},
                              {"name", found->principal->name},
                              {"csrf_token", options_.sessions->CsrfTokenOf(found->id)}})};
  };
  const absl::StatusOr<HttpAnswer> answer = handle();
  return answer.ok() ? *answer : ConsoleErrorOf(answer.status());
}

absl::StatusOr<HttpAnswer> ConsoleApi::OpenSession(const HttpRequest& request) {
  if (options_.keys == nullptr) return FailedPrecondition("the server asks for no keys");
  LC_ASSIGN_OR_RETURN(const json body, BodyOf(request));
  const std::string key = body.contains("key") && body["key"].is_string() ? body["key"].get<std::string>() : "";
  LC_ASSIGN_OR_RETURN(const auth::PrincipalPtr principal,
                      options_.keys->Authenticate({.key = key, .certificates = {}, .peer = request.peer}));
  LC_ASSIGN_OR_RETURN(const Sessions::Opened opened, options_.sessions->Open(key));
  HttpAnswer answer{200, "application/json",
                    Dumped({{"keys", true}, {"name", principal->name}, {"csrf_token", opened.csrf_token}})};
  answer.headers = {{"Set-Cookie", options_.sessions->CookieOf(opened.id)}};
  return answer;
}

HttpAnswer ConsoleApi::Handle(const HttpRequest& request) {
  if (const absl::Status status = CheckOrigin(request); !status.ok()) return ConsoleErrorOf(status);
  const auto type = request.headers.find("content-type");
  const bool image = type != request.headers.end() && type->second.rfind("image/", 0) == 0 &&
                     absl::EndsWith(ToAbsl(request.path), "/search");
  if (!image && request.body.size() > kJsonBytesMax) {
    return ConsoleErrorOf(InvalidField("body", StrCat(request.body.size(), " bytes"), StrCat("0 .. ", kJsonBytesMax)));
  }
  absl::ReaderMutexLock lock(&engine_mu_);
  if (engine_ == nullptr) return ConsoleErrorOf(Unavailable("the server starts or drains"));
  try {
    absl::StatusOr<HttpAnswer> answer = Route(*engine_, request);
    return answer.ok() ? *std::move(answer) : ConsoleErrorOf(answer.status());
  } catch (...) {
    return ConsoleErrorOf(StatusOfException());
  }
}

absl::StatusOr<HttpAnswer> ConsoleApi::Route(Engine& engine, const HttpRequest& request) {
  const std::vector<std::string> parts = absl::StrSplit(request.path, '/');  // "", "api", "v1", ...
  const bool post = request.method == "POST";
  const auto part = [&](size_t i) { return i < parts.size() ? parts[i] : std::string(); };
  const auto answer = [](const json& body) { return HttpAnswer{200, "application/json", Dumped(body)}; };
  if (part(3) == "overview" && parts.size() == 4 && !post) return answer(Overview(engine, request));
  if (part(3) != "collections" || part(4).empty()) {
    return NotFound(StrCat("no '", request.path, "'; there are: /api/v1/overview, /api/v1/collections/NAME"));
  }
  const std::string& name = parts[4];
  const std::string what = part(5);
  if (!post) {
    if (parts.size() == 5) {
      LC_ASSIGN_OR_RETURN(const json page, CollectionPage(engine, name, request));
      return answer(page);
    }
    if (what == "generations" && parts.size() == 7) {
      LC_ASSIGN_OR_RETURN(const uint32_t generation, GenerationFrom(parts[6]));
      LC_ASSIGN_OR_RETURN(const GenerationStatus status, engine.GetGeneration(name, generation));
      return answer(ToJson(status));
    }
    if (what == "audit" && parts.size() == 6) {
      LC_ASSIGN_OR_RETURN(const std::vector<AuditEntry> entries, engine.ListAudit(name, kAuditEntries));
      return answer({{"entries", ListToJson(entries)}});
    }
    if (what == "jobs" && parts.size() == 6) {
      LC_ASSIGN_OR_RETURN(const JobPage jobs, engine.ListJobs(name, "", kJobs, ""));
      return answer({{"jobs", ListToJson(jobs.jobs)},
                     {"read_only", IsReadOnly(request, engine.ResolveName(name).value_or(name))}});
    }
    if (what == "input" && parts.size() == 6) return StoredPicture(engine, name, request);
  } else if (parts.size() == 6) {
    if (what == "search") {
      const bool free = searches_.fetch_add(1) < kSearchesMax;
      const absl::Cleanup done = [this] { searches_.fetch_sub(1); };
      if (!free) return ResourceExhausted(StrCat("the console runs ", kSearchesMax, " searches already; try again"));
      LC_ASSIGN_OR_RETURN(const json found, SearchFromConsole(engine, name, request, Context(request)));
      return answer(found);
    }
    LC_ASSIGN_OR_RETURN(const json done, Operate(engine, name, what, request));
    return answer(done);
  }
  return NotFound(StrCat("no '", request.path, "' to ", post ? "POST to" : "GET"));
}

json ConsoleApi::Overview(Engine& engine, const HttpRequest& request) {
  json collections = json::array();
  const auto all = engine.ListCollections();
  if (all.ok()) {
    for (const CollectionStatus& status : *all) {
      if (!request.caller.Sees(status.name)) continue;
      const auto live = engine.GetLiveRecall(status.name);
      const auto backfill = engine.GetBackfill(status.name);
      if (!live.ok() || !backfill.ok()) continue;  // The collection was dropped just now.
      json one = ToJson(status);
      one.erase("segments");
      one["live"] = {{"recall", ToJson(*live)["recall"]}};
      one["backfill"] = ToJson(*backfill);
      collections.push_back(std::move(one));
    }
  }
  const StoreStats store = engine.StoreStatistics();
  std::error_code error;
  const auto space = std::filesystem::space(engine.options().data_folder, error);
  const LiveSamplerStatus live = engine.LiveSampling();
  const auth::PrincipalPtr& principal = request.caller.principal;
  return {{"version", options_.version},
          {"read_only", options_.read_only || (principal != nullptr && !principal->MayCall(auth::kOperate))},
          {"grpc", grpc_address_},
          {"time", absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())},
          {"collections", std::move(collections)},
          {"calls", ListToJson(metrics_->Calls())},
          {"store", {{"bytes", store.disk_bytes}, {"stalled", store.stalled != 0}}},
          {"disk", {{"free", error ? json() : json(space.available)}, {"size", error ? json() : json(space.capacity)}}},
          {"sampling",
           {{"repeated", live.repeated_total}, {"dropped", live.dropped_total}, {"seconds", live.seconds_total}}}};
}

absl::StatusOr<json> ConsoleApi::CollectionPage(Engine& engine, const std::string& name, const HttpRequest& request) {
  LC_ASSIGN_OR_RETURN(const CollectionStatus status, engine.GetCollection(name));
  LC_ASSIGN_OR_RETURN(const std::vector<GenerationStatus> generations, engine.ListGenerations(name));
  LC_ASSIGN_OR_RETURN(const std::vector<AdapterStatus> adapters, engine.ListAdapters(name));
  LC_ASSIGN_OR_RETURN(const BackfillStatus backfill, engine.GetBackfill(name));
  LC_ASSIGN_OR_RETURN(const LiveRecallStatus live, engine.GetLiveRecall(name));
  LC_ASSIGN_OR_RETURN(const std::vector<ProbeSetStatus> probe_sets, engine.ListProbes(name));
  LC_ASSIGN_OR_RETURN(const CanaryStatus canary, engine.GetCanary(name));
  json page = ToJson(status);
  page["read_only"] = IsReadOnly(request, status.name);
  page["backfill"] = ToJson(backfill);
  page["live"] = ToJson(live);
  page["canary"] = ToJson(canary);
  page["generations"] = ListToJson(generations);
  page["adapters"] = ListToJson(adapters);
  page["probe_sets"] = ListToJson(probe_sets);
  page["history"] = ListToJson(history_.Of(status.name));
  return page;
}

absl::StatusOr<json> ConsoleApi::Operate(Engine& engine, const std::string& collection, const std::string& name,
                                         const HttpRequest& request) {
  const auto handler = std::find_if(std::begin(kActions), std::end(kActions),
                                    [&](const ActionHandler& one) { return one.name == name; });
  const bool known = handler != std::end(kActions);
  const auto act = [&]() -> absl::StatusOr<json> {
    if (IsReadOnly(request, engine.ResolveName(collection).value_or(collection))) {
      return MakeStatus(absl::StatusCode::kPermissionDenied,
                        "the console is read-only: start the server with --console-mode operate to act from it");
    }
    LC_ASSIGN_OR_RETURN(const json body, BodyOf(request));
    if (!known) {
      const auto append = [](std::string* out, const ActionHandler& one) { out->append(one.name); };
      return NotFound(StrCat("no action '", name, "'; there are: ", absl::StrJoin(kActions, ", ", append)));
    }
    try {
      return handler->handle({engine, collection, body, OperatorOf(request)});
    } catch (...) {
      return StatusOfException();
    }
  };
  const absl::Time began = absl::Now();
  absl::StatusOr<json> done = act();
  // Clients make up unknown names without end, so those are not observed.
  if (known && options_.observe) options_.observe("Console/" + name, done.status(), absl::Now() - began);
  return done;
}

}  // namespace lightcone::server

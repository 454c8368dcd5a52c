#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/status.h"
#include "server/app/audit.h"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "server/app/trust.h"
#include "server/engine/core/device.h"
#include "server/http/console_api.h"
#include "server/http/routes.h"
#include "server/http/server.h"
#include "server/http/sessions.h"
#include "server/http/tls_transport.h"
#include "server/metrics/metrics.h"
#include "server/rest/rest_api.h"
#include "server/rpc/address.h"
#include "server/rpc/server.h"
#include "server/trace/trace_endpoint.h"
#include "server/trace/tracer.h"

namespace lightcone::server {

namespace {

LaneFigures FiguresOf(const LaneStats& lane) {
  LaneFigures out;
  out.lane = lane.name;
  out.queued = lane.queued;
  out.running = lane.running;
  out.rejected_total = lane.rejected_total;
  out.overloaded = lane.overloaded;
  for (int i = 0; i < kRefusals; ++i) {
    out.refused.emplace_back(RefusalName(static_cast<Refusal>(i)), lane.refused[static_cast<size_t>(i)]);
  }
  uint64_t below = 0;
  for (size_t i = 0; i < lane.waits.size(); ++i) {
    below += lane.waits[i];
    out.wait_buckets.emplace_back(LaneStats::kWaitSeconds[i], below);
  }
  out.begun = lane.begun;
  out.wait_seconds_sum = lane.wait_seconds_sum;
  return out;
}

}  // namespace

// In order of construction; torn down in the reverse order by Stop.
struct RunningServer::Parts {
  enum class State { kStarting, kReady, kDraining };
  Metrics metrics{ServerVersion()};
  std::atomic<State> state{State::kStarting};
  std::unique_ptr<Trust> trust;
  auth::QuotaPtr writes;               // null: no limit holds for all writes together
  std::unique_ptr<Audit> audit;        // null: there is no audit file
  std::unique_ptr<Tracer> tracer;      // null: no call is traced
  std::unique_ptr<Sessions> sessions;  // null: no keys are asked for
  std::unique_ptr<ConsoleApi> console;
  std::unique_ptr<RestApi> rest;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<Engine> engine;
  std::atomic<Engine*> serving{nullptr};  // engine, once it is open; HTTP ends before the engine
  std::unique_ptr<RpcServer> rpc;
  Bound bound;
  bool device = false;  // was started: StopDevice is owed

  absl::Status StartHttp(const ServerConfig& config, const Address& address);
  HttpHandlers Handlers();
  absl::StatusOr<std::optional<std::string>> ResolveName(const std::string& name) const;

  RpcFigures Figures() const {
    RpcFigures out;
    out.in_flight = rpc->busy();
    out.ready = state.load() == State::kReady;
    out.trust = trust->figures();
    if (audit != nullptr) out.trust.audit = audit->figures();
    if (writes != nullptr) out.trust.writes = writes->figures();
    if (tracer != nullptr) out.trace = tracer->figures();
    for (const LaneStats& lane : rpc->Lanes()) {
      out.lanes.push_back(FiguresOf(lane));
    }
    out.watches = rpc->watches();
    return out;
  }
};

namespace {

void Record(Metrics* metrics, const CallRecord& record) {
  const std::string_view code = CodeName(record.code);
  if (record.parts == 0) {
    metrics->RecordCall(record.method, code, record.elapsed);
    LogCall(record.method, code, record.elapsed, record.message, record.trace_id);
  } else {
    metrics->RecordParts(record.method, code, record.parts);
    LogCall(record.method, code, record.elapsed, StrCat("in ", record.parts, " of its parts: ", record.message),
            record.trace_id);
  }
}

RpcOptions RpcOptionsOf(const ServerConfig& config, const Trust& trust, Audit* audit, Tracer* tracer,
                        Metrics* metrics) {
  const auto set = [](LaneOptions& lane, const LaneConfig& from) {
    lane.threads = from.threads;
    lane.queue_max = from.queue_max;
    if (from.wait_seconds_max > 0) {
      lane.bounds = {absl::Seconds(from.wait_seconds_max), absl::Seconds(from.overload_wait_seconds_max)};
    }
  };
  RpcOptions out;
  out.listen = config.listen;
  out.message_bytes_max = config.message_bytes_max;
  out.parsed_bytes_max = config.parsed_bytes_max;
  out.answer_bytes_max = config.engine.limits.answer_bytes_max;
  out.stream_batches_max = config.stream_batches_max;
  set(out.read_lane, config.read_lane);
  set(out.write_lane, config.write_lane);
  set(out.operate_lane, config.operate_lane);
  set(out.wait_lane, config.wait_lane);
  out.watch_threads = config.watch_threads;
  out.watches_max = config.watches_max;
  out.index_defaults = config.index;
  out.keys = trust.keys();
  out.certificates = trust.certificates();
  out.tracer = tracer;
  out.observe = [audit, metrics](const CallRecord& record) {
    if (audit != nullptr) audit->RecordCall(record);
    Record(metrics, record);
  };
  if (audit != nullptr) out.audits = [audit](std::string_view method) { return audit->Records(method); };
  return out;
}

// Trials of encoders leave a thread to the other calls of operators. With one thread they run on the wait lane.
EngineOptions EngineOptionsOf(const ServerConfig& config) {
  EngineOptions out = config.engine;
  out.encoder_trials_max = std::max(1, std::min(config.operate_lane.threads - 1, out.encoder_trials_max));
  return out;
}

HostNames NamesOf(const ServerConfig& config, const Address& http) {
  return HostNames(StrCat(http.host, ",", config.console_host));
}

// Whoever reaches the port may act, so a console that others than this machine reach only shows, unless it is told.
// With keys, the scopes of each caller decide.
ConsoleOptions ConsoleOptionsOf(const ServerConfig& config, const Address& http, Metrics* metrics) {
  ConsoleOptions out;
  out.read_only =
      config.console_mode == "auto" ? !IsLoopback(http) && !AsksForKeys(config) : config.console_mode != "operate";
  out.names = NamesOf(config, http);
  out.version = std::string(ServerVersion());
  out.observe = [metrics](std::string_view method, const absl::Status& status, absl::Duration elapsed) {
    const std::string message = MessageOf(status);
    Record(metrics, {method, static_cast<int>(status.code()), elapsed, message, 0});
  };
  return out;
}

RestOptions RestOptionsOf(const ServerConfig& config, Tracer* tracer, Metrics* metrics) {
  RestOptions out;
  out.version = std::string(ServerVersion());
  out.index_defaults = config.index;
  out.tracer = tracer;
  out.observe = [metrics](std::string_view method, const absl::Status& status, absl::Duration elapsed,
                          const TraceId& trace_id) {
    const std::string message = MessageOf(status);
    Record(metrics, {method, static_cast<int>(status.code()), elapsed, message, 0, nullptr, trace_id});
  };
  return out;
}

LaneKind LaneOf(RestLane lane) {
  switch (lane) {
    case RestLane::kRead:
      return LaneKind::kRead;
    case RestLane::kWrite:
      return LaneKind::kWrite;
    case RestLane::kWait:
      return LaneKind::kWait;
    case RestLane::kOperate:
      break;
  }
  return LaneKind::kOperate;
}

std::string IndexPage(const Bound& bound) {
  return StrCat("Lightcone ", ServerVersion(), "\n\ngRPC      ", bound.grpc.empty() ? "starting" : bound.grpc,
                "\n/metrics  for Prometheus\n/healthz  200 while the process lives, as /livez\n",
                "/readyz   200 while calls are taken, 503 while starting or draining\n");
}

}  // namespace

absl::StatusOr<std::optional<std::string>> RunningServer::Parts::ResolveName(const std::string& name) const {
  const Engine* const open = serving.load();
  if (open == nullptr) return Unavailable("the server starts");
  return open->ResolveName(name);
}

HttpHandlers RunningServer::Parts::Handlers() {
  HttpHandlers handlers;
  handlers.metrics = [this] { return metrics.Scrape(); };
  handlers.not_ready = [this]() -> std::string {
    const State now = state.load();
    return now == State::kReady ? "" : now == State::kStarting ? "starting" : "draining";
  };
  handlers.index = [this] { return IndexPage(state.load() == State::kStarting ? Bound{} : bound); };
  handlers.title = [this] { return rest->Title(); };
  if (console == nullptr) return handlers;
  handlers.api = [this](const HttpRequest& request) { return console->Handle(request); };
  handlers.session = [this](const HttpRequest& request) { return console->HandleSession(request); };
  return handlers;
}

absl::Status RunningServer::Parts::StartHttp(const ServerConfig& config, const Address& address) {
  if (address.is_unix) return InvalidField("http_listen", StrCat("'", config.http_listen, "'"), "HOST:PORT");
  const auth::Certificates* const certificates = trust->certificates();
  if (trust->keys() != nullptr) sessions = std::make_unique<Sessions>(trust->keys(), certificates != nullptr);
  if (config.console_mode != "off") {
    ConsoleOptions options = ConsoleOptionsOf(config, address, &metrics);
    options.keys = trust->keys();
    options.sessions = sessions.get();
    console = std::make_unique<ConsoleApi>(std::move(options), &metrics);
    for (const std::string& method : ConsoleMethods()) metrics.ExpectCalls(method);
  }
  rest = std::make_unique<RestApi>(RestOptionsOf(config, tracer.get(), &metrics));
  for (const std::string& method : RestMethods()) metrics.ExpectCalls(method);
  HttpHandlers handlers = Handlers();
  handlers.metrics_open = config.http_metrics_open;
  HttpServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.names = NamesOf(config, address);
  options.routes = RoutesOf(std::move(handlers));
  rest->AddRoutes(&options.routes);
  options.not_found = kNothingHere;
  if (certificates != nullptr) options.transport = MakeTlsTransport(certificates);
  options.gate = HttpGate(
      trust->keys(), sessions.get(), [this](const std::string& name) { return ResolveName(name); }, writes);
  if (audit != nullptr) {
    options.observe = [this](const HttpRecord& record) { audit->RecordRequest(record); };
  }
  LC_ASSIGN_OR_RETURN(http, HttpServer::Start(std::move(options)));
  bound.http = StrCat(address.printed_host, ":", http->port());
  return absl::OkStatus();
}

std::string_view ServerVersion() { return LIGHTCONE_VERSION; }

RunningServer::RunningServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RunningServer::~RunningServer() { Stop(absl::ZeroDuration()); }
const Bound& RunningServer::bound() const { return parts_->bound; }
Engine& RunningServer::engine() const { return *parts_->engine; }

absl::StatusOr<std::unique_ptr<RunningServer>> RunningServer::Start(const ServerConfig& config,
                                                                    std::unique_ptr<Engine> engine,
                                                                    const std::function<void()>& before_calls) {
  std::unique_ptr<RunningServer> self(new RunningServer(std::make_unique<Parts>()));
  Parts* const parts = self->parts_.get();
  for (const std::string& method : MethodNames()) parts->metrics.ExpectCalls(method);
  for (const char* method : {"Retrieval/Search", "Retrieval/UpsertStream"}) parts->metrics.ExpectParts(method);
  LC_RETURN_IF_ERROR(Annotate(config.index.Validate(), "index"));
  LC_ASSIGN_OR_RETURN(const Address listen, ParseAddress(config.listen, "listen"));
  std::optional<Address> http_listen;
  if (!config.http_listen.empty()) {
    LC_ASSIGN_OR_RETURN(http_listen, ParseAddress(config.http_listen, "http_listen"));
  }
  LC_RETURN_IF_ERROR(CheckExposure(config, listen, http_listen));
  LC_ASSIGN_OR_RETURN(parts->trust, Trust::Open(config));
  LC_ASSIGN_OR_RETURN(parts->audit, Audit::Open(config));
  parts->writes = auth::MakeWriteQuota(config.write_rows_per_second, config.write_bytes_per_second);
  if (!config.trace.endpoint.empty()) {
    LC_RETURN_IF_ERROR(CheckTraceEndpoint(config.trace.endpoint));
    parts->tracer = std::make_unique<Tracer>(TracerOptions{.endpoint = config.trace.endpoint,
                                                           .sample_share = config.trace.sample_share,
                                                           .version = std::string(ServerVersion()),
                                                           .log = [](const std::string& line) { LogWarning(line); }});
  }
  if (http_listen.has_value()) LC_RETURN_IF_ERROR(parts->StartHttp(config, *http_listen));
  // Before the data folder is opened: a port in use should be said at once, not after a long replay.
  LC_RETURN_IF_ERROR(CheckFree(listen));
  LC_RETURN_IF_ERROR(StartDevice(config.device));
  parts->device = true;
  parts->engine = std::move(engine);
  if (parts->engine == nullptr) {
    LC_ASSIGN_OR_RETURN(parts->engine, Engine::Open(EngineOptionsOf(config)));
  }
  LC_RETURN_IF_ERROR(parts->engine->snapshots().Start(config.backup));
  if (before_calls) before_calls();
  RpcOptions rpc_options =
      RpcOptionsOf(config, *parts->trust, parts->audit.get(), parts->tracer.get(), &parts->metrics);
  rpc_options.writes = parts->writes;
  LC_ASSIGN_OR_RETURN(parts->rpc, RpcServer::Start(parts->engine.get(), rpc_options));
  parts->bound.grpc = parts->rpc->address();
  parts->serving.store(parts->engine.get());
  parts->metrics.SetSources(parts->engine.get(), [parts] { return parts->Figures(); });
  if (parts->console != nullptr) parts->console->SetEngine(parts->engine.get(), parts->bound.grpc);
  if (parts->rest != nullptr) {
    parts->rest->Open({parts->engine.get(), [rpc = parts->rpc.get()](RestLane lane, absl::Time deadline, auto run) {
                         rpc->Submit(LaneOf(lane), deadline, std::move(run));
                       }});
  }
  parts->state.store(Parts::State::kReady);
  return self;
}

void RunningServer::BeginDrain() {
  if (parts_ == nullptr) return;
  parts_->state.store(Parts::State::kDraining);
  if (parts_->console != nullptr) parts_->console->SetEngine(nullptr, "");
  if (parts_->rest != nullptr) parts_->rest->Close();
  if (parts_->rpc != nullptr) parts_->rpc->BeginDrain();
}

bool RunningServer::Stop(absl::Duration limit) {
  if (parts_ == nullptr) return true;
  BeginDrain();
  bool idle = true;
  if (parts_->rpc != nullptr) {
    idle = parts_->rpc->WaitIdle(absl::Now() + limit);
    // A call that waits for an encoder looks at nothing else.
    if (!idle) parts_->engine->StopEncoders();
    parts_->metrics.SetSources(nullptr, nullptr);
    parts_->rpc->Stop();
  }
  if (parts_->http != nullptr) parts_->http->Stop();
  const bool device = parts_->device;
  parts_ = nullptr;  // rpc before the engine before http, by the order of the members
  if (device) StopDevice();
  return idle;
}

}  // namespace lightcone::server

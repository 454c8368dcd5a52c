#include "server/http/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <list>
#include <memory>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/trace.h"
#include "server/http/connection.h"
#include "server/http/http_error.h"
#include "server/http/listener.h"
#include "server/http/worker_pool.h"

namespace lightcone::server {
namespace {

constexpr size_t kConnectionsMin = 96;  // more than the lanes run and queue, so that one can always give way

// Leaves the engine three quarters of the descriptors.
size_t ConnectionsMax(const HttpLimits& limits) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return limits.connections_max;
  return std::min(limits.connections_max, std::max<size_t>(files.rlim_cur / 4, kConnectionsMin));
}

HttpAnswer RefuseOnRoute(const Route& route, const HttpRequest& request, const absl::Status& status) {
  HttpAnswer answer = route.refuse ? route.refuse(request, status) : AnswerOf(status);
  if (answer.headers.empty()) answer.headers = HeadersOf(status);
  return answer;
}

HttpAnswer HandleAllowed(const HttpGate& gate, const Route& route, const HttpRequest& request) {
  try {
    const absl::Status allowed = gate.CheckRequest(route, request);
    return allowed.ok() ? route.handle(request) : RefuseOnRoute(route, request, allowed);
  } catch (...) {
    return RefusalOf(500, MessageOf(StatusOfException()));
  }
}

// Connections give way in the order of these groups, and in each the oldest first.
enum Group : size_t { kWaits, kSendsBody, kTakesAnswer, kHandled, kGroups };

Group GroupOf(Phase phase) {
  switch (phase) {
    case Phase::kBody:
      return kSendsBody;
    case Phase::kWriting:
      return kTakesAnswer;
    case Phase::kHandling:
      return kHandled;
    default:
      return kWaits;
  }
}

}  // namespace

class HttpServer::Io final : public ConnectionOwner {
 public:
  Io(HttpServerOptions options, int socket)
      : options_(std::move(options)),
        port_(PortOf(socket)),
        connections_max_(ConnectionsMax(options_.limits)),
        listener_(socket, &io_, {[this](int taken) { Take(taken); }, [this] { return MakeRoom(kHandled); }}),
        metrics_(1, options_.limits.calls_queued_max),
        calls_(options_.limits.call_threads, options_.limits.calls_queued_max) {
    listener_.Start();
    thread_ = std::thread([this] { Serve(); });
  }
  ~Io() override { Stop(); }

  int port() const { return port_; }
  void Stop();

  const HttpLimits& limits() const override { return options_.limits; }
  bool ending() const override { return ending_; }
  std::span<char> scratch() override { return scratch_; }
  const Route* RouteOf(HttpRequest* request, HttpAnswer* refusal) override;
  void Handle(Connection* connection, const Route& route, HttpRequest request) override;
  bool HoldBody(size_t bytes) override;
  void HoldAnswer(const Connection& connection, size_t bytes) override;
  void Release(size_t bytes) override { held_bytes_ -= bytes; }
  void RecordPhase(Connection* connection, Phase before) override;

 private:
  using Connections = std::list<Connection*>;

  void Serve();
  HttpAnswer Call(const Route& route, const HttpRequest& request) const;
  void Take(int socket);
  // Closes the oldest connection of the first group below `end` that has one.
  bool MakeRoom(Group end);
  void Begin(Connection* connection, const Route& route, HttpRequest request);
  void Answer(uint64_t id, HttpAnswer answer);
  void End();
  void CloseGroup(Group group);

  const HttpServerOptions options_;
  const int port_;
  const size_t connections_max_;

  // Belong to the thread.
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  boost::asio::steady_timer end_{io_};
  bool ending_ = false;
  std::vector<char> scratch_ = std::vector<char>(64 << 10);
  size_t held_bytes_ = 0;
  uint64_t next_id_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> connections_;
  std::array<Connections, kGroups> groups_;
  Listener listener_;

  WorkerPool metrics_, calls_;
  std::thread thread_;
};

void HttpServer::Io::Stop() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] { End(); });
  metrics_.Stop();
  calls_.Stop();
  // No handler runs any more. Answers that they gave stand before this in the queue.
  boost::asio::post(io_, [this] {
    CloseGroup(kHandled);
    work_.reset();
  });
  thread_.join();
}

void HttpServer::Io::Serve() {
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::bad_alloc&) {
      // The deadline of the connection that had no memory closes it.
    }
  }
}

void HttpServer::Io::End() {
  ending_ = true;
  listener_.Close();
  CloseGroup(kWaits);
  CloseGroup(kSendsBody);
  if (connections_.empty()) return;
  end_.expires_after(options_.limits.end);
  end_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (const Group group : {kWaits, kTakesAnswer, kHandled}) CloseGroup(group);
  });
}

void HttpServer::Io::CloseGroup(Group group) {
  while (!groups_[group].empty()) groups_[group].front()->shared_from_this()->Close();
}

void HttpServer::Io::Take(int socket) {
  while (connections_.size() >= connections_max_) {
    if (!MakeRoom(kHandled)) {
      ::close(socket);
      return;
    }
  }
  const auto connection = std::make_shared<Connection>(next_id_++, socket, options_.transport(socket), &io_, this);
  connections_.emplace(connection->id(), connection);
  Connections& group = groups_[GroupOf(connection->phase())];
  connection->place = group.insert(group.end(), connection.get());
  connection->Start();
}

bool HttpServer::Io::MakeRoom(Group end) {
  for (size_t group = 0; group < end; ++group) {
    if (groups_[group].empty()) continue;
    groups_[group].front()->shared_from_this()->Close();
    return true;
  }
  return false;
}

void HttpServer::Io::RecordPhase(Connection* connection, Phase before) {
  Connections& from = groups_[GroupOf(before)];
  if (connection->phase() == Phase::kClosed) {
    from.erase(connection->place);
    connections_.erase(connection->id());
    if (ending_ && connections_.empty()) end_.cancel();
    return;
  }
  Connections& to = groups_[GroupOf(connection->phase())];
  if (&to != &from) to.splice(to.end(), from, connection->place);
}

HttpAnswer HttpServer::Io::Call(const Route& route, const HttpRequest& request) const {
  const absl::Time began = absl::Now();
  HttpAnswer answer = HandleAllowed(options_.gate, route, request);
  request.caller.ReleaseSlot();
  if (options_.observe) options_.observe({route, request, answer.status, absl::Now() - began});
  return answer;
}

const Route* HttpServer::Io::RouteOf(HttpRequest* request, HttpAnswer* refusal) {
  RouteTable::Match match = options_.routes.Find(request->method, request->path);
  if (match.route == nullptr && match.allowed.empty()) {
    *refusal = RefusalOf(404, options_.not_found);
    return nullptr;
  }
  if (match.route == nullptr) {
    *refusal = RefusalOf(405, StrCat("the method is '", request->method.substr(0, 40), "', allowed: ", match.allowed));
    refusal->headers = {{"Allow", match.allowed}};
    return nullptr;
  }
  if (!match.route->takes_any_host) {
    const auto host = request->headers.find("host");
    const absl::Status known = options_.names.Check(host == request->headers.end() ? "" : host->second);
    if (!known.ok()) {
      *refusal = RefusalOf(403, MessageOf(known));
      return nullptr;
    }
  }
  request->parameters = std::move(match.parameters);
  if (match.route->is_timed) request->auth_began_ns = SteadyNanos();
  const absl::Status admitted = options_.gate.Admit(*match.route, request);
  if (match.route->is_timed) request->auth_ended_ns = SteadyNanos();
  if (admitted.ok()) return match.route;
  *refusal = RefuseOnRoute(*match.route, *request, admitted);
  if (options_.observe) options_.observe({*match.route, *request, refusal->status, absl::ZeroDuration()});
  return nullptr;
}

void HttpServer::Io::Handle(Connection* connection, const Route& route, HttpRequest request) {
  if (route.begin) return Begin(connection, route, std::move(request));
  if (route.lane == HttpLane::kIo) return connection->Answer(Call(route, request));
  WorkerPool& lane = route.lane == HttpLane::kMetrics ? metrics_ : calls_;
  auto job = [this, id = connection->id(), &route, request = std::move(request)] {
    boost::asio::post(io_, [this, id, answer = Call(route, request)]() mutable { Answer(id, std::move(answer)); });
  };
  if (lane.TryAdd(std::move(job))) return;
  HttpAnswer refusal =
      RefusalOf(503, StrCat(options_.limits.calls_queued_max, " requests wait for a thread already; try again"));
  refusal.headers = {{"Retry-After", "1"}};
  connection->Answer(std::move(refusal));
}

void HttpServer::Io::Begin(Connection* connection, const Route& route, HttpRequest request) {
  const absl::Time began = absl::Now();
  const absl::Status allowed = options_.gate.CheckRequest(route, request);
  std::shared_ptr<HttpRequest> seen;  // without its body, which belongs to the call
  if (options_.observe) {
    std::string body = std::exchange(request.body, {});
    seen = std::make_shared<HttpRequest>(request);
    request.body = std::move(body);
  }
  const auto observe = [this, &route, seen, began, caller = request.caller](int status) {
    caller.ReleaseSlot();  // before the client may send its next call
    if (seen != nullptr) options_.observe({route, *seen, status, absl::Now() - began});
  };
  if (!allowed.ok()) {
    HttpAnswer refusal = RefuseOnRoute(route, request, allowed);
    observe(refusal.status);
    return connection->Answer(std::move(refusal));
  }
  route.begin(std::move(request), [this, id = connection->id(), observe](HttpAnswer answer) {
    observe(answer.status);
    boost::asio::post(io_, [this, id, answer = std::move(answer)]() mutable { Answer(id, std::move(answer)); });
  });
}

void HttpServer::Io::Answer(uint64_t id, HttpAnswer answer) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::shared_ptr<Connection> connection = found->second;
  connection->Answer(std::move(answer));
  connection->Run();
}

bool HttpServer::Io::HoldBody(size_t bytes) {
  if (held_bytes_ + bytes > options_.limits.held_bytes_max) return false;
  held_bytes_ += bytes;
  return true;
}

void HttpServer::Io::HoldAnswer(const Connection& connection, size_t bytes) {
  held_bytes_ += bytes;
  Connections& takers = groups_[kTakesAnswer];
  while (held_bytes_ > options_.limits.held_bytes_max && !takers.empty() && takers.front() != &connection) {
    takers.front()->shared_from_this()->Close();
  }
}

HttpServer::HttpServer(std::unique_ptr<Io> io) : io_(std::move(io)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return io_->port(); }
void HttpServer::Stop() { io_->Stop(); }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  LC_RETURN_IF_ERROR(options.routes.Check());
  LC_ASSIGN_OR_RETURN(const int socket, OpenListeningSocket(options.host, options.port));
  return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Io>(std::move(options), socket)));
}

}  // namespace lightcone::server

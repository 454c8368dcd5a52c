#include "server/rpc/server.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "base/status.h"
#include "google/protobuf/stubs/logging.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/rpc/address.h"
#include "server/rpc/core.h"
#include "server/rpc/services.h"

namespace lightcone::server {
namespace {

// What answers and their statuses that are under way get to reach their clients when a server stops.
constexpr std::chrono::seconds kGrace{1};

// The transport's memory for all connections together: messages that arrive wait when it is spent. A few of the
// largest messages, and never so little that ordinary ones wait.
size_t TransportBytes(const RpcOptions& options) {
  return static_cast<size_t>(std::max<int64_t>(int64_t{1} << 30, 4 * options.message_bytes_max));
}

// Reflection holds a thread for each stream, and asks for no key. More streams than that are refused.
constexpr int kReflectionThreads = 16;

constexpr unsigned int kCertificatesLookSeconds = 1;  // the least that gRPC takes

// TLS 1.2 and later. New connections get new material; connections that stand keep theirs.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const auth::Certificates* certificates) {
  if (certificates == nullptr) return grpc::InsecureServerCredentials();
  const bool asks_clients = !certificates->client_ca_path().empty();
  auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      certificates->pair_path(), certificates->pair_path(), certificates->client_ca_path(), kCertificatesLookSeconds);
  grpc::experimental::TlsServerCredentialsOptions tls(provider);
  tls.watch_identity_key_cert_pairs();
  if (asks_clients) {
    tls.watch_root_certs();
    tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(tls);
}

void InitPluginsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    // It writes a line to stderr for each text that is no UTF-8: whoever sends such texts would fill the log, even
    // without a key. Callers are told anyway.
    google::protobuf::SetLogHandler(nullptr);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

struct RpcServer::Parts {
  Parts(Engine* engine, const RpcOptions& options) : core(engine, options) {}
  RpcCore core;
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<grpc::Server> server;
};

RpcServer::RpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RpcServer::~RpcServer() { Stop(); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Engine* engine, const RpcOptions& options) {
  InitPluginsOnce();
  LC_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.listen, "listen"));
  LC_RETURN_IF_ERROR(CheckFree(address));
  std::unique_ptr<RpcServer> self(new RpcServer(std::make_unique<Parts>(engine, options)));
  Parts* const parts = self->parts_.get();
  grpc::ServerBuilder builder;
  int port = -1;
  builder.AddListeningPort(options.listen, CredentialsOf(options.certificates), &port);
  // With SO_REUSEPORT, gRPC's default, a second server would silently take half of the first one's connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients that watch ask whether this host is still there (client/client.h), and it asks whether they are: a watch
  // whose client vanished would hold its place for ever. gRPC's own limits end a connection at its third ping.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Compressed bytes could become a thousand times as many before any limit is looked at.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("lightcone");
  quota.Resize(TransportBytes(options));
  quota.SetMaxThreads(kReflectionThreads);  // threads of services that are not called back: reflection alone
  builder.SetResourceQuota(quota);
  for (auto* make : {&MakeRetrievalService, &MakeCollectionsService, &MakeGenerationsService, &MakeBackfillService,
                     &MakeJobsService, &MakeTrainingService, &MakeSnapshotsService}) {
    parts->services.push_back((*make)(&parts->core));
    builder.RegisterService(parts->services.back().get());
  }
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr || (!address.is_unix && port <= 0)) {
    return Unavailable(StrCat("cannot listen on '", options.listen, "': the address is in use or not of this machine"));
  }
  self->address_ = address.is_unix ? options.listen : StrCat(address.printed_host, ":", port);
  self->SetHealth(true);
  return self;
}

void RpcServer::SetHealth(bool serving) {
  grpc::HealthCheckServiceInterface* health = parts_->server->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus("", serving);
  for (const char* name : ServiceNames()) health->SetServingStatus(name, serving);
}

void RpcServer::BeginDrain() {
  SetHealth(false);
  parts_->core.BeginDrain();
}

bool RpcServer::WaitIdle(absl::Time deadline) { return parts_->core.WaitIdle(deadline); }
void RpcServer::Submit(LaneKind kind, absl::Time deadline, std::function<void(const absl::Status& admitted)> run) {
  RpcCore* const core = &parts_->core;
  if (const absl::Status entered = core->Enter(); !entered.ok()) return run(entered);
  Lane& lane = kind == LaneKind::kRead    ? core->read_lane()
               : kind == LaneKind::kWrite ? core->write_lane()
               : kind == LaneKind::kWait  ? core->wait_lane()
                                          : core->operate_lane();
  auto job = [core, run = std::move(run)](const absl::Status& admitted) {
    run(admitted);
    core->Leave();
  };
  lane.Submit({std::move(job), deadline});
}

int64_t RpcServer::busy() const { return parts_->core.busy(); }
int64_t RpcServer::watches() const { return parts_->core.watches(); }
std::vector<LaneStats> RpcServer::Lanes() const { return parts_->core.Lanes(); }

void RpcServer::Stop() {
  if (parts_ == nullptr) return;
  if (parts_->server != nullptr) {
    BeginDrain();
    // What is still open after that (health watches, streams whose clients do not answer, calls past the drain limit)
    // is cancelled.
    parts_->server->Shutdown(std::chrono::system_clock::now() + kGrace);
    parts_->server.reset();  // waits for the last reaction
  }
  parts_->core.StopLanes();
  parts_ = nullptr;
}

}  // namespace lightcone::server

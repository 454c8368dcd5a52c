#include "server/rpc/server.h"

#include <mutex>

#include "base/status.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/rpc/address.h"
#include "server/rpc/services.h"

namespace lightcone::server {
namespace {

void InitPluginsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Engine* engine, const RpcOptions& options) {
  InitPluginsOnce();
  LC_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.listen, "listen"));
  LC_RETURN_IF_ERROR(CheckFree(address));
  std::unique_ptr<RpcServer> self(new RpcServer);
  self->core_ = std::make_unique<RpcCore>(engine, options);
  grpc::ServerBuilder builder;
  int port = -1;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  // With SO_REUSEPORT, gRPC's default, a second server would silently take half of the first one's connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  builder.SetMaxSendMessageSize(-1);
  for (auto* make : {&MakeRetrievalService, &MakeCollectionsService, &MakeGenerationsService, &MakeBackfillService,
                     &MakeTrainingService}) {
    self->services_.push_back((*make)(self->core_.get()));
    builder.RegisterService(self->services_.back().get());
  }
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr || (!address.is_unix && port <= 0)) {
    return Unavailable(StrCat("cannot listen on '", options.listen, "': the address is in use or not of this machine"));
  }
  self->address_ = address.is_unix ? options.listen : StrCat(address.printed_host, ":", port);
  self->SetHealth(true);
  return self;
}

RpcServer::~RpcServer() { Stop(); }

void RpcServer::SetHealth(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus("", serving);
  for (const char* name : ServiceNames()) health->SetServingStatus(name, serving);
}

void RpcServer::BeginDrain() {
  SetHealth(false);
  core_->BeginDrain();
}

void RpcServer::Stop() {
  if (core_ == nullptr) return;
  if (server_ != nullptr) {
    BeginDrain();
    // What is still open (health watches, streams whose clients do not answer, calls past the drain limit) is
    // cancelled.
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();  // waits for the last reaction
  }
  core_->StopLanes();
  services_.clear();
  core_.reset();
}

}  // namespace lightcone::server

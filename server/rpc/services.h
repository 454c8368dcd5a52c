// The gRPC services of package lightcone.v1. Each converts, calls the engine on a lane, converts back.
// `core` must outlive them. Threads: as gRPC calls them.
#pragma once

#include <memory>
#include <vector>

#include "grpcpp/impl/service_type.h"
#include "server/rpc/core.h"

namespace lightcone::server {

std::unique_ptr<grpc::Service> MakeRetrievalService(RpcCore* core);
std::unique_ptr<grpc::Service> MakeCollectionsService(RpcCore* core);
std::unique_ptr<grpc::Service> MakeGenerationsService(RpcCore* core);
std::unique_ptr<grpc::Service> MakeBackfillService(RpcCore* core);
std::unique_ptr<grpc::Service> MakeJobsService(RpcCore* core);
std::unique_ptr<grpc::Service> MakeTrainingService(RpcCore* core);
std::unique_ptr<grpc::Service> MakeSnapshotsService(RpcCore* core);

// Full names of the services, as health checks and reflection know them.
const std::vector<const char*>& ServiceNames();

}  // namespace lightcone::server

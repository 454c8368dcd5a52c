// The streaming methods of Retrieval. The returned reactors own themselves.
#pragma once

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "lightcone/v1/retrieval.pb.h"
#include "server/rpc/core.h"

namespace lightcone::server {

// Batches take effect in the order of the stream, one after the other; each is answered by one response, in order,
// whether it was written or refused. At most `stream_batches_max` are held, so a fast client is slowed by the
// transport.
grpc::ServerBidiReactor<v1::UpsertStreamRequest, v1::UpsertStreamResponse>* StartUpsertStream(
    RpcCore* core, grpc::CallbackServerContext* context);

// One page at a time: the next is read from the engine when the transport has taken the one before. A page holds at
// most page_size items and about 3 MiB, so that clients with gRPC's default message limit of 4 MiB can read it.
grpc::ServerWriteReactor<v1::ScrollResponse>* StartScroll(RpcCore* core, grpc::CallbackServerContext* context,
                                                          const v1::ScrollRequest* request);

}  // namespace lightcone::server

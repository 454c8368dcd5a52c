// The streaming methods of Retrieval. The returned reactors own themselves.
#pragma once

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "lightcone/v1/retrieval.pb.h"
#include "server/rpc/core.h"

namespace lightcone::server {

// Batches take effect in the order of the stream, one after the other. Each batch has one response, in order, whether
// it was written or refused. The stream holds at most `stream_batches_max` batches, so that the transport slows a fast
// client. A message that is no UpsertStreamRequest ends the stream with
// INVALID_ARGUMENT once the batches before it are answered. A batch for which there is no memory (ParseBudget) is
// answered RESOURCE_EXHAUSTED, and the stream goes on.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartUpsertStream(RpcCore* core,
                                                                               grpc::CallbackServerContext* context);

// Reads a page from the engine when the transport has taken the page before. A page holds at most page_size items and
// about 3 MiB, so that clients with gRPC's default message limit of 4 MiB can read it.
grpc::ServerWriteReactor<v1::ScrollResponse>* StartScroll(RpcCore* core, grpc::CallbackServerContext* context,
                                                          const v1::ScrollRequest* request);

}  // namespace lightcone::server

// Request and answer of a call in one arena: a batch of a thousand items has four messages each, which are then neither
// allocated nor freed one by one.
// Threads: the allocator is safe from any thread; the messages of a call belong to that call.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/message_allocator.h>

#include <cstddef>

#include "server/rpc/incoming.h"

namespace lightcone::server {

template <typename Request, typename Response>
class ArenaMessages final : public grpc::MessageAllocator<Incoming<Request>, Response> {
 public:
  grpc::MessageHolder<Incoming<Request>, Response>* AllocateMessages() override { return new Holder; }

 private:
  class Holder final : public grpc::MessageHolder<Incoming<Request>, Response> {
   public:
    Holder() : arena_(Options()), incoming_(&arena_) {
      this->set_request(&incoming_);
      this->set_response(google::protobuf::Arena::CreateMessage<Response>(&arena_));
    }
    void Release() override { delete this; }

   private:
    static google::protobuf::ArenaOptions Options() {
      google::protobuf::ArenaOptions options;
      options.max_block_size = std::size_t{64} << 10;
      return options;
    }
    google::protobuf::Arena arena_;
    Incoming<Request> incoming_;
  };
};

}  // namespace lightcone::server

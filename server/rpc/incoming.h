// A request as the transport hands it over: its bytes, which ParseChecked looks at before they become a message.
// Threads: as a message: it belongs to its call.
#pragma once

#include <grpcpp/impl/codegen/serialization_traits.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <utility>

#include "google/protobuf/arena.h"
#include "server/rpc/message_rules.h"

namespace lightcone::server {

template <typename Request>
class Incoming {
 public:
  // `arena` null: the message is on the heap.
  explicit Incoming(google::protobuf::Arena* arena = nullptr) : arena_(arena) {}
  ~Incoming() {
    if (arena_ == nullptr) delete message_;
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  // Whether it may be parsed before anybody asks who sent it.
  bool IsSmall() const { return static_cast<int64_t>(bytes_.Length()) < kWalkedBytesMin; }
  void TakeBytes(grpc::ByteBuffer* bytes) { bytes_.Swap(bytes); }

  // The message, which lives as long as this object and holds its part of the budget for as long. Called once; const,
  // because the transport hands a request over as const. Errors as ParseChecked.
  absl::StatusOr<const Request*> Parse(const MessageRules& rules, ParseBudget* budget) const {
    message_ = google::protobuf::Arena::CreateMessage<Request>(arena_);
    absl::StatusOr<ParsedBytes> taken = ParseChecked(rules, budget, &bytes_, message_);
    bytes_.Clear();
    if (!taken.ok()) return taken.status();
    taken_ = *std::move(taken);
    return message_;
  }

 private:
  google::protobuf::Arena* const arena_;
  mutable grpc::ByteBuffer bytes_;
  mutable Request* message_ = nullptr;
  mutable ParsedBytes taken_;
};

}  // namespace lightcone::server

template <typename Request>
class grpc::SerializationTraits<lightcone::server::Incoming<Request>, void> {
 public:
  static grpc::Status Deserialize(grpc::ByteBuffer* bytes, lightcone::server::Incoming<Request>* request) {
    request->TakeBytes(bytes);
    return grpc::Status::OK;
  }
};

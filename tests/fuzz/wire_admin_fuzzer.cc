// Any bytes as requests of operators and as lists of ids: conversion into the engine's types and back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"

using lightcone::server::FromWire;
namespace v1 = lightcone::v1;

namespace {

template <typename Request>
absl::Status TryIds(const void* bytes, int length) {
  Request request;
  if (!request.ParseFromArray(bytes, length)) return absl::OkStatus();
  const auto ids = FromWire(request.ids());
  if (!ids.ok()) return ids.status();
  if (ids->size() != static_cast<size_t>(request.ids_size())) std::abort();
  for (int i = 0; i < request.ids_size(); ++i) {
    v1::ItemId again;
    lightcone::server::ToWire((*ids)[static_cast<size_t>(i)], &again);
    const auto back = FromWire(again, [] { return std::string("id"); });
    if (!back.ok() || !(*back == (*ids)[static_cast<size_t>(i)])) std::abort();
  }
  return absl::OkStatus();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 1 << 16) return 0;
  const int which = data[0] % 7;
  const void* bytes = data + 1;
  const int length = static_cast<int>(size - 1);
  absl::Status status;
  if (which == 0) {
    v1::RegisterRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    if (FromWire(request).parent != request.parent()) std::abort();
  } else if (which == 1) {
    v1::ActivateRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    if (FromWire(request).generation != request.generation()) std::abort();
  } else if (which == 2) {
    status = TryIds<v1::GetRequest>(bytes, length);
  } else if (which == 3) {
    status = TryIds<v1::DeleteRequest>(bytes, length);
  } else if (which == 4) {
    v1::PutAdapterRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    (void)FromWire(request);
  } else if (which == 5) {
    v1::DropAdapterRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    (void)FromWire(request);
  } else {
    v1::IndexPayloadRequest change;
    if (change.ParseFromArray(bytes, length)) {
      const auto call = FromWire(change);
      if (call.ok()) (void)lightcone::server::CheckPayloadFields(call->add, "add");
    }
    v1::IndexSettings settings;
    if (!settings.ParseFromArray(bytes, length)) return 0;
    status = FromWire(settings).status();
  }
  if (!status.ok() && lightcone::server::ToGrpc(status).error_code() == grpc::StatusCode::OK) std::abort();
  return 0;
}

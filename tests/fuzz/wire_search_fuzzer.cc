// Any bytes as requests of the wire: conversion into the engine's types, filter checking and the error details.
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "server/engine/filter/filter.h"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"

using lightcone::server::FromWire;
namespace v1 = lightcone::v1;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 1 << 16) return 0;
  const int which = data[0] % 4;
  const void* bytes = data + 1;
  const int length = static_cast<int>(size - 1);
  absl::Status status;
  if (which == 0) {
    v1::SearchRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    const auto call = FromWire(request);
    status = call.status();
    if (call.ok() && call->filter.has_value()) {
      const std::string payload = R"({"a":{"b":[1,2.5,"x",true]},"c":null})";
      const auto filter = lightcone::server::Filter::Make(*call->filter);
      if (filter.ok()) {
        filter->Matches({&payload, 3, 0.5});
        const std::string any(static_cast<const char*>(bytes), static_cast<size_t>(length));
        filter->Matches({&any, 3, 0.5});
      }
      status = filter.status();
    }
  } else if (which == 1) {
    v1::UpsertRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    status = FromWire(request).status();
  } else if (which == 2) {
    v1::CreateRequest request;
    if (!request.ParseFromArray(bytes, length)) return 0;
    status = FromWire(request, lightcone::IndexSettings()).status();
  } else {
    const std::string message(static_cast<const char*>(bytes), static_cast<size_t>(length));
    status = lightcone::InvalidField(message, message, message);
    if (lightcone::server::CleanText(message, 100).size() > 100) __builtin_trap();
  }
  if (!status.ok() && lightcone::server::ToGrpc(status).error_code() == grpc::StatusCode::OK) __builtin_trap();
  if (!lightcone::server::ToPartError(status).IsInitialized()) __builtin_trap();
  return 0;
}

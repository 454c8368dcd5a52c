// How an input of a fuzzer names one of the server's methods: by two bytes that stay the same when methods are added.
// Threads: pure functions over a table that is made once.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/files.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/logging.h"
#include "server/rpc/services.h"

namespace lightcone::server {

constexpr size_t kMethodTagBytes = 2;

inline uint16_t TagOf(const google::protobuf::MethodDescriptor& method) {
  return static_cast<uint16_t>(Crc32c(method.full_name()));
}

// Every method of every service.
inline const std::map<uint16_t, const google::protobuf::MethodDescriptor*>& MethodsByTag() {
  static const auto* const all = [] {
    google::protobuf::SetLogHandler(nullptr);  // It would write a line for each text that is no UTF-8.
    auto* methods = new std::map<uint16_t, const google::protobuf::MethodDescriptor*>;
    for (const char* name : ServiceNames()) {
      const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
      for (int i = 0; i < service->method_count(); ++i)
        methods->emplace(TagOf(*service->method(i)), service->method(i));
    }
    return methods;
  }();
  return *all;
}

// The method of the tag in the first kMethodTagBytes of `data`, or the one of the next tag.
inline const google::protobuf::MethodDescriptor& MethodOf(const uint8_t* data) {
  const auto tag = static_cast<uint16_t>(data[0] << 8 | data[1]);
  const auto at = MethodsByTag().lower_bound(tag);
  return at == MethodsByTag().end() ? *MethodsByTag().begin()->second : *at->second;
}

}  // namespace lightcone::server

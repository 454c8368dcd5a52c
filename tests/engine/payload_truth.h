// Payloads by internal id, as a collection would have them, for tests of payload indexes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/engine/filter/payload_index.h"

namespace lightcone::server {

class PayloadTruth : public PayloadSource {
 public:
  absl::Status ForEachPayload(absl::FunctionRef<absl::Status(uint64_t, std::string_view)> visit,
                              std::vector<uint64_t>*) override {
    for (const auto& [id, json] : payloads) LC_RETURN_IF_ERROR(visit(id, json));
    return absl::OkStatus();
  }
  uint64_t Payloads() override { return payloads.size(); }
  absl::StatusOr<std::vector<bool>> Gone(std::span<const uint64_t> ids) override {
    std::vector<bool> gone;
    for (const uint64_t id : ids) gone.push_back(!payloads.contains(id));
    return gone;
  }
  std::map<uint64_t, std::string> payloads;
};

}  // namespace lightcone::server

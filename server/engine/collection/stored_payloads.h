// The payloads of a collection's items as its payload indexes read them from the store.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/collection/collection.h"
#include "server/engine/filter/payload_index.h"

namespace lightcone::server {

class StoredPayloads final : public PayloadSource {
 public:
  explicit StoredPayloads(const Collection* collection) : collection_(collection) {}  // must outlive it

  absl::Status ForEachPayload(absl::FunctionRef<absl::Status(uint64_t internal_id, std::string_view json)> visit,
                              std::vector<uint64_t>* damaged) override;
  uint64_t Payloads() override { return collection_->progress().ItemCount(); }
  absl::StatusOr<std::vector<bool>> Gone(std::span<const uint64_t> internal_ids) override;

  // The internal ids of these items' contents in every view that is pinned already. Items that are not there have none.
  absl::StatusOr<IdSet> InternalIdsOf(std::span<const ItemId> ids) const;

 private:
  const Collection* const collection_;
};

}  // namespace lightcone::server

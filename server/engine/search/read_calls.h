// Get, GetInput, Scroll and Count: reading items as the store holds them.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class ReadCalls {
 public:
  explicit ReadCalls(const Context& context) : context_(context) {}

  absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids, uint32_t generation,
                                const ItemParts& parts, const CallContext& context) const;
  absl::StatusOr<RawInput> GetInput(const std::string& collection, const ItemId& id) const;
  absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                    int64_t page_size, const std::string& token, const ItemParts& parts,
                                    const CallContext& context) const;
  absl::StatusOr<std::string> ScrollTokenAt(const std::string& collection, const ItemId& id) const;
  absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                    const CallContext& context) const;

 private:
  const Context& context_;
};

}  // namespace lightcone::server

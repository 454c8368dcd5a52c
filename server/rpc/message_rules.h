// What the bytes of a request may be before they are parsed, by method. Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/rpc/message_cost.h"
#include "server/rpc/parse_budget.h"

namespace lightcone::server {

// A request takes at most this many times its bytes in memory.
inline constexpr int64_t kParsedFactorMax = 8;
// A request that takes less memory than this is allowed whatever its bytes: 10,000 items of four numbers take less.
inline constexpr int64_t kParsedBytesFree = 5 << 20;
// Smaller requests are not walked. They count in the budget with kParsedFactorMax times their bytes.
inline constexpr int64_t kWalkedBytesMin = 4 << 10;

// Rules for the requests of one method.
struct MessageRules {
  std::string_view method;  // "Retrieval/Get", a literal
  int method_index = 0;     // place of the method in its service
  int64_t bytes_max = 0;    // largest request
  bool server_max = false;  // bytes_max is rpc.message_bytes_max
  std::string_view type;    // "GetRequest"
  std::unique_ptr<MessageShape> shape;
};

// Rules of every method, by the type of its request, which no other method has.
using RulesByRequest = std::map<const google::protobuf::Descriptor*, MessageRules>;
RulesByRequest MakeMessageRules(int64_t message_bytes_max, const Limits& limits);

// Checks the bytes of a request, takes its memory from the budget, and parses it. Clears `bytes` in the end.
// RESOURCE_EXHAUSTED for more bytes than the method takes, and as ParseBudget::Take. INVALID_ARGUMENT for bytes that
// would take more than kParsedFactorMax times their size, which names the field at fault, and for bytes that do not
// parse, which says where.
absl::StatusOr<ParsedBytes> ParseChecked(const MessageRules& rules, ParseBudget* budget, grpc::ByteBuffer* bytes,
                                         google::protobuf::Message* message);

}  // namespace lightcone::server

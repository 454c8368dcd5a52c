// Any bytes as the request of any method, which the first two choose (method_tags.h). The third says how often the rest
// stands one after the other, so that short inputs make messages that are walked. What protobuf parses is weighed, and
// weighs at least what it takes; what it does not parse is refused in words; the budget is whole afterwards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/status.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/rpc/message_rules.h"
#include "tests/fuzz/method_tags.h"

namespace {

using namespace lightcone::server;  // NOLINT: a program of one file

constexpr int64_t kServerMax = 256 << 20;
constexpr size_t kBytesMax = 1 << 16;

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const size_t slice = std::max<size_t>(1, bytes.size() / 3);
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice) slices.emplace_back(bytes.substr(at, slice));
  return {slices.data(), slices.size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = kMethodTagBytes + 1;
  if (size < kHead || size > kBytesMax) return 0;
  static const auto* const rules = new RulesByRequest(MakeMessageRules(kServerMax, Limits()));
  const google::protobuf::Descriptor* const type = MethodOf(data).input_type();
  const std::string once(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  std::string bytes = once;
  for (int i = 0; i < data[kMethodTagBytes] && bytes.size() + once.size() <= kBytesMax; ++i) bytes += once;

  const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
  const std::unique_ptr<google::protobuf::Message> plain(prototype->New());
  const bool parses = plain->ParseFromString(bytes);
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  const auto cost = rules->at(type).shape->CostOf(&input, static_cast<int>(bytes.size()));
  if (parses && !cost) std::abort();

  google::protobuf::Arena arena;
  google::protobuf::Message* const message = prototype->New(&arena);
  ParseBudget budget(int64_t{1} << 30);
  grpc::ByteBuffer buffer = BufferOf(bytes);
  {
    const auto taken = ParseChecked(rules->at(type), &budget, &buffer, message);
    if (taken.ok() != (parses && cost->bytes <= std::max(kParsedBytesFree,
                                                         kParsedFactorMax * static_cast<int64_t>(bytes.size()))) &&
        static_cast<int64_t>(bytes.size()) >= kWalkedBytesMin) {
      std::abort();
    }
    if (taken.ok() && (!parses || message->ByteSizeLong() != plain->ByteSizeLong())) std::abort();
    if (!taken.ok() && lightcone::MessageOf(taken.status()).empty()) std::abort();
    const bool in_arena = !MethodOf(data).client_streaming() && !MethodOf(data).server_streaming();
    const auto used = static_cast<int64_t>(in_arena ? arena.SpaceUsed() : plain->SpaceUsedLong());
    if (taken.ok() && cost->bytes < used) std::abort();
  }
  if (budget.taken() != 0) std::abort();
  return 0;
}

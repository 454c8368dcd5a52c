#include "server/rpc/message_rules.h"

#include <algorithm>
#include <iterator>

#include "base/dcheck.h"
#include "base/status.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/services.h"
#include "server/rpc/unparsed.h"

namespace lightcone::server {
namespace {

// How large the requests of a method may be. rpc.message_bytes_max bounds all of them.
enum class Size {
  kBulk,    // rpc.message_bytes_max: vectors, raw inputs and files
  kIds,     // a filter, or limits.batch_items_max ids of limits.id_bytes_max
  kFilter,  // a filter with long lists
  kSmall,   // names, numbers and short texts
};

constexpr int64_t kFilterBytes = 16 << 20;
constexpr int64_t kSmallBytes = 1 << 20;
constexpr int64_t kIdExtraBytes = 16;  // tags and lengths of one id

struct MethodSize {
  std::string_view method;
  Size size;
};

constexpr MethodSize kSizes[] = {
    {"Retrieval/Upsert", Size::kBulk},
    {"Retrieval/UpsertStream", Size::kBulk},
    {"Retrieval/Get", Size::kIds},
    {"Retrieval/Delete", Size::kIds},
    {"Retrieval/Search", Size::kBulk},
    {"Retrieval/Scroll", Size::kFilter},
    {"Retrieval/Count", Size::kFilter},
    {"Retrieval/Facet", Size::kFilter},
    {"Retrieval/ChangePayload", Size::kBulk},
    {"Collections/Create", Size::kSmall},
    {"Collections/List", Size::kSmall},
    {"Collections/Get", Size::kSmall},
    {"Collections/Drop", Size::kSmall},
    {"Collections/SetAlias", Size::kSmall},
    {"Collections/Snapshot", Size::kSmall},
    {"Collections/Restore", Size::kSmall},
    {"Collections/Rebuild", Size::kSmall},
    {"Collections/Update", Size::kSmall},
    {"Collections/IndexPayload", Size::kSmall},
    {"Generations/Register", Size::kBulk},
    {"Generations/List", Size::kSmall},
    {"Generations/Get", Size::kSmall},
    {"Generations/PutAdapter", Size::kBulk},
    {"Generations/DropAdapter", Size::kSmall},
    {"Generations/ListAdapters", Size::kSmall},
    {"Generations/FitAdapter", Size::kSmall},
    {"Generations/SampleItems", Size::kSmall},
    {"Generations/Validate", Size::kSmall},
    {"Generations/Activate", Size::kSmall},
    {"Generations/Rollback", Size::kSmall},
    {"Generations/SetCanary", Size::kSmall},
    {"Generations/GetCanary", Size::kSmall},
    {"Generations/Audit", Size::kSmall},
    {"Generations/Retire", Size::kSmall},
    {"Generations/PutProbes", Size::kBulk},
    {"Generations/ListProbes", Size::kSmall},
    {"Generations/DropProbes", Size::kSmall},
    {"Backfill/Lease", Size::kSmall},
    {"Backfill/Start", Size::kBulk},
    {"Backfill/Pause", Size::kSmall},
    {"Backfill/Status", Size::kSmall},
    {"Backfill/Estimate", Size::kSmall},
    {"Backfill/Watch", Size::kSmall},
    {"Jobs/Get", Size::kSmall},
    {"Jobs/List", Size::kSmall},
    {"Jobs/Watch", Size::kSmall},
    {"Jobs/Cancel", Size::kSmall},
    {"Snapshots/CreateSnapshot", Size::kSmall},
    {"Snapshots/ListSnapshots", Size::kSmall},
    {"Snapshots/DeleteSnapshot", Size::kSmall},
    {"Snapshots/VerifySnapshot", Size::kSmall},
    {"Snapshots/DownloadSnapshot", Size::kSmall},
    {"Snapshots/UploadSnapshot", Size::kBulk},
    {"Snapshots/RestoreCollection", Size::kSmall},
    {"Training/Start", Size::kSmall},
    {"Training/Get", Size::kSmall},
    {"Training/List", Size::kSmall},
    {"Training/Watch", Size::kSmall},
    {"Training/Cancel", Size::kSmall},
};

int64_t BytesOf(Size size, int64_t message_bytes_max, const Limits& limits) {
  switch (size) {
    case Size::kBulk:
      return message_bytes_max;
    case Size::kIds:
      return std::max(kFilterBytes, kSmallBytes + limits.batch_items_max * (limits.id_bytes_max + kIdExtraBytes));
    case Size::kFilter:
      return kFilterBytes;
    case Size::kSmall:
      break;
  }
  return kSmallBytes;
}

// Messages of a unary call lie in an arena; those of streams do not.
bool InArena(const google::protobuf::MethodDescriptor& method) {
  return !method.client_streaming() && !method.server_streaming();
}

absl::Status Unparsed(const MessageRules& rules, const google::protobuf::Descriptor& type,
                      const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer copy(bytes);  // shares the slices
  grpc::ProtoBufferReader reader(&copy);
  return InvalidArgument(
      StrCat("the message is no ", rules.type, ": ", WhyUnparsed(type, &reader, static_cast<int>(copy.Length()))));
}

// Bytes that are no message are refused here: parsing them would make all that comes before the fault.
absl::Status CheckCost(const MessageRules& rules, const google::protobuf::Descriptor& type, grpc::ByteBuffer* bytes,
                       int64_t size, int64_t* cost_bytes) {
  grpc::ByteBuffer copy(*bytes);  // shares the slices
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) return InvalidArgument("the message cannot be read");
  const auto cost = rules.shape->CostOf(&reader, static_cast<int>(size));
  if (!cost) return Unparsed(rules, type, *bytes);
  *cost_bytes = cost->bytes;
  const int64_t allowed = std::max(kParsedBytesFree, kParsedFactorMax * size);
  if (cost->bytes <= allowed) return absl::OkStatus();
  return InvalidField(cost->field,
                      StrCat(cost->elements, " elements that take ", cost->field_bytes, " bytes of memory"),
                      StrCat("a message that takes at most ", allowed, " bytes of memory: ", kParsedFactorMax,
                             " times its own ", size, ", or ", kParsedBytesFree));
}

}  // namespace

RulesByRequest MakeMessageRules(int64_t message_bytes_max, const Limits& limits) {
  RulesByRequest all;
  for (const char* name : ServiceNames()) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
      const auto& method = *service->method(i);
      const std::string full = StrCat(service->name(), "/", method.name());
      const auto* size = std::find_if(std::begin(kSizes), std::end(kSizes),
                                      [&](const MethodSize& known) { return known.method == full; });
      LC_DCHECK(size != std::end(kSizes));
      if (size == std::end(kSizes)) continue;  // a server with such a method does not start
      MessageRules rules;
      rules.method = size->method;
      rules.method_index = i;
      rules.bytes_max = std::min(message_bytes_max, BytesOf(size->size, message_bytes_max, limits));
      rules.server_max = rules.bytes_max == message_bytes_max;
      rules.type = method.input_type()->name();
      rules.shape = std::make_unique<MessageShape>(*method.input_type(), InArena(method));
      all.emplace(method.input_type(), std::move(rules));
    }
  }
  return all;
}

absl::StatusOr<ParsedBytes> ParseChecked(const MessageRules& rules, ParseBudget* budget, grpc::ByteBuffer* bytes,
                                         google::protobuf::Message* message) {
  const auto size = static_cast<int64_t>(bytes->Length());
  if (size > rules.bytes_max) {
    return FieldError(absl::StatusCode::kResourceExhausted, rules.type, StrCat(size, " bytes long"),
                      StrCat("at most ", rules.bytes_max, " bytes for ", rules.method,
                             rules.server_max ? " (rpc.message_bytes_max)" : ""));
  }
  int64_t cost = kParsedFactorMax * size;
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  if (size >= kWalkedBytesMin) LC_RETURN_IF_ERROR(CheckCost(rules, type, bytes, size, &cost));
  LC_ASSIGN_OR_RETURN(ParsedBytes taken, budget->Take(cost));
  {
    grpc::ByteBuffer copy(*bytes);  // shares the slices
    grpc::ProtoBufferReader reader(&copy);
    if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
      return Unparsed(rules, type, *bytes);
    }
  }
  bytes->Clear();
  return taken;
}

}  // namespace lightcone::server

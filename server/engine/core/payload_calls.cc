// Payload indexes, online: adding and dropping them.
#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

// The fields after the call. Errors as Engine::IndexPayload.
absl::StatusOr<std::vector<PayloadField>> Changed(std::vector<PayloadField> fields, const IndexPayloadCall& call) {
  const auto at = [&fields](const std::string& path) {
    return std::find_if(fields.begin(), fields.end(), [&](const PayloadField& f) { return f.path == path; });
  };
  for (size_t i = 0; i < call.drop.size(); ++i) {
    const auto found = at(call.drop[i]);
    if (found == fields.end()) {
      return NotFound(StrCat("drop[", i, "]: no payload index on '", call.drop[i],
                             "'; there are: ", fields.empty() ? "none" : TextOf(fields)));
    }
    fields.erase(found);
  }
  for (size_t i = 0; i < call.add.size(); ++i) {
    const auto found = at(call.add[i].path);
    if (found == fields.end()) {
      fields.push_back(call.add[i]);
    } else if (found->type != call.add[i].type) {
      return AlreadyExists(StrCat("add[", i, "]: '", found->path, "' has an index of type ",
                                  PayloadTypeName(found->type), "; drop that one in the same call"));
    }
  }
  LC_RETURN_IF_ERROR(CheckPayloadFields(fields, "payload_fields"));
  return fields;
}

}  // namespace

absl::StatusOr<CollectionStatus> EngineImpl::IndexPayload(const IndexPayloadCall& call, const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_RETURN_IF_ERROR(CheckPayloadFields(call.add, "add"));
  if (call.drop.size() > kPayloadFieldsMax) {
    return InvalidField("drop", StrCat(call.drop.size(), " long"), StrCat("at most ", kPayloadFieldsMax, " paths"));
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(call.collection));
  Collection& collection = *served->collection;
  {
    absl::MutexLock lock(&collection.operator_mutex());
    std::string content = StrCat(call.collection, "|", TextOf(call.add));
    for (const std::string& path : call.drop) content += StrCat("|", path);
    const std::string fingerprint = DigestOf(content);
    LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, call.request_id, "IndexPayload", fingerprint));
    if (!before) {
      const auto state = collection.state();
      CollectionRecord record = state->record;
      LC_ASSIGN_OR_RETURN(record.payload_fields, Changed(std::move(record.payload_fields), call));
      WriteBatch batch;
      batch.Expect(Table::kCollections, keys::Collection(collection.number()), state->encoded);
      batch.Put(Table::kCollections, keys::Collection(collection.number()), Encode(record));
      RecordRequest(call.request_id, {"IndexPayload", fingerprint, collection.number(), 0, 0, 0, NowMicros()}, &batch);
      const OperatorWrite written = WriteOperation(batch);
      if (!written.in_store) return written.status;
      collection.Publish(std::move(record), state->generations);
      LC_RETURN_IF_ERROR(written.status);
    }
  }
  absl::Status alive;
  const auto give_up = [&] {
    alive = CheckAlive(context, "index payload");
    if (alive.ok() && ending_.load()) alive = Unavailable("index payload: the server is shutting down");
    return !alive.ok();
  };
  if (call.wait && !collection.payloads().WaitReady(give_up)) return alive;
  return StatusOf(*served);
}

}  // namespace lightcone::server

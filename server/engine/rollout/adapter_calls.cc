// Adapters of a collection: putting, dropping, listing.
#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/collection/checks.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

std::string ArrowOf(uint32_t from, uint32_t to) { return StrCat(from, " -> ", to); }

std::string ListOf(const AdapterSet& adapters) {
  std::string list;
  for (const auto& [pair, adapter] : adapters) {
    list += StrCat(list.empty() ? "" : ", ", ArrowOf(pair.first, pair.second));
  }
  return list.empty() ? "none" : list;
}

// The generations of a pair, neither of them retired. A draft may have adapters: its training fitted them.
struct Pair {
  const GenerationRecord* from;
  const GenerationRecord* to;
};
absl::StatusOr<Pair> PairOf(const CollectionState& state, uint32_t from, uint32_t to) {
  if (from == 0) return InvalidField("from_generation", "0", "the number of a generation");
  if (to == 0) return InvalidField("to_generation", "0", "the number of a generation");
  if (from == to) return InvalidField("to_generation", StrCat(to), "another generation than from_generation");
  Pair pair{};
  LC_ASSIGN_OR_RETURN(pair.from, state.ResolveAny(from));
  LC_ASSIGN_OR_RETURN(pair.to, state.ResolveAny(to));
  return pair;
}

// The answer to a PutAdapter that was made before.
absl::StatusOr<AdapterStatus> PutAgain(const CollectionState& state, const PutAdapterCall& call, uint64_t version) {
  const auto found = state.reach.adapters().find({call.from, call.to});
  if (found != state.reach.adapters().end() && found->second->status.version == version) return found->second->status;
  return NotFound(StrCat("adapter ", ArrowOf(call.from, call.to), " of collection '", state.record.name,
                         "' was put by this request as version ", version, ", and replaced or dropped since"));
}

}  // namespace

absl::StatusOr<AdapterStatus> EngineImpl::PutAdapter(const PutAdapterCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(call.collection));
  if (call.file.empty() || static_cast<int64_t>(call.file.size()) > options_.limits.adapter_bytes_max) {
    return InvalidField("adapter", call.file.empty() ? "empty" : StrCat(call.file.size(), " bytes long"),
                        StrCat("1 .. ", options_.limits.adapter_bytes_max, " bytes"));
  }
  Collection& collection = *served->collection;
  const uint32_t number = collection.number();
  const std::string fingerprint = StrCat(number, "|", call.from, "|", call.to, "|", DigestOf(call.file));
  absl::MutexLock lock(&collection.operator_mutex());
  const auto state = collection.state();
  LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, call.request_id, "PutAdapter", fingerprint));
  if (before) return PutAgain(*state, call, before->version);
  LC_ASSIGN_OR_RETURN(const Pair pair, PairOf(*state, call.from, call.to));
  LC_ASSIGN_OR_RETURN(const AdapterFile file, ReadAdapterFor(*pair.from, *pair.to, call.file));
  AdapterSet adapters = state->reach.adapters();
  if (!adapters.contains({call.from, call.to}) &&
      static_cast<int64_t>(adapters.size()) >= options_.limits.adapters_max) {
    return ResourceExhausted(StrCat("collection '", state->record.name, "' has ", adapters.size(),
                                    " adapters; allowed: at most ", options_.limits.adapters_max));
  }
  CollectionRecord record = state->record;
  const AdapterRecord made{call.from, call.to, ++record.last_adapter_version, NowMicros(), call.file};
  LC_ASSIGN_OR_RETURN(auto adapter, ServeAdapter(made, file, CachesOf(number)));
  WriteBatch batch;
  batch.Expect(Table::kCollections, keys::Collection(number), state->encoded);
  batch.Put(Table::kCollections, keys::Collection(number), Encode(record));
  batch.Put(Table::kGenerations, keys::Adapter(number, call.from, call.to), Encode(made));
  RequestRecord request{"PutAdapter", fingerprint, number, call.from, call.to, 0, made.put_us};
  request.version = made.version;
  RecordRequest(call.request_id, std::move(request), &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  adapters[std::pair(call.from, call.to)] = adapter;
  collection.Publish(std::move(record), state->generations, std::move(adapters));
  LC_RETURN_IF_ERROR(written.status);
  return adapter->status;
}

absl::Status EngineImpl::DropAdapter(const DropAdapterCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(call.collection));
  Collection& collection = *served->collection;
  const uint32_t number = collection.number();
  const std::string fingerprint = StrCat(number, "|", call.from, "|", call.to, "|", call.force);
  absl::MutexLock lock(&collection.operator_mutex());
  const auto state = collection.state();
  LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, call.request_id, "DropAdapter", fingerprint));
  if (before) return absl::OkStatus();
  AdapterSet adapters = state->reach.adapters();
  if (adapters.erase({call.from, call.to}) == 0) {
    return NotFound(StrCat("no adapter ", ArrowOf(call.from, call.to), " in collection '", state->record.name,
                           "'; there are: ", ListOf(adapters)));
  }
  const PinnedView view = collection.Pin();
  const Reach left(state->generations, adapters);
  for (const uint32_t serving : {state->record.active_generation, state->record.canary_generation}) {
    if (serving == 0 || call.force) continue;
    const int64_t lost = OutOfReach(*view, *state, left, serving) - OutOfReach(*view, *state, state->reach, serving);
    if (lost > 0) {
      const bool active = serving == state->record.active_generation;
      return FailedPrecondition(StrCat("without adapter ", ArrowOf(call.from, call.to), " the ",
                                       active ? "active generation " : "canary, generation ", serving,
                                       " of collection '", state->record.name, "' cannot reach ", lost,
                                       " items that it reaches now; give force to drop it all the same"));
    }
  }
  WriteBatch batch;
  batch.Expect(Table::kCollections, keys::Collection(number), state->encoded);
  batch.Delete(Table::kGenerations, keys::Adapter(number, call.from, call.to));
  RecordRequest(call.request_id, {"DropAdapter", fingerprint, number, call.from, call.to, 0, NowMicros()}, &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  collection.PublishGenerations(state->generations, std::move(adapters));
  return written.status;
}

absl::StatusOr<std::vector<AdapterStatus>> EngineImpl::ListAdapters(const std::string& name) {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
  const auto state = served->collection->state();
  std::vector<AdapterStatus> list;
  for (const auto& [pair, adapter] : state->reach.adapters()) list.push_back(adapter->status);
  return list;
}

}  // namespace lightcone::server

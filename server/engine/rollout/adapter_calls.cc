#include "server/engine/rollout/adapter_calls.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/collection/checks.h"
#include "server/engine/services/operator_transaction.h"
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

absl::StatusOr<AdapterStatus> AdapterCalls::Put(const PutAdapterCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  const Limits& limits = context_.options.limits;
  if (call.file.empty() || static_cast<int64_t>(call.file.size()) > limits.adapter_bytes_max) {
    return InvalidField("adapter", call.file.empty() ? "empty" : StrCat(call.file.size(), " bytes long"),
                        StrCat("1 .. ", limits.adapter_bytes_max, " bytes"));
  }
  const uint32_t number = served->collection->number();
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(
          context_, *served->collection,
          {call.request_id, "PutAdapter", StrCat(number, "|", call.from, "|", call.to, "|", DigestOf(call.file))}));
  const CollectionState& state = change.before();
  if (change.earlier() != nullptr) return PutAgain(state, call, change.earlier()->version);
  LC_ASSIGN_OR_RETURN(const Pair pair, PairOf(state, call.from, call.to));
  LC_ASSIGN_OR_RETURN(const AdapterFile file, ReadAdapterFor(*pair.from, *pair.to, call.file));
  AdapterSet& adapters = change.records().adapters();
  if (!adapters.contains({call.from, call.to}) && static_cast<int64_t>(adapters.size()) >= limits.adapters_max) {
    return ResourceExhausted(StrCat("collection '", state.record.name, "' has ", adapters.size(),
                                    " adapters; allowed: at most ", limits.adapters_max));
  }
  const AdapterRecord made{.from = call.from,
                           .to = call.to,
                           .version = ++change.records().record().last_adapter_version,
                           .put_us = change.time_us(),
                           .file = call.file};
  LC_ASSIGN_OR_RETURN(const auto adapter, ServeAdapter(made, file, context_.CachesOf(number)));
  adapters[std::pair(call.from, call.to)] = adapter;
  change.batch().Put(Table::kGenerations, keys::Adapter(number, call.from, call.to), Encode(made));
  change.request().generation = call.from;
  change.request().previous_generation = call.to;
  change.request().version = made.version;
  LC_RETURN_IF_ERROR(change.Commit());
  return adapter->status;
}

absl::Status AdapterCalls::Drop(const DropAdapterCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const uint32_t number = collection.number();
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(context_, collection,
                                                 {call.request_id, "DropAdapter",
                                                  StrCat(number, "|", call.from, "|", call.to, "|", call.force)}));
  if (change.earlier() != nullptr) return absl::OkStatus();
  const CollectionState& state = change.before();
  AdapterSet& adapters = change.records().adapters();
  if (adapters.erase({call.from, call.to}) == 0) {
    return NotFound(StrCat("no adapter ", ArrowOf(call.from, call.to), " in collection '", state.record.name,
                           "'; there are: ", ListOf(adapters)));
  }
  const PinnedView view = collection.Pin();
  const Reach left(state.generations, adapters);
  for (const uint32_t serving : {state.record.active_generation, state.record.canary_generation}) {
    if (serving == 0 || call.force) continue;
    const int64_t lost = OutOfReach(*view, state, left, serving) - OutOfReach(*view, state, state.reach, serving);
    if (lost > 0) {
      const bool active = serving == state.record.active_generation;
      return FailedPrecondition(StrCat("without adapter ", ArrowOf(call.from, call.to), " the ",
                                       active ? "active generation " : "canary, generation ", serving,
                                       " of collection '", state.record.name, "' cannot reach ", lost,
                                       " items that it reaches now; give force to drop it all the same"));
    }
  }
  change.batch().Delete(Table::kGenerations, keys::Adapter(number, call.from, call.to));
  change.request().generation = call.from;
  change.request().previous_generation = call.to;
  return change.Commit();
}

absl::StatusOr<std::vector<AdapterStatus>> AdapterCalls::List(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const auto state = served->collection->state();
  std::vector<AdapterStatus> list;
  for (const auto& [pair, adapter] : state->reach.adapters()) list.push_back(adapter->status);
  return list;
}

}  // namespace lightcone::server

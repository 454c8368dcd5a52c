#include "server/engine/validation/probe_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/services/operator_transaction.h"
#include "server/engine/validation/probe_record.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kSetsMax = 32;          // of one collection
constexpr size_t kRelevantMax = 10'000;  // of one probe
constexpr size_t kReadItems = 4'096;     // at a time

std::string FieldOf(size_t i, std::string_view part) { return StrCat("probes[", i, "]", part); }

absl::Status CheckVectors(const CollectionState& state, const Probe& probe, size_t i) {
  std::set<uint32_t> seen;
  for (size_t j = 0; j < probe.vectors.size(); ++j) {
    const auto& [generation, z] = probe.vectors[j];
    const std::string field = FieldOf(i, StrCat(".vectors[", j, "]"));
    if (generation == 0) return InvalidField(field + ".generation", "0", "the number of a generation");
    if (!seen.insert(generation).second) {
      return InvalidField(field + ".generation", StrCat(generation), "each generation once in a probe");
    }
    const auto found = state.Resolve(generation);
    if (!found.ok()) return Annotate(found.status(), field + ".generation");
    LC_RETURN_IF_ERROR(CheckVector((*found)->space, z, field + ".vector"));
  }
  return absl::OkStatus();
}

absl::Status CheckLabel(const PutProbesCall& call, const Probe& probe, size_t i) {
  if (probe.relevant.empty() != probe.label.has_value()) {
    return InvalidField(FieldOf(i, ".relevant"), probe.label ? "given beside a label" : "empty",
                        "exactly one of relevant and label");
  }
  if (!probe.label) return absl::OkStatus();
  if (call.label_field.empty() || call.label_field[0] == '$') {
    return InvalidField("label_field", StrCat("'", call.label_field, "'"),
                        "a field of the payload, for probes with a label");
  }
  FilterNode node;
  node.kind = FilterNode::Kind::kEquals;
  node.field = call.label_field;
  node.values = {*probe.label};
  return Annotate(Filter::Make(std::move(node)).status(), FieldOf(i, ".label"));
}

absl::Status CheckProbe(const CollectionState& state, const PutProbesCall& call, const Limits& limits, size_t i) {
  const Probe& probe = call.probes[i];
  if (probe.vectors.empty() && !probe.input) {
    return InvalidField(FieldOf(i, ".vectors"), "empty", "a vector, or an input to embed");
  }
  LC_RETURN_IF_ERROR(CheckVectors(state, probe, i));
  if (probe.input) LC_RETURN_IF_ERROR(CheckInput(*probe.input, limits, FieldOf(i, ".input")));
  LC_RETURN_IF_ERROR(CheckLabel(call, probe, i));
  if (probe.relevant.size() > kRelevantMax) {
    return InvalidField(FieldOf(i, ".relevant"), StrCat(probe.relevant.size(), " long"),
                        StrCat("at most ", kRelevantMax, "; give a label instead"));
  }
  for (size_t j = 0; j < probe.relevant.size(); ++j) {
    LC_RETURN_IF_ERROR(CheckItemId(probe.relevant[j], limits.id_bytes_max, FieldOf(i, StrCat(".relevant[", j, "]"))));
  }
  return probe.item ? CheckItemId(*probe.item, limits.id_bytes_max, FieldOf(i, ".item")) : absl::OkStatus();
}

// NOT_FOUND that counts the items which probes name and nobody has.
absl::Status CheckItemsExist(const Collection& collection, const std::vector<Probe>& probes) {
  std::map<ItemId, std::string> named;  // -> the first place
  for (size_t i = 0; i < probes.size(); ++i) {
    for (size_t j = 0; j < probes[i].relevant.size(); ++j) {
      named.try_emplace(probes[i].relevant[j], FieldOf(i, StrCat(".relevant[", j, "]")));
    }
    if (probes[i].item) named.try_emplace(*probes[i].item, FieldOf(i, ".item"));
  }
  size_t missing = 0;
  std::string first;
  for (auto at = named.begin(); at != named.end();) {
    std::vector<std::string> item_keys;
    auto end = at;
    for (; end != named.end() && item_keys.size() < kReadItems; ++end) {
      item_keys.push_back(keys::Item(collection.number(), end->first));
    }
    for (const auto& read : collection.store()->MultiGet(Table::kItems, item_keys)) {
      if (absl::IsNotFound(read.status())) {
        if (missing++ == 0) first = StrCat(at->second, ": no item ", ToString(at->first));
      } else if (!read.ok()) {
        return read.status();
      }
      ++at;
    }
  }
  if (missing == 0) return absl::OkStatus();
  return NotFound(StrCat(first, " in collection '", collection.name(), "'; ", missing, " of the ", named.size(),
                         " items that the probes name are missing"));
}

ProbeSetStatus StatusOfSet(const PutProbesCall& call, size_t bytes, int64_t put_us) {
  ProbeSetStatus set;
  set.name = call.name;
  set.label_field = call.label_field;
  set.probes = static_cast<uint32_t>(call.probes.size());
  std::map<uint32_t, uint32_t> by_generation;
  for (const Probe& probe : call.probes) {
    set.inputs += probe.input.has_value();
    for (const auto& [generation, z] : probe.vectors) ++by_generation[generation];
  }
  set.vectors.assign(by_generation.begin(), by_generation.end());
  set.bytes = bytes;
  set.put = absl::FromUnixMicros(put_us);
  return set;
}

std::string ListOf(const CollectionRecord& record) {
  std::string list;
  for (const auto& [name, put_us] : record.probe_sets) list += StrCat(list.empty() ? "" : ", ", name);
  return list.empty() ? "none" : list;
}

}  // namespace

absl::StatusOr<ProbeSetStatus> ProbeCalls::Put(const PutProbesCall& call) {
  LC_RETURN_IF_ERROR(CheckName(call.name, "name"));
  LC_RETURN_IF_ERROR(CheckCount(call.probes.size(), context_.options.limits.probes_max, "probes"));
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const uint32_t number = collection.number();
  for (size_t i = 0; i < call.probes.size(); ++i) {
    LC_RETURN_IF_ERROR(CheckProbe(*collection.state(), call, context_.options.limits, i));
  }
  const std::string body = EncodeProbes(call.probes);
  if (static_cast<int64_t>(body.size()) > context_.options.limits.probe_set_bytes_max) {
    return InvalidField("probes", StrCat(body.size(), " bytes long"),
                        StrCat("at most ", context_.options.limits.probe_set_bytes_max, " bytes"));
  }
  const std::string fingerprint = StrCat(number, "|", call.name, "|", DigestOf(call.label_field), "|", DigestOf(body));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(context_, collection, {call.request_id, "PutProbes", fingerprint}));
  if (change.earlier() != nullptr) return StatusOfSet(call, body.size(), change.earlier()->time_us);
  LC_RETURN_IF_ERROR(CheckItemsExist(collection, call.probes));
  CollectionRecord& record = change.records().record();
  const auto known = record.probe_sets.find(call.name);
  if (known == record.probe_sets.end() && record.probe_sets.size() >= kSetsMax) {
    return ResourceExhausted(StrCat("collection '", record.name, "' has ", kSetsMax, " probe sets; drop some"));
  }
  // Never twice the same for one name, whatever the clock does: it tells the versions of a set apart.
  int64_t& put_us = change.request().time_us;
  if (known != record.probe_sets.end()) put_us = std::max(put_us, known->second + 1);
  record.probe_sets[call.name] = put_us;
  const ProbeSetStatus set = StatusOfSet(call, body.size(), put_us);
  change.batch().Put(Table::kProbes, keys::ProbeHead(number, call.name), EncodeProbeHead(set));
  change.batch().Put(Table::kProbes, keys::ProbeBody(number, call.name), body);
  LC_RETURN_IF_ERROR(change.Commit());
  return set;
}

absl::Status ProbeCalls::Drop(const std::string& name, const std::string& set, const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const uint32_t number = served->collection->number();
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(context_, *served->collection, {request_id, "DropProbes", StrCat(number, "|", set)}));
  if (change.earlier() != nullptr) return absl::OkStatus();
  CollectionRecord& record = change.records().record();
  if (record.probe_sets.erase(set) == 0) {
    return NotFound(StrCat("no probe set '", set, "' in collection '", record.name, "'; there are: ", ListOf(record)));
  }
  change.batch().Delete(Table::kProbes, keys::ProbeHead(number, set));
  change.batch().Delete(Table::kProbes, keys::ProbeBody(number, set));
  return change.Commit();
}

absl::StatusOr<std::vector<ProbeSetStatus>> ProbeCalls::List(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const keys::Range range = keys::ProbeHeadRange(served->collection->number());
  const auto rows = context_.store->Scan(Table::kProbes, range.begin, range.end);
  std::vector<ProbeSetStatus> sets;
  for (; rows->Valid(); rows->Next()) {
    LC_ASSIGN_OR_RETURN(sets.emplace_back(), DecodeProbeHead(rows->value()));
  }
  LC_RETURN_IF_ERROR(rows->status());
  return sets;
}

}  // namespace lightcone::server

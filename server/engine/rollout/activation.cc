#include "server/engine/rollout/activation.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/collection/checks.h"
#include "server/engine/rollout/generation_status.h"
#include "server/engine/validation/validation.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr uint32_t kAuditLimitMax = 10'000, kAuditLimitDefault = 100;

// Of two operators the second hears what the first one did, and when.
absl::Status CheckExpected(const CollectionState& state, const std::optional<uint32_t>& expected) {
  const uint32_t active = state.record.active_generation;
  if (!expected || *expected == active) return absl::OkStatus();
  std::string now = active == 0 ? "none" : StrCat(active);
  if (active != 0 && state.Find(active)->activated_us) {
    const absl::Time since = absl::FromUnixMicros(*state.Find(active)->activated_us);
    const std::string& who = state.Find(active)->activated_by;
    now += StrCat(" (since ", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", since, absl::UTCTimeZone()),
                  who.empty() ? "" : StrCat(", by ", who), ")");
  }
  return Aborted(StrCat("field 'expect_active' is ", *expected, ", but the active generation is ", now,
                        ": another activation came first"));
}

// Whether a passing validation that is still true stands behind the generation; else why not.
absl::Status CheckValidated(const Collection& collection, const CollectionState& state, uint32_t generation) {
  const ValidationReport* report = state.Find(generation)->validation.get();
  if (report == nullptr) return FailedPrecondition("has not been validated");
  if (!report->passed) {
    std::string why;
    for (const PairReport& pair : report->pairs) {
      if (pair.verdict != Verdict::kPassed) why += StrCat(why.empty() ? "" : ". ", TextOf(pair));
    }
    const std::string but =
        !report->passes_by_both()
            ? ""
            : ". It passes by both queries: once every caller sends older_vectors, force it and say so in the reason";
    const bool there = ReachesNamedShares(collection.progress(), generation, *report);
    const std::string now = there ? ". That share is there now: validate it again" : "";
    return FailedPrecondition(StrCat("did not pass its validation. ", why, now, but));
  }
  const absl::Status current = CheckCurrent(state, collection.progress(), generation, *report);
  return current.ok() ? current : FailedPrecondition(StrCat("passed a validation, but ", MessageOf(current)));
}

// A collection with probe sets is guarded: what begins to serve must have been measured by them. The first activation
// has nothing to be measured against, and the way back stays open.
bool Guarded(const CollectionRecord& record, uint32_t generation) {
  const auto& earlier = record.earlier_active;
  return !record.probe_sets.empty() && record.active_generation != 0 && record.active_generation != generation &&
         std::find(earlier.begin(), earlier.end(), generation) == earlier.end();
}

// The steps that a rollback can take: none to what is retired, and none from a generation to itself, as a retirement in
// between leaves them.
void KeepSteps(const CollectionState& state, std::vector<uint32_t>* earlier) {
  std::erase_if(*earlier, [&](uint32_t g) { return state.Find(g) == nullptr || state.Find(g)->retired; });
  earlier->erase(std::unique(earlier->begin(), earlier->end()), earlier->end());
  if (!earlier->empty() && earlier->back() == state.record.active_generation) earlier->pop_back();
}

// Visits a collection's records of the audit log, oldest first. DATA_LOSS for a damaged one.
absl::Status ReadAudit(const Store& store, uint32_t collection, absl::FunctionRef<void(AuditRecord)> visit) {
  const auto rows = store.Scan(Table::kMeta, keys::Meta(kAuditPrefix), keys::Meta(kAuditEnd));
  for (; rows->Valid(); rows->Next()) {
    const auto at = ParseAuditKey(rows->key());
    if (!at || at->second != collection) continue;
    LC_ASSIGN_OR_RETURN(AuditRecord record, DecodeAudit(rows->value()));
    visit(std::move(record));
  }
  return rows->status();
}

// CollectionRecord::earlier_active of a record without: the record is older than the field, or an older server wrote
// it.
absl::StatusOr<std::vector<uint32_t>> EarlierByAudit(const Store& store, uint32_t collection, uint32_t active) {
  std::vector<uint32_t> earlier;
  uint32_t serves = 0;
  LC_RETURN_IF_ERROR(ReadAudit(store, collection, [&](const AuditRecord& record) {
    if (record.retired || record.canary_share) return;
    if (record.rollback) {  // The rollback went over retired generations.
      while (!earlier.empty() && earlier.back() != record.generation) earlier.pop_back();
      if (!earlier.empty()) earlier.pop_back();
    } else if (serves != 0 && serves != record.generation) {
      earlier.push_back(serves);
    }
    serves = record.generation;
  }));
  if (serves != active) earlier.clear();  // not the log of what is in the record
  return earlier;
}

}  // namespace

absl::StatusOr<MayServe> CheckMayServe(Collection& collection, const CollectionState& state, uint32_t generation,
                                       bool force, bool gate, std::string_view what) {
  const absl::Status validated = CheckValidated(collection, state, generation);
  if (gate && !force && !validated.ok() && Guarded(state.record, generation)) {
    return FailedPrecondition(StrCat("generation ", generation, " of collection '", state.record.name, "' ",
                                     MessageOf(validated), ". Give force and a reason to ", what, " it all the same"));
  }
  const auto out_of_reach = static_cast<uint64_t>(OutOfReach(*collection.Pin(), state, state.reach, generation));
  if (out_of_reach == 0 || force) return MayServe{validated.ok(), out_of_reach};
  return FailedPrecondition(
      StrCat("generation ", generation, " cannot reach ", out_of_reach, " items of collection '", state.record.name,
             "', which other generations embedded; give force and a reason to ", what, " it all the same"));
}

absl::StatusOr<ActivateAnswer> ActivationCalls::Serve(const Served& served, OperatorTransaction& change,
                                                      const SwitchCall& call, bool rollback, uint32_t generation,
                                                      std::vector<uint32_t> earlier) {
  Collection& collection = *served.collection;
  const uint32_t previous = change.before().record.active_generation;
  LC_ASSIGN_OR_RETURN(const MayServe may, CheckMayServe(collection, change.before(), generation, call.force,
                                                        /*gate=*/!rollback, rollback ? "roll back to" : "activate"));
  CollectionRecord& record = change.records().record();
  record.active_generation = generation;
  record.canary_generation = 0;  // The canary was measured beside another active generation.
  record.canary_share = 0;
  record.canary_us = 0;
  if (earlier.size() > kEarlierActiveMax) earlier.erase(earlier.begin(), earlier.end() - kEarlierActiveMax);
  record.earlier_active = std::move(earlier);
  GenerationRecord& activated = change.records().generation(generation);
  activated.activated_us = change.time_us();
  activated.activated_by = call.operator_name;
  change.request().generation = generation;
  change.request().previous_generation = previous;
  change.request().out_of_reach = may.out_of_reach;
  LC_RETURN_IF_ERROR(change.Audit({.rollback = rollback,
                                   .generation = generation,
                                   .previous_generation = previous,
                                   .forced = call.force,
                                   .reason = call.reason,
                                   .out_of_reach = may.out_of_reach,
                                   .validated = may.validated,
                                   .operator_name = call.operator_name}));
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  change.Publish();
  served.backfill->Resume();  // A rollback may have ended a backfill of this generation.
  LC_RETURN_IF_ERROR(written.status);
  return ActivateAnswer{StatusOf(collection, *collection.state(), generation), previous, may.out_of_reach};
}

absl::StatusOr<ActivateAnswer> ActivationCalls::Switch(const SwitchCall& call, std::optional<uint32_t> generation) {
  LC_RETURN_IF_ERROR(CheckReason(call.force, call.reason));
  LC_RETURN_IF_ERROR(CheckOperatorName(call.operator_name));
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const std::string fingerprint =
      StrCat(collection.number(), "|", generation ? StrCat(*generation, "|") : "", call.force, "|",
             DigestOf(call.reason), "|", call.expect_active ? StrCat(*call.expect_active) : "any");
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(
                          context_, collection,
                          {call.request_id, generation ? "ActivateGeneration" : "RollbackGeneration", fingerprint}));
  const CollectionState& state = change.before();
  if (const RequestRecord* before = change.earlier()) {
    return ActivateAnswer{StatusOf(collection, state, before->generation), before->previous_generation,
                          before->out_of_reach};
  }
  if (generation) {
    if (*generation == 0) return InvalidField("generation", "0", "the number of a generation");
    LC_RETURN_IF_ERROR(state.Resolve(*generation).status());
  }
  LC_RETURN_IF_ERROR(CheckExpected(state, call.expect_active));
  const uint32_t active = state.record.active_generation;
  std::vector<uint32_t> earlier = state.record.earlier_active;
  if (generation) {
    if (active != 0 && active != *generation) earlier.push_back(active);
    return Serve(*served, change, call, /*rollback=*/false, *generation, std::move(earlier));
  }
  KeepSteps(state, &earlier);
  if (earlier.empty()) {
    LC_ASSIGN_OR_RETURN(earlier, EarlierByAudit(*context_.store, collection.number(), active));
    KeepSteps(state, &earlier);
  }
  if (earlier.empty()) {
    return FailedPrecondition(StrCat("collection '", state.record.name, "' has no generation to roll back to: ",
                                     active == 0 ? "none is active" : StrCat("none served before ", active)));
  }
  const uint32_t back = earlier.back();
  earlier.pop_back();
  return Serve(*served, change, call, /*rollback=*/true, back, std::move(earlier));
}

absl::StatusOr<std::vector<AuditEntry>> ActivationCalls::ListAudit(const std::string& name, uint32_t limit) const {
  if (limit > kAuditLimitMax) {
    return InvalidField("limit", StrCat(limit), StrCat("0 .. ", kAuditLimitMax, "; 0: ", kAuditLimitDefault));
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  std::deque<AuditEntry> last;
  LC_RETURN_IF_ERROR(ReadAudit(*context_.store, served->collection->number(), [&](AuditRecord r) {
    last.push_front({.time = absl::FromUnixMicros(r.time_us),
                     .rollback = r.rollback,
                     .generation = r.generation,
                     .previous_generation = r.previous_generation,
                     .forced = r.forced,
                     .reason = std::move(r.reason),
                     .out_of_reach = r.out_of_reach,
                     .request_id = std::move(r.request_id),
                     .retired = r.retired,
                     .validated = r.validated,
                     .canary_share = r.canary_share,
                     .operator_name = std::move(r.operator_name)});
    if (last.size() > (limit == 0 ? kAuditLimitDefault : limit)) last.pop_back();
  }));
  return std::vector<AuditEntry>(std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
}

}  // namespace lightcone::server

// Canaries: letting one serve, searching by a key, and both sides side by side.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/number_text.h"
#include "base/status.h"
#include "base/utf8.h"
#include "server/engine/collection/checks.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kKeyBytesMax = 256;

// Recall of a generation's queries, of the searches that were sampled lately.
std::optional<double> RecallOf(const LiveRecallStatus& live, uint32_t generation) {
  double expected = 0, found = 0;
  for (const LiveRecall& recall : live.recall) {
    if (recall.query_generation != generation) continue;
    expected += recall.recent_expected;
    found += recall.recent_found;
  }
  return expected < 1 ? std::nullopt : std::optional<double>(found / expected);
}

CanaryStatus CanaryOf(const Served& served, const CollectionRecord& record) {
  CanaryStatus status;
  status.generation = record.canary_generation;
  if (status.generation == 0) return status;
  status.share = record.canary_share;
  status.began = absl::FromUnixMicros(record.canary_us);
  status.canary.generation = record.canary_generation;
  status.active.generation = record.active_generation;
  served.canary.Fill(&status);
  const LiveRecallStatus live = served.live.Status();
  status.canary.live_recall = RecallOf(live, record.canary_generation);
  status.active.live_recall = RecallOf(live, record.active_generation);
  return status;
}

absl::Status CheckShare(const SetCanaryCall& call) {
  if (call.generation == 0 && call.share != 0) {
    return InvalidField("share", NumberText(call.share), "0 where generation is 0, which ends the canary");
  }
  if (call.generation != 0 && !(call.share > 0 && call.share <= 1)) {
    return InvalidField("share", NumberText(call.share), "above 0 .. 1");
  }
  return absl::OkStatus();
}

// Whether a generation could be asked every query of the call.
bool CanAsk(const GenerationRecord& generation, const SearchCall& call) {
  return std::all_of(call.queries.begin(), call.queries.end(), [&](const Query& query) {
    if (!query.error.ok() || std::holds_alternative<QueryByItem>(query.content)) return true;
    if (std::holds_alternative<RawInput>(query.content)) return generation.has_encoder;
    return !query.canary_vector.empty();
  });
}

}  // namespace

absl::StatusOr<CanaryStatus> EngineImpl::SetCanary(const SetCanaryCall& call) {
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_RETURN_IF_ERROR(CheckReason(call.force, call.reason));
  LC_RETURN_IF_ERROR(CheckOperatorName(call.operator_name));
  LC_RETURN_IF_ERROR(CheckShare(call));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(call.collection));
  Collection& collection = *served->collection;
  const uint32_t number = collection.number();
  absl::MutexLock lock(&collection.operator_mutex());
  const auto state = collection.state();
  const std::string fingerprint =
      StrCat(number, "|", call.generation, "|", NumberText(call.share), "|", call.force, "|", DigestOf(call.reason));
  LC_ASSIGN_OR_RETURN(const auto before, FindRequestOn(collection, call.request_id, "SetCanary", fingerprint));
  if (before) return CanaryOf(*served, state->record);
  CollectionRecord record = state->record;
  const uint32_t earlier = record.canary_generation;
  MayServe may;
  if (call.generation != 0) {
    LC_RETURN_IF_ERROR(state->Resolve(0).status());  // somebody has to serve the rest
    LC_RETURN_IF_ERROR(state->Resolve(call.generation).status());
    if (call.generation == record.active_generation) {
      return InvalidField("generation", StrCat(call.generation), "another one than the active generation");
    }
    LC_ASSIGN_OR_RETURN(
        may, CheckMayServe(collection, *state, call.generation, call.force, /*gate=*/true, "make a canary of"));
  }
  const int64_t now = NowMicros();
  const RequestRecord request{"SetCanary", fingerprint, number, call.generation, 0, may.out_of_reach, now};
  if (call.generation == 0 && earlier == 0) {  // nothing to do, which is remembered: a later canary is another one's
    LC_RETURN_IF_ERROR(store_->Sync());        // The disk may have refused the call that ended the last one.
    if (call.request_id.empty()) return CanaryOf(*served, record);
    WriteBatch nothing;
    RecordRequest(call.request_id, request, &nothing);
    LC_RETURN_IF_ERROR(WriteOperation(nothing).status);
    return CanaryOf(*served, record);
  }
  if (call.generation != earlier) record.canary_us = call.generation == 0 ? 0 : now;
  record.canary_generation = call.generation;
  record.canary_share = call.share;
  AuditRecord audit;
  audit.collection = record.name;
  audit.generation = call.generation == 0 ? earlier : call.generation;
  audit.previous_generation = record.active_generation;
  audit.forced = call.force;
  audit.reason = call.reason;
  audit.out_of_reach = may.out_of_reach;
  audit.time_us = now;
  audit.request_id = call.request_id;
  audit.validated = may.validated;
  audit.canary_share = call.share;
  audit.operator_name = call.operator_name;
  WriteBatch batch;
  batch.Expect(Table::kCollections, keys::Collection(number), state->encoded);
  batch.Put(Table::kCollections, keys::Collection(number), Encode(record));
  batch.Put(Table::kMeta, keys::Meta(AuditName(now, number)), Encode(audit));
  RecordRequest(call.request_id, request, &batch);
  const OperatorWrite written = WriteOperation(batch);
  if (!written.in_store) return written.status;
  if (call.generation != earlier) served->canary.Restart();
  collection.Publish(std::move(record), state->generations);
  LC_RETURN_IF_ERROR(written.status);
  return CanaryOf(*served, collection.state()->record);
}

absl::StatusOr<CanaryStatus> EngineImpl::GetCanary(const std::string& name) {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
  return CanaryOf(*served, served->collection->state()->record);
}

absl::StatusOr<SearchAnswer> EngineImpl::SearchByKey(const ServedPtr& served, const SearchCall& call,
                                                     const CallContext& context) {
  if (call.canary_key.size() > kKeyBytesMax || !IsUtf8(call.canary_key)) {
    return InvalidField("canary_key", StrCat(call.canary_key.size(), " bytes long, or not UTF-8"),
                        StrCat("at most ", kKeyBytesMax, " bytes of UTF-8"));
  }
  if (call.generation != 0) {
    return InvalidField("canary_key", "given", StrCat("empty where generation is ", call.generation));
  }
  const auto state = served->collection->state();
  const uint32_t canary = state->record.canary_generation;
  if (canary == 0) return SearchServed(served, call, context);
  const bool chosen = CanaryHas(call.canary_key, served->collection->number(), canary, state->record.canary_share);
  const bool able = chosen && CanAsk(*state->Find(canary), call);
  if (chosen && !able) served->canary.NoteUnroutable();
  const absl::Time began = absl::Now();
  absl::StatusOr<SearchAnswer> answer;
  if (able) {
    SearchCall routed = call;
    routed.generation = canary;
    for (Query& query : routed.queries) {
      if (!std::holds_alternative<std::vector<float>>(query.content)) continue;
      query.content = std::move(query.canary_vector);
      query.is_canary_vector = true;
    }
    answer = SearchServed(served, routed, context);
    if (answer.ok()) {
      answer->canary = true;
    } else if (served->collection->state()->record.canary_generation != canary) {
      return SearchServed(served, call, context);  // it ended while this waited, and may be retired by now
    }
  } else {
    answer = SearchServed(served, call, context);
  }
  served->canary.Note(able, absl::Now() - began, answer);
  return answer;
}

}  // namespace lightcone::server

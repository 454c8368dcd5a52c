#include "server/engine/backfill/backfill_calls.h"

#include <utility>

#include "base/number_text.h"
#include "base/status.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/collection/checks.h"
#include "server/engine/services/operator_transaction.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kLeaseMin = absl::Milliseconds(1), kLeaseMax = absl::Hours(24);

// The generation that embeds items anew: the active one, or a newer one that does not serve yet. Where none is named, a
// backfill goes on that began ahead of its generation.
absl::StatusOr<const GenerationRecord*> TargetOf(const CollectionState& state, const BackfillStatus& now,
                                                 uint32_t asked) {
  const uint32_t active = state.record.active_generation;
  if (asked == 0 && now.ahead) asked = now.generation;
  if (asked != 0 && asked < active) {
    return InvalidField("generation", StrCat(asked), StrCat("0 or ", active, ", which serves, or a newer one"));
  }
  return state.Resolve(asked);
}

// Whose items a head is for: as asked, or those of the embedding generation's parent, or of the one before it.
absl::StatusOr<uint32_t> HeadGenerationOf(const CollectionState& state, const GenerationRecord& target,
                                          uint32_t asked) {
  if (asked == 0) asked = target.parent != 0 ? target.parent : target.generation - 1;
  if (asked == 0 || asked >= target.generation) {
    const std::string allowed = target.generation == 1
                                    ? std::string("nothing: no generation is older than the one that embeds")
                                    : StrCat("1 .. ", target.generation - 1, ", older than the one that embeds");
    return InvalidField("head_generation", StrCat(asked), allowed);
  }
  LC_RETURN_IF_ERROR(state.Resolve(asked).status());
  return asked;
}

absl::StatusOr<FailureHeadFile> ReadHeadFor(const GenerationRecord& generation, std::string_view bytes) {
  absl::StatusOr<FailureHeadFile> file = ParseFailureHead(bytes);
  // A damaged upload is the caller's: the server's own data is whole.
  if (absl::IsDataLoss(file.status()))
    return InvalidArgument(StrCat("field 'failure_head': ", MessageOf(file.status())));
  LC_RETURN_IF_ERROR(Annotate(file.status(), "field 'failure_head'"));
  if (generation.space.metric == Metric::kInnerProduct) {
    return InvalidField("failure_head", StrCat(bytes.size(), " bytes"),
                        "nothing: inner products have no neighbourhoods that a head could judge");
  }
  if (static_cast<int>(file->means.dimension) != generation.space.dimension) {
    return InvalidField("failure_head.dimension", StrCat(file->means.dimension),
                        StrCat(generation.space.dimension, ", of generation ", generation.generation));
  }
  return file;
}

absl::Status CheckPace(const StartBackfillCall& call) {
  constexpr double kMost = 1e6;
  const double rate = call.embed_rate.value_or(0);
  if (!(rate >= 0 && rate <= kMost)) {
    return InvalidField("embed_rate", NumberText(rate), "0 .. 1000000 items a second");
  }
  if (!(call.p99_ms_max >= 0 && call.p99_ms_max <= kMost)) {
    return InvalidField("p99_ms_max", NumberText(call.p99_ms_max), "0 .. 1000000 milliseconds");
  }
  if (call.p99_ms_max > 0 && rate == 0) {
    return InvalidField("p99_ms_max", NumberText(call.p99_ms_max), "0 without an embed_rate");
  }
  return absl::OkStatus();
}

absl::Status SetPaused(const Context& engine, Backfill& backfill, OperatorTransaction& change, bool paused,
                       const StartBackfillCall* pace = nullptr) {
  const auto write = [&](const WriteBatch& all) { return WriteOperatorBatch(*engine.store, all); };
  return backfill.SetPaused(paused, write, change.TakeBatch(), pace);
}

}  // namespace

absl::StatusOr<BackfillStatus> BackfillCalls::Start(const StartBackfillCall& call) {
  const int64_t head_bytes_max = context_.options.limits.adapter_bytes_max;
  if (static_cast<int64_t>(call.failure_head.size()) > head_bytes_max) {
    return InvalidField("failure_head", StrCat(call.failure_head.size(), " bytes long"),
                        StrCat("at most ", head_bytes_max));
  }
  if (call.failure_head.empty() && call.head_generation != 0) {
    return InvalidField("head_generation", StrCat(call.head_generation), "nothing without a failure_head");
  }
  LC_RETURN_IF_ERROR(CheckPace(call));
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Backfill& backfill = *served->backfill;
  const uint32_t number = served->collection->number();
  std::string fingerprint = StrCat(number, "|", call.head_generation, "|", DigestOf(call.failure_head));
  const double rate = call.embed_rate.value_or(0);
  if (call.embed_rate) fingerprint += StrCat("|", NumberText(rate), "|", NumberText(call.p99_ms_max));
  if (call.generation != 0) fingerprint += StrCat("|generation ", call.generation);
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(context_, *served->collection, {call.request_id, "StartBackfill", fingerprint}));
  if (change.earlier() != nullptr) return backfill.Status();
  const CollectionState& state = change.before();
  const BackfillStatus shown = backfill.Status();
  LC_ASSIGN_OR_RETURN(const GenerationRecord* const target, TargetOf(state, shown, call.generation));
  if (rate > 0 && !target->has_encoder) {
    return FailedPrecondition(StrCat("generation ", target->generation, " of collection '", state.record.name,
                                     "' has no encoder here: leave embed_rate at 0, and have workers lease the items"));
  }
  change.request().generation = target->generation;
  const std::optional<BackfillRecord> now = backfill.record();
  const bool same = now && now->generation == target->generation;
  // An error of the encoder that is tried again by itself holds nothing up.
  const bool held = shown.state == BackfillState::kPaused || shown.state == BackfillState::kFailed ||
                    (shown.state != BackfillState::kStopped && backfill.EmbeddingStopped());
  if (call.failure_head.empty() && held && same) {
    LC_RETURN_IF_ERROR(SetPaused(context_, backfill, change, false, &call));
    return backfill.Status();
  }
  const bool keep_pace = same && !call.embed_rate;
  BackfillRecord record;
  record.generation = target->generation;
  record.started_us = change.time_us();
  record.ahead = target->generation != state.record.active_generation;
  record.embed_rate = keep_pace ? now->embed_rate : rate;
  record.p99_ms_max = keep_pace ? now->p99_ms_max : call.p99_ms_max;
  std::optional<FailureHeadFile> head;
  if (!call.failure_head.empty()) {
    LC_ASSIGN_OR_RETURN(record.head_generation, HeadGenerationOf(state, *target, call.head_generation));
    LC_ASSIGN_OR_RETURN(head, ReadHeadFor(*state.Find(record.head_generation), call.failure_head));
    change.batch().Put(Table::kMeta, keys::Meta(BackfillHeadName(number)), call.failure_head);
  } else {
    change.batch().Delete(Table::kMeta, keys::Meta(BackfillHeadName(number)));
  }
  change.batch().Expect(Table::kCollections, keys::Collection(number), state.encoded);
  change.batch().Put(Table::kMeta, keys::Meta(BackfillName(number)), Encode(record));
  backfill.Halt();  // Its thread writes the record that this call replaces.
  const OperatorWrite written = change.Write();
  if (written.in_store) {
    backfill.Begin(record, std::move(head));
  } else {
    backfill.Resume();
  }
  LC_RETURN_IF_ERROR(written.status);
  return backfill.Status();
}

absl::StatusOr<BackfillStatus> BackfillCalls::Pause(const std::string& name, const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  Collection& collection = *served->collection;
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(context_, collection, {request_id, "PauseBackfill", StrCat(collection.number())}));
  // A start in between is somebody else's: a pause that is asked for again does not undo it.
  if (change.earlier() == nullptr) LC_RETURN_IF_ERROR(SetPaused(context_, *served->backfill, change, true));
  return served->backfill->Status();
}

absl::StatusOr<BackfillStatus> BackfillCalls::Get(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  return served->backfill->Status();
}

absl::StatusOr<LeaseAnswer> BackfillCalls::Lease(const LeaseCall& call) {
  const bool renews = !call.renew_token.empty();
  if (renews && (call.items_max != 0 || !call.finished_token.empty())) {
    return InvalidField(call.items_max != 0 ? "items_max" : "finished_token",
                        call.items_max != 0 ? StrCat(call.items_max) : call.finished_token,
                        "nothing beside a renew_token");
  }
  if (!renews && (call.items_max < 1 || call.items_max > context_.options.limits.batch_items_max)) {
    return InvalidField("items_max", StrCat(call.items_max), StrCat("1 .. ", context_.options.limits.batch_items_max));
  }
  if (call.timeout < kLeaseMin || call.timeout > kLeaseMax) {
    return InvalidField("timeout", absl::FormatDuration(call.timeout),
                        StrCat(absl::FormatDuration(kLeaseMin), " .. ", absl::FormatDuration(kLeaseMax)));
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  return served->backfill->Lease(call);
}

absl::Status BackfillCalls::Load(const Served& served) {
  Collection& collection = *served.collection;
  const uint32_t number = collection.number();
  const std::string of = StrCat("the backfill of collection '", collection.name(), "'");
  const auto stored = context_.store->Get(Table::kMeta, keys::Meta(BackfillName(number)));
  if (absl::IsNotFound(stored.status())) return absl::OkStatus();
  LC_RETURN_IF_ERROR(stored.status());
  absl::StatusOr<BackfillRecord> record = DecodeBackfill(*stored);
  LC_RETURN_IF_ERROR(Annotate(record.status(), of));
  std::optional<FailureHeadFile> head;
  if (record->head_generation != 0) {
    const auto bytes = context_.store->Get(Table::kMeta, keys::Meta(BackfillHeadName(number)));
    if (absl::IsNotFound(bytes.status())) return DataLoss(StrCat(of, ": its failure head is not in the store"));
    LC_RETURN_IF_ERROR(bytes.status());
    absl::StatusOr<FailureHeadFile> file = ParseFailureHead(*bytes);
    LC_RETURN_IF_ERROR(Annotate(file.status(), of));
    head = *std::move(file);
  }
  served.backfill->Begin(*record, std::move(head));
  return absl::OkStatus();
}

}  // namespace lightcone::server

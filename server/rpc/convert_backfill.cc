#include <utility>

#include "base/status.h"
#include "server/rpc/convert.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kLeaseDefault = absl::Minutes(5);

v1::BackfillState ToWire(BackfillState state) {
  switch (state) {
    case BackfillState::kNone:
      return v1::BACKFILL_STATE_UNSPECIFIED;
    case BackfillState::kOrdering:
      return v1::BACKFILL_STATE_ORDERING;
    case BackfillState::kRunning:
      return v1::BACKFILL_STATE_RUNNING;
    case BackfillState::kPaused:
      return v1::BACKFILL_STATE_PAUSED;
    case BackfillState::kStopped:
      return v1::BACKFILL_STATE_STOPPED;
    case BackfillState::kDone:
      return v1::BACKFILL_STATE_DONE;
    case BackfillState::kFailed:
      return v1::BACKFILL_STATE_FAILED;
  }
  return v1::BACKFILL_STATE_UNSPECIFIED;
}

}  // namespace

StartBackfillCall FromWire(const v1::BackfillStartRequest& request) {
  StartBackfillCall call{request.request_id(), request.collection(), request.failure_head(), request.head_generation()};
  if (request.has_embed_rate()) call.embed_rate = request.embed_rate();
  call.p99_ms_max = request.p99_ms_max();
  call.generation = request.generation();
  return call;
}

absl::StatusOr<LeaseCall> FromWire(const v1::LeaseRequest& request) {
  LeaseCall call{request.collection(), request.items_max(), kLeaseDefault, request.finished_token(),
                 request.renew_token()};
  if (request.has_timeout()) {
    const auto& timeout = request.timeout();
    // The bounds of google.protobuf.Duration; the engine knows those of a lease.
    if (timeout.nanos() <= -1'000'000'000 || timeout.nanos() >= 1'000'000'000 ||
        (timeout.seconds() != 0 && timeout.nanos() != 0 && (timeout.seconds() < 0) != (timeout.nanos() < 0))) {
      return InvalidField("timeout.nanos", StrCat(timeout.nanos()), "-999999999 .. 999999999, of the sign of seconds");
    }
    call.timeout = absl::Seconds(timeout.seconds()) + absl::Nanoseconds(timeout.nanos());
  }
  return call;
}

void ToWire(const BackfillStatus& status, v1::StatusResponse* out) {
  out->set_state(ToWire(status.state));
  out->set_generation(status.generation);
  out->set_head_generation(status.head_generation);
  out->set_items_done(status.items_done);
  out->set_items_total(status.items_done + status.items_left);
  out->set_items_leased(status.items_leased);
  out->set_items_ordered(status.items_ordered);
  if (status.started) *out->mutable_started() = TimestampOf(*status.started);
  if (!status.error.ok()) out->set_error(std::string(status.error.message()));
  out->set_embed_rate(status.embed_rate);
  out->set_items_per_second(status.items_per_second);
  out->set_items_aside(status.items_aside);
  out->set_ahead(status.ahead);
  for (const AsideItem& item : status.aside) {
    v1::AsideItem* to = out->add_aside();
    ToWire(item.id, to->mutable_id());
    to->set_reason(item.reason);
  }
}

void ToWire(LeaseAnswer answer, v1::LeaseResponse* out) {
  out->set_state(ToWire(answer.state));
  out->set_generation(answer.generation);
  if (answer.token.empty()) return;
  out->set_token(answer.token);
  *out->mutable_expires() = TimestampOf(answer.expires);
  for (const LeasedItem& item : answer.items) {
    v1::LeasedItem* to = out->add_items();
    ToWire(item.id, to->mutable_id());
    to->set_sequence(item.sequence);
    to->set_generation(item.generation);
    to->set_uncertainty(item.uncertainty);
    to->set_has_input(item.has_input);
    to->set_found_lately(item.found_lately);
  }
}

EstimateCall FromWire(const v1::EstimateRequest& request) {
  return {request.collection(), request.generation(), int64_t{request.trial_max()}};
}

void ToWire(const EmbeddingEstimate& estimate, v1::EstimateResponse* out) {
  out->set_generation(estimate.generation);
  out->set_items(estimate.items);
  out->set_sampled(static_cast<uint32_t>(estimate.sampled));
  out->set_with_input(static_cast<uint32_t>(estimate.with_input));
  out->set_texts(static_cast<uint32_t>(estimate.texts));
  out->set_characters_a_text(estimate.characters_a_text);
  out->set_bytes_an_input(estimate.bytes_an_input);
  out->set_trial_inputs(static_cast<uint32_t>(estimate.trial_inputs));
  out->set_items_per_second(estimate.items_per_second);
  if (!estimate.trial_error.ok()) out->set_trial_error(MessageOf(estimate.trial_error));
}

}  // namespace lightcone::server

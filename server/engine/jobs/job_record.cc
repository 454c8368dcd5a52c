#include "base/status.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/jobs/jobs.h"

namespace lightcone::server {
namespace {

constexpr std::pair<JobState, std::string_view> kStates[] = {{JobState::kQueued, "queued"},
                                                             {JobState::kRunning, "running"},
                                                             {JobState::kSucceeded, "succeeded"},
                                                             {JobState::kFailed, "failed"},
                                                             {JobState::kCancelled, "cancelled"}};

constexpr auto kJobFields = [](auto& f, auto& r) {
  f.Field("number", r.number);
  f.Field("kind", r.kind);
  f.Field("collection", r.collection);
  f.Field("collection_number", r.collection_number);
  f.Field("generation", r.generation);
  f.Field("arguments_json", r.arguments_json);
  f.Named("state", kStates, r.state);
  f.Field("cancel", r.cancel);
  f.Field("created_us", r.created_us);
  f.Field("started_us", r.started_us);
  f.Field("ended_us", r.ended_us);
  f.Field("attempts", r.attempts);
  f.Field("result_json", r.result_json);
  f.Field("error_code", r.error_code);
  f.Field("error", r.error);
  f.Check("number", r.number != 0);
  f.Check("error_code", r.error_code >= 0 && r.error_code <= static_cast<int>(absl::StatusCode::kUnauthenticated));
};

}  // namespace

std::string Encode(const JobRecord& r) { return EncodeFields(r, kJobFields); }

absl::StatusOr<JobRecord> DecodeJob(std::string_view bytes) {
  return DecodeFields<JobRecord>("job", bytes, kJobFields);
}

}  // namespace lightcone::server

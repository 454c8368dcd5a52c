#include "base/status.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/jobs/jobs.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kJobKind = "job";
constexpr std::pair<JobState, std::string_view> kStates[] = {{JobState::kQueued, "queued"},
                                                             {JobState::kRunning, "running"},
                                                             {JobState::kSucceeded, "succeeded"},
                                                             {JobState::kFailed, "failed"},
                                                             {JobState::kCancelled, "cancelled"}};

}  // namespace

std::string Encode(const JobRecord& r) {
  std::string state;
  for (const auto& [value, name] : kStates) {
    if (value == r.state) state = name;
  }
  return Dump({{"format", kFormat},
               {"number", r.number},
               {"kind", r.kind},
               {"collection", r.collection},
               {"collection_number", r.collection_number},
               {"generation", r.generation},
               {"arguments_json", r.arguments_json},
               {"state", state},
               {"cancel", r.cancel},
               {"created_us", r.created_us},
               {"started_us", r.started_us},
               {"ended_us", r.ended_us},
               {"attempts", r.attempts},
               {"result_json", r.result_json},
               {"error_code", r.error_code},
               {"error", r.error}});
}

absl::StatusOr<JobRecord> DecodeJob(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord(kJobKind, bytes));
  JobRecord r;
  FieldReader reader(kJobKind, json);
  std::string state;
  reader.Read("number", &r.number);
  reader.Read("kind", &r.kind);
  reader.Read("collection", &r.collection);
  reader.Read("collection_number", &r.collection_number);
  reader.Read("generation", &r.generation);
  reader.Read("arguments_json", &r.arguments_json);
  reader.Read("state", &state);
  reader.Read("cancel", &r.cancel);
  reader.Read("created_us", &r.created_us);
  reader.Read("started_us", &r.started_us);
  reader.Read("ended_us", &r.ended_us);
  reader.Read("attempts", &r.attempts);
  reader.Read("result_json", &r.result_json);
  reader.Read("error_code", &r.error_code);
  reader.Read("error", &r.error);
  bool known = false;
  for (const auto& [value, name] : kStates) {
    if (name != state) continue;
    r.state = value;
    known = true;
  }
  if (!known) reader.Fail("state");
  if (r.number == 0) reader.Fail("number");
  if (r.error_code < 0 || r.error_code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    reader.Fail("error_code");
  }
  LC_RETURN_IF_ERROR(reader.status());
  return r;
}

}  // namespace lightcone::server

// A validation that is waited for, and the activation that may follow.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "engine_testing.h"

namespace lightcone::server {

// Validates generation 2 of collection "c" and returns its report; nullptr: no job was made.
inline std::shared_ptr<const ValidationReport> Validated(Engine* engine, bool calibrate = true) {
  ValidateCall call;
  call.collection = "c";
  call.generation = 2;
  call.calibrate = calibrate;
  const auto id = engine->ValidateGeneration(call);
  EXPECT_TRUE(id.ok()) << id.status();
  if (!id.ok()) return nullptr;
  JobStatus job = *engine->GetJob(*id);
  for (; !job.final(); job = *engine->GetJob(*id)) std::this_thread::yield();
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
  return engine->GetGeneration("c", 2)->validation;
}

// Activates a generation of collection "c"; with a reason, by force.
inline absl::Status TryActivate(Engine* engine, uint32_t generation, const std::string& force_because) {
  ActivateCall call;
  call.collection = "c";
  call.generation = generation;
  call.force = !force_because.empty();
  call.reason = force_because;
  return engine->ActivateGeneration(call).status();
}

}  // namespace lightcone::server

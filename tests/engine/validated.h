// A validation that is waited for.
#pragma once

#include <memory>
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

}  // namespace lightcone::server

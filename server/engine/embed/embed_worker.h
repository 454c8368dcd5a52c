// An encoder in a process of its own, `lightcone embed-worker`: what crashes, hangs or eats memory there ends that
// process alone. It is started when it is needed, again when it ended; an input that ends it by itself is found, and
// said. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/child_process.h"
#include "server/engine/embed/embed_frames.h"
#include "server/engine/embed/inputs_encoder.h"

namespace lightcone::server {

struct EmbedWorkerOptions {
  ChildProgram program;  // program that answers as `lightcone embed-worker` does
  EmbedSetup setup;
  size_t dimension = 0;          // length of its vectors
  absl::Duration time_max;       // limit for the inputs of one call
  absl::Duration load_time_max;  // limit for loading the encoder
  std::string time_option;       // option that sets these limits
  // Code of an input at which the encoder fails.
  absl::StatusCode fault = absl::StatusCode::kInvalidArgument;
};

// Of what a process may leave in the file of its output, which is cut at every batch.
inline constexpr int64_t kWorkerFileBytesMax = 64 << 20;

// Of inputs that are handed over together, but one at least.
inline constexpr size_t kInputBytesAtOnce = 32 << 20;

class EmbedWorker : public InputsEncoder {
 public:
  explicit EmbedWorker(EmbedWorkerOptions options) : options_(std::move(options)) {}
  ~EmbedWorker() override;
  EmbedWorker(const EmbedWorker&) = delete;
  EmbedWorker& operator=(const EmbedWorker&) = delete;

  // Starts a process that has loaded the encoder, unless there is one. The errors of loading; CANCELLED; UNAVAILABLE:
  // no process became ready.
  absl::Status Ready(const std::function<bool()>& cancelled);
  // Whether the last process that did not become ready crashed or answered nonsense. One that was killed, took too long
  // or lacked memory may become ready another time.
  bool failed_to_load() const { return failed_to_load_; }

  // One an input (as the store keeps them), in order: a vector before the clip, or why this input gets none here, also
  // that the encoder ended or hung at it (EmbedWorkerOptions::fault). The outer status: CANCELLED,
  // within a tenth of a second; FAILED_PRECONDITION: there is no use in going on, the encoder fails at whatever it is
  // given; else that no process became ready, which may change.
  absl::StatusOr<EmbeddedInputs> Embed(std::span<const std::string> inputs,
                                       const std::function<bool()>& cancelled) override;

 private:
  absl::Status Greet(absl::Status* loaded);
  // What the process answers. ABORTED, UNAVAILABLE (SIGKILL), RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED: there was no
  // answer, and it is gone.
  absl::StatusOr<EmbeddedInputs> Ask(std::span<const std::string> inputs, const std::function<bool()>& cancelled);
  absl::StatusOr<EmbeddedInputs> Exchange(std::span<const std::string> inputs);
  // An input of a batch that failed.
  absl::Status EmbedAlone(const std::string& input, const std::function<bool()>& cancelled,
                          absl::StatusOr<std::vector<float>>* output);
  // The encoder failed at this input, as `what` says: so does its output. FAILED_PRECONDITION: it is the encoder.
  absl::Status Blame(const std::string& what, const std::function<bool()>& cancelled,
                     absl::StatusOr<std::vector<float>>* output);
  // Whether the process that is there, or else a fresh one, embeds what it must. CANCELLED, or no process became ready.
  absl::StatusOr<bool> Works(const std::function<bool()>& cancelled);
  // An input that worked; before there is one, the zeros that every encoder is tried with when it is loaded.
  absl::StatusOr<std::string> MustWork() const;
  void NoteWorked(const std::string& input);
  // Ends the process; `failure` with how it ended and what it said last.
  absl::Status Ended(const absl::Status& failure);

  const EmbedWorkerOptions options_;
  std::unique_ptr<TalkingChild> child_;
  uint64_t next_number_ = 1;
  bool failed_to_load_ = false;
  bool answered_ = false;    // The process answered something.
  bool worn_ = false;        // The process answered something before this batch.
  int failed_in_a_row_ = 0;  // successive inputs at which the encoder failed
  std::string worked_;       // the first short input that worked
};

}  // namespace lightcone::server

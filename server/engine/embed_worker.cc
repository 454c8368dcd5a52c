#include "server/engine/embed_worker.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr int kTriesKilled = 2;       // of an input alone at which SIGKILL comes: the kernel, or a person, may mean another
constexpr int kFailedInARowMax = 10;  // inputs; beyond, it is the encoder
constexpr int kLoadFactor = 5;        // loading takes longer than a batch
constexpr uint64_t kReadyBytesMax = 4'096;
constexpr absl::Duration kLastMoment = absl::Seconds(2);  // for a process that hung up to end as it was about to

std::string EndText(int code) {
  if (code < 0) return "ended";
  if (code <= 128) return StrCat("ended with exit code ", code);
  const char* const name = ::sigabbrev_np(code - 128);
  return StrCat("ended with signal ", code - 128, name == nullptr ? "" : StrCat(" (SIG", name, ")"));
}

// Of an error of TorchScript, whose lines before are its stack.
std::string LastLine(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text.substr(text.find_last_of("\r\n") + 1);
}

// What the encoder is to blame for, or the memory that it has: it may be one input of those that it got together.
bool BlamesEncoder(const absl::Status& status) {
  return !status.ok() && !absl::IsInvalidArgument(status) && !absl::IsDataLoss(status);
}

}  // namespace

absl::Status EmbedWorker::Ended(const absl::Status& failure) {
  const bool hung = absl::IsDeadlineExceeded(failure);
  // One that answers nonsense is ended too; by itself it may go on.
  const int code = child_->End(absl::IsAborted(failure) ? kLastMoment : absl::ZeroDuration());
  child_.reset();
  if (absl::IsCancelled(failure)) return failure;
  const std::string said = LastWords(options_.program.output);
  const bool killed = absl::IsAborted(failure) && code == 128 + SIGKILL;
  std::string how = absl::IsAborted(failure) ? EndText(code)
                    : hung                   ? MessageOf(failure)
                                             : StrCat("answered nonsense, ", MessageOf(failure));
  if (killed) how += ", which is what a lack of memory looks like";
  if (!said.empty()) how += StrCat(": ", said);
  return MakeStatus(hung     ? absl::StatusCode::kDeadlineExceeded
                    : killed ? absl::StatusCode::kUnavailable
                             : absl::StatusCode::kAborted,
                    how);
}

absl::Status EmbedWorker::Greet(absl::Status* loaded) {
  const ReadBytes read = [this](char* out, size_t bytes) { return child_->Read(out, bytes); };
  LC_RETURN_IF_ERROR(child_->Write(Frame(FrameKind::kSetup, EncodeSetup(options_.setup))));
  LC_ASSIGN_OR_RETURN(const std::string answer, ReadFrame(read, FrameKind::kReady, kReadyBytesMax));
  *loaded = DecodeReady(answer);
  return absl::OkStatus();
}

absl::Status EmbedWorker::Ready(const std::function<bool()>& cancelled) {
  if (child_ != nullptr && !child_->Gone()) return absl::OkStatus();
  child_.reset();
  LC_ASSIGN_OR_RETURN(child_, TalkingChild::Start(options_.program));
  child_->Allow(kLoadFactor * options_.time_max, cancelled);
  absl::Status loaded;
  absl::Status greeted = Greet(&loaded);
  if (greeted.ok()) {
    if (!loaded.ok()) child_.reset();
    return loaded;
  }
  greeted = Ended(greeted);
  if (absl::IsCancelled(greeted)) return greeted;
  return Unavailable(StrCat("the encoder's process is not ready: it ", MessageOf(greeted)));
}

absl::StatusOr<EmbeddedInputs> EmbedWorker::Exchange(std::span<const std::string> inputs) {
  const uint64_t number = next_number_++;
  const ReadBytes read = [this](char* out, size_t bytes) { return child_->Read(out, bytes); };
  LC_RETURN_IF_ERROR(child_->Write(Frame(FrameKind::kInputs, EncodeInputs(number, inputs))));
  LC_ASSIGN_OR_RETURN(const std::string answer,
                      ReadFrame(read, FrameKind::kVectors, VectorsBytesMax(inputs.size(), options_.dimension)));
  return DecodeVectors(answer, number, inputs.size(), options_.dimension);
}

absl::StatusOr<EmbeddedInputs> EmbedWorker::Ask(std::span<const std::string> inputs,
                                                const std::function<bool()>& cancelled) {
  child_->Allow(options_.time_max, cancelled);
  absl::StatusOr<EmbeddedInputs> answer = Exchange(inputs);
  return answer.ok() ? std::move(answer) : Ended(answer.status());
}

absl::Status EmbedWorker::EmbedAlone(const std::string& input, const std::function<bool()>& cancelled,
                                     absl::StatusOr<std::vector<float>>* output) {
  std::string what;
  for (int tries = 0; tries < kTriesKilled; ++tries) {
    LC_RETURN_IF_ERROR(Ready(cancelled));
    absl::StatusOr<EmbeddedInputs> answer = Ask({&input, 1}, cancelled);
    if (absl::IsCancelled(answer.status())) return answer.status();
    if (answer.ok() && !BlamesEncoder((*answer)[0].status())) {
      if ((*answer)[0].ok()) failed_in_a_row_ = 0;
      *output = std::move((*answer)[0]);
      return absl::OkStatus();
    }
    what = answer.ok() ? LastLine(MessageOf((*answer)[0].status())) : StrCat("the encoder ", MessageOf(answer.status()));
    if (!absl::IsUnavailable(answer.status())) break;
  }
  return Blame(what, output);
}

absl::Status EmbedWorker::Blame(const std::string& what, absl::StatusOr<std::vector<float>>* output) {
  if (++failed_in_a_row_ >= kFailedInARowMax) {
    failed_in_a_row_ = 0;
    return FailedPrecondition(StrCat("the encoder fails at whatever it is given, ", kFailedInARowMax,
                                     " inputs one after another; at the last one: ", what));
  }
  *output = InvalidArgument(StrCat("input: ", what));
  return absl::OkStatus();
}

absl::StatusOr<EmbeddedInputs> EmbedWorker::Embed(std::span<const std::string> inputs,
                                                  const std::function<bool()>& cancelled) {
  if (inputs.empty()) return EmbeddedInputs();
  LC_RETURN_IF_ERROR(Ready(cancelled));
  absl::StatusOr<EmbeddedInputs> together = Ask(inputs, cancelled);
  if (absl::IsCancelled(together.status())) return together;
  EmbeddedInputs outputs =
      together.ok() ? *std::move(together) : EmbeddedInputs(inputs.size(), together.status());
  if (std::any_of(outputs.begin(), outputs.end(), [](const auto& one) { return one.ok(); })) failed_in_a_row_ = 0;
  // One by one rather than by halves: each that fails costs a process, each that does not next to nothing.
  bool told = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!BlamesEncoder(outputs[i].status())) continue;
    if (inputs.size() == 1 && absl::IsDeadlineExceeded(outputs[i].status())) {  // it had all the time that it may have
      LC_RETURN_IF_ERROR(Blame(StrCat("the encoder ", MessageOf(outputs[i].status())), &outputs[i]));
      continue;
    }
    if (!std::exchange(told, true)) {
      spdlog::warn("an encoder failed at {} inputs, which are tried one by one: {}", inputs.size(),
                   LastLine(MessageOf(outputs[i].status())));
    }
    LC_RETURN_IF_ERROR(EmbedAlone(inputs[i], cancelled, &outputs[i]));
  }
  return outputs;
}

}  // namespace lightcone::server

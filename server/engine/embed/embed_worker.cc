#include "server/engine/embed/embed_worker.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/manifest.h"
#include "server/engine/collection/raw_input.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr int kTriesKilled = 2;       // tries of one input that SIGKILL ends: the signal may be about another process
constexpr int kFailedInARowMax = 10;  // failures after which an input that must work is tried
constexpr size_t kWorkedBytesMax = 1 << 20;  // largest input that is kept for that try
constexpr uint64_t kSaidBytesMax = 1 << 20;  // limit of the output file: an encoder may print at every input
constexpr uint64_t kReadyBytesMax = 4'096;
constexpr int kExitExhausted = 6;                         // exit code of the program that lacks memory
constexpr int kExitNotRun = 127;                          // exit code of a program whose libraries cannot be loaded
constexpr absl::Duration kLastMoment = absl::Seconds(2);  // time for a process that hung up to end by itself

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
  return !status.ok() && !absl::IsInvalidArgument(status) && !absl::IsDataLoss(status) && PartsOf(status).field.empty();
}

}  // namespace

EmbedWorker::~EmbedWorker() {
  child_.reset();
  std::error_code ignored;
  std::filesystem::remove(options_.program.output, ignored);
}

absl::Status EmbedWorker::Ended(const absl::Status& failure) {
  const bool hung = absl::IsDeadlineExceeded(failure);
  // One that answers nonsense is ended too; by itself it may go on.
  const int code = child_->End(absl::IsAborted(failure) ? kLastMoment : absl::ZeroDuration());
  child_.reset();
  if (absl::IsCancelled(failure)) return failure;
  const std::string said = LastWords(options_.program.output);
  const bool killed = absl::IsAborted(failure) && code == 128 + SIGKILL;
  std::string how = absl::IsAborted(failure) ? EndText(code)
                    : hung                   ? StrCat(MessageOf(failure), ", the limit of ", options_.time_option)
                                             : StrCat("answered nonsense, ", MessageOf(failure));
  if (killed) how += ", which is what a lack of memory looks like";
  if (!said.empty()) how += StrCat(": ", said);
  const bool lacks_memory = absl::IsAborted(failure) && (code == kExitExhausted || code == kExitNotRun);
  return MakeStatus(hung           ? absl::StatusCode::kDeadlineExceeded
                    : killed       ? absl::StatusCode::kUnavailable
                    : lacks_memory ? absl::StatusCode::kResourceExhausted
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
  answered_ = worn_ = failed_to_load_ = false;
  if (options_.program.words[0].empty()) {
    return FailedPrecondition("this server has no lightcone-model beside it, which runs encoders");
  }
  LC_ASSIGN_OR_RETURN(child_, TalkingChild::Start(options_.program));
  child_->Allow(options_.load_time_max, cancelled);
  absl::Status loaded;
  absl::Status greeted = Greet(&loaded);
  if (greeted.ok()) {
    if (!loaded.ok()) child_.reset();
    return loaded;
  }
  greeted = Ended(greeted);
  if (absl::IsCancelled(greeted)) return greeted;
  failed_to_load_ = absl::IsAborted(greeted);
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
  const std::string& said = options_.program.output;
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(said, ignored);
  if (!ignored && bytes > kSaidBytesMax) std::filesystem::resize_file(said, 0, ignored);
  child_->Allow(options_.time_max, cancelled);
  absl::StatusOr<EmbeddedInputs> answer = Exchange(inputs);
  if (!answer.ok()) return Ended(answer.status());
  answered_ = true;
  return answer;
}

absl::Status EmbedWorker::EmbedAlone(const std::string& input, const std::function<bool()>& cancelled,
                                     absl::StatusOr<std::vector<float>>* output) {
  std::string what;
  for (int killed = 0; killed < kTriesKilled;) {
    LC_RETURN_IF_ERROR(Ready(cancelled));
    const bool worn = worn_;
    absl::StatusOr<EmbeddedInputs> answer = Ask({&input, 1}, cancelled);
    if (absl::IsCancelled(answer.status())) return answer.status();
    if (answer.ok() && !BlamesEncoder((*answer)[0].status())) {
      if ((*answer)[0].ok()) NoteWorked(input);
      *output = std::move((*answer)[0]);
      return absl::OkStatus();
    }
    what =
        answer.ok() ? LastLine(MessageOf((*answer)[0].status())) : StrCat("the encoder ", MessageOf(answer.status()));
    // It may be what earlier batches left in the process, memory that was never given back say. Once a batch at most:
    // what is started here is fresh. An input that the network refuses is at fault itself: the process, which serves
    // everybody, goes on.
    const bool refused = answer.ok() && !absl::IsResourceExhausted((*answer)[0].status());
    if (worn && !refused) {
      child_.reset();
      continue;
    }
    if (!absl::IsUnavailable(answer.status())) break;
    ++killed;
  }
  return Blame(what, cancelled, output);
}

void EmbedWorker::NoteWorked(const std::string& input) {
  failed_in_a_row_ = 0;
  if (worked_.empty() && input.size() <= kWorkedBytesMax) worked_ = input;
}

absl::StatusOr<std::string> EmbedWorker::MustWork() const {
  if (!worked_.empty()) return worked_;
  if (options_.setup.encoder_path.empty()) return EncodeInput(TensorInput());
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(options_.setup.manifest_json));
  const ManifestInput& input = manifest.input;
  TensorInput zero;
  size_t numbers = 1;
  for (const int side : {input.channels, input.height, input.width}) {
    zero.shape.push_back(static_cast<uint32_t>(side));
    numbers *= static_cast<size_t>(side);
  }
  zero.values.resize(numbers);
  return EncodeInput(zero);
}

absl::StatusOr<bool> EmbedWorker::Works(const std::function<bool()>& cancelled) {
  LC_ASSIGN_OR_RETURN(const std::string input, MustWork());
  // The process that is there first: where it works, nobody waits for another one.
  for (const bool fresh : {false, true}) {
    if (fresh) child_.reset();
    if (child_ == nullptr && !fresh) continue;
    LC_RETURN_IF_ERROR(Ready(cancelled));
    const absl::StatusOr<EmbeddedInputs> answer = Ask({&input, 1}, cancelled);
    if (answer.ok() && (*answer)[0].ok()) return true;
    // Killed: by anybody, and the next try tells.
    if (absl::IsCancelled(answer.status()) || (fresh && absl::IsUnavailable(answer.status()))) return answer.status();
  }
  return false;
}

absl::Status EmbedWorker::Blame(const std::string& what, const std::function<bool()>& cancelled,
                                absl::StatusOr<std::vector<float>>* output) {
  *output = MakeStatus(options_.fault, StrCat("input: ", what));
  if (++failed_in_a_row_ < kFailedInARowMax) return absl::OkStatus();
  failed_in_a_row_ = 0;
  // Neighbours in the order may well be bad together: of one camera, of one import.
  LC_ASSIGN_OR_RETURN(const bool works, Works(cancelled));
  if (works) return absl::OkStatus();
  return FailedPrecondition(StrCat("the encoder fails at whatever it is given, ", kFailedInARowMax,
                                   " inputs one after another and one that must work; at the last one: ", what));
}

absl::StatusOr<EmbeddedInputs> EmbedWorker::Embed(std::span<const std::string> inputs,
                                                  const std::function<bool()>& cancelled) {
  if (inputs.empty()) return EmbeddedInputs();
  LC_RETURN_IF_ERROR(Ready(cancelled));
  worn_ = answered_;
  absl::StatusOr<EmbeddedInputs> together = Ask(inputs, cancelled);
  if (absl::IsCancelled(together.status())) return together;
  EmbeddedInputs outputs = together.ok() ? *std::move(together) : EmbeddedInputs(inputs.size(), together.status());
  const auto worked = std::find_if(outputs.begin(), outputs.end(), [](const auto& one) { return one.ok(); });
  if (worked != outputs.end()) NoteWorked(inputs[static_cast<size_t>(worked - outputs.begin())]);
  // One by one rather than by halves: each that fails costs a process, each that does not next to nothing.
  bool told = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!BlamesEncoder(outputs[i].status())) continue;
    if (!std::exchange(told, true)) {
      spdlog::warn("an encoder failed at {} inputs, which are tried one by one: {}", inputs.size(),
                   LastLine(MessageOf(outputs[i].status())));
    }
    LC_RETURN_IF_ERROR(EmbedAlone(inputs[i], cancelled, &outputs[i]));
  }
  return outputs;
}

}  // namespace lightcone::server

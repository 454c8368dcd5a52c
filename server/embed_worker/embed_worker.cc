#include "server/embed_worker/embed_worker.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/exceptions.h"
#include "base/files.h"
#include "base/status.h"
#include "server/embed_worker/input_encoder.h"
#include "server/engine/embed/embed_frames.h"

namespace lightcone::server {
namespace {

constexpr uint64_t kSetupBytesMax = uint64_t{64} << 20;  // of paths and manifests

absl::Status ReadAll(int fd, char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(fd, out, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", "standard input");
    if (got == 0) return OutOfRange("standard input has ended");
    out += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::write(fd, bytes.data(), bytes.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return ErrnoStatus(errno, "write", "standard output");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

// A copy of a standard stream for this file alone; `instead` takes its place, so that nothing that an encoder reads or
// prints gets between the frames.
absl::StatusOr<int> TakeStream(int stream, int instead) {
  const int taken = ::fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (taken < 0 || instead < 0 || ::dup2(instead, stream) < 0)
    return ErrnoStatus(errno, "take", StrCat("stream ", stream));
  return taken;
}

absl::Status LockWorkerIn(LockMode lock, std::span<const int> kept) {
  if (lock == LockMode::kOff) return absl::OkStatus();
  ::tzset();  // It reads the time zone's file.
  const absl::Status locked = LockIn(kept);
  if (locked.ok()) return locked;
  const std::string why = StrCat("encoders are not locked in here: ", MessageOf(locked));
  if (lock == LockMode::kRequire) return FailedPrecondition(StrCat("encoder.sandbox is 'require', but ", why));
  std::fprintf(stderr, "%s\n", why.c_str());
  return absl::OkStatus();
}

// A lack of memory is answered: it says nothing against the encoder. Nothing that a caller sent is parsed before the
// process is locked in.
absl::StatusOr<InputEncoder> LoadEncoder(const EmbedSetup& setup, LockMode lock, std::span<const int> kept) {
  try {
    LC_ASSIGN_OR_RETURN(std::string encoder, InputEncoder::ReadEncoder(setup));
    LC_RETURN_IF_ERROR(LockWorkerIn(lock, kept));
    return InputEncoder::Load(setup, std::move(encoder));
  } catch (...) {
    return StatusOfException();
  }
}

}  // namespace

absl::Status RunEmbedWorker(LockMode lock) {
  LC_ASSIGN_OR_RETURN(const int in, TakeStream(STDIN_FILENO, ::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  LC_ASSIGN_OR_RETURN(const int out, TakeStream(STDOUT_FILENO, STDERR_FILENO));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what an encoder printed before it crashed is told
  const ReadBytes read = [in](char* to, size_t bytes) { return ReadAll(in, to, bytes); };
  LC_ASSIGN_OR_RETURN(const std::string first, ReadFrame(read, FrameKind::kSetup, kSetupBytesMax));
  LC_ASSIGN_OR_RETURN(const EmbedSetup setup, DecodeSetup(first));
  const int kept[] = {in, out};
  const absl::StatusOr<InputEncoder> encoder = LoadEncoder(setup, lock, kept);
  LC_RETURN_IF_ERROR(WriteAll(out, Frame(FrameKind::kReady, EncodeReady(encoder.status()))));
  LC_RETURN_IF_ERROR(encoder.status());
  for (;;) {
    const absl::StatusOr<std::string> body = ReadFrame(read, FrameKind::kInputs, kFrameBytesMax);
    if (absl::IsOutOfRange(body.status())) return absl::OkStatus();  // nobody asks any more
    LC_RETURN_IF_ERROR(body.status());
    LC_ASSIGN_OR_RETURN(const EmbedInputs asked, DecodeInputs(*body));
    const std::string answer = EncodeVectors(asked.number, encoder->Embed(asked.inputs));
    LC_RETURN_IF_ERROR(WriteAll(out, Frame(FrameKind::kVectors, answer)));
  }
}

}  // namespace lightcone::server

// Arbitrary bytes as what an encoder's process says, and what it is told: as frames, and as bodies behind a whole head.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/status.h"
#include "server/engine/embed/embed_frames.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t at = 0;
  const ReadBytes read = [&](char* out, size_t wanted) {
    if (size - at < wanted) return lightcone::Aborted("the end");
    std::copy_n(bytes.data() + at, wanted, out);
    at += wanted;
    return absl::OkStatus();
  };
  const auto body = ReadFrame(read, FrameKind::kVectors, 1 << 16);
  if (body.ok() && body->size() > (1 << 16)) std::abort();
  const auto inputs = DecodeInputs(bytes);
  size_t held = 0;
  for (size_t i = 0; inputs.ok() && i < inputs->inputs.size(); ++i) held += inputs->inputs[i].size();
  if (held > size) std::abort();
  for (const size_t count : {0, 1, 3}) {
    const auto vectors = DecodeVectors(bytes, 1, count, 2);
    if (vectors.ok() && vectors->size() != count) std::abort();
  }
  (void)DecodeSetup(bytes);
  (void)DecodeReady(bytes);
  return 0;
}

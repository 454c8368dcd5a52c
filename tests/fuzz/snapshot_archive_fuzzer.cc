// Any bytes as the archive of a snapshot, in pieces whose size the first byte chooses. The headers get their true
// checksums, so that the checks behind those are reached. A sink gets just the bytes that the manifest names, file by
// file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "snapshot/archive.h"

namespace {

using namespace lightcone;  // NOLINT: a program of one file

constexpr size_t kBlock = 512, kSumAt = 148, kSumBytes = 8, kMagicAt = 257;

class CountingSink final : public SnapshotSink {
 public:
  absl::Status Open(const SnapshotFile& file, bool*) override {
    if (left_) std::abort();
    left_ = file.bytes;
    return absl::OkStatus();
  }
  absl::Status Write(std::string_view bytes) override {
    if (!left_ || bytes.size() > *left_) std::abort();
    *left_ -= bytes.size();
    return absl::OkStatus();
  }
  absl::Status Close() override {
    if (!left_ || *left_ != 0) std::abort();
    left_.reset();
    return absl::OkStatus();
  }

 private:
  std::optional<uint64_t> left_;  // bytes of the open file that are still to come
};

// Every block that looks like a header gets its true checksum.
void SealHeaders(std::string* archive) {
  for (size_t at = 0; at + kBlock <= archive->size(); at += kBlock) {
    if (archive->compare(at + kMagicAt, 5, "ustar") != 0) continue;
    uint32_t sum = 0;
    archive->replace(at + kSumAt, kSumBytes, kSumBytes, ' ');
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>((*archive)[at + i]);
    char digits[kSumBytes + 1];
    std::snprintf(digits, sizeof(digits), "%06o", sum);
    std::memcpy(archive->data() + at + kSumAt, digits, 6);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 1 << 16) return 0;
  std::string archive(reinterpret_cast<const char*>(data) + 1, size - 1);
  SealHeaders(&archive);
  const size_t piece = 1 + data[0] % 4 * 300;
  int sinks = 0;
  ArchiveReader reader("fuzz", [&sinks](const SnapshotManifest&, std::string_view text) {
    ++sinks;
    if (!DecodeSnapshotManifest(text, "sink").ok()) std::abort();
    return absl::StatusOr<std::unique_ptr<SnapshotSink>>(std::make_unique<CountingSink>());
  });
  for (size_t at = 0; at < archive.size(); at += piece) {
    const absl::Status status = reader.Append(std::string_view(archive).substr(at, piece));
    if (status.ok()) continue;
    if (!absl::IsDataLoss(status) && !absl::IsFailedPrecondition(status)) std::abort();
    return 0;
  }
  const auto manifest = reader.Finish();
  if (manifest.ok() && (sinks != 1 || manifest->Bytes() > archive.size())) std::abort();
  return 0;
}

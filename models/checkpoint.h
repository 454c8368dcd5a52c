// The native checkpoint file: named sections of bytes under one checked header (docs/reference/formats/models.md).
// This part knows no torch; checkpoint_torch.h turns modules and optimisers into sections. Threads: safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

struct Checkpoint {
  static constexpr uint32_t kFormat = 1;
  std::map<std::string, std::string> sections;  // at most 1024, names of 1 .. 255 bytes

  // The section, or DATA_LOSS "checkpoint has no section 'x'".
  absl::StatusOr<std::string_view> Section(const std::string& name) const;
};

// The file's bytes: magic, format, header with the size and CRC-32C of each section, CRC-32C of the header, sections.
std::string EncodeCheckpoint(const Checkpoint& checkpoint);

// DATA_LOSS when `bytes` are no checkpoint, truncated, or fail a checksum (says which section); FAILED_PRECONDITION for
// a newer format. Never reads past the end, whatever the bytes.
absl::StatusOr<Checkpoint> ParseCheckpoint(std::string_view bytes);

// Atomic: after a crash the old or the new file is there. Errors carry the path; NOT_FOUND when there is no file.
absl::Status WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint);
absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& path);

}  // namespace lightcone

// The file of a failure head: one self-checking file in the checkpoint form (models/checkpoint.h) with a JSON section
// "failure_head" and the class means as little-endian float32 numbers (docs/reference/formats/models.md).
// Threads: all functions are safe. No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stats/failure_head.h"

namespace lightcone {

struct FailureHeadFile {
  static constexpr int kFormat = 1;

  std::string from;  // label of the model that embedded the items; 0 .. 128 bytes
  std::string to;    // of the newer one, whose failures are foretold; 0 .. 128 bytes
  FailureHead head;
  ClassMeans means;    // of `from`
  int64_t images = 0;  // it was fitted from so many, a gallery of its own; for people
  int64_t wrong = 0;   // of them `to` retrieved wrongly

  bool operator==(const FailureHeadFile&) const = default;
};

// The file's bytes. INVALID_ARGUMENT: as FailureHead::Validate; no class, or means that are no whole rows or not
// finite; a label too long or not UTF-8.
absl::StatusOr<std::string> EncodeFailureHead(const FailureHeadFile& file);

// DATA_LOSS: not such a file, truncated, or a checksum fails (says which section). FAILED_PRECONDITION: a newer format.
// INVALID_ARGUMENT: a field missing, of another type or out of range. Whatever the bytes, memory stays in proportion.
absl::StatusOr<FailureHeadFile> ParseFailureHead(std::string_view bytes);

// Atomic writes; reads of at most 2 GiB. Errors carry the path; NOT_FOUND when there is no file.
absl::Status WriteFailureHead(const std::string& path, const FailureHeadFile& file);
absl::StatusOr<FailureHeadFile> ReadFailureHead(const std::string& path);

}  // namespace lightcone

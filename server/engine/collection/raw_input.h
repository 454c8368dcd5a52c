// Raw inputs as the store keeps them (docs/reference/formats/engine.md). Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// 'I' and the image file, or 'T', the count of dimensions (1 byte), the dimensions (uint32) and the values (float32),
// all little endian. REQUIRES: at most 255 dimensions.
std::string EncodeInput(const RawInput& input);
// DATA_LOSS when the bytes are neither, or a tensor of another size than its dimensions say.
absl::StatusOr<RawInput> DecodeInput(std::string_view bytes);

// Of the image file, or of the tensor's values.
int64_t InputBytes(const RawInput& input);

}  // namespace lightcone::server

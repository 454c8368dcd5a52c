// Raw inputs as the store keeps them (docs/reference/formats/engine.md). Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// 'I' and the image file; 'X' and the text; or 'T', the count of dimensions (1 byte), the dimensions (uint32) and the
// values (float32), all little endian. REQUIRES: at most 255 dimensions.
std::string EncodeInput(const RawInput& input);
// DATA_LOSS when the bytes are none of them, a text that is not UTF-8, or a tensor of another size than its dimensions
// say.
absl::StatusOr<RawInput> DecodeInput(std::string_view bytes);

// Of the image file, of the text, or of the tensor's values.
int64_t InputBytes(const RawInput& input);

// "an image", "a tensor", "a text".
std::string_view KindOf(const RawInput& input);

// INVALID_ARGUMENT at `field`: larger than the limits allow; or a text that is empty or not UTF-8.
absl::Status CheckInput(const RawInput& input, const Limits& limits, const std::string& field);

}  // namespace lightcone::server

#include "server/engine/collection/raw_input.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone::server {

static_assert(std::endian::native == std::endian::little, "stored tensors are little endian");

std::string EncodeInput(const RawInput& input) {
  if (const auto* file = std::get_if<std::string>(&input)) return "I" + *file;
  const auto& tensor = std::get<TensorInput>(input);
  LC_DCHECK(tensor.shape.size() <= UINT8_MAX);
  std::string out(2 + tensor.shape.size() * 4 + tensor.values.size() * 4, '\0');
  out[0] = 'T';
  out[1] = static_cast<char>(tensor.shape.size());
  std::memcpy(out.data() + 2, tensor.shape.data(), tensor.shape.size() * 4);
  std::memcpy(out.data() + 2 + tensor.shape.size() * 4, tensor.values.data(), tensor.values.size() * 4);
  return out;
}

absl::StatusOr<RawInput> DecodeInput(std::string_view bytes) {
  if (!bytes.empty() && bytes[0] == 'I') return RawInput(std::string(bytes.substr(1)));
  const auto damaged = [] { return DataLoss("raw input: neither an image nor a whole tensor"); };
  if (bytes.size() < 2 || bytes[0] != 'T') return damaged();
  const size_t dimensions = static_cast<uint8_t>(bytes[1]);
  bytes.remove_prefix(2);
  if (bytes.size() < dimensions * 4) return damaged();
  TensorInput tensor;
  tensor.shape.resize(dimensions);
  if (dimensions > 0) std::memcpy(tensor.shape.data(), bytes.data(), dimensions * 4);
  bytes.remove_prefix(dimensions * 4);
  uint64_t left = bytes.size() / 4;
  uint64_t values = 1;
  for (const uint32_t n : tensor.shape) {
    if (n != 0 && values > left / n) return damaged();
    values *= n;
  }
  if (bytes.size() != values * 4) return damaged();
  tensor.values.resize(values);
  if (values > 0) std::memcpy(tensor.values.data(), bytes.data(), bytes.size());
  return RawInput(std::move(tensor));
}

int64_t InputBytes(const RawInput& input) {
  if (const auto* file = std::get_if<std::string>(&input)) return static_cast<int64_t>(file->size());
  return static_cast<int64_t>(std::get<TensorInput>(input).values.size() * sizeof(float));
}

}  // namespace lightcone::server

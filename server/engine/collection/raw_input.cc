#include "server/engine/collection/raw_input.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "base/utf8.h"

namespace lightcone::server {

static_assert(std::endian::native == std::endian::little, "stored tensors are little endian");

std::string EncodeInput(const RawInput& input) {
  if (const auto* file = std::get_if<std::string>(&input)) return "I" + *file;
  if (const auto* text = std::get_if<TextInput>(&input)) return "X" + text->text;
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
  const auto damaged = [] { return DataLoss("raw input: neither an image nor a text nor a whole tensor"); };
  if (!bytes.empty() && bytes[0] == 'X') {
    bytes.remove_prefix(1);
    return IsUtf8(bytes) ? absl::StatusOr<RawInput>(TextInput{std::string(bytes)}) : damaged();
  }
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
  if (const auto* text = std::get_if<TextInput>(&input)) return static_cast<int64_t>(text->text.size());
  return static_cast<int64_t>(std::get<TensorInput>(input).values.size() * sizeof(float));
}

std::string_view KindOf(const RawInput& input) {
  if (std::holds_alternative<std::string>(input)) return "an image";
  return std::holds_alternative<TextInput>(input) ? "a text" : "a tensor";
}

absl::Status CheckInput(const RawInput& input, const Limits& limits, const std::string& field) {
  const auto* const text = std::get_if<TextInput>(&input);
  if (text == nullptr) {
    if (InputBytes(input) <= limits.input_bytes_max) return absl::OkStatus();
    return InvalidField(field, StrCat(InputBytes(input), " bytes long"), StrCat("at most ", limits.input_bytes_max));
  }
  if (text->text.empty()) return InvalidField(field + ".text", "empty", "a text in UTF-8");
  if (InputBytes(input) > limits.text_bytes_max) {
    return InvalidField(field + ".text", StrCat(text->text.size(), " bytes long"),
                        StrCat("at most ", limits.text_bytes_max, " (limits.text_bytes_max)"));
  }
  const auto bad = FirstNotUtf8(text->text);
  if (!bad) return absl::OkStatus();
  return InvalidField(field + ".text", StrCat("not UTF-8: byte ", *bad, " is ", HexByte(text->text[*bad])), "UTF-8");
}

}  // namespace lightcone::server

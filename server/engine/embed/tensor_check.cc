#include "server/engine/embed/tensor_check.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "base/status.h"

namespace lightcone::server {
namespace {

std::string ShapeText(std::span<const uint32_t> shape) {
  std::string text;
  for (const uint32_t n : shape) text += StrCat(text.empty() ? "" : " x ", n);
  return text.empty() ? "without a shape" : text;
}

}  // namespace

absl::Status CheckTensor(const TensorInput& tensor, const ManifestInput& input, const std::string& field) {
  const uint32_t shape[] = {static_cast<uint32_t>(input.channels), static_cast<uint32_t>(input.height),
                            static_cast<uint32_t>(input.width)};
  if (!std::equal(tensor.shape.begin(), tensor.shape.end(), std::begin(shape), std::end(shape))) {
    return InvalidField(field + ".tensor.shape", ShapeText(tensor.shape),
                        ShapeText(shape) + ", channels x height x width of this generation's encoder");
  }
  const size_t count = size_t{shape[0]} * shape[1] * shape[2];
  if (tensor.values.size() != count) {
    return InvalidField(field + ".tensor", StrCat(tensor.values.size(), " numbers"), StrCat(count, " numbers"));
  }
  const auto bad = std::find_if(tensor.values.begin(), tensor.values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == tensor.values.end()) return absl::OkStatus();
  return InvalidField(StrCat(field, ".tensor[", bad - tensor.values.begin(), "]"), StrCat(*bad), "a finite number");
}

absl::Status NoText(const std::string& field) {
  return InvalidField(field + ".text", "given", "an image or a tensor: this generation's encoder takes no text");
}

}  // namespace lightcone::server

#include "base/dcheck.h"
#include "trainer/device_images_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

Tensor Centred(int64_t size, torch::Device device) {
  return torch::arange(size, torch::dtype(torch::kFloat64).device(device)) - static_cast<double>(size - 1) / 2.0;
}

Tensor OnDevice(const std::vector<float>& values, torch::Device device) { return torch::tensor(values).to(device); }

}  // namespace

DeviceImages::DeviceImages(const ImageSet& set, const Normalisation& normalisation, torch::Device device)
    : height_(set.height), width_(set.width), channels_(set.channels) {
  LC_DCHECK(set.in_memory());
  // from_blob takes no const pointer; what it gives is copied, never written. (On the CPU `to` would not copy.)
  pixels_ = torch::from_blob(const_cast<uint8_t*>(set.pixels.data()), {set.size(), height_ * width_, channels_},
                             torch::kUInt8)
                .to(device, torch::kUInt8, /*non_blocking=*/false, /*copy=*/true);
  mean_ = OnDevice(normalisation.mean, device);
  inverse_ = 1.0 / OnDevice(normalisation.stddev, device);
  x_ = Centred(width_, device).unsqueeze(0);
  y_ = Centred(height_, device).unsqueeze(1);
}

Tensor DeviceImages::Changed(std::span<const int64_t> rows, AugmentKind kind,
                             std::span<const ImageChange> changes) const {
  const torch::Device device = pixels_.device();
  const int64_t n = static_cast<int64_t>(rows.size());
  const auto upload = [device](const void* numbers, torch::IntArrayRef shape, torch::ScalarType type) {
    return torch::from_blob(const_cast<void*>(numbers), shape, type).to(device, /*non_blocking=*/true);
  };
  const Tensor images = pixels_.index_select(0, upload(rows.data(), {n}, torch::kInt64));
  const Tensor change =
      upload(changes.data(), {n, 6}, torch::kFloat64).unsqueeze(2).unsqueeze(3);  // shape [n, 6, 1, 1]
  const auto number = [&change](int64_t i) { return change.select(1, i); };
  const Tensor dx = x_ - number(4), dy = y_ - number(5);  // shapes [n, 1, w] and [n, h, 1]
  const double right = static_cast<double>(width_ - 1), bottom = static_cast<double>(height_ - 1);
  const Tensor sx = number(0) * dx + number(1) * dy + right / 2.0, sy = number(2) * dx + number(3) * dy + bottom / 2.0;
  // [n, h w, c] float32: pixels at whole places inside the image.
  const auto at = [&](const Tensor& x, const Tensor& y) {
    const Tensor place = (y * static_cast<double>(width_) + x).to(torch::kInt64).reshape({n, height_ * width_, 1});
    return images.gather(1, place.expand({n, height_ * width_, channels_})).to(torch::kFloat32);
  };
  const Tensor cx = torch::clamp(sx, 0.0, right), cy = torch::clamp(sy, 0.0, bottom);
  Tensor values;
  if (kind == AugmentKind::kDrawing) {
    const Tensor x0 = torch::floor(cx), y0 = torch::floor(cy);
    const Tensor x1 = torch::clamp_max(x0 + 1, right), y1 = torch::clamp_max(y0 + 1, bottom);
    const auto share = [&](const Tensor& s) { return s.to(torch::kFloat32).reshape({n, height_ * width_, 1}); };
    const Tensor fx = share(cx - x0), fy = share(cy - y0);
    const Tensor top = torch::lerp(at(x0, y0), at(x1, y0), fx), low = torch::lerp(at(x0, y1), at(x1, y1), fx);
    values = torch::lerp(top, low, fy);
  } else {
    const Tensor inside = torch::logical_and(sx == cx, sy == cy).reshape({n, height_ * width_, 1});
    values = at(cx, cy) * inside;
  }
  return ((values / 255.0 - mean_) * inverse_).reshape({n, height_, width_, channels_}).permute({0, 3, 1, 2});
}

}  // namespace lightcone

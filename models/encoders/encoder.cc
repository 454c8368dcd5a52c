#include "models/encoders/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "models/encoders/device.h"
#include "models/encoders/encoder_torch.h"

namespace lightcone {
namespace {

constexpr int64_t kEncoderBytesMax = int64_t{8} << 30;

absl::Status CheckOptions(const EncoderOptions& options) {
  if (options.threads < 0 || options.threads > 256) {
    return InvalidField("encoder.threads", StrCat(options.threads), "0 .. 256");
  }
  if (options.batch_max < 1 || options.batch_max > 65536) {
    return InvalidField("encoder.batch_max", StrCat(options.batch_max), "1 .. 65536");
  }
  return absl::OkStatus();
}

torch::Tensor Run(const torch::jit::Module& module, const torch::Tensor& nchw) {
  torch::NoGradGuard no_grad;
  // Without the profiling executor the first calls are as fast as later ones, and two calls run the same code.
  torch::jit::GraphOptimizerEnabledGuard no_profiling(false);
  torch::jit::Module handle = module;  // forward is not const; the copy shares everything
  return handle.forward({nchw}).toTensor();
}

// Whether `module` gives what `original` gives, one image or several at a time. What either throws is thrown.
bool GivesTheSame(const torch::jit::Module& module, const torch::jit::Module& original, const ManifestInput& input) {
  for (const int64_t n : {1, 2}) {
    const int64_t numbers = n * input.channels * input.height * input.width;
    const torch::Tensor probe = torch::sin(torch::arange(numbers, torch::kFloat32) * 0.37)
                                    .reshape({n, input.channels, input.height, input.width});
    const torch::Tensor expected = Run(original, probe), z = Run(module, probe);
    if (z.sizes() != expected.sizes() || z.scalar_type() != expected.scalar_type()) return false;
    const double error = (z - expected).abs().max().item<double>();
    if (!(error <= 1e-5 * expected.abs().max().item<double>())) return false;
  }
  return true;
}

// Folds batch norms into convolutions, drops what only training needs, and lays weights and activations out as the
// processor's convolutions want them (once, instead of at every call). What torch cannot treat so, or treats wrongly
// (its passes know not every network; an operator's module may hold anything), is served as it is.
torch::jit::Module ForInference(const torch::jit::Module& module, const ManifestInput& input) {
  for (const bool layouts : {true, false}) {
    try {
      torch::jit::Module copy = module.clone();
      copy = layouts ? torch::jit::optimize_for_inference(copy) : torch::jit::freeze(copy);
      if (GivesTheSame(copy, module, input)) return copy;
    } catch (const std::exception&) {
      continue;
    }
  }
  return module;
}

// Whether memory was missing. The tensor library reports that with exceptions of its own, too.
bool LacksMemory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const std::string_view text = error.what();
  const auto says = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
  return says("can't allocate memory") || says("std::bad_alloc");
}

absl::StatusOr<torch::jit::Module> LoadModule(std::string bytes, const std::string& path, const Manifest& manifest,
                                              torch::Device device) {
  if (const uint32_t crc32c = Crc32c(bytes); crc32c != manifest.encoder_crc32c) {
    return DataLoss(StrCat("encoder '", path, "' (", bytes.size(), " bytes) is truncated or corrupt: CRC-32C is ",
                           crc32c, ", the manifest says ", manifest.encoder_crc32c));
  }
  try {
    std::istringstream in(std::move(bytes));
    torch::jit::Module module = torch::jit::load(in, device);
    module.eval();
    if (!module.find_method("forward")) return DataLoss(StrCat("encoder '", path, "' has no method 'forward'"));
    return device.is_cpu() ? ForInference(module, manifest.input) : module;  // layouts for a processor
  } catch (const std::exception& e) {
    if (LacksMemory(e)) return ResourceExhausted(StrCat("out of memory while encoder '", path, "' was loaded"));
    return DataLoss(StrCat("encoder '", path, "' is not a TorchScript file that this libtorch reads"));
  }
}

}  // namespace

torch::Tensor Encoder::Impl::Forward(const torch::Tensor& nchw) const { return Run(module, nchw.to(device)); }

Encoder::Encoder(Manifest manifest, EncoderOptions options, std::unique_ptr<Impl> impl)
    : manifest_(std::move(manifest)), options_(options), impl_(std::move(impl)) {}
Encoder::~Encoder() = default;

absl::StatusOr<std::string> Encoder::ReadBytes(const std::string& path) { return ReadFile(path, kEncoderBytesMax); }

void Encoder::WarmUp(int threads) {
  try {
    if (threads > 0) at::set_num_threads(threads);
    torch::NoGradGuard no_grad;
    const torch::Tensor image = torch::rand({1, 1, 8, 8});
    const torch::Tensor z = torch::conv2d(image, torch::ones({1, 1, 3, 3})).reshape({6, 6}).matmul(torch::ones({6, 6}));
    at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});
    z.sum().item<float>();
    TORCH_CHECK(false, "an exception, whose stack is looked up");
  } catch (const std::exception&) {
    return;  // What fails here fails when the encoder is loaded, where it is told.
  }
}

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::Load(const std::string& path, const Manifest& manifest,
                                                       const EncoderOptions& options) {
  LC_RETURN_IF_ERROR(manifest.Validate());
  LC_ASSIGN_OR_RETURN(std::string file, ReadBytes(path));
  return LoadBytes(std::move(file), path, manifest, options);
}

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::LoadBytes(std::string file, const std::string& path,
                                                            const Manifest& manifest, const EncoderOptions& options) {
  LC_RETURN_IF_ERROR(manifest.Validate());
  LC_RETURN_IF_ERROR(CheckOptions(options));
  LC_ASSIGN_OR_RETURN(const std::string device_name, DeviceFor(options.device, "encoder.device"));
  const torch::Device device(device_name);
  LC_ASSIGN_OR_RETURN(torch::jit::Module module, LoadModule(std::move(file), path, manifest, device));
  if (options.threads > 0) at::set_num_threads(options.threads);
  auto impl = std::make_unique<Impl>(Impl{std::move(module), device});
  const ManifestInput& input = manifest.input;
  std::string found;
  try {
    const torch::Tensor z = impl->Forward(torch::zeros({1, input.channels, input.height, input.width}));
    if (z.dim() == 2 && z.size(0) == 1 && z.size(1) == manifest.dimension && z.scalar_type() == torch::kFloat32) {
      return std::unique_ptr<Encoder>(new Encoder(manifest, options, std::move(impl)));
    }
    std::ostringstream shape;
    shape << z.sizes() << " " << z.scalar_type();
    found = shape.str();
  } catch (const std::exception& e) {
    if (LacksMemory(e)) return ResourceExhausted(StrCat("out of memory while encoder '", path, "' was tried"));
    found = "an error for an input of manifest.input's size";
  }
  return FieldError(absl::StatusCode::kFailedPrecondition, "encoder.output", found,
                    StrCat("float32 [n, ", manifest.dimension, "] as the manifest of '", path, "' says"));
}

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::LoadFolder(const std::string& folder, const EncoderOptions& options) {
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  return Load(folder + "/" + manifest.encoder_file, manifest, options);
}

namespace {

absl::Status CheckImage(const Image& image, size_t position) {
  const std::string field = StrCat("images[", position, "]");
  if (image.height < 1 || image.width < 1) {
    return InvalidField(field, StrCat(image.height, " x ", image.width), "at least 1 x 1 pixels");
  }
  if (image.channels != 1 && image.channels != 3) {
    return InvalidField(field + ".channels", StrCat(image.channels), "1 or 3");
  }
  const size_t expected = static_cast<size_t>(image.height) * image.width * image.channels;
  if (image.pixels.size() != expected) {
    return InvalidField(field + ".pixels", StrCat(image.pixels.size(), " bytes"), StrCat(expected, " bytes"));
  }
  return absl::OkStatus();
}

// uint8 height x width x channels -> normalised planes.
void Normalise(const uint8_t* pixels, const ManifestInput& input, float* planes) {
  const int64_t area = int64_t{input.height} * input.width;
  for (int c = 0; c < input.channels; ++c) {
    const float scale = 1.0f / (255.0f * input.stddev[c]), shift = input.mean[c] / input.stddev[c];
    for (int64_t i = 0; i < area; ++i) planes[c * area + i] = pixels[i * input.channels + c] * scale - shift;
  }
}

absl::Status RunForward(const Encoder::Impl& impl, const torch::Tensor& nchw, int dimension, float* out) {
  try {
    const torch::Tensor z = impl.Forward(nchw).to(torch::kCPU).contiguous();
    if (z.dim() != 2 || z.size(0) != nchw.size(0) || z.size(1) != dimension || z.scalar_type() != torch::kFloat32) {
      return Internal("the encoder gave an output of another shape than when it was loaded");
    }
    std::memcpy(out, z.data_ptr<float>(), static_cast<size_t>(z.numel()) * sizeof(float));
    return absl::OkStatus();
  } catch (const std::exception& e) {
    if (LacksMemory(e)) return ResourceExhausted("encoder: out of memory");
    return Internal(StrCat("encoder: ", e.what()));
  }
}

// Runs `count` images in batches of at most `batch_max`; `fill(begin, n, planes)` writes the network's input.
template <typename Fill>
absl::StatusOr<std::vector<float>> EmbedBatches(const Encoder& encoder, int64_t count, int64_t batch_max, Fill fill) {
  const ManifestInput& input = encoder.manifest().input;
  const int d = encoder.dimension();
  std::vector<float> out(static_cast<size_t>(count) * d);
  for (int64_t begin = 0; begin < count; begin += batch_max) {
    const int64_t n = std::min(batch_max, count - begin);
    torch::Tensor batch = torch::empty({n, input.channels, input.height, input.width});
    fill(begin, n, batch.data_ptr<float>());
    LC_RETURN_IF_ERROR(RunForward(encoder.impl(), batch, d, out.data() + begin * d));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<float>> Encoder::EmbedImages(std::span<const Image> images) const {
  const ManifestInput& input = manifest_.input;
  const int64_t plane_floats = int64_t{input.height} * input.width * input.channels;
  for (size_t i = 0; i < images.size(); ++i) LC_RETURN_IF_ERROR(CheckImage(images[i], i));
  return EmbedBatches(
      *this, static_cast<int64_t>(images.size()), options_.batch_max, [&](int64_t begin, int64_t n, float* planes) {
        for (int64_t i = 0; i < n; ++i) {
          const Image& image = images[begin + i];
          if (image.height == input.height && image.width == input.width && image.channels == input.channels) {
            Normalise(image.pixels.data(), input, planes + i * plane_floats);
          } else {
            const Image fitted = ResizeImage(image, input.height, input.width, input.channels);
            Normalise(fitted.pixels.data(), input, planes + i * plane_floats);
          }
        }
      });
}

absl::StatusOr<std::vector<float>> Encoder::EmbedPixels(std::span<const uint8_t> pixels, int64_t count) const {
  const ManifestInput& input = manifest_.input;
  const int64_t per_image = int64_t{input.height} * input.width * input.channels;
  if (count < 0 || static_cast<int64_t>(pixels.size()) != count * per_image) {
    return InvalidField("pixels", StrCat(pixels.size(), " bytes for ", count, " images"),
                        StrCat(per_image, " an image"));
  }
  return EmbedBatches(*this, count, options_.batch_max, [&](int64_t begin, int64_t n, float* planes) {
    for (int64_t i = 0; i < n; ++i) {
      Normalise(pixels.data() + (begin + i) * per_image, input, planes + i * per_image);
    }
  });
}

absl::StatusOr<std::vector<float>> Encoder::EmbedTensors(std::span<const float> nchw, int64_t n) const {
  const ManifestInput& input = manifest_.input;
  const int64_t per_image = int64_t{input.height} * input.width * input.channels;
  if (n < 0 || static_cast<int64_t>(nchw.size()) != n * per_image) {
    return InvalidField("tensor", StrCat(nchw.size(), " floats for ", n, " images"), StrCat(per_image, " an image"));
  }
  // A sum that is finite has finite terms only; one that overflowed has them, too, and is looked through.
  const torch::Tensor all = torch::from_blob(const_cast<float*>(nchw.data()), {static_cast<int64_t>(nchw.size())});
  const bool finite = std::isfinite(all.sum().item<float>());
  for (size_t i = 0; !finite && i < nchw.size(); ++i) {
    if (!std::isfinite(nchw[i])) return InvalidField(StrCat("tensor[", i, "]"), StrCat(nchw[i]), "finite numbers");
  }
  return EmbedBatches(*this, n, options_.batch_max, [&](int64_t begin, int64_t count, float* planes) {
    std::memcpy(planes, nchw.data() + begin * per_image, static_cast<size_t>(count * per_image) * sizeof(float));
  });
}

}  // namespace lightcone

#include "tests/system/rollout_content.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/strings.h"
#include "client/client.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"
#include "models/manifest.h"

namespace lightcone {
namespace {

constexpr int kEncoders = 3;
constexpr int kSide = 4;  // of an input: 1 x 4 x 4

// In [-0.5, 0.5), another row for every item and version.
std::vector<float> PixelsOf(uint64_t item, Version version) {
  std::vector<float> pixels = VectorOf(item + (uint64_t{1} << 40), version);
  const std::vector<float> more = VectorOf(item + (uint64_t{1} << 41), version);
  pixels.insert(pixels.end(), more.begin(), more.end());
  return pixels;
}

}  // namespace

uint32_t ServedBy(std::span<const uint32_t> generations, uint32_t view) {
  const auto above = std::upper_bound(generations.begin(), generations.end(), view);
  return above == generations.begin() ? 0 : *std::prev(above);
}

struct Content::Encoder {
  std::shared_ptr<EncoderNetwork> network;
  std::string manifest_json, file;
};

Content::Content(const std::string& folder) {
  for (int i = 0; i < kEncoders; ++i) {
    EncoderConfig config;
    config.architecture = "mlp";
    config.width = 0.0625;
    config.dimension = kDimension;
    config.height = config.width_px = kSide;
    config.channels = 1;
    auto encoder = std::make_unique<Encoder>();
    encoder->network = BuildNetwork(config, static_cast<uint64_t>(i) + 1).value();
    encoder->network->eval();
    const std::string path = StrCat(folder, "/encoder-", i, ".pt");
    Manifest manifest;
    manifest.name = StrCat("encoder-", i);
    manifest.architecture = "mlp";
    manifest.dimension = kDimension;
    manifest.input = {kSide, kSide, 1, {0.0f}, {1.0f}};
    manifest.encoder_crc32c = ExportTorchScript(*encoder->network, path).value();
    encoder->manifest_json = ToJson(manifest);
    encoder->file = ReadFile(path).value();
    encoders_.push_back(std::move(encoder));
  }
}

Content::~Content() = default;

v1::RegisterRequest Content::RegistrationOf(uint32_t generation) const {
  const Encoder& encoder = *encoders_[generation % kEncoders];
  v1::RegisterRequest request;
  request.set_collection(kRollout);
  request.set_manifest_json(encoder.manifest_json);
  request.set_encoder(encoder.file);
  request.set_parent(generation - 1);
  return request;
}

v1::RawInput Content::InputOf(uint64_t item, Version version) const {
  v1::RawInput input;
  v1::Tensor* const tensor = input.mutable_tensor();
  for (const uint32_t size : {1, kSide, kSide}) tensor->add_shape(size);
  const std::vector<float> pixels = PixelsOf(item, version);
  tensor->set_f32_le(std::string(reinterpret_cast<const char*>(pixels.data()), pixels.size() * sizeof(float)));
  return input;
}

std::string Content::PayloadOf(uint64_t item, Version version) const {
  return StrCat("{\"class\":\"c", item % kClasses, "\",\"item\":", item, ",\"version\":", version, "}");
}

std::vector<float> Content::VectorOf(uint64_t item, Version version, uint32_t generation) const {
  if (!KeepsInput(item)) {
    // Near to one another, as those of compatible models, and never the same.
    std::vector<float> vector = lightcone::VectorOf(item, version);
    const std::vector<float> drift = lightcone::VectorOf(generation, uint64_t{1} << 42);
    for (size_t i = 0; i < vector.size(); ++i) vector[i] += 0.05f * drift[i];
    return vector;
  }
  absl::MutexLock lock(&mu_);
  std::vector<float>& made = embedded_[{item, version, generation % kEncoders}];
  if (!made.empty()) return made;
  std::vector<float> pixels = PixelsOf(item, version);
  const torch::NoGradGuard no_gradient;
  const torch::Tensor z =
      encoders_[generation % kEncoders]->network->forward(torch::from_blob(pixels.data(), {1, 1, kSide, kSide}));
  const torch::Tensor row = z.contiguous();
  made.assign(row.data_ptr<float>(), row.data_ptr<float>() + row.numel());
  return made;
}

bool Content::Matches(std::span<const float> vector, uint64_t item, Version version, uint32_t generation) const {
  const std::vector<float> expected = VectorOf(item, version, generation);
  // A batch of many inputs rounds as it likes.
  const float tolerance = KeepsInput(item) ? 1e-5f : 0.0f;
  return std::equal(vector.begin(), vector.end(), expected.begin(), expected.end(),
                    [&](float a, float b) { return std::abs(a - b) <= tolerance; });
}

v1::UpsertRequest Content::UpsertOf(const std::set<uint64_t>& items, Version version, uint32_t generation) const {
  v1::UpsertRequest request;
  request.set_collection(kRollout);
  request.set_generation(generation);
  request.set_durability(version % 2 == 0 ? v1::DURABILITY_PROCESS : v1::DURABILITY_DURABLE);
  request.set_keep_input(KeepsInput(*items.begin()));
  for (const uint64_t item : items) {
    v1::Item* const added = request.add_items();
    added->mutable_id()->set_number(item);
    added->set_payload_json(PayloadOf(item, version));
    if (KeepsInput(item)) {
      *added->mutable_input() = InputOf(item, version);
      continue;
    }
    const std::vector<float> vector = VectorOf(item, version, generation);
    client::SetVector(vector.data(), kDimension, added->mutable_vector());
  }
  return request;
}

}  // namespace lightcone

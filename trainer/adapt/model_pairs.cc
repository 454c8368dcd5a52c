#include "trainer/adapt/model_pairs.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/status.h"
#include "trainer/data/augment.h"
#include "trainer/evaluate.h"

namespace lightcone {
namespace {

constexpr int64_t kBlockImages = 1024;  // images decoded at once, as the set may exceed memory

// Writes a changed copy of `pixels` over it, as pixels again, so that each model normalises it its own way.
void Change(const ImageSet& set, AugmentKind kind, uint64_t seed, uint8_t* pixels) {
  const size_t channels = static_cast<size_t>(set.channels);
  const size_t plane = static_cast<size_t>(set.height) * static_cast<size_t>(set.width);
  const Normalisation to_pixels{std::vector<float>(channels, 0.0f), std::vector<float>(channels, 1.0f / 255.0f)};
  std::vector<float> changed(plane * channels);
  AugmentImage(kind, pixels, set.height, set.width, set.channels, seed, to_pixels, changed.data());
  for (size_t p = 0; p < plane; ++p) {
    for (size_t c = 0; c < channels; ++c) {
      pixels[p * channels + c] = static_cast<uint8_t>(std::lround(std::clamp(changed[c * plane + p], 0.0f, 255.0f)));
    }
  }
}

// Images [begin, begin + n) of `set` in memory; view 0 is the plain one.
absl::StatusOr<ImageSet> ViewOf(const ImageSet& set, int64_t begin, int64_t n, AugmentKind kind, int view,
                                uint64_t seed) {
  ImageSet block;
  block.height = set.height;
  block.width = set.width;
  block.channels = set.channels;
  block.labels.assign(set.labels.begin() + begin, set.labels.begin() + begin + n);
  block.pixels.resize(static_cast<size_t>(n * set.bytes_per_image()));
  for (int64_t i = 0; i < n; ++i) {
    uint8_t* out = block.pixels.data() + i * set.bytes_per_image();
    LC_RETURN_IF_ERROR(set.Read(begin + i, out));
    if (view == 0) continue;
    Change(set, kind, MixSeed({seed, 0x71e5u, static_cast<uint64_t>(view), static_cast<uint64_t>(begin + i)}), out);
  }
  return block;
}

// Calls `use` with one view of all images after another, in blocks.
template <typename Use>
absl::Status ForEachBlock(const ImageSet& images, AugmentKind kind, int view, uint64_t seed, const Use& use) {
  for (int64_t begin = 0; begin < images.size(); begin += kBlockImages) {
    const int64_t n = std::min(kBlockImages, images.size() - begin);
    LC_ASSIGN_OR_RETURN(const ImageSet block, ViewOf(images, begin, n, kind, view, seed));
    LC_RETURN_IF_ERROR(use(block));
  }
  return absl::OkStatus();
}

absl::Status Append(const Encoder& encoder, const ImageSet& images, std::vector<float>& z) {
  LC_ASSIGN_OR_RETURN(const std::vector<float> more, EmbedSplit(encoder, images));
  z.insert(z.end(), more.begin(), more.end());
  return absl::OkStatus();
}

absl::Status CheckChannels(const char* field, const Encoder& encoder, const ImageSet& images) {
  const int channels = encoder.manifest().input.channels;
  if (channels == images.channels) return absl::OkStatus();
  return InvalidField(StrCat(field, ".input.channels"), StrCat(channels), StrCat(images.channels, ", as the data set"));
}

}  // namespace

int ViewsFor(int64_t images) {
  constexpr int64_t kPairs = 64'000, kMany = 10'000, kMax = 32;
  if (images >= kMany) return 1;
  return static_cast<int>(std::min<int64_t>(kPairs / std::max<int64_t>(images, 1), kMax));
}

absl::StatusOr<ModelPairs> EmbedPairs(const Encoder& old_model, const Encoder& new_model, const ImageSet& images,
                                      AugmentKind kind, int views, uint64_t seed) {
  if (views < 1 || views > kViewsMax) return InvalidField("views", StrCat(views), StrCat("1 .. ", kViewsMax));
  LC_RETURN_IF_ERROR(CheckChannels("old_model", old_model, images));
  LC_RETURN_IF_ERROR(CheckChannels("new_model", new_model, images));
  ModelPairs pairs;
  for (int view = 0; view < views; ++view) {
    LC_RETURN_IF_ERROR(ForEachBlock(images, kind, view, seed, [&](const ImageSet& block) {
      LC_RETURN_IF_ERROR(Append(old_model, block, pairs.old_z));
      return Append(new_model, block, pairs.new_z);
    }));
    pairs.labels.insert(pairs.labels.end(), images.labels.begin(), images.labels.end());
    for (int64_t i = 0; i < images.size(); ++i) pairs.items.push_back(static_cast<int32_t>(i));
  }
  return pairs;
}

absl::StatusOr<std::vector<float>> EmbedView(const Encoder& model, const ImageSet& images, AugmentKind kind, int view,
                                             uint64_t seed) {
  if (view < 1 || view >= kViewsMax) return InvalidField("view", StrCat(view), StrCat("1 .. ", kViewsMax - 1));
  LC_RETURN_IF_ERROR(CheckChannels("model", model, images));
  std::vector<float> z;
  LC_RETURN_IF_ERROR(
      ForEachBlock(images, kind, view, seed, [&](const ImageSet& block) { return Append(model, block, z); }));
  return z;
}

}  // namespace lightcone

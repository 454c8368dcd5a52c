#include "server/embed_worker/input_encoder.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/exceptions.h"
#include "base/status.h"
#include "models/image_fit.h"
#include "models/manifest.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/tensor_check.h"

namespace lightcone::server {
namespace {

// What an encoder takes of one input.
struct Prepared {
  absl::Status status;
  std::vector<uint8_t> pixels;  // of the encoder's size, or
  std::vector<float> tensor;
};

Prepared Prepare(std::string_view stored, const ImageLimits& limits, const ManifestInput* want) {
  Prepared made;
  absl::StatusOr<RawInput> input = DecodeInput(stored);
  made.status = input.status();
  if (!input.ok()) return made;
  if (std::holds_alternative<TextInput>(*input)) {
    made.status = NoText("input");
    return made;
  }
  if (auto* tensor = std::get_if<TensorInput>(&*input)) {
    if (want != nullptr) made.status = CheckTensor(*tensor, *want, "input");
    made.tensor = std::move(tensor->values);
    return made;
  }
  const ImageFit fit = want == nullptr ? ImageFit() : ImageFit{want->height, want->width};
  const absl::StatusOr<Image> image = DecodeImageFor(std::get<std::string>(*input), limits, fit);
  made.status = Annotate(image.status(), "input");
  if (image.ok() && want != nullptr) {
    made.pixels = ResizeImage(*image, want->height, want->width, want->channels).pixels;
  }
  return made;
}

// A lack of memory is the error of one input.
Prepared PrepareSafely(std::string_view stored, const ImageLimits& limits, const ManifestInput* want) {
  try {
    return Prepare(stored, limits, want);
  } catch (...) {
    Prepared failed;
    failed.status = StatusOfException();
    return failed;
  }
}

// Side by side on at most `threads`: decoding an image takes as long as a small network.
std::vector<Prepared> PrepareAll(std::span<const std::string_view> inputs, const ImageLimits& limits,
                                 const ManifestInput* want, size_t threads) {
  std::vector<Prepared> all(inputs.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < inputs.size(); i = next++) all[i] = PrepareSafely(inputs[i], limits, want);
  };
  std::vector<std::thread> helpers(std::min(threads, inputs.size()) - 1);
  try {
    for (std::thread& helper : helpers) helper = std::thread(work);
  } catch (const std::exception&) {  // fewer threads do the same work
  }
  work();
  for (std::thread& helper : helpers) {
    if (helper.joinable()) helper.join();
  }
  return all;
}

template <typename T>
std::vector<T> Joined(const std::vector<Prepared>& all, std::span<const size_t> rows, std::vector<T> Prepared::*part) {
  std::vector<T> joined;
  for (const size_t row : rows) joined.insert(joined.end(), (all[row].*part).begin(), (all[row].*part).end());
  return joined;
}

void Distribute(const absl::StatusOr<std::vector<float>>& vectors, std::span<const size_t> rows, size_t dimension,
                EmbeddedInputs* outputs) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!vectors.ok()) {
      (*outputs)[rows[i]] = vectors.status();
      continue;
    }
    const float* const row = vectors->data() + i * dimension;
    (*outputs)[rows[i]] = std::vector<float>(row, row + dimension);
  }
}

// An error of loading, with the generation that it is about.
absl::Status OfGeneration(const absl::Status& status, const EmbedSetup& setup) {
  return setup.generation == 0 ? status : Annotate(status, StrCat("load the encoder of generation ", setup.generation));
}

}  // namespace

absl::StatusOr<std::string> InputEncoder::ReadEncoder(const EmbedSetup& setup) {
  if (setup.encoder_path.empty()) return std::string();
  absl::StatusOr<std::string> file = Encoder::ReadBytes(setup.encoder_path);
  if (!file.ok()) return OfGeneration(file.status(), setup);
  Encoder::WarmUp(setup.threads);
  return file;
}

absl::StatusOr<InputEncoder> InputEncoder::Load(const EmbedSetup& setup, std::string encoder) {
  if (setup.encoder_path.empty()) return InputEncoder(nullptr, setup);
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(setup.manifest_json));
  auto loaded = Encoder::LoadBytes(std::move(encoder), setup.encoder_path, manifest, {setup.threads, setup.batch_max});
  if (!loaded.ok()) return OfGeneration(loaded.status(), setup);
  return InputEncoder(*std::move(loaded), setup);
}

absl::StatusOr<InputEncoder> InputEncoder::Load(const EmbedSetup& setup) {
  LC_ASSIGN_OR_RETURN(std::string encoder, ReadEncoder(setup));
  return Load(setup, std::move(encoder));
}

EmbeddedInputs InputEncoder::Embed(std::span<const std::string_view> inputs) const {
  EmbeddedInputs outputs;
  // A piece is one run of the network: what fails there fails alone.
  for (size_t begin = 0; begin < inputs.size(); begin += batch_max_) {
    EmbeddedInputs piece = EmbedTogether(inputs.subspan(begin, std::min(batch_max_, inputs.size() - begin)));
    std::move(piece.begin(), piece.end(), std::back_inserter(outputs));
  }
  return outputs;
}

EmbeddedInputs InputEncoder::EmbedTogether(std::span<const std::string_view> inputs) const {
  const std::vector<Prepared> all =
      PrepareAll(inputs, limits_, encoder_ == nullptr ? nullptr : &encoder_->manifest().input, decode_threads_);
  EmbeddedInputs outputs(inputs.size(), std::vector<float>());
  std::vector<size_t> images, tensors;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].status.ok()) {
      outputs[i] = all[i].status;
    } else {
      (all[i].tensor.empty() ? images : tensors).push_back(i);
    }
  }
  if (encoder_ == nullptr) return outputs;
  const auto dimension = static_cast<size_t>(encoder_->dimension());
  if (!images.empty()) {
    const auto count = static_cast<int64_t>(images.size());
    Distribute(encoder_->EmbedPixels(Joined(all, images, &Prepared::pixels), count), images, dimension, &outputs);
  }
  if (!tensors.empty()) {
    const auto count = static_cast<int64_t>(tensors.size());
    Distribute(encoder_->EmbedTensors(Joined(all, tensors, &Prepared::tensor), count), tensors, dimension, &outputs);
  }
  return outputs;
}

}  // namespace lightcone::server

#include "server/engine/embed/embedder.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/time/clock.h"
#include "base/priority.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/raw_input.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kEmbedderPoll = absl::Milliseconds(20);

std::string ShapeText(std::span<const uint32_t> shape) {
  std::string text;
  for (const uint32_t n : shape) text += StrCat(text.empty() ? "" : " x ", n);
  return text.empty() ? "without a shape" : text;
}

}  // namespace

Embedder::Embedder(const EmbedderOptions& options) : options_(options), thread_([this] { Work(); }) {}

Embedder::~Embedder() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status Embedder::Try(const std::string& path, const Manifest& manifest) const {
  return Encoder::Load(path, manifest, {options_.threads, options_.batch_max}).status();
}

absl::StatusOr<std::shared_ptr<const Encoder>> Embedder::EncoderOf(Key key, const std::string& path,
                                                                   const std::string& manifest_json) {
  absl::MutexLock lock(&load_mu_);
  const auto found = encoders_.find(key);
  if (found != encoders_.end()) return found->second;
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(manifest_json));
  auto loaded = Encoder::Load(path, manifest, {options_.threads, options_.batch_max});
  if (!loaded.ok()) return Annotate(loaded.status(), StrCat("load the encoder of generation ", key.second));
  std::shared_ptr<const Encoder> encoder = std::move(*loaded);
  encoders_[key] = encoder;
  return encoder;
}

void Embedder::Forget(uint32_t collection) {
  absl::MutexLock lock(&load_mu_);
  encoders_.erase(encoders_.lower_bound({collection, 0}), encoders_.upper_bound({collection, UINT32_MAX}));
}

absl::StatusOr<Embedder::Input> Embedder::Prepare(const RawInput& input, const Manifest& manifest,
                                                  const std::string& field) const {
  const ManifestInput& want = manifest.input;
  Input prepared;
  if (const auto* file = std::get_if<std::string>(&input)) {
    ImageLimits limits;
    limits.bytes_max = options_.input_bytes_max;
    auto image = DecodeImage(*file, limits);
    if (!image.ok()) return Annotate(image.status(), field);
    prepared.pixels = ResizeImage(*image, want.height, want.width, want.channels).pixels;
    return prepared;
  }
  const auto& tensor = std::get<TensorInput>(input);
  prepared.is_tensor = true;
  const uint32_t shape[] = {static_cast<uint32_t>(want.channels), static_cast<uint32_t>(want.height),
                            static_cast<uint32_t>(want.width)};
  const bool right_shape = std::equal(tensor.shape.begin(), tensor.shape.end(), std::begin(shape), std::end(shape));
  if (!right_shape) {
    return InvalidField(field + ".tensor.shape", ShapeText(tensor.shape),
                        ShapeText(shape) + ", channels x height x width of this generation's encoder");
  }
  const size_t count = size_t{shape[0]} * shape[1] * shape[2];
  if (tensor.values.size() != count) {
    return InvalidField(field + ".tensor", StrCat(tensor.values.size(), " numbers"), StrCat(count, " numbers"));
  }
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(tensor.values[i])) {
      return InvalidField(StrCat(field, ".tensor[", i, "]"), StrCat(tensor.values[i]), "a finite number");
    }
  }
  prepared.tensor = tensor.values;
  return prepared;
}

absl::StatusOr<EmbeddedInputs> Embedder::Embed(Key key, const std::string& encoder_path,
                                               const std::string& manifest_json,
                                               std::span<const RawInput* const> inputs,
                                               const std::function<std::string(size_t)>& field_of,
                                               const CallContext& context) {
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<const Encoder> encoder, EncoderOf(key, encoder_path, manifest_json));
  EmbeddedInputs outputs(inputs.size(), std::vector<float>());
  // A large call goes through the queue piece by piece, so that it neither fills it nor starves the others.
  for (size_t begin = 0; begin < inputs.size(); begin += static_cast<size_t>(options_.batch_max)) {
    const size_t end = std::min(inputs.size(), begin + static_cast<size_t>(options_.batch_max));
    Tickets tickets;
    std::vector<size_t> positions;
    for (size_t i = begin; i < end; ++i) {
      LC_RETURN_IF_ERROR(CheckAlive(context, "embed"));
      auto input = Prepare(*inputs[i], encoder->manifest(), field_of(i));
      if (!input.ok()) {
        outputs[i] = input.status();
        continue;
      }
      tickets.push_back(std::make_shared<Ticket>());
      tickets.back()->encoder = encoder;
      tickets.back()->input = std::move(*input);
      positions.push_back(i);
    }
    LC_RETURN_IF_ERROR(Serve(tickets, context));
    for (size_t t = 0; t < tickets.size(); ++t) outputs[positions[t]] = std::move(tickets[t]->output);
  }
  return outputs;
}

absl::StatusOr<EmbeddedInputs> Embedder::EmbedStored(Key key, const std::string& encoder_path,
                                                     const std::string& manifest_json,
                                                     std::span<const std::string_view> stored,
                                                     const CallContext& context) {
  EmbeddedInputs outputs;
  std::vector<RawInput> inputs;
  std::vector<size_t> places;
  for (const std::string_view bytes : stored) {
    absl::StatusOr<RawInput> input = DecodeInput(bytes);
    if (!input.ok()) {
      outputs.emplace_back(input.status());
      continue;
    }
    places.push_back(outputs.size());
    outputs.emplace_back(std::vector<float>());
    inputs.push_back(*std::move(input));
  }
  std::vector<const RawInput*> pointers;
  for (const RawInput& input : inputs) pointers.push_back(&input);
  const auto field_of = [](size_t) { return std::string("input"); };
  LC_ASSIGN_OR_RETURN(EmbeddedInputs vectors, Embed(key, encoder_path, manifest_json, pointers, field_of, context));
  for (size_t i = 0; i < places.size(); ++i) outputs[places[i]] = std::move(vectors[i]);
  return outputs;
}

absl::Status Embedder::Serve(const Tickets& tickets, const CallContext& context) {
  absl::MutexLock lock(&mu_);
  if (tickets.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(queue_.size() + tickets.size()) > options_.queue_max && !queue_.empty()) {
    return ResourceExhausted(StrCat(queue_.size(), " raw inputs are waiting to be embedded, of at most ",
                                    options_.queue_max, "; try again later"));
  }
  queue_.insert(queue_.end(), tickets.begin(), tickets.end());
  const auto served = [&tickets]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(tickets.begin(), tickets.end(), [](const auto& t) { return t->done; });
  };
  while (!mu_.AwaitWithDeadline(absl::Condition(&served), std::min(context.deadline, absl::Now() + kEmbedderPoll))) {
    const absl::Status alive = CheckAlive(context, "embed");
    if (alive.ok()) continue;
    for (const auto& ticket : tickets) queue_.erase(std::remove(queue_.begin(), queue_.end(), ticket), queue_.end());
    return alive;
  }
  return absl::OkStatus();
}

Embedder::Tickets Embedder::TakeBatch() {
  // Those at the front decide with whom they travel: the same network, the same kind of input.
  Tickets batch;
  const std::shared_ptr<Ticket> first = queue_.front();
  for (auto it = queue_.begin(); it != queue_.end() && batch.size() < static_cast<size_t>(options_.batch_max);) {
    if ((*it)->encoder == first->encoder && (*it)->input.is_tensor == first->input.is_tensor) {
      batch.push_back(*it);
      it = queue_.erase(it);
    } else {
      ++it;
    }
  }
  return batch;
}

EmbeddedInputs Embedder::Run(std::span<const std::shared_ptr<Ticket>> batch) {
  const Encoder& encoder = *batch[0]->encoder;
  const auto count = static_cast<int64_t>(batch.size());
  absl::StatusOr<std::vector<float>> all;
  if (batch[0]->input.is_tensor) {
    std::vector<float> tensors;
    for (const auto& t : batch) tensors.insert(tensors.end(), t->input.tensor.begin(), t->input.tensor.end());
    all = encoder.EmbedTensors(tensors, count);
  } else {
    std::vector<uint8_t> pixels;
    for (const auto& t : batch) pixels.insert(pixels.end(), t->input.pixels.begin(), t->input.pixels.end());
    all = encoder.EmbedPixels(pixels, count);
  }
  if (!all.ok() && batch.size() > 1 && (!options_.halves || Stopping()))
    return EmbeddedInputs(batch.size(), all.status());
  if (!all.ok() && batch.size() > 1) {  // because of one of them, it may be: the others' callers have no part in it
    EmbeddedInputs outputs = Run(batch.first(batch.size() / 2));
    EmbeddedInputs rest = Run(batch.subspan(batch.size() / 2));
    std::move(rest.begin(), rest.end(), std::back_inserter(outputs));
    return outputs;
  }
  if (!all.ok()) return {all.status()};
  EmbeddedInputs outputs;
  const auto dimension = static_cast<size_t>(encoder.dimension());
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto row = all->begin() + static_cast<std::ptrdiff_t>(i * dimension);
    outputs.emplace_back(std::vector<float>(row, row + static_cast<std::ptrdiff_t>(dimension)));
  }
  return outputs;
}

bool Embedder::Stopping() {
  absl::MutexLock lock(&mu_);
  return stopping_;
}

void Embedder::Work() {
  if (options_.niceness > 0) StandBack(options_.niceness);  // and the threads of its own
  while (true) {
    Tickets batch;
    {
      absl::MutexLock lock(&mu_);
      const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || !queue_.empty(); };
      mu_.Await(absl::Condition(&ready));
      if (stopping_) return;
      const auto full = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return stopping_ || queue_.size() >= static_cast<size_t>(options_.batch_max);
      };
      mu_.AwaitWithTimeout(absl::Condition(&full), options_.linger);
      if (stopping_) return;
      if (queue_.empty()) continue;  // They gave up meanwhile.
      batch = TakeBatch();
    }
    auto outputs = Run(batch);
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < batch.size(); ++i) {
      batch[i]->output = std::move(outputs[i]);
      batch[i]->done = true;
    }
  }
}

}  // namespace lightcone::server

#include "server/engine/embed/endpoint_encoders.h"

#include <vector>

#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/raw_input.h"

namespace lightcone::server {
namespace {

constexpr char kTrialText[] = "light cone";

}  // namespace

absl::StatusOr<EndpointManifest> EndpointOf(const GenerationRecord& generation) {
  const auto json = nlohmann::json::parse(generation.manifest_json, nullptr, /*allow_exceptions=*/false);
  const auto member = json.is_object() ? json.find("endpoint") : json.end();
  if (!json.is_object() || member == json.end()) {
    return DataLoss(StrCat("the manifest of generation ", generation.generation, " has no endpoint"));
  }
  return ReadEndpoint(*member);
}

EndpointEncoders::EndpointEncoders(const EngineOptions& options) : options_(options) {}

std::shared_ptr<EndpointEncoder> EndpointEncoders::Make(const EndpointManifest& endpoint, int dimension) {
  EndpointEncoderOptions options;
  options.endpoints = options_.endpoints;
  options.queue_max = options_.encoder_queue_max;
  options.linger = options_.encoder_linger;
  return std::make_shared<EndpointEncoder>(endpoint, dimension, std::move(options), &starter_);
}

absl::Status EndpointEncoders::Try(const EndpointManifest& endpoint, int dimension,
                                   const std::function<bool()>& cancelled) {
  LC_RETURN_IF_ERROR(CheckEndpointAllowed(endpoint, options_.endpoints));
  const std::shared_ptr<EndpointEncoder> encoder = Make(endpoint, dimension);
  {
    absl::MutexLock lock(&mu_);
    std::erase_if(trials_, [](const auto& trial) { return trial.expired(); });
    if (static_cast<int>(trials_.size()) >= options_.encoder_trials_max) {
      return ResourceExhausted(StrCat(trials_.size(), " endpoints are being tried, the most at once; try again later"));
    }
    trials_.push_back(encoder);
    if (stopping_) encoder->Stop();
  }
  CallContext context;
  context.deadline = absl::Now() + endpoint.timeout;
  context.cancelled = cancelled;
  const std::string text = kTrialText;
  LC_ASSIGN_OR_RETURN(const EmbeddedInputs outputs, encoder->Embed({&text, 1}, EmbedRole::kDocument, context));
  const absl::Status& status = outputs[0].status();
  return absl::IsInternal(status) ? InvalidArgument(MessageOf(status)) : status;
}

absl::StatusOr<std::shared_ptr<EndpointEncoder>> EndpointEncoders::Find(uint32_t collection,
                                                                        const GenerationRecord& generation) {
  const Key key{collection, generation.generation};
  std::vector<std::shared_ptr<EndpointEncoder>> idle;  // They end without the lock.
  const absl::Time now = absl::Now();
  {
    absl::MutexLock lock(&mu_);
    for (auto at = encoders_.begin(); at != encoders_.end();) {
      const bool ends = at->first != key && now - at->second.used > options_.endpoints.idle_max;
      if (ends) idle.push_back(std::move(at->second.encoder));
      at = ends ? encoders_.erase(at) : std::next(at);
    }
    if (const auto found = encoders_.find(key); found != encoders_.end()) {
      found->second.used = now;
      return found->second.encoder;
    }
  }
  LC_ASSIGN_OR_RETURN(const EndpointManifest endpoint, EndpointOf(generation));
  LC_RETURN_IF_ERROR(CheckEndpointAllowed(endpoint, options_.endpoints));
  std::shared_ptr<EndpointEncoder> made = Make(endpoint, generation.space.dimension);
  absl::MutexLock lock(&mu_);
  if (stopping_) made->Stop();
  return encoders_.try_emplace(key, Entry{std::move(made), now}).first->second.encoder;
}

absl::StatusOr<EmbeddedInputs> EndpointEncoders::Embed(uint32_t collection, const GenerationRecord& generation,
                                                       std::span<const RawInput* const> inputs, EmbedRole role,
                                                       const std::function<std::string(size_t)>& field_of,
                                                       const CallContext& context) {
  LC_DCHECK(generation.endpoint);
  EmbeddedInputs outputs(inputs.size(), std::vector<float>());
  std::vector<std::string> texts;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::Status fits = CheckInput(*inputs[i], options_.limits, field_of(i));
    const auto* const text = std::get_if<TextInput>(inputs[i]);
    if (fits.ok() && text == nullptr) {
      fits = InvalidField(field_of(i), std::string(KindOf(*inputs[i])),
                          StrCat("a text: the encoder of generation ", generation.generation, " is an endpoint"));
    }
    if (!fits.ok()) {
      outputs[i] = fits;
      continue;
    }
    texts.push_back(text->text);
    places.push_back(i);
  }
  if (texts.empty()) return outputs;
  absl::StatusOr<EmbeddedInputs> embedded;
  if (const auto encoder = Find(collection, generation); encoder.ok()) {
    embedded = (*encoder)->Embed(texts, role, context);
    LC_RETURN_IF_ERROR(embedded.status());
  } else {
    embedded = EmbeddedInputs(texts.size(), encoder.status());
  }
  for (size_t t = 0; t < texts.size(); ++t) {
    absl::StatusOr<std::vector<float>>& to = outputs[places[t]];
    to = std::move((*embedded)[t]);
    if (!to.ok()) to = Annotate(to.status(), field_of(places[t]));
  }
  return outputs;
}

void EndpointEncoders::Forget(uint32_t collection, uint32_t generation) {
  std::vector<Entry> ended;  // They end without the lock.
  absl::MutexLock lock(&mu_);
  const auto begin = encoders_.lower_bound({collection, generation});
  const auto end = encoders_.upper_bound({collection, generation == 0 ? UINT32_MAX : generation});
  for (auto at = begin; at != end; ++at) {
    at->second.encoder->Stop();
    ended.push_back(std::move(at->second));
  }
  encoders_.erase(begin, end);
}

void EndpointEncoders::Stop() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  for (auto& [key, entry] : encoders_) entry.encoder->Stop();
  for (const auto& trial : trials_) {
    if (const auto encoder = trial.lock()) encoder->Stop();
  }
}

}  // namespace lightcone::server

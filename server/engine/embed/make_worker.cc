#include "server/engine/embed/make_worker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/lock_in.h"
#include "base/status.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/embedder.h"
#include "server/engine/embed/endpoint_encoders.h"
#include "server/engine/embed/endpoint_messages.h"

namespace lightcone::server {
namespace {

constexpr int kLoadFactor = 5;       // Loading takes longer than a batch.
constexpr size_t kCallersAhead = 2;  // callers of an endpoint beyond its requests
constexpr int kBehindJobs = 4;       // How much further than jobs the process stands back: nobody waits for it.

absl::StatusOr<std::unique_ptr<EmbedWorker>> MakeEmbedWorker(const Context& context, const Collection& collection,
                                                             const GenerationRecord* generation,
                                                             std::string_view purpose) {
  const EngineOptions& given = context.options;
  LC_RETURN_IF_ERROR(MakeFolders(context.folders.Jobs()));
  const std::string threads = StrCat(given.helper_threads);
  EmbedWorkerOptions options;
  options.program.words = {given.helper_program, "embed-worker", "--sandbox",
                           std::string(LockModeName(given.encoder_sandbox))};
  options.program.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads,
                                 "MKL_NUM_THREADS=" + threads};
  options.program.output = StrCat(context.folders.Jobs(), "/", purpose, "-", collection.number(), ".txt");
  options.program.niceness = std::min(19, given.helper_niceness + kBehindJobs);
  options.program.memory_bytes_max = given.helper_memory_bytes_max;
  options.program.file_bytes_max = kWorkerFileBytesMax;
  options.setup.threads = options.setup.decode_threads = given.helper_threads;
  options.setup.batch_max = given.encoder_batch_max;
  options.setup.input_bytes_max = given.limits.input_bytes_max;
  options.setup.image_pixels_max = given.limits.image_pixels_max;
  if (generation != nullptr) {
    options.setup.encoder_path = context.folders.Encoder(collection.number(), generation->generation);
    options.setup.manifest_json = generation->manifest_json;
    options.setup.generation = generation->generation;
    options.dimension = static_cast<size_t>(generation->space.dimension);
  }
  options.time_max = given.helper_embed_time_max;
  options.load_time_max = kLoadFactor * options.time_max;
  options.time_option = "helper.embed_seconds_max";
  return std::make_unique<EmbedWorker>(std::move(options));
}

// Of an endpoint, what is no fault of an input: it concerns all of them.
bool IsEndpointsFault(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status);
}

class StoredTexts : public InputsEncoder {
 public:
  StoredTexts(std::shared_ptr<Embedder> embedder, uint32_t collection, GenerationRecord generation,
              const EndpointManifest& endpoint)
      : embedder_(std::move(embedder)),
        collection_(collection),
        generation_(std::move(generation)),
        requests_(static_cast<size_t>(EndpointEncoder::BackfillRequestsMax(endpoint.concurrency))),
        batch_size_(EndpointTextsMax(endpoint, generation_.space.dimension)) {}

  // More than requests: the next texts are there when an answer comes, whose vectors are written meanwhile.
  size_t callers() const override { return requests_ + kCallersAhead; }
  size_t requests() const override { return requests_; }
  size_t inputs_at_once() const override { return batch_size_; }

  absl::StatusOr<EmbeddedInputs> Embed(std::span<const std::string> inputs,
                                       const std::function<bool()>& cancelled) override {
    EmbeddedInputs outputs(inputs.size(), std::vector<float>());
    std::vector<RawInput> decoded;
    std::vector<size_t> places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      absl::StatusOr<RawInput> input = DecodeInput(inputs[i]);
      if (!input.ok()) {
        outputs[i] = input.status();
        continue;
      }
      decoded.push_back(*std::move(input));
      places.push_back(i);
    }
    std::vector<const RawInput*> some;
    for (const RawInput& input : decoded) some.push_back(&input);
    CallContext context;
    context.cancelled = cancelled;
    const auto field_of = [](size_t) { return std::string("input"); };
    LC_ASSIGN_OR_RETURN(EmbeddedInputs embedded,
                        embedder_->Embed(collection_, generation_, some, EmbedRole::kBackfill, field_of, context));
    for (size_t t = 0; t < embedded.size(); ++t) {
      if (IsEndpointsFault(embedded[t].status())) return embedded[t].status();
      outputs[places[t]] = std::move(embedded[t]);
    }
    return outputs;
  }

 private:
  const std::shared_ptr<Embedder> embedder_;
  const uint32_t collection_;
  const GenerationRecord generation_;
  const size_t requests_, batch_size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmbedWorker>> MakeDecoder(const Context& context, const Collection& collection,
                                                         std::string_view purpose) {
  return MakeEmbedWorker(context, collection, nullptr, purpose);
}

absl::StatusOr<std::unique_ptr<InputsEncoder>> MakeInputsEncoder(const Context& context, const Collection& collection,
                                                                 const GenerationRecord& generation,
                                                                 std::string_view purpose) {
  if (generation.endpoint) {
    LC_ASSIGN_OR_RETURN(const EndpointManifest endpoint, EndpointOf(generation));
    return std::make_unique<StoredTexts>(context.embedder, collection.number(), generation, endpoint);
  }
  return MakeEmbedWorker(context, collection, &generation, purpose);
}

}  // namespace lightcone::server

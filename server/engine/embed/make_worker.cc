#include "server/engine/embed/make_worker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/lock_in.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr int kLoadFactor = 5;  // Loading takes longer than a batch.
constexpr int kBehindJobs = 4;  // How much further than jobs the process stands back: nobody waits for it.

}  // namespace

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

}  // namespace lightcone::server

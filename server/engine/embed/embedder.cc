#include "server/engine/embed/embedder.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/cores.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/lock_in.h"
#include "base/status.h"
#include "models/header_size.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/tensor_check.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);  // pause between looks for a caller that is gone
constexpr absl::Duration kWarm = absl::Minutes(5);        // lifetime of a child without inputs
constexpr absl::Duration kPatience = absl::Seconds(5);    // wait after which a busy encoder gives up its seat
constexpr char kTimeOption[] = "encoder.run_seconds_max";
constexpr char kInput[] = "input";  // a child's name for each input

absl::Status Stopped() { return Unavailable("the server is shutting down: it embeds no raw inputs any more"); }

void TellHowEncodersAreLockedIn(LockMode mode) {
  const auto tell = [mode](std::string_view what, const absl::Status& can) {
    if (mode != LockMode::kOff && can.ok()) return;
    spdlog::warn("{} {}: {}", what,
                 mode == LockMode::kRequire ? "do not run" : "can read and write what this server's user can",
                 mode == LockMode::kOff ? "encoder.sandbox is off" : MessageOf(can));
  };
  tell("encoders that callers register", CanLockIn());
  tell("trainings, and the encoders in them,", CanLockInBelow());
}

// Pixels of all images that may be decoded; the others get their errors. A file whose header states no size is the
// decoder's to refuse.
int64_t MeasureImages(std::span<const RawInput* const> inputs, const std::function<std::string(size_t)>& field_of,
                      int64_t pixels_max, EmbeddedInputs* outputs) {
  int64_t pixels = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* image = std::get_if<std::string>(inputs[i]);
    const std::optional<ImageSize> size = image == nullptr ? std::nullopt : ReadImageSize(*image);
    if (!size) continue;
    if (size->pixels() <= pixels_max) {
      pixels += size->pixels();
      continue;
    }
    (*outputs)[i] = InvalidField(field_of(i), StrCat("an image of ", size->width, " x ", size->height, " pixels"),
                                 StrCat("up to ", pixels_max, " pixels (limits.image_pixels_max)"));
  }
  return pixels;
}

// The child's error of an input, with the caller's name for it.
absl::Status Renamed(const absl::Status& status, const std::string& field) {
  const size_t length = sizeof(kInput) - 1;
  const FieldErrorParts parts = PartsOf(status);
  if (parts.field.starts_with(kInput)) {
    return FieldError(status.code(), field + parts.field.substr(length), parts.value, parts.allowed);
  }
  if (!parts.field.empty()) {
    return Annotate(FieldError(status.code(), parts.field, parts.value, parts.allowed), field);
  }
  const std::string message = MessageOf(status);
  if (!message.starts_with(kInput)) return Annotate(status, field);
  return MakeStatus(status.code(), field + message.substr(length));
}

}  // namespace

Embedder::Embedder(const EngineOptions& options)
    : options_(options), folders_{options.data_folder}, endpoints_(options) {
  if (!options_.helper_program.empty()) TellHowEncodersAreLockedIn(options_.encoder_sandbox);
  absl::MutexLock lock(&mu_);
  seats_.resize(static_cast<size_t>(options_.encoder_processes_max));
  for (size_t i = 0; i < seats_.size(); ++i) seats_[i].thread = std::thread([this, i] { Work(i); });
}

Embedder::~Embedder() {
  Stop();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mu_);
    for (Seat& seat : seats_) threads.push_back(std::move(seat.thread));
  }
  for (std::thread& thread : threads) thread.join();
}

void Embedder::Stop() {
  endpoints_.Stop();
  absl::MutexLock lock(&mu_);
  stopping_ = true;
}

EmbedWorkerOptions Embedder::WorkerOptions(const std::string& path, const std::string& manifest_json,
                                           const Manifest& manifest, const std::string& output) const {
  const std::string threads = StrCat(options_.encoder_threads);
  EmbedWorkerOptions made;
  made.program.words = {options_.helper_program, "embed-worker", "--sandbox",
                        std::string(LockModeName(options_.encoder_sandbox))};
  made.program.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads,
                              "MKL_NUM_THREADS=" + threads, "OMP_WAIT_POLICY=passive"};
  made.program.output = output;
  made.program.niceness = 0;
  made.program.memory_bytes_max = options_.encoder_memory_bytes_max;
  made.program.file_bytes_max = kWorkerFileBytesMax;
  made.setup.encoder_path = path;
  made.setup.manifest_json = manifest_json;
  made.setup.threads = options_.encoder_threads;
  made.setup.decode_threads = std::min(AvailableCores(), kDecodeThreadsMax);
  made.setup.batch_max = options_.encoder_batch_max;
  made.setup.input_bytes_max = options_.limits.input_bytes_max;
  made.setup.image_pixels_max = options_.limits.image_pixels_max;
  made.dimension = static_cast<size_t>(manifest.dimension);
  made.time_max = made.load_time_max = options_.encoder_run_time_max;
  made.time_option = kTimeOption;
  made.fault = absl::StatusCode::kInternal;
  return made;
}

absl::Status Embedder::Try(const std::string& path, const std::string& manifest_json,
                           const std::function<bool()>& cancelled) {
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(manifest_json));
  std::string output;
  {
    absl::MutexLock lock(&mu_);
    if (trials_ >= options_.encoder_trials_max) {
      return ResourceExhausted(StrCat(trials_, " encoders are being tried, the most at once; try again later"));
    }
    ++trials_;
    output = StrCat(folders_.Jobs(), "/trial-", next_trial_++, ".txt");
  }
  const absl::Cleanup end = [this] {
    absl::MutexLock lock(&mu_);
    --trials_;
  };
  LC_RETURN_IF_ERROR(MakeFolders(folders_.Jobs()));
  EmbedWorker worker(WorkerOptions(path, manifest_json, manifest, output));
  const absl::Status ready = worker.Ready([&] { return stopping_.load() || (cancelled && cancelled()); });
  if (absl::IsCancelled(ready)) return stopping_ ? Stopped() : ready;
  return worker.failed_to_load() ? InvalidArgument(MessageOf(ready)) : ready;
}

absl::StatusOr<std::shared_ptr<Embedder::Source>> Embedder::SourceOf(Key key, const std::string& manifest_json) {
  {
    absl::MutexLock lock(&mu_);
    const auto found = sources_.find(key);
    if (found != sources_.end()) return found->second;
  }
  auto source = std::make_shared<Source>();
  LC_ASSIGN_OR_RETURN(source->manifest, ParseManifest(manifest_json));
  source->key = key;
  source->manifest_json = manifest_json;
  absl::MutexLock lock(&mu_);
  return sources_.emplace(key, std::move(source)).first->second;
}

void Embedder::Forget(uint32_t collection, uint32_t generation) {
  endpoints_.Forget(collection, generation);
  absl::MutexLock lock(&mu_);
  const auto begin = sources_.lower_bound({collection, generation});
  const auto end = sources_.upper_bound({collection, generation == 0 ? UINT32_MAX : generation});
  for (auto at = begin; at != end; ++at) at->second->forgotten = true;
  sources_.erase(begin, end);
}

absl::StatusOr<EmbeddedInputs> Embedder::Embed(uint32_t collection, const GenerationRecord& generation,
                                               std::span<const RawInput* const> inputs, EmbedRole role,
                                               const std::function<std::string(size_t)>& field_of,
                                               const CallContext& context) {
  if (generation.endpoint) return endpoints_.Embed(collection, generation, inputs, role, field_of, context);
  return EmbedInChild(collection, generation, inputs, field_of, context);
}

absl::StatusOr<EmbeddedInputs> Embedder::EmbedInChild(uint32_t collection, const GenerationRecord& generation,
                                                      std::span<const RawInput* const> inputs,
                                                      const std::function<std::string(size_t)>& field_of,
                                                      const CallContext& context) {
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source,
                      SourceOf({collection, generation.generation}, generation.manifest_json));
  EmbeddedInputs outputs(inputs.size(), std::vector<float>());
  const int64_t pixels = MeasureImages(inputs, field_of, options_.limits.image_pixels_max, &outputs);
  LC_RETURN_IF_ERROR(TakePixels(pixels));
  const absl::Cleanup give_back = [this, pixels] {
    absl::MutexLock lock(&mu_);
    pixels_ -= pixels;
  };
  // A large call goes through the queue piece by piece, so that it neither fills it nor starves the others.
  const auto piece = static_cast<size_t>(options_.encoder_batch_max);
  for (size_t begin = 0; begin < inputs.size(); begin += piece) {
    Tickets tickets;
    std::vector<size_t> positions;
    for (size_t i = begin; i < std::min(inputs.size(), begin + piece); ++i) {
      if (!outputs[i].ok()) continue;
      if (std::holds_alternative<TextInput>(*inputs[i])) {
        outputs[i] = NoText(field_of(i));
        continue;
      }
      if (const auto* tensor = std::get_if<TensorInput>(inputs[i])) {
        const absl::Status fits = CheckTensor(*tensor, source->manifest.input, field_of(i));
        if (!fits.ok()) {
          outputs[i] = fits;
          continue;
        }
      }
      tickets.push_back(std::make_shared<Ticket>());
      tickets.back()->input = EncodeInput(*inputs[i]);
      positions.push_back(i);
    }
    LC_RETURN_IF_ERROR(Serve(source, tickets, context));
    for (size_t t = 0; t < tickets.size(); ++t) {
      LC_RETURN_IF_ERROR(tickets[t]->run);
      absl::StatusOr<std::vector<float>>& to = outputs[positions[t]];
      to = std::move(tickets[t]->output);
      if (!to.ok()) to = Renamed(to.status(), field_of(positions[t]));
    }
  }
  return outputs;
}

absl::Status Embedder::TakePixels(int64_t pixels) {
  absl::MutexLock lock(&mu_);
  if (pixels > options_.encoder_pixels_max - pixels_) {
    return ResourceExhausted(StrCat("the call's images have ", pixels, " pixels, and those of other calls in flight ",
                                    pixels_, "; allowed together: ", options_.encoder_pixels_max,
                                    " (encoder.pixels_max). Send fewer or smaller images, or try again later"));
  }
  pixels_ += pixels;
  return absl::OkStatus();
}

absl::Status Embedder::Serve(const std::shared_ptr<Source>& source, const Tickets& tickets,
                             const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckAlive(context, "embed"));
  if (tickets.empty()) return absl::OkStatus();
  const auto count = static_cast<int64_t>(tickets.size());
  absl::MutexLock lock(&mu_);
  if (queued_ > 0 && queued_ + count > options_.encoder_queue_max) {
    return ResourceExhausted(StrCat(queued_, " raw inputs are waiting to be embedded, of at most ",
                                    options_.encoder_queue_max, "; try again later"));
  }
  if (!source->seated) AwaitSeat(source);
  source->queue.insert(source->queue.end(), tickets.begin(), tickets.end());
  queued_ += count;
  const auto served = [this, &tickets]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopping_ || std::all_of(tickets.begin(), tickets.end(), [](const auto& t) { return t->done; });
  };
  while (!mu_.AwaitWithDeadline(absl::Condition(&served), std::min(context.deadline, absl::Now() + kPoll))) {
    const absl::Status alive = CheckAlive(context, "embed");
    if (alive.ok()) continue;
    for (const auto& ticket : tickets) queued_ -= static_cast<int64_t>(std::erase(source->queue, ticket));
    if (source->queue.empty() && std::exchange(source->waiting, false)) std::erase(waiting_, source);
    return alive;
  }
  return stopping_ ? Stopped() : absl::OkStatus();
}

std::shared_ptr<Embedder::Source> Embedder::NextFor(size_t seat) const {
  const std::shared_ptr<Source>& own = seats_[seat].source;
  const bool has_work = own != nullptr && !own->queue.empty();
  if (waiting_.empty()) return has_work ? own : nullptr;
  if (has_work) return absl::Now() - waiting_.front()->waiting_since < kPatience ? own : waiting_.front();
  // One idle seat takes what waits: an empty one, else the one that was used least recently. A source keeps its seat
  // for a while, for its child took longer to start than inputs take. Who waits for a vector looks again every kPoll.
  const absl::Time now = absl::Now();
  const auto is_free = [this, now](const Seat& one) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (one.busy) return false;
    return one.source == nullptr || (one.source->queue.empty() && now - one.begun >= options_.encoder_stay);
  };
  if (!is_free(seats_[seat])) return nullptr;
  const auto rank = [this](size_t i) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::pair(seats_[i].source != nullptr, seats_[i].used);
  };
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (i != seat && is_free(seats_[i]) && (rank(i) < rank(seat) || (rank(i) == rank(seat) && i < seat)))
      return nullptr;
  }
  return waiting_.front();
}

void Embedder::AwaitSeat(const std::shared_ptr<Source>& source) {
  if (std::exchange(source->waiting, true)) return;
  source->waiting_since = absl::Now();
  waiting_.push_back(source);
}

void Embedder::TakeSource(Seat& seat, std::shared_ptr<Source> source) {
  LeaveSource(seat);
  waiting_.pop_front();
  source->waiting = false;
  source->seated = true;
  seat.source = std::move(source);
}

void Embedder::LeaveSource(Seat& seat) {
  if (seat.source == nullptr) return;
  seat.source->seated = false;
  if (!seat.source->queue.empty()) AwaitSeat(seat.source);
  seat.source = nullptr;
}

Embedder::Tickets Embedder::TakeBatch(Source& source) {
  Tickets batch;
  size_t bytes = 0;
  while (!source.queue.empty() && batch.size() < static_cast<size_t>(options_.encoder_batch_max) &&
         (batch.empty() || bytes + source.queue.front()->input.size() <= kInputBytesAtOnce)) {
    bytes += source.queue.front()->input.size();
    batch.push_back(std::move(source.queue.front()));
    source.queue.pop_front();
  }
  queued_ -= static_cast<int64_t>(batch.size());
  return batch;
}

void Embedder::RunBatch(EmbedWorker& worker, const Source& source, const Tickets& batch) {
  std::vector<std::string> inputs;
  for (const auto& ticket : batch) inputs.push_back(std::move(ticket->input));
  absl::StatusOr<EmbeddedInputs> outputs =
      worker.Embed(inputs, [this, &source] { return stopping_.load() || source.forgotten.load(); });
  if (absl::IsCancelled(outputs.status())) outputs = Unavailable("the encoder is not served any more");
  absl::MutexLock lock(&mu_);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i]->run = outputs.status();
    if (outputs.ok()) batch[i]->output = std::move((*outputs)[i]);
    batch[i]->done = true;
  }
}

void Embedder::Work(size_t number) {
  std::unique_ptr<EmbedWorker> worker;
  absl::MutexLock lock(&mu_);
  Seat& seat = seats_[number];
  const auto called = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopping_ || NextFor(number) != nullptr || (seat.source != nullptr && seat.source->forgotten);
  };
  while (true) {
    const absl::Duration patience = seat.source == nullptr ? absl::InfiniteDuration() : kWarm;
    const bool in_time = mu_.AwaitWithTimeout(absl::Condition(&called), patience);
    if (stopping_) break;
    std::shared_ptr<Source> source = in_time ? NextFor(number) : nullptr;
    const bool leaves = !in_time || (seat.source != nullptr && seat.source->forgotten);
    if (source == nullptr && !leaves) continue;  // Another seat became free meanwhile.
    const bool takes = source != seat.source;
    if (takes) {  // a seat without a source has no worker
      source == nullptr ? LeaveSource(seat) : TakeSource(seat, source);
      seat.busy = true;
      mu_.Unlock();
      worker.reset();
      if (source != nullptr) {
        const auto [collection, generation] = source->key;
        EmbedWorkerOptions options =
            WorkerOptions(folders_.Encoder(collection, generation), source->manifest_json, source->manifest,
                          StrCat(folders_.Jobs(), "/encoder-", collection, "-", generation, "-", number, ".txt"));
        options.setup.generation = generation;
        worker = std::make_unique<EmbedWorker>(std::move(options));
        MakeFolders(folders_.Jobs()).IgnoreError();  // the worker tells that it is not there
      }
      mu_.Lock();
      seat.busy = false;
      if (source == nullptr) continue;
    }
    const auto full = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return stopping_ || source->queue.size() >= static_cast<size_t>(options_.encoder_batch_max);
    };
    seat.busy = true;
    mu_.AwaitWithTimeout(absl::Condition(&full), options_.encoder_linger);
    const Tickets batch = stopping_ ? Tickets() : TakeBatch(*source);
    mu_.Unlock();
    if (!batch.empty()) RunBatch(*worker, *source, batch);
    mu_.Lock();
    seat.busy = false;
    seat.used = absl::Now();
    if (takes) seat.begun = seat.used;
  }
}

}  // namespace lightcone::server

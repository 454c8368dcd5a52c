#include "trainer/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "base/cores.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "trainer/frozen_features_torch.h"
#include "trainer/methods/method.h"
#include "trainer/run_file.h"
#include "trainer/run_torch.h"
#include "trainer/schedule.h"
#include "trainer/tensor_memory.h"
#include "trainer/tensor_threads.h"

namespace lightcone {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kDataStream = 3;
constexpr double kReportSeconds = 0.1;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The loop around TrainingRun: order of batches, checkpoints, reports, and the files at the end.
class Trainer {
 public:
  Trainer(const Dataset& dataset, TrainConfig config, std::string folder, const TrainCallback& report,
          const std::atomic<bool>* stop)
      : dataset_(dataset), config_(std::move(config)), folder_(std::move(folder)), report_(report), stop_(stop) {}

  absl::StatusOr<TrainResult> Run() {
    LC_RETURN_IF_ERROR(Prepare());
    LC_RETURN_IF_ERROR(Loop());
    return Finish();
  }

 private:
  std::string CheckpointPath() const { return folder_ + "/checkpoint.bin"; }
  int64_t steps() const { return config_.epochs * steps_per_epoch_; }

  absl::Status Prepare() {
    KeepFreedMemory();
    LC_RETURN_IF_ERROR(MakeFolders(folder_));
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(CheckpointPath());
    if (!checkpoint.ok() && !absl::IsNotFound(checkpoint.status())) return checkpoint.status();
    // Always set the threads: a resumed training must not depend on this process's past or environment.
    if (config_.threads == 0 && checkpoint.ok())
      config_.threads = std::min(SavedThreads(*checkpoint), AvailableCores());
    if (config_.threads == 0) config_.threads = DefaultTensorThreads();
    threads_.emplace(static_cast<int>(config_.threads), config_.encoder.architecture);
    LC_ASSIGN_OR_RETURN(run_, TrainingRun::Create(dataset_, config_));
    identity_ =
        IdentityOf(dataset_, config_, run_->old_model() == nullptr ? 0 : run_->old_model()->manifest().encoder_crc32c,
                   run_->method().OtherModelsCrc32c());
    steps_per_epoch_ = dataset_.train.size() / config_.batch;
    return checkpoint.ok() ? Resume(*checkpoint) : run_->Start();
  }

  absl::Status Resume(const Checkpoint& checkpoint) {
    const std::string step = StrCat("checkpoint '", CheckpointPath(), "'");
    absl::StatusOr<RunProgress> progress = LoadProgress(*identity_, checkpoint);
    if (!progress.ok()) return Annotate(progress.status(), step);
    if (progress->step < 0 || progress->step > steps()) return DataLoss(StrCat(step, ": step ", progress->step));
    LC_RETURN_IF_ERROR(Annotate(run_->Load(checkpoint), step));
    progress_ = *progress;
    resumed_at_ = progress_.step;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<BatchLoader>> MakeLoader() const {
    LoaderOptions options;
    options.batch_size = config_.batch;
    options.epochs = config_.epochs;
    options.seed = MixSeed({config_.seed, kDataStream});
    options.augment = AugmentOf(config_, dataset_);
    options.draw_only = run_->has_images();
    options.same_class = FindTrainingMethod(config_.method)->same_class;
    options.start_epoch = progress_.step / steps_per_epoch_;
    options.start_step = progress_.step % steps_per_epoch_;
    options.workers = static_cast<int>(config_.loader_threads);
    return BatchLoader::Create(&dataset_.train, dataset_.normalisation, options);
  }

  absl::Status Loop() {
    start_ = last_checkpoint_ = last_report_ = Clock::now();
    if (progress_.step == steps()) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const std::unique_ptr<BatchLoader> loader, MakeLoader());
    Batch batch;
    while (loader->Next(&batch)) {
      const LossTerms terms = run_->Step(batch, LearningRateAt(config_, progress_.step, steps_per_epoch_),
                                         static_cast<double>(progress_.step) / static_cast<double>(steps()));
      LC_RETURN_IF_ERROR(Account(terms));
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
        LC_RETURN_IF_ERROR(WriteState());
        return absl::CancelledError(ToAbsl(StrCat("training stopped at step ", progress_.step, " of ", steps(),
                                                  "; the checkpoint in '", folder_, "' resumes it")));
      }
      if (SecondsSince(last_checkpoint_) >= config_.checkpoint_seconds) LC_RETURN_IF_ERROR(WriteState());
    }
    return loader->status();  // OK unless an image was unreadable
  }

  absl::Status Account(const LossTerms& terms) {
    watch_.Add(terms, progress_.step + 1);
    if (terms.total.device().is_cpu()) LC_RETURN_IF_ERROR(CheckLosses());
    meter_.Add(terms);
    if (epoch_meter_.device() != terms.total.device()) epoch_meter_ = epoch_meter_.to(terms.total.device());
    epoch_meter_.add_(terms.total.detach());
    ++progress_.step;
    const bool epoch_ended = progress_.step % steps_per_epoch_ == 0;
    if (epoch_ended) {
      const double sum = EpochLoss();
      LC_RETURN_IF_ERROR(CheckLosses());
      progress_.last_epoch_loss = sum / static_cast<double>(steps_per_epoch_);
      progress_.epoch_loss = 0;
      epoch_meter_.zero_();
    }
    if (epoch_ended || SecondsSince(last_report_) >= kReportSeconds) return Report(/*finished=*/false);
    return absl::OkStatus();
  }

  double EpochLoss() const { return progress_.epoch_loss + epoch_meter_.item<double>(); }

  absl::Status CheckLosses() const {
    const std::optional<LossWatch::Bad> bad = watch_.First();
    return bad ? Diverged(StrCat("loss '", bad->part, "' is not finite"), bad->step) : absl::OkStatus();
  }

  absl::Status Diverged(std::string_view how, int64_t step) const {
    return Internal(StrCat("training of '", config_.name, "' diverged: ", how, " at step ", step,
                           "; lower field 'learning_rate' (", config_.learning_rate, ") or set 'warmup_epochs'"));
  }

  absl::Status Report(bool finished) {
    TrainProgress p;
    p.name = config_.name;
    p.method = config_.method;
    p.epochs = config_.epochs;
    p.epoch = (std::max<int64_t>(progress_.step, 1) - 1) / steps_per_epoch_ + 1;  // epoch of the last step
    p.step = progress_.step;
    p.steps = steps();
    p.losses = meter_.Means();
    // An epoch's last total is the mean of the whole epoch, whatever reports and interruptions came before.
    if (finished && resumed_at_ == steps()) p.losses.assign(1, {"total", 0.0});
    if (!p.losses.empty() && progress_.step % steps_per_epoch_ == 0) p.losses[0].second = progress_.last_epoch_loss;
    p.elapsed_seconds = SecondsSince(start_);
    p.images_per_second = Rate();
    const double images_left = static_cast<double>((steps() - progress_.step) * config_.batch);
    p.eta_seconds = p.images_per_second > 0 ? images_left / p.images_per_second : 0;
    p.finished = finished;
    LC_RETURN_IF_ERROR(CheckLosses());
    if (report_) report_(p);
    if (!finished) meter_.Clear();
    last_report_ = Clock::now();
    return absl::OkStatus();
  }

  // Images per second of this run, or of all runs where this run had nothing left to do.
  double Rate() const {
    const bool was_done = resumed_at_ == steps();
    const double seconds = was_done ? progress_.seconds : SecondsSince(start_);
    const int64_t steps_done = was_done ? progress_.step : progress_.step - resumed_at_;
    return seconds > 0 ? static_cast<double>(steps_done * config_.batch) / seconds : 0;
  }

  absl::Status WriteState() {
    RunProgress now = progress_;
    now.epoch_loss = EpochLoss();
    now.seconds += SecondsSince(start_);
    // A bad loss or weight must not replace a good checkpoint or reach an encoder.
    LC_RETURN_IF_ERROR(CheckLosses());
    if (const absl::Status finite = run_->CheckFinite(); !finite.ok()) return Diverged(MessageOf(finite), now.step);
    Checkpoint checkpoint;
    SaveProgress(*identity_, now, checkpoint);
    LC_RETURN_IF_ERROR(run_->Save(checkpoint));
    LC_RETURN_IF_ERROR(WriteCheckpoint(CheckpointPath(), checkpoint));
    last_checkpoint_ = Clock::now();
    return absl::OkStatus();
  }

  Manifest MakeManifest(double seconds, double rate) const {
    Manifest m;
    m.name = config_.name;
    m.architecture = config_.encoder.architecture;
    m.width = config_.encoder.width;
    m.stem = StemOf(config_.encoder);
    m.backbone = config_.encoder.backbone_file;
    m.frozen = config_.encoder.frozen;
    const VectorLayout layout = LayoutOf(config_);
    m.dimension = static_cast<int>(layout.embedding);
    if (layout.prefix != layout.embedding) m.compatible_prefix = static_cast<int>(layout.prefix);
    m.through_adapter = OnlyThroughAdapter(config_);
    m.metric = config_.metric;
    m.curvature = run_->curvature();
    m.clip_radius = config_.clip_radius;
    m.rescale = config_.encoder.rescale;
    m.input = {config_.encoder.height, config_.encoder.width_px, config_.encoder.channels, dataset_.normalisation.mean,
               dataset_.normalisation.stddev};
    m.method = config_.method;
    if (run_->old_model() != nullptr) {
      m.parent = run_->old_model()->manifest().name;
      m.parent_crc32c = run_->old_model()->manifest().encoder_crc32c;
    }
    m.classes = dataset_.classes();
    m.training = {dataset_.name,
                  config_.recipe,
                  config_.epochs,
                  steps(),
                  dataset_.train.size(),
                  config_.seed,
                  seconds,
                  rate,
                  progress_.last_epoch_loss,
                  ToJson(config_)};
    return m;
  }

  absl::StatusOr<TrainResult> Finish() {
    TrainResult result;
    result.seconds = SecondsSince(start_);
    result.images_per_second = Rate();
    const bool was_done = resumed_at_ == steps();
    if (!was_done) LC_RETURN_IF_ERROR(WriteState());
    const double seconds = progress_.seconds + (was_done ? 0 : result.seconds);
    result.manifest = MakeManifest(seconds, result.images_per_second);
    LC_ASSIGN_OR_RETURN(result.manifest.encoder_crc32c,
                        ExportTorchScript(run_->network(), folder_ + "/" + result.manifest.encoder_file,
                                          run_->method().ExportedTransform()));
    LC_RETURN_IF_ERROR(WriteManifest(folder_, result.manifest));  // a folder with a manifest is complete
    result.folder = folder_;
    result.steps = steps();
    result.resumed_at = resumed_at_;
    result.final_loss = progress_.last_epoch_loss;
    LC_RETURN_IF_ERROR(Report(/*finished=*/true));
    return result;
  }

  const Dataset& dataset_;
  TrainConfig config_;
  const std::string folder_;
  const TrainCallback& report_;
  const std::atomic<bool>* const stop_;

  std::optional<TensorThreads> threads_;
  std::unique_ptr<TrainingRun> run_;
  std::optional<RunIdentity> identity_;
  RunProgress progress_;
  int64_t steps_per_epoch_ = 0, resumed_at_ = 0;
  LossMeter meter_;
  LossWatch watch_;
  torch::Tensor epoch_meter_ = torch::zeros({}, torch::kFloat64);  // sum since the checkpoint or the epoch's start
  Clock::time_point start_, last_checkpoint_, last_report_;
};

}  // namespace

absl::StatusOr<TrainResult> Train(const Dataset& dataset, const TrainConfig& config, const std::string& folder,
                                  const TrainCallback& progress, const std::atomic<bool>* stop) {
  LC_ASSIGN_OR_RETURN(TrainConfig resolved, ResolveConfig(dataset, config));
  try {
    return Trainer(dataset, std::move(resolved), folder, progress, stop).Run();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("training: out of memory");
  } catch (const std::exception& e) {
    return Internal(StrCat("training of '", config.name, "': ", e.what()));
  }
}

}  // namespace lightcone

// Whole trainings beside a plain libtorch loop, and how long they wait for their loader.
#include "bench/training_bench.h"

#include <jpeglib.h>

#include <cstdlib>

#include "base/cores.h"
#include "base/files.h"
#include "base/rng.h"
#include "bench/training_parts_torch.h"

namespace lightcone::bench {
namespace {

// What somebody would write for the purpose in an afternoon.
class PlainLoop {
 public:
  static absl::StatusOr<std::unique_ptr<PlainLoop>> Create(const TrainConfig& config, int classes) {
    auto loop = std::unique_ptr<PlainLoop>(new PlainLoop);
    LC_ASSIGN_OR_RETURN(loop->network_, BuildNetwork(config.encoder, 1));
    loop->head_ = torch::nn::Linear(config.encoder.dimension, classes);
    UseChannelsLast(*loop->network_);
    if (!config.old_model.empty()) {
      LC_ASSIGN_OR_RETURN(loop->old_, BuildNetwork(config.encoder, 9));
      loop->old_->eval();
      UseChannelsLast(*loop->old_);
    }
    std::vector<torch::Tensor> parameters = loop->network_->parameters();
    for (const torch::Tensor& p : loop->head_->parameters()) parameters.push_back(p);
    loop->optimizer_ = std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(5e-4));
    for (int i = 0; i < 8; ++i) {
      loop->images_.push_back(torch::randn({config.batch, 3, 32, 32}).contiguous(torch::MemoryFormat::ChannelsLast));
      loop->labels_.push_back(torch::randint(classes, {config.batch}, torch::kInt64));
    }
    return loop;
  }

  void Step() {
    const size_t i = next_++ % images_.size();
    const torch::Tensor z = network_->forward(images_[i]);
    if (old_ != nullptr) {
      torch::NoGradGuard no_grad;
      old_->forward(images_[i]);
    }
    const torch::Tensor loss = torch::nn::functional::cross_entropy(head_->forward(z), labels_[i]);
    optimizer_->zero_grad();
    loss.backward();
    optimizer_->step();
  }

 private:
  PlainLoop() = default;

  std::shared_ptr<EncoderNetwork> network_, old_;
  torch::nn::Linear head_{nullptr};
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::vector<torch::Tensor> images_, labels_;
  size_t next_ = 0;
};

// Ours, as trainer/train.cc runs it.
class OurLoop {
 public:
  static absl::StatusOr<std::unique_ptr<OurLoop>> Create(const Dataset& dataset, const TrainConfig& config) {
    auto loop = std::unique_ptr<OurLoop>(new OurLoop);
    LC_ASSIGN_OR_RETURN(loop->run_, TrainingRun::Create(dataset, config));
    LC_RETURN_IF_ERROR(loop->run_->Start());
    LoaderOptions options;
    options.batch_size = config.batch;
    options.epochs = 1'000'000;
    options.augment = dataset.augment;
    LC_ASSIGN_OR_RETURN(loop->loader_, BatchLoader::Create(&dataset.train, dataset.normalisation, options));
    return loop;
  }

  void Step() {
    ended_ = !loader_->Next(&batch_) || ended_;
    StepAgain();
  }
  // On the last batch, without the loader.
  void StepAgain() { meter_.Add(run_->Step(batch_, 0.01)); }
  absl::Status status() const { return ended_ ? Annotate(loader_->status(), "loader") : absl::OkStatus(); }

 private:
  OurLoop() = default;

  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<BatchLoader> loader_;
  Batch batch_;
  LossMeter meter_;
  bool ended_ = false;  // the loader gave no batch
};

// Steps on one batch again and again, and steps with a loader whose threads share the cores: what part of the latter's
// time is the step's own.
absl::StatusOr<Compared> BusyShare(const Dataset& dataset, const TrainConfig& config, int steps) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<OurLoop> fed, OurLoop::Create(dataset, config));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<OurLoop> held, OurLoop::Create(dataset, config));
  SecondsOf(8, [&] { fed->Step(); });  // what the queue held is used up
  SecondsOf(3, [&] { held->Step(); });
  const double images = static_cast<double>(steps * config.batch);
  Rounds rates;
  for (int round = 0; round < 3; ++round) {
    const double with_loader = images / SecondsOf(steps, [&] { fed->Step(); });
    rates.Add(with_loader, images / SecondsOf(steps, [&] { held->StepAgain(); }));
  }
  LC_RETURN_IF_ERROR(fed->status());
  return rates.Result();
}

// A smooth picture with some noise: noise alone would be larger than photographs are.
std::string Jpeg(int side, Rng& rng) {
  std::vector<uint8_t> pixels(static_cast<size_t>(side) * side * 3);
  const uint32_t a = rng.Below(256), b = rng.Below(7) + 1, c = rng.Below(5) + 1;
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      for (int k = 0; k < 3; ++k) {
        pixels[static_cast<size_t>((y * side + x) * 3 + k)] =
            static_cast<uint8_t>(a + b * static_cast<uint32_t>(x) + c * static_cast<uint32_t>(y * k) + rng.Below(24));
      }
    }
  }
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_width = jpeg.image_height = static_cast<JDIMENSION>(side);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < side; ++y) {
    JSAMPROW row = pixels.data() + static_cast<size_t>(y) * side * 3;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<const char*>(out), size);
  jpeg_destroy_compress(&jpeg);
  std::free(out);
  return bytes;
}

absl::StatusOr<Dataset> JpegFolder(const std::string& folder) {
  Rng rng(2);
  for (int c = 0; c < 32; ++c) {
    const std::string of_class = StrCat(folder, "/c", c);
    LC_RETURN_IF_ERROR(MakeFolders(of_class));
    for (int i = 0; i < 80; ++i)
      LC_RETURN_IF_ERROR(WriteFileAtomically(StrCat(of_class, "/", i, ".jpg"), Jpeg(64, rng)));
  }
  return OpenDataset("folder@64:" + folder, /*seed=*/1, /*bytes_in_memory_max=*/0);
}

}  // namespace

absl::StatusOr<Compared> MeasureTraining(const std::string& folder, const TrainingOptions& options) {
  const TensorThreads threads(AvailableCores(), options.architecture);
  const Dataset dataset = SyntheticPhotos();
  LC_ASSIGN_OR_RETURN(const TrainConfig config,
                      ConfigOf(dataset, folder, options.method, "lorentz", options.architecture, options.batch));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<OurLoop> ours, OurLoop::Create(dataset, config));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<PlainLoop> plain, PlainLoop::Create(config, dataset.classes()));
  const auto rate = [&](auto& loop, int steps) {
    return static_cast<double>(steps * config.batch) / SecondsOf(steps, [&] { loop.Step(); });
  };
  rate(*ours, 3);  // first steps plan their convolutions
  rate(*plain, 3);
  Rounds rounds;
  for (int round = 0; round < options.rounds; ++round) {
    const double our_rate = rate(*ours, options.steps);
    rounds.Add(our_rate, rate(*plain, options.steps));
  }
  return rounds.Result();
}

absl::StatusOr<LoaderFigures> MeasureLoader(const std::string& folder, int steps) {
  const TensorThreads threads(AvailableCores(), "small-cnn");
  LoaderFigures figures;
  {
    const Dataset dataset = SyntheticPhotos();
    LC_ASSIGN_OR_RETURN(const TrainConfig config,
                        ConfigOf(dataset, folder + "/memory", "hbct", "lorentz", "small-cnn", 128));
    LC_ASSIGN_OR_RETURN(figures.in_memory, BusyShare(dataset, config, steps));
  }
  LC_ASSIGN_OR_RETURN(const Dataset dataset, JpegFolder(folder + "/photos"));
  if (dataset.train.in_memory()) return Internal("the folder of JPEG files was decoded when it was opened");
  LC_ASSIGN_OR_RETURN(const TrainConfig config,
                      ConfigOf(dataset, folder + "/jpegs", "hbct", "lorentz", "small-cnn", 128));
  LC_ASSIGN_OR_RETURN(figures.jpegs, BusyShare(dataset, config, steps));
  return figures;
}

}  // namespace lightcone::bench

// BCT (docs/internals/training-baselines.md): the frozen old head classifies new embeddings as well.
#include "base/files.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/baseline_torch.h"
#include "trainer/old_head_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

// Also bct+32, whose layout has the leading numbers that the old head reads.
class Bct : public Baseline {
 public:
  explicit Bct(const MethodContext& context) : Baseline(context), prefix_(LayoutOf(context.config).prefix) {}

  absl::Status Prepare() override {
    LC_RETURN_IF_ERROR(Baseline::Prepare());
    const TrainConfig& c = context_.config;
    if (c.bct.head == "old") {
      LC_ASSIGN_OR_RETURN(head_,
                          LoadOldHead(c.old_model, context_.old_model->manifest(), context_.dataset.class_names));
      return absl::OkStatus();
    }
    LC_ASSIGN_OR_RETURN(const Tensor old, OldOfTrainingSet());
    means_ = ClassMeansOf(UnitRows(old), TrainingLabels(), context_.dataset.classes());
    return absl::OkStatus();
  }

  uint32_t OtherModelsCrc32c() const override {
    if (means_.defined()) return 0;
    uint32_t checksum = 0;
    for (const Tensor& tensor : {head_.weight, head_.offset, head_.row_of}) {
      if (!tensor.defined()) continue;
      const Tensor packed = tensor.contiguous();
      checksum = Crc32c({static_cast<const char*>(packed.data_ptr()), packed.nbytes()}, checksum);
    }
    return checksum;
  }

 private:
  bool reads_old_batches() const override { return false; }

  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const Tensor& z) override {
    const BctConfig& c = context_.config.bct;
    const Tensor shared = z.narrow(1, 0, prefix_);
    MoveOnce(z.device(), {&means_, &head_.weight, &head_.offset, &head_.row_of});
    return {{"influence", c.lambda,
             means_.defined() ? PrototypeLoss(shared, means_, batch.labels, c.scale).mean()
                              : head_.Loss(shared, batch.labels)}};
  }

  const int64_t prefix_;
  OldHead head_;
  Tensor means_;  // old class means, [classes, d]; undefined with the old head
};

}  // namespace

MethodEntry BctMethod() {
  MethodEntry entry = BaselineEntry("bct", "the frozen old classifier classifies new embeddings, too",
                                    "Shen et al., Towards Backward-Compatible Representation Learning, CVPR 2020",
                                    {"bct.lambda", "bct.head", "bct.scale"});
  entry.make = MakeBaseline<Bct>;
  return entry;
}

}  // namespace lightcone

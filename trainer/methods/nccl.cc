// NCCL (docs/internals/training-baselines.md): neighbourhood consensus. New embeddings are pulled towards old ones of
// their class, in embedding space and in the new head's logits. Likely members of one sub-cluster pull more.
#include <algorithm>
#include <vector>

#include "base/dcheck.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

// Old embeddings of the last batches, as a ring, which checkpoints keep.
class NcclQueue : public torch::nn::Module {
 public:
  NcclQueue(int64_t size, int64_t dimension) {
    rows_ = register_buffer("rows", torch::zeros({size, dimension}));
    labels_ = register_buffer("labels", torch::zeros({size}, torch::kInt64));
    pushed_ = register_buffer("pushed", torch::zeros({1}, torch::kInt64));
  }

  // REQUIRES: at most `size` rows.
  void Push(const Tensor& rows, const Tensor& labels) {
    LC_DCHECK(rows.size(0) <= rows_.size(0));
    torch::NoGradGuard no_grad;
    const int64_t begin = pushed();
    const Tensor places =
        torch::remainder(torch::arange(begin, begin + rows.size(0), labels_.options()), rows_.size(0));
    rows_.index_copy_(0, places, rows);
    labels_.index_copy_(0, places, labels);
    count_ = begin + rows.size(0);
    pushed_.fill_(count_);
  }

  Tensor rows() const { return rows_.narrow(0, 0, filled()); }
  Tensor labels() const { return labels_.narrow(0, 0, filled()); }

 private:
  int64_t filled() const { return std::min(pushed(), rows_.size(0)); }
  // Reads the buffer once, after a checkpoint may have been loaded: later steps do not wait for a device.
  int64_t pushed() const {
    if (count_ < 0) count_ = pushed_.item<int64_t>();
    return count_;
  }

  Tensor rows_, labels_;        // ring of embeddings and labels, [size, d] and [size]
  Tensor pushed_;               // number of rows ever pushed, [1]
  mutable int64_t count_ = -1;  // copy of pushed_; -1 before the first read
};

class Nccl : public Baseline {
 public:
  using Baseline::Baseline;

  absl::Status Prepare() override {
    LC_RETURN_IF_ERROR(Baseline::Prepare());
    const TrainConfig& c = context_.config;
    queue_ = std::make_shared<NcclQueue>(c.nccl.queue, context_.old_model->manifest().dimension);
    if (c.nccl.credible >= 1) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const Tensor old, OldOfTrainingSet());
    credible_ = CredibleRows(UnitRows(old), TrainingLabels(), context_.dataset.classes(), c.nccl.credible);
    if (!credible_.any().item<bool>()) {
      return InvalidField("nccl.credible", StrCat(c.nccl.credible),
                          "more: at this entropy no old embedding is credible, and nothing would be compatible");
    }
    return absl::OkStatus();
  }

  std::shared_ptr<torch::nn::Module> module() override { return queue_; }

 private:
  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const Tensor& z) override {
    const NcclConfig& c = context_.config.nccl;
    const Tensor old = OldOf(batch);
    Push(batch, old);
    const Tensor queue = queue_->rows(), queue_labels = queue_->labels();
    const Tensor unit_queue = UnitRows(queue);
    const Tensor weights = (torch::matmul(UnitRows(old), unit_queue.t()) + 1.0) * 0.5;
    const Tensor embedding =
        NeighbourLoss(torch::matmul(UnitRows(z), unit_queue.t()) * (1.0 / c.tau), weights, batch.labels, queue_labels);
    const Tensor logits = NeighbourLoss(context_.classifier.LogitCosines(Embed(z), Embed(queue)) * (1.0 / c.tau),
                                        weights, batch.labels, queue_labels);
    return {{"neighbours", c.lambda, embedding}, {"logits", c.lambda_logits, logits}};
  }

  void Push(const StepBatch& batch, const Tensor& old) {
    if (!credible_.defined()) return queue_->Push(old, batch.labels);
    const int64_t* rows = batch.rows.data_ptr<int64_t>();
    const bool* credible = credible_.data_ptr<bool>();
    std::vector<int64_t> credible_rows;
    for (int64_t i = 0; i < batch.rows.size(0); ++i) {
      if (credible[rows[i]]) credible_rows.push_back(i);
    }
    const Tensor kept = torch::tensor(credible_rows, torch::kInt64).to(old.device(), /*non_blocking=*/true);
    queue_->Push(old.index_select(0, kept), batch.labels.index_select(0, kept));
  }

  Embedded Embed(const Tensor& z) const { return context_.classifier.Embed(z, context_.config.clip_radius); }

  std::shared_ptr<NcclQueue> queue_;
  Tensor credible_;  // credible images, bool [images] on the CPU; undefined: all
};

}  // namespace

MethodEntry NcclMethod() {
  MethodEntry entry = BaselineEntry(
      "nccl", "neighbourhood consensus contrast with a queue of credible old embeddings",
      "Wu et al., Neighborhood Consensus Contrastive Learning, AAAI 2022",
      {"cached_old_features", "nccl.lambda", "nccl.lambda_logits", "nccl.tau", "nccl.queue", "nccl.credible"});
  entry.info.revision = 1;  // logit cosines round differently without the queue's logits
  entry.make = MakeBaseline<Nccl>;
  return entry;
}

}  // namespace lightcone

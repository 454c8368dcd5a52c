// Options of the Euclidean baselines (docs/internals/training-baselines.md).
#include "trainer/config_rows.h"

namespace lightcone::internal {
namespace {

std::vector<Row> PairRows() {
  return {
      LC_NUMBER("l2.lambda", l2.lambda, 0.0, 1e6, "weight of the l2 loss"),
      LC_WORD("l2.form", l2.form, "norm, mse",
              "mean length of the difference of unit vectors, or mean squared element"),
      LC_NUMBER("contra.lambda", contra.lambda, 0.0, 1e6, "weight of the contrastive loss"),
      LC_NUMBER("contra.tau", contra.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER("contra.negatives", contra.negatives, 0, 65536, "hardest old negatives a sample; 0: all"),
      LC_NUMBER("hot_refresh.lambda", hot_refresh.lambda, 0.0, 1e6, "weight of the contrastive loss"),
      LC_NUMBER("hot_refresh.tau", hot_refresh.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER("hot_refresh.negatives", hot_refresh.negatives, 0, 65536,
                "hardest negatives a sample, of the old and of the new embeddings each; 0: all"),
      LC_NUMBER("hoc.lambda", hoc.lambda, 0.0, 1e6, "weight of the HOC loss"),
      LC_NUMBER("hoc.base_weight", hoc.base_weight, 0.0, 1e6, "weight of the base loss"),
      LC_NUMBER("hoc.mu", hoc.mu, 1e-4, 1000.0, "inverse temperature"),
      LC_WORD("hoc.same_class", hoc.same_class, "removed, zeroed",
              "same-class pairs leave the sum, or stay in it with logit 0 as in the release"),
  };
}

std::vector<Row> ClassRows() {
  return {
      LC_NUMBER("bct.lambda", bct.lambda, 0.0, 1e6, "weight of the influence loss (bct, bct+32)"),
      LC_WORD("bct.head", bct.head, "old, old-means",
              "classifier of the influence loss: the old model's, or unit means of its features for every class"),
      LC_NUMBER("bct.scale", bct.scale, 1e-3, 1000.0, "bct.head old-means: factor on its cosines"),
      LC_NUMBER("unibct.lambda", unibct.lambda, 0.0, 1e6, "weight of the prototype loss"),
      LC_NUMBER("unibct.scale", unibct.scale, 1e-3, 1000.0, "factor on the cosines to the prototypes"),
      LC_NUMBER("unibct.damping", unibct.damping, 0.0, 0.999, "how far features move along the graph"),
      LC_NUMBER("unibct.tau", unibct.tau, 1e-4, 1000.0, "temperature of the graph's edges"),
      LC_NUMBER("unibct.refinements", unibct.refinements, 0, 1000, "refinements, evenly spread over the training"),
      LC_BOOL("unibct.wait", unibct.wait, "no prototype loss before the first refinement"),
      LC_NUMBER("nccl.lambda", nccl.lambda, 0.0, 1e6, "weight of the loss in embedding space"),
      LC_NUMBER("nccl.lambda_logits", nccl.lambda_logits, 0.0, 1e6, "weight of the loss in discrimination space"),
      LC_NUMBER("nccl.tau", nccl.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER("nccl.queue", nccl.queue, 2, 1048576, "old embeddings kept from the last batches"),
      LC_NUMBER("nccl.credible", nccl.credible, 0.0, 1.0,
                "largest entropy of a credible old embedding, as a share of log(classes); 1: all are"),
      LC_NUMBER("advbct.lambda", advbct.lambda, 0.0, 1e6, "weight of the point-to-set loss"),
      LC_NUMBER("advbct.adversarial", advbct.adversarial, 0.0, 1e6, "weight of the adversarial loss at the start"),
      LC_BOOL("advbct.elastic", advbct.elastic, "boundaries with a learnt part"),
  };
}

}  // namespace

std::vector<Row> BaselineRows() {
  std::vector<Row> rows = PairRows();
  for (Row& row : ClassRows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace lightcone::internal

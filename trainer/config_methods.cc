// Options of the training methods (docs/internals/training-methods.md).
#include "trainer/config_rows.h"

namespace lightcone::internal {
namespace {

constexpr char kOldFeatureForms[] = "augmented-once, plain, batch";

std::vector<Row> HbctRows() {
  return {
      LC_TEXT(old_model, 0, 4096, "folder of the model to be compatible with"),
      LC_BOOL(cached_old_features,
              "old embeddings once an image, not on each augmented batch (hbct has a switch of its own)"),
      LC_NUMBER(hbct.lambda, 0.0, 1000.0, "weight of entailment + contrast"),
      LC_NUMBER(hbct.lambda_until, 0.0, 1.0, "share of the steps over which lambda falls to 0; 0: lambda stays"),
      LC_BOOL(hbct.entailment, "entailment loss"),
      LC_NUMBER(hbct.epsilon, 1e-6, 10.0, "minimum radius of the entailment cones"),
      LC_WORD(hbct.contrast, "rince, infonce, distance, none", "contrastive loss"),
      LC_WORD(hbct.distance, "geodesic, inner, squared", "distance in the contrastive loss"),
      LC_NUMBER(hbct.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER(hbct.beta, 1e-9, 1000.0, "weight of the sum in RINCE"),
      LC_WORD(hbct.q_mode, "sample, fixed", "q of RINCE: old uncertainty of the sample, or q_fixed"),
      LC_NUMBER(hbct.q_fixed, 1e-6, 1.0, "q when q_mode is fixed"),
      LC_NUMBER(hbct.q_min, 1e-6, 1.0, "lower bound of q"),
      LC_WORD(hbct.uncertainty, "ratio, paper-line3", "1 - |s|/t, or 1 - tanh(k|z|)/k"),
      LC_WORD(hbct.normals, "drawn, old-means, auto",
              "directions of the class normals at the start: random, or of the class's mean old embedding; "
              "auto: those of the means where a class is met 1,000 times or less in the training"),
      LC_BOOL(hbct.mask_same_class, "same-class old embeddings are no negatives"),
      LC_BOOL(hbct.cached_old_features, "old embeddings once an image, not on each augmented batch"),
      LC_WORD(
          lightcone.compatible, "hbct, none",
          "old embeddings compare as they are, as with HBCT; or only through the adapter that is fitted afterwards"),
      LC_NUMBER(lightcone.lambda, 0.0, 1000.0, "pull of adapted old embeddings on the network"),
      LC_WORD(lightcone.alignment, "infonce, distance",
              "new and adapted embeddings of an image: nearer than those of other classes, or at a small distance"),
      LC_NUMBER(lightcone.tau, 1e-4, 1000.0, "temperature of infonce"),
      LC_NUMBER(lightcone.width, 1, 4096, "hidden units of the adapter trained beside the network"),
  };
}

std::vector<Row> BaselineRows() {
  return {
      LC_NUMBER(l2.lambda, 0.0, 1e6, "weight of the l2 loss"),
      LC_WORD(l2.form, "norm, mse", "mean length of the difference of unit vectors, or mean squared element"),
      LC_NUMBER(contra.lambda, 0.0, 1e6, "weight of the contrastive loss"),
      LC_NUMBER(contra.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER(contra.negatives, 0, 65536, "hardest old negatives a sample; 0: all"),
      LC_NUMBER(hot_refresh.lambda, 0.0, 1e6, "weight of the contrastive loss"),
      LC_NUMBER(hot_refresh.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER(hot_refresh.negatives, 0, 65536,
                "hardest negatives a sample, of the old and of the new embeddings each; 0: all"),
      LC_NUMBER(hoc.lambda, 0.0, 1e6, "weight of the HOC loss"),
      LC_NUMBER(hoc.base_weight, 0.0, 1e6, "weight of the base loss"),
      LC_NUMBER(hoc.mu, 1e-4, 1000.0, "inverse temperature"),
      LC_WORD(hoc.same_class, "removed, zeroed",
              "same-class pairs leave the sum, or stay in it with logit 0 as in the release"),
      LC_NUMBER(bct.lambda, 0.0, 1e6, "weight of the influence loss (bct, bct+32)"),
      LC_WORD(bct.head, "old, old-means",
              "classifier of the influence loss: the old model's, or unit means of its features for every class"),
      LC_NUMBER(bct.scale, 1e-3, 1000.0, "bct.head old-means: factor on the cosines"),
      LC_NUMBER(unibct.lambda, 0.0, 1e6, "weight of the prototype loss"),
      LC_NUMBER(unibct.scale, 1e-3, 1000.0, "factor on the cosines to the prototypes"),
      LC_NUMBER(unibct.damping, 0.0, 0.999, "how far features move along the graph"),
      LC_NUMBER(unibct.tau, 1e-4, 1000.0, "temperature of the graph's edges"),
      LC_NUMBER(unibct.refinements, 0, 1000, "refinements, evenly spread over the training"),
      LC_BOOL(unibct.wait, "no prototype loss before the first refinement"),
      LC_NUMBER(nccl.lambda, 0.0, 1e6, "weight of the loss in embedding space"),
      LC_NUMBER(nccl.lambda_logits, 0.0, 1e6, "weight of the loss in discrimination space"),
      LC_NUMBER(nccl.tau, 1e-4, 1000.0, "temperature"),
      LC_NUMBER(nccl.queue, 2, 1048576, "old embeddings kept from the last batches"),
      LC_NUMBER(nccl.credible, 0.0, 1.0,
                "largest entropy of a credible old embedding, as a share of log(classes); 1: all are credible"),
      LC_NUMBER(advbct.lambda, 0.0, 1e6, "weight of the point-to-set loss"),
      LC_NUMBER(advbct.adversarial, 0.0, 1e6, "weight of the adversarial loss at the start"),
      LC_BOOL(advbct.elastic, "boundaries with a learnt part"),
  };
}

std::vector<Row> MixingRows() {
  return {
      LC_NUMBER(mixbct.alpha, 0.0, 1.0, "share of a batch replaced by old embeddings"),
      LC_BOOL(mixbct.denoise, "old embeddings far from their class's mean are not mixed in"),
      LC_NUMBER(mixbct.kept_share, 0.01, 1.0, "share of each class that denoising keeps"),
      LC_WORD(mixbct.old_features, kOldFeatureForms,
              "old embeddings: of one augmented view an image, of the image itself, or of each batch"),
      LC_WORD(hypmix.geometry, "mixed, spherical, hyperbolic", "similarity of two views"),
      LC_NUMBER(hypmix.tau_e, 1e-4, 1000.0, "temperature of the cosine"),
      LC_NUMBER(hypmix.tau_h, 1e-4, 1000.0, "temperature of the hyperbolic distance"),
      LC_NUMBER(hypmix.lambda, 0.0, 1000.0, "weight of the distance beside the cosine"),
      LC_NUMBER(hypmix.curvature, 1e-3, 10.0, "c: the ball has curvature -c"),
      LC_NUMBER(bt2.new_dimension, 0, 4096, "m; 0: as encoder.dimension"),
      LC_TEXT(bt2.base_model, 0, 4096, "folder of the model trained alone on the new data"),
      LC_NUMBER(bt2.scale, 1e-3, 1000.0, "C: weight of the new model's own part"),
      LC_NUMBER(bt2.lambda1, 0.0, 1000.0, "weight of the likeness to the base model"),
      LC_NUMBER(bt2.lambda2, 0.0, 1000.0, "weight of the old class means as classifier"),
      LC_NUMBER(bt2.lambda3, 0.0, 1000.0, "weight of the likeness to the old embedding"),
      LC_WORD(bt2.orthogonal, "exponential, cayley", "map from free matrices to orthogonal ones"),
      LC_WORD(bt2.f, "released, paper", "input of f: relu(phi_1), or phi_1"),
      LC_WORD(bt2.old_features, kOldFeatureForms,
              "old and base embeddings: of one augmented view an image, of the image itself, or of each batch"),
  };
}

}  // namespace

std::vector<Row> MethodRows() {
  std::vector<Row> rows = HbctRows();
  for (auto make : {BaselineRows, MixingRows}) {
    for (Row& row : make()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lightcone::internal

// Options of MixBCT, BT2, HypMix and Lightcone's own method (docs/internals/training-methods.md).
#include "trainer/config_rows.h"

namespace lightcone::internal {
namespace {

constexpr char kOldFeatureForms[] = "augmented-once, plain, batch";

std::vector<Row> Bt2Rows() {
  return {
      LC_NUMBER("bt2.new_dimension", bt2.new_dimension, 0, 4096, "m; 0: as encoder.dimension"),
      LC_TEXT("bt2.base_model", bt2.base_model, 0, 4096, "folder of the model trained alone on the new data"),
      LC_NUMBER("bt2.scale", bt2.scale, 1e-3, 1000.0, "C, weight of the new model's own part"),
      LC_NUMBER("bt2.lambda1", bt2.lambda1, 0.0, 1000.0, "weight of the likeness to the base model"),
      LC_NUMBER("bt2.lambda2", bt2.lambda2, 0.0, 1000.0, "weight of the old class means as classifier"),
      LC_NUMBER("bt2.lambda3", bt2.lambda3, 0.0, 1000.0, "weight of the likeness to the old embedding"),
      LC_WORD("bt2.orthogonal", bt2.orthogonal, "exponential, cayley", "map from free matrices to orthogonal ones"),
      LC_WORD("bt2.f", bt2.f, "released, paper", "what f reads: relu(phi_1), or phi_1"),
      LC_WORD("bt2.old_features", bt2.old_features, kOldFeatureForms,
              "old and base embeddings: of one augmented view an image, of the image itself, or of each batch"),
  };
}

}  // namespace

std::vector<Row> MixingRows() {
  std::vector<Row> rows = {
      LC_NUMBER("mixbct.alpha", mixbct.alpha, 0.0, 1.0, "share of a batch replaced by old embeddings"),
      LC_BOOL("mixbct.denoise", mixbct.denoise, "mix in only old embeddings near their class's mean"),
      LC_NUMBER("mixbct.kept_share", mixbct.kept_share, 0.01, 1.0, "of each class, when denoising"),
      LC_WORD("mixbct.old_features", mixbct.old_features, kOldFeatureForms,
              "old embeddings: of one augmented view an image, of the image itself, or of each batch"),
      LC_WORD("hypmix.geometry", hypmix.geometry, "mixed, spherical, hyperbolic", "similarity of two views"),
      LC_NUMBER("hypmix.tau_e", hypmix.tau_e, 1e-4, 1000.0, "temperature of the cosine"),
      LC_NUMBER("hypmix.tau_h", hypmix.tau_h, 1e-4, 1000.0, "temperature of the hyperbolic distance"),
      LC_NUMBER("hypmix.lambda", hypmix.lambda, 0.0, 1000.0, "weight of the distance beside the cosine"),
      LC_NUMBER("hypmix.curvature", hypmix.curvature, 1e-3, 10.0, "c: the ball has curvature -c"),
      LC_WORD("lightcone.compatible", lightcone.compatible, "hbct, none",
              "with the old embeddings as they are: as HBCT, or only through the adapter that is fitted afterwards"),
      LC_NUMBER("lightcone.lambda", lightcone.lambda, 0.0, 1000.0, "pull of carried old embeddings on the network"),
      LC_WORD("lightcone.alignment", lightcone.alignment, "infonce, distance",
              "new and carried embeddings of an image: nearer than those of other classes, or at a small distance"),
      LC_NUMBER("lightcone.tau", lightcone.tau, 1e-4, 1000.0, "temperature of infonce"),
      LC_NUMBER("lightcone.width", lightcone.width, 1, 4096, "hidden units of the adapter trained beside the network"),
  };
  for (Row& row : Bt2Rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace lightcone::internal

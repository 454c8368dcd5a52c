// Every number of a training in one struct, with one table that names, explains, checks, reads and writes each of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/architecture.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Switches of the method "hbct" (docs/training.md, HBCT); the defaults are the paper's, or ours where it is silent.
struct HbctConfig {
  double lambda = 0.3;                // weight of entailment + contrast in the total
  bool entailment = true;             // false: "w/o entail"
  double epsilon = 0.1;               // minimum radius of the entailment cones
  std::string contrast = "rince";     // rince | infonce | distance (mean distortion) | none
  std::string distance = "geodesic";  // geodesic | inner | squared (Table 5)
  double tau = 0.5;                   // temperature, inside both exponents
  double beta = 0.01;                 // weight of the sum in RINCE
  std::string q_mode = "sample";      // sample: q_i = uncertainty of the old embedding; fixed: q_fixed
  double q_fixed = 0.5;
  double q_min = 0.001;               // lower clamp of q (never active at K = 1)
  std::string uncertainty = "ratio";  // ratio: 1 - |s|/t (U1); paper-line3: 1 - tanh(k|z|)/k (U3)
  std::string normals = "drawn";      // where Lorentz MLR's normals point at first: drawn | old-means (of each class)
  bool mask_same_class = false;       // leave other old embeddings of the same class out of the sum
  bool cached_old_features = false;   // old features once an image (plain), instead of on the same augmented batch
};

struct TrainConfig {
  std::string name = "model";          // of the model, goes into its manifest
  std::string recipe = "custom";       // which preset it came from
  std::string method = "independent";  // a name of TrainingMethods() (trainer/methods/method.h)
  EncoderConfig encoder;               // input sizes are taken from the data set

  std::string metric = "lorentz";  // lorentz: Lorentz MLR head; cosine, euclidean: a linear layer on z', then softmax
  double curvature = 1.0;          // K
  double classifier_scale = 1.0;   // lorentz: factor on the class normals as drawn; ClassifierScaleFor
  double clip_radius = 0;          // zeta of the model being trained; 0: the old model's + 0.2, or 1.0 without one
  int64_t epochs = 20;
  int64_t batch = 128;
  double learning_rate = 0.1;
  double momentum = 0.9;
  bool nesterov = true;
  double weight_decay = 5e-4;
  double classifier_weight_decay = 5e-4;  // of the head
  std::string schedule = "cosine-step";   // cosine-step | cosine-epoch | step (x0.2 at 30, 60, 80 %) | constant
  double warmup_epochs = 0;
  double gradient_clip = 0;      // largest global gradient norm; 0: none
  std::string augment = "auto";  // auto (the data set's) | none | photo | drawing
  bool channels_last = true;     // memory layout of the network; the result is the same up to rounding
  uint64_t seed = 1;
  int64_t threads = 0;  // of the tensor library; 0: all cores
  int64_t loader_threads = 1;
  double checkpoint_seconds = 60;  // between checkpoints; 0: after every step

  std::string old_model;  // folder of the model to be compatible with; needed by hbct
  HbctConfig hbct;

  // Names the first field out of range: "field 'tau' is 0; allowed: ...".
  absl::Status Validate() const;
};

// One row of the options table; all values as text.
struct TrainOption {
  std::string name, help, allowed, default_value;
};
const std::vector<TrainOption>& TrainOptions();

// Sets one option by name ("hbct.tau", "epochs"). INVALID_ARGUMENT for an unknown name or a value that is not allowed.
absl::Status SetTrainOption(TrainConfig& config, std::string_view name, std::string_view value);
// REQUIRES: a name of TrainOptions().
std::string GetTrainOption(const TrainConfig& config, std::string_view name);

// One flat JSON object of every option; and back (unknown or ill-typed fields are errors; absent ones keep the
// default).
std::string ToJson(const TrainConfig& config);
absl::StatusOr<TrainConfig> ParseTrainConfig(std::string_view json);

struct RecipeInfo {
  std::string name, help;
};
const std::vector<RecipeInfo>& TrainRecipes();

// A preset sized for the data set: "quick" (CPU, minutes) or "paper" (HBCT section 5; a GPU, or days). Call it with the
// *whole* data set, for the old model of an ext-class experiment too, so that all its models train for the same number
// of epochs. Sets the method-independent fields; then set name, method, old_model and seed (and
// clip_radius where the default does not do: ClipRadiusFor).
absl::StatusOr<TrainConfig> RecipeFor(const Dataset& dataset, std::string_view recipe);

// Factor on the normals of Lorentz MLR from which `classes` classes can be told apart within the clip at once. As drawn
// they have norm 0.58, and no logit of an embedding within radius 1 exceeds that: the softmax over many classes stays
// flat, and hundreds of steps pass in which the normals only grow. The factor brings the norm to ln(classes), where a
// logit of that size against zeros gives its class half (compare the bound of NormFace, Wang et al. 2017, section 3.3).
// docs/training.md has what it changed. REQUIRES: classes >= 2.
double ClassifierScaleFor(int64_t classes);

// zeta of the t-th model of a chain of compatible models, t = 0, 1, ...: 1.0 + 0.2 t (docs/training.md, step 3).
double ClipRadiusFor(int position_in_chain);

}  // namespace lightcone

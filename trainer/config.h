// Every number of a training in one struct, with one table that names, explains, checks, reads and writes each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/architecture.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Switches of the method "hbct" (docs/internals/training-methods.md, HBCT); the defaults are the paper's, or ours where
// it is silent.
struct HbctConfig {
  double lambda = 0.3;                // weight of entailment + contrast in the total
  double lambda_until = 0;            // share of the steps over which lambda falls in a line to 0; 0: it stays
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
  std::string normals =
      "drawn";                   // where Lorentz MLR's normals point at first: drawn | old-means (of each class) | auto
  bool mask_same_class = false;  // leave other old embeddings of the same class out of the sum
  bool cached_old_features = false;  // old features once an image (plain), instead of on the same augmented batch
  // Studied beside the paper's method (research/notes/beyond-hbct.md); 0: not.
  double prototypes = 0;   // weight, under lambda, of a contrast with the old embeddings' class means
  double entail_clip = 0;  // clip radius of both sides in the entailment loss, in place of their own
  double clip_from = 0;    // clip radius of the first step; it comes to clip_radius in a line by half of the steps
  double self = 0;         // weight of a contrast with the network's own embeddings of an epoch before
};

// Switches of the method "lightcone" (docs/internals/training-methods.md, Lightcone).
struct LightconeConfig {
  std::string compatible = "hbct";    // hbct | none: old embeddings compare through the adapter alone
  double lambda = 0;                  // pull of the carried old embeddings on the network
  std::string alignment = "infonce";  // infonce | distance
  double tau = 0.5;                   // temperature of infonce
  int64_t width = 256;                // hidden units of the adapter that is trained beside the network
};

// Switches of the Euclidean baselines (docs/internals/training-baselines.md); the defaults are their releases'
// unless it says so.
struct L2Config {
  double lambda = 10;
  std::string form = "norm";  // norm: mean |n - o| (MixBCT) | mse: mean squared element (OpenCompatible)
};

struct ContraConfig {  // contra and hot-refresh, with HBCT's tau; the release has tau 0.01 and 10 negatives
  double lambda = 1;
  double tau = 0.5;
  int64_t negatives = 0;  // the hardest of each kind; 0: all
};

struct HocConfig {
  double lambda = 0.9, base_weight = 0.1;
  double mu = 10;                      // inverse temperature
  std::string same_class = "removed";  // removed | zeroed (the release)
};

struct BctConfig {  // bct and bct+32
  double lambda = 1;
  std::string head = "old";  // old: the old model's own | old-means: class means of its features (new classes, too)
  double scale = 1;          // of old-means: factor on the cosines
};

struct UnibctConfig {
  double lambda = 1;
  double scale = 1;         // factor on the cosines to the prototypes
  double damping = 0.9;     // of the walk over each class's graph
  double tau = 0.05;        // temperature of its edges
  int64_t refinements = 2;  // evenly spread over the training
  bool wait = true;         // no prototype loss before the first of them
};

struct NcclConfig {
  double lambda = 1;            // in embedding space
  double lambda_logits = 0.01;  // in discrimination space
  double tau = 1;
  int64_t queue = 8192;   // old embeddings of the last batches. Cost: queue x classes products a step
  double credible = 0.5;  // an old embedding's entropy may be this share of log(classes); 1: no filter
};

struct AdvbctConfig {
  double lambda = 1;       // point to set
  double adversarial = 1;  // at the start; falls to 0 by epoch
  bool elastic = true;     // boundaries with a learnt part
};

// Switches of the method "mixbct" (docs/internals/training-baselines.md, mixbct).
struct MixbctConfig {
  double alpha = 0.3;                           // share of a batch's rows that become old embeddings; 0: no mixing
  bool denoise = true;                          // mix in trustworthy old embeddings only
  double kept_share = 0.9;                      // of each class, the nearest to its mean; the rest is not trustworthy
  std::string old_features = "augmented-once";  // FrozenFeatures::Create
};

// Switches of the method "bt2" (docs/internals/training-baselines.md, bt2); extra_dimensions is d, encoder.dimension n.
struct Bt2Config {
  int64_t new_dimension = 0;  // m; 0: as encoder.dimension
  std::string base_model;     // folder of the model trained alone on the new data; empty only with lambda1 = 0
  double scale = 2;           // C
  double lambda1 = 1, lambda2 = 10, lambda3 = 5;
  std::string orthogonal = "exponential";  // exponential | cayley
  std::string f = "released";              // released: f reads relu(phi_1); paper: phi_1
  std::string old_features = "augmented-once";
};

// Switches of the method "hypmix" (docs/internals/training-baselines.md, hypmix); the defaults are those for CUB-200.
struct HypmixConfig {
  std::string geometry = "mixed";  // mixed | spherical | hyperbolic
  double tau_e = 0.05, tau_h = 0.2;
  double lambda = 3;
  double curvature = 0.1;  // c
};

struct TrainConfig {
  std::string name = "model";          // of the model, goes into its manifest
  std::string recipe = "custom";       // which preset it came from
  std::string method = "independent";  // a name of TrainingMethods() (trainer/methods/method.h)
  EncoderConfig encoder;               // input sizes are taken from the data set

  std::string metric = "lorentz";  // lorentz: Lorentz MLR head; cosine, euclidean: a linear layer on z', then softmax
  // auto: lorentz-mlr for lorentz, else softmax. arcface, cosface: metric cosine only; bce: any metric.
  std::string base_loss = "auto";
  double base_scale = 64;                 // s of arcface and cosface
  double base_margin = 0;                 // m of arcface and cosface; 0: 0.5 and 0.35, the papers'
  double curvature = 1.0;                 // K
  bool learn_curvature = false;           // K starts there and is learnt (lorentz)
  double curvature_learning_rate = 1e-4;  // of log K
  double classifier_scale = 1.0;          // lorentz: factor on the class normals as drawn; ClassifierScaleFor
  double clip_radius = 0;  // zeta of the model being trained; 0: the old model's + clip_step, or 1.0 without one
  double clip_step = 0.2;
  int64_t extra_dimensions = 32;  // that bct+32 and bt2 append to encoder.dimension (LayoutOf, methods/method.h)
  int64_t epochs = 20;
  int64_t batch = 128;
  double learning_rate = 0.1;
  double momentum = 0.9;
  bool nesterov = true;
  double weight_decay = 5e-4;
  double classifier_weight_decay = 5e-4;  // of the head
  std::string schedule =
      "cosine-step";  // cosine-step | cosine-epoch | linear-step | step (x0.2 at 30, 60, 80 %) | constant
  double warmup_epochs = 0;
  double gradient_clip = 0;      // largest global gradient norm; 0: none
  std::string augment = "auto";  // auto (the data set's) | none | photo | drawing
  bool channels_last = true;     // memory layout of the network; the result is the same up to rounding
  // float32 | bf16 | auto: what the backbone computes in during training steps. Weights, head, losses and everything
  // that is exported or measured are float32.
  std::string precision = "float32";
  // auto | cpu | cuda: where a training runs; auto takes a CUDA device when libtorch knows one (models/device.h). Data
  // sets in memory are kept, changed and normalised there, too.
  std::string device = "auto";
  uint64_t seed = 1;
  int64_t threads = 0;  // of the tensor library; 0: DefaultTensorThreads()
  int64_t loader_threads = 1;
  double checkpoint_seconds = 60;  // between checkpoints; 0: after every step

  std::string old_model;  // folder of the model to be compatible with; needed by methods that say so (MethodInfo)
  bool cached_old_features = false;  // old features once an image (plain) instead of on the batch; hbct has its own
  HbctConfig hbct;
  L2Config l2;
  ContraConfig contra, hot_refresh;
  HocConfig hoc;
  BctConfig bct;
  UnibctConfig unibct;
  NcclConfig nccl;
  AdvbctConfig advbct;
  MixbctConfig mixbct;
  Bt2Config bt2;
  HypmixConfig hypmix;
  LightconeConfig lightcone;
  std::map<std::string, double, std::less<>> own;  // what was set of the options that a method's file declares

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

// Sets of up to so many training images are small: an answer is expected while one waits.
constexpr int64_t kSmallSetImages = 10'000;

// The changes of the images that `config.augment` asks for on this data set.
AugmentKind AugmentOf(const TrainConfig& config, const Dataset& dataset);

// Where `config` trains: "cpu" or "cuda" (DeviceFor). A TorchScript backbone does on the processor: constants of its
// file stay where they were loaded. INVALID_ARGUMENT when cuda was asked for it; errors of DeviceFor.
absl::StatusOr<std::string> DeviceOf(const TrainConfig& config);

// What `config.precision` comes to on that device: "float32" or "bf16". INVALID_ARGUMENT when it is bf16 and the
// processor has no instructions for it: the products would be slower than in float32, or not to be had at all. Errors
// of DeviceOf.
absl::StatusOr<std::string> PrecisionOf(const TrainConfig& config);

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
// docs/internals/training-methods.md has what it changed. REQUIRES: classes >= 2.
double ClassifierScaleFor(int64_t classes);

// What hbct.normals=auto comes to for a training on these images: "old-means" where a class of theirs is met 1,000
// times or less (its images times epochs, in the mean), else "drawn"; another value as it is. Ours
// (research/notes/beyond-hbct.md).
std::string NormalsFor(const TrainConfig& config, const ImageSet& train);

// zeta of the t-th model of a chain of compatible models, t = 0, 1, ...: 1.0 + 0.2 t
// (docs/internals/training-methods.md, step 3).
double ClipRadiusFor(int position_in_chain);

}  // namespace lightcone

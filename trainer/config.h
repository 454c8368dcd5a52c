// Every number of a training in one struct, with one table that names, explains, checks, reads and writes each of them.
// The table (trainer/config*.cc) has the allowed values. Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/encoders/architecture.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Switches of the method "hbct" (docs/internals/training-methods.md, HBCT). The defaults are the paper's, or ours where
// it is silent.
struct HbctConfig {
  double lambda = 0.3;                // weight of entailment + contrast in the total
  double lambda_until = 0;            // share of the steps over which lambda falls in a line to 0; 0: lambda stays
  bool entailment = true;             // whether the entailment loss is part of the total
  double epsilon = 0.1;               // minimum radius of the entailment cones
  std::string contrast = "rince";     // rince, infonce, distance (mean distortion) or none
  std::string distance = "geodesic";  // geodesic, inner or squared (Table 5)
  double tau = 0.5;                   // temperature, inside both exponents
  double beta = 0.01;                 // weight of the sum in RINCE
  std::string q_mode = "sample";      // sample: q is the uncertainty of the old embedding; fixed: q_fixed
  double q_fixed = 0.5;
  double q_min = 0.001;               // lower clamp of q, never active at K = 1
  std::string uncertainty = "ratio";  // ratio: 1 - |s|/t (U1); paper-line3: 1 - tanh(k|z|)/k (U3)
  std::string normals = "drawn";      // first directions of Lorentz MLR's normals: drawn, old-means or auto
  bool mask_same_class = false;       // whether the sum leaves out other old embeddings of the same class
  bool cached_old_features = false;   // old features of the plain image in place of the augmented batch
};

// Switches of the method "lightcone" (docs/internals/training-methods.md, Lightcone).
struct LightconeConfig {
  std::string compatible = "hbct";    // hbct; none: old embeddings compare through the adapter alone
  double lambda = 0;                  // pull of the adapted old embeddings on the network
  std::string alignment = "infonce";  // infonce or distance
  double tau = 0.5;                   // temperature of infonce
  int64_t width = 256;                // hidden units of the adapter that is trained beside the network
};

// Switches of the Euclidean baselines (docs/internals/training-baselines.md). The defaults are those of their releases
// where no other source is named.
struct L2Config {
  double lambda = 10;
  std::string form = "norm";  // norm: mean |n - o| (MixBCT); mse: mean squared element (OpenCompatible)
};

// Switches of contra and hot-refresh, with HBCT's tau. The release has tau 0.01 and 10 negatives.
struct ContraConfig {
  double lambda = 1;
  double tau = 0.5;
  int64_t negatives = 0;  // number of hardest negatives of each kind; 0: all
};

struct HocConfig {
  double lambda = 0.9, base_weight = 0.1;
  double mu = 10;                      // inverse temperature
  std::string same_class = "removed";  // removed, or zeroed as in the release
};

// Switches of bct and bct+32.
struct BctConfig {
  double lambda = 1;
  std::string head = "old";  // old: the old model's own; old-means: means of its features, for new classes as well
  double scale = 1;          // factor on the cosines of old-means
};

struct UnibctConfig {
  double lambda = 1;
  double scale = 1;         // factor on the cosines to the prototypes
  double damping = 0.9;     // damping of the walk over each class's graph
  double tau = 0.05;        // temperature of the graph's edges
  int64_t refinements = 2;  // number of refinements, evenly spread over the training
  bool wait = true;         // whether the prototype loss waits for the first refinement
};

struct NcclConfig {
  double lambda = 1;            // weight of the loss in embedding space
  double lambda_logits = 0.01;  // weight of the loss in discrimination space
  double tau = 1;
  int64_t queue = 8192;   // number of old embeddings of the last batches; cost: queue x classes products a step
  double credible = 0.5;  // largest entropy of a credible old embedding, as a share of log(classes)
};

struct AdvbctConfig {
  double lambda = 1;       // weight of the point-to-set loss
  double adversarial = 1;  // weight of the adversarial loss at the start, which falls to 0 by epoch
  bool elastic = true;     // whether boundaries have a learnt part
};

// Switches of the method "mixbct" (docs/internals/training-baselines.md, mixbct).
struct MixbctConfig {
  double alpha = 0.3;                           // share of a batch's rows that become old embeddings
  bool denoise = true;                          // whether only trustworthy old embeddings are mixed in
  double kept_share = 0.9;                      // trustworthy share of each class: the nearest to its mean
  std::string old_features = "augmented-once";  // form of FrozenFeatures::Create
};

// Switches of the method "bt2" (docs/internals/training-baselines.md, bt2); extra_dimensions is d, encoder.dimension n.
struct Bt2Config {
  int64_t new_dimension = 0;  // m; 0: as encoder.dimension
  std::string base_model;     // folder of the model trained alone on the new data; empty for lambda1 = 0
  double scale = 2;           // C
  double lambda1 = 1, lambda2 = 10, lambda3 = 5;
  std::string orthogonal = "exponential";  // exponential or cayley
  std::string f = "released";              // input of f: relu(phi_1) (released) or phi_1 (paper)
  std::string old_features = "augmented-once";
};

// Switches of the method "hypmix" (docs/internals/training-baselines.md, hypmix). The defaults are those for CUB-200.
struct HypmixConfig {
  std::string geometry = "mixed";  // mixed, spherical or hyperbolic
  double tau_e = 0.05, tau_h = 0.2;
  double lambda = 3;
  double curvature = 0.1;  // c
};

struct TrainConfig {
  std::string name = "model";          // name of the model in its manifest
  std::string recipe = "custom";       // preset that the values came from
  std::string method = "independent";  // name of TrainingMethods() (trainer/methods/method.h)
  EncoderConfig encoder;               // network, whose input sizes come from the data set

  std::string metric = "lorentz";         // lorentz: Lorentz MLR head; cosine, euclidean: a linear layer, then softmax
  std::string base_loss = "auto";         // loss of the head; auto: lorentz-mlr for lorentz, else softmax
  double base_scale = 64;                 // s of arcface and cosface
  double base_margin = 0;                 // m of arcface and cosface; 0: 0.5 and 0.35, the papers'
  double curvature = 1.0;                 // K
  bool learn_curvature = false;           // whether K is learnt from there on (lorentz)
  double curvature_learning_rate = 1e-4;  // learning rate of log K
  double classifier_scale = 1.0;          // factor on the drawn class normals of lorentz (ClassifierScaleFor)
  double clip_radius = 0;                 // zeta; 0: the old model's + clip_step, or 1.0 without an old model
  double clip_step = 0.2;
  int64_t extra_dimensions = 32;  // dimensions that bct+32 and bt2 append to encoder.dimension (LayoutOf)
  int64_t epochs = 20;
  int64_t batch = 128;
  double learning_rate = 0.1;
  double momentum = 0.9;
  bool nesterov = true;
  double weight_decay = 5e-4;
  double classifier_weight_decay = 5e-4;  // weight decay of the head
  std::string schedule = "cosine-step";   // cosine-step, cosine-epoch, linear-step, step or constant
  double warmup_epochs = 0;
  double gradient_clip = 0;      // largest global gradient norm; 0: no limit
  std::string augment = "auto";  // auto (the data set's), none, photo or drawing
  bool channels_last = true;     // memory layout of the network; the result is the same up to rounding
  // Number format of the backbone in training steps: float32, bf16 or auto. Weights, head, losses, exports and
  // measurements are float32.
  std::string precision = "float32";
  // Device of the training: auto, cpu or cuda. auto takes a CUDA device when libtorch knows one
  // (models/encoders/device.h). Data sets in memory are kept, changed and normalised there.
  std::string device = "auto";
  uint64_t seed = 1;
  int64_t threads = 0;  // threads of the tensor library; 0: DefaultTensorThreads()
  int64_t loader_threads = 1;
  double checkpoint_seconds = 60;  // seconds between checkpoints; 0: a checkpoint after every step

  std::string old_model;             // folder of the model to be compatible with (MethodInfo::needs_old_model)
  bool cached_old_features = false;  // old features of the plain image in place of the batch; hbct has its own
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
  std::map<std::string, double, std::less<>> own;  // set options of those that a method's file declares

  // INVALID_ARGUMENT names the first field out of range: "field 'tau' is 0; allowed: ...".
  absl::Status Validate() const;
};

// One row of the options table; all values as text.
struct TrainOption {
  std::string name, help, allowed, default_value;
};
const std::vector<TrainOption>& TrainOptions();

// Sets one option by name ("hbct.tau", "epochs"). INVALID_ARGUMENT for an unknown name or a forbidden value.
absl::Status SetTrainOption(TrainConfig& config, std::string_view name, std::string_view value);
// The value as text. REQUIRES: a name of TrainOptions().
std::string GetTrainOption(const TrainConfig& config, std::string_view name);

// One flat JSON object of every option, and back. Unknown or ill-typed fields are errors. Absent ones keep the default.
std::string ToJson(const TrainConfig& config);
absl::StatusOr<TrainConfig> ParseTrainConfig(std::string_view json);

// Largest number of training images of a small set, which is trained while the user waits.
constexpr int64_t kSmallSetImages = 10'000;

// The kind of image changes that `config.augment` means on this data set.
AugmentKind AugmentOf(const TrainConfig& config, const Dataset& dataset);

// The device of a training: "cpu" or "cuda" (DeviceFor). A TorchScript backbone trains on the processor, since
// constants of its file stay where they were loaded. INVALID_ARGUMENT for cuda with such a backbone; errors of
// DeviceFor.
absl::StatusOr<std::string> DeviceOf(const TrainConfig& config);

// The number format of `config.precision` on that device: "float32" or "bf16". INVALID_ARGUMENT for bf16 on a processor
// without its instructions, where products would be slower than in float32 or missing. Errors of DeviceOf.
absl::StatusOr<std::string> PrecisionOf(const TrainConfig& config);

struct RecipeInfo {
  std::string name, help;
};
const std::vector<RecipeInfo>& TrainRecipes();

// A preset sized for the data set: "quick" (minutes on a CPU) or "paper" (HBCT section 5; a GPU, or days). Pass the
// *whole* data set, also for the old model of an ext-class experiment, so that all models train for the same number of
// epochs. The preset sets the method-independent fields. The caller then sets name, method, old_model, seed, and
// clip_radius where the default is wrong (ClipRadiusFor).
absl::StatusOr<TrainConfig> RecipeFor(const Dataset& dataset, std::string_view recipe);

// Factor on the normals of Lorentz MLR with which `classes` classes are separable within the clip from the start. Drawn
// normals have norm 0.58, which bounds the logits of embeddings within radius 1. The softmax over many classes would
// stay flat for hundreds of steps in which the normals only grow. The factor brings the norm to ln(classes): a logit of
// that size against zeros gives its class half (compare NormFace, Wang et al. 2017, section 3.3).
// REQUIRES: classes >= 2.
double ClassifierScaleFor(int64_t classes);

// The value of hbct.normals for a training on these images. "auto" becomes "old-means" where the images of a class are
// met 1,000 times or less in the mean (images times epochs), else "drawn". Ours (research/notes/beyond-hbct.md).
std::string NormalsFor(const TrainConfig& config, const ImageSet& train);

// zeta of the t-th model of a chain of compatible models, t = 0, 1, ...: 1.0 + 0.2 t
// (docs/internals/training-methods.md, step 3).
double ClipRadiusFor(int position_in_chain);

}  // namespace lightcone

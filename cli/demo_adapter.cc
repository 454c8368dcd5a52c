#include "cli/demo_adapter.h"

#include "base/status.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/model_pairs.h"

namespace lightcone::cli {
namespace {

constexpr int64_t kSmallSet = 10'000;  // images up to which an answer is expected while one waits
constexpr int kSmallSteps = 500, kViews = 2;

}  // namespace

absl::StatusOr<AdapterFile> FitItemAdapter(const Encoder& old_model, const Encoder& new_model, const Dataset& dataset,
                                           uint64_t seed) {
  AdaptOptions options;
  LC_ASSIGN_OR_RETURN(options.source, SpaceOf(old_model.manifest()));
  LC_ASSIGN_OR_RETURN(options.target, SpaceOf(new_model.manifest()));
  options.from = old_model.manifest().name;
  options.to = new_model.manifest().name;
  if (dataset.train.size() <= kSmallSet) options.steps = kSmallSteps;
  options.seed = seed;
  LC_ASSIGN_OR_RETURN(const ModelPairs pairs,
                      EmbedPairs(old_model, new_model, dataset.train, dataset.augment, kViews, seed));
  return FitAdapter({pairs.old_z, pairs.new_z, pairs.labels, pairs.items}, options);
}

absl::Status PutAdapter(client::Client& client, const std::string& collection, uint32_t from, uint32_t to,
                        const AdapterFile& file) {
  v1::PutAdapterRequest request;
  request.set_collection(collection);
  request.set_from_generation(from);
  request.set_to_generation(to);
  LC_ASSIGN_OR_RETURN(*request.mutable_adapter(), EncodeAdapter(file));
  return client.PutAdapter(request).status();
}

}  // namespace lightcone::cli

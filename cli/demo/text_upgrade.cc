#include "cli/demo/text_upgrade.h"

#include <utility>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

constexpr absl::Duration kJobPatience = absl::Minutes(10);

// Waits for a job. Its own error where it failed.
absl::Status AwaitJob(client::Client& client, const std::string& id) {
  LC_ASSIGN_OR_RETURN(const v1::JobInfo job, client.WatchJob(id, [](const v1::JobInfo&) {}, {.timeout = kJobPatience}));
  if (job.state() == v1::JOB_STATE_SUCCEEDED) return absl::OkStatus();
  return job.has_error() ? client::StatusOf(job.error()) : Internal(StrCat("job ", id, " did not succeed"));
}

std::string TextWay(v1::ValidationWay way) {
  switch (way) {
    case v1::VALIDATION_WAY_NONE:
      return "plain distance";
    case v1::VALIDATION_WAY_QUERY_ADAPTER:
      return "query adapter";
    case v1::VALIDATION_WAY_ITEM_ADAPTER:
      return "item adapter";
    case v1::VALIDATION_WAY_BOTH:
      return "both vectors";
    default:
      return "none";
  }
}

}  // namespace

absl::Status CreateTextCollection(client::Client& client, const std::string& collection, bool scanned) {
  v1::CreateRequest request;
  request.set_name(collection);
  request.set_geometry(v1::GEOMETRY_COSINE);
  if (scanned) request.mutable_index()->set_kind(v1::INDEX_KIND_FLAT);
  return client.CreateCollection(request).status();
}

absl::StatusOr<uint32_t> RegisterTextModel(client::Client& client, const std::string& collection,
                                           const std::string& name, int dimension, bool expects_adapter) {
  v1::RegisterRequest request;
  request.set_collection(collection);
  request.set_manifest_json(nlohmann::json{{"dimension", dimension}, {"method", name}}.dump());
  request.set_expects_adapter(expects_adapter);
  LC_ASSIGN_OR_RETURN(const v1::RegisterResponse response, client.RegisterGeneration(request));
  return response.generation().generation();
}

absl::StatusOr<v1::AdapterInfo> FitTextAdapter(client::Client& client, const std::string& collection, uint64_t seed) {
  v1::FitAdapterRequest request;
  request.set_collection(collection);
  request.set_from_generation(kOldGeneration);
  request.set_to_generation(kNewGeneration);
  request.set_seed(seed);
  LC_ASSIGN_OR_RETURN(const v1::FitAdapterResponse response, client.FitAdapter(request));
  LC_RETURN_IF_ERROR(AwaitJob(client, response.job()));
  v1::ListAdaptersRequest list;
  list.set_collection(collection);
  LC_ASSIGN_OR_RETURN(const v1::ListAdaptersResponse adapters, client.AllAdapters(list));
  if (adapters.adapters_size() != 1) return Internal(StrCat("the fit left ", adapters.adapters_size(), " adapters"));
  return adapters.adapters(0);
}

absl::Status PutTextProbes(client::Client& client, const std::string& collection, const TextData& data,
                           std::span<const int64_t> queries) {
  v1::PutProbesRequest request;
  request.set_collection(collection);
  request.set_name("demo");
  request.set_label_field("label");
  for (const int64_t query : queries) {
    v1::Probe* probe = request.add_probes();
    probe->mutable_label()->set_text(data.queries[static_cast<size_t>(query)].label);
    for (const auto& [generation, model] :
         {std::pair(kOldGeneration, &data.old_model), std::pair(kNewGeneration, &data.new_model)}) {
      v1::ProbeVector* vector = probe->add_vectors();
      vector->set_generation(generation);
      client::SetVector(model->queries.z.data() + query * model->dimension, model->dimension, vector->mutable_vector());
    }
  }
  return client.PutProbes(request).status();
}

absl::StatusOr<UpgradeOutcome> ValidateTexts(client::Client& client, const std::string& collection) {
  v1::ValidateRequest request;
  request.set_collection(collection);
  request.set_generation(kNewGeneration);
  LC_ASSIGN_OR_RETURN(const v1::ValidateResponse response, client.ValidateGeneration(request));
  LC_RETURN_IF_ERROR(AwaitJob(client, response.job()));
  v1::GenerationsGetRequest get;
  get.set_collection(collection);
  get.set_generation(kNewGeneration);
  LC_ASSIGN_OR_RETURN(const v1::GenerationsGetResponse now, client.GetGeneration(get));
  const v1::Validation& validation = now.generation().validation();
  UpgradeOutcome outcome;
  outcome.passed = validation.passed();
  for (const v1::PairValidation& pair : validation.pairs()) {
    if (pair.item_generation() != kOldGeneration) continue;
    outcome.both_passes = pair.both_passes();
    outcome.way = TextWay(pair.chosen());
    outcome.summary = pair.summary();
  }
  if (!outcome.passed) outcome.force_reason = "the demo goes on although the gate refused";
  return outcome;
}

}  // namespace lightcone::cli

#include "cli/served/demo_gallery.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/files.h"
#include "base/status.h"
#include "client/upsert_stream.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "stats/metrics.h"

namespace lightcone::cli {
namespace {

constexpr int64_t kUpsertBatch = 500;
constexpr int64_t kHitsPerCall = 100'000;  // bounds the size of an answer

const char* Through(v1::AdapterMode adapters) {
  if (adapters == v1::ADAPTER_MODE_ITEM) return " through an item adapter";
  return adapters == v1::ADAPTER_MODE_QUERY ? " through a query adapter" : "";
}

}  // namespace

absl::Status SearchEach(client::Client& client, const GalleryQueries& what, int64_t k,
                        const std::function<absl::Status(int64_t query, const v1::QueryResult&)>& use) {
  const int64_t per_call = std::clamp<int64_t>(kHitsPerCall / std::max<int64_t>(k, 1), 1, 256);
  for (size_t begin = 0; begin < what.queries.size(); begin += per_call) {
    const size_t end = std::min(what.queries.size(), begin + per_call);
    if (what.stop != nullptr && what.stop->load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
    v1::SearchRequest request;
    request.set_collection(what.collection);
    request.set_generation(what.generation);
    request.set_k(static_cast<uint32_t>(k));
    request.set_exact(true);
    request.set_adapter_mode(what.adapters);
    for (uint32_t generation : what.evaluate_generations) request.add_evaluate_generations(generation);
    for (size_t i = begin; i < end; ++i) {
      v1::Query* query = request.add_queries();
      client::SetVector(what.z.data() + what.queries[i] * what.dimension, what.dimension, query->mutable_vector());
      if (!what.older.has_value()) continue;
      v1::GenerationVector* older = query->add_older_vectors();
      older->set_generation(what.older->generation);
      client::SetVector(what.older->z.data() + what.queries[i] * what.older->dimension, what.older->dimension,
                        older->mutable_vector());
    }
    LC_ASSIGN_OR_RETURN(v1::SearchResponse response, client.Search(request, {.timeout = absl::Minutes(5)}));
    if (response.partial() || static_cast<size_t>(response.results_size()) != end - begin) {
      return Internal(StrCat("search of '", what.collection, "' gave a partial answer"));
    }
    for (size_t i = begin; i < end; ++i) {
      const v1::QueryResult& result = response.results(static_cast<int>(i - begin));
      if (result.has_error()) return client::StatusOf(result.error());
      LC_RETURN_IF_ERROR(use(what.queries[i], result));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> RegisterModel(client::Client& client, const std::string& collection, const std::string& folder,
                                       const Registration& how) {
  v1::RegisterRequest request;
  request.set_collection(collection);
  request.set_parent(how.parent);
  request.set_expects_adapter(how.expects_adapter);
  LC_ASSIGN_OR_RETURN(*request.mutable_manifest_json(), ReadFile(folder + "/manifest.json"));
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ParseManifest(request.manifest_json()));
  LC_ASSIGN_OR_RETURN(*request.mutable_encoder(), ReadFile(folder + "/" + manifest.encoder_file));
  LC_ASSIGN_OR_RETURN(v1::RegisterResponse response, client.RegisterGeneration(request));
  return response.generation().generation();
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

absl::Status UpsertRows(client::Client& client, const GalleryRows& what, std::span<const int64_t> rows,
                        const std::function<std::string(int64_t)>& payload) {
  client::UpsertStreamOptions options;
  absl::Status refused;
  options.on_acknowledge = [&refused](uint64_t, const absl::StatusOr<v1::UpsertResponse>& outcome) {
    if (!outcome.ok() && refused.ok()) refused = outcome.status();
  };
  std::unique_ptr<client::UpsertStream> stream = client.OpenUpsertStream(options);
  const int64_t n = static_cast<int64_t>(rows.size());
  for (int64_t begin = 0; begin < n; begin += kUpsertBatch) {
    v1::UpsertRequest batch;
    batch.set_collection(what.collection);
    batch.set_generation(what.generation);
    batch.set_same_content(what.same_content);
    for (const int64_t i : rows.subspan(static_cast<size_t>(begin), std::min(kUpsertBatch, n - begin))) {
      v1::Item* item = batch.add_items();
      item->mutable_id()->set_number(static_cast<uint64_t>(i));
      client::SetVector(what.z.data() + i * what.dimension, what.dimension, item->mutable_vector());
      item->set_payload_json(payload(i));
    }
    LC_RETURN_IF_ERROR(stream->Send(std::move(batch), static_cast<uint64_t>(begin)));
  }
  LC_RETURN_IF_ERROR(stream->Finish());
  return refused;
}

absl::Status UpsertVectors(client::Client& client, const std::string& collection, uint32_t generation,
                           std::span<const float> z, int dimension, const Dataset& dataset,
                           std::optional<std::span<const int64_t>> rows) {
  std::vector<int64_t> all;
  if (!rows.has_value()) {
    all.resize(static_cast<size_t>(dataset.test.size()));
    std::iota(all.begin(), all.end(), 0);
  }
  const GalleryRows what = {.collection = collection, .generation = generation, .z = z, .dimension = dimension};
  return UpsertRows(client, what, rows.value_or(all), [&dataset](int64_t i) {
    return nlohmann::json{{"class", dataset.class_names[dataset.test.labels[i]]}}.dump();
  });
}

std::vector<int64_t> ChooseQueries(int64_t images, int64_t queries_max, uint64_t seed) {
  std::vector<int64_t> all(static_cast<size_t>(images));
  std::iota(all.begin(), all.end(), 0);
  if (images <= queries_max) return all;
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < queries_max; ++i) {  // the first steps of a Fisher-Yates shuffle
    std::swap(all[i], all[i + static_cast<int64_t>(random() % static_cast<uint64_t>(images - i))]);
  }
  all.resize(static_cast<size_t>(queries_max));
  std::sort(all.begin(), all.end());
  return all;
}

absl::StatusOr<DemoRow> MeasureThroughSearch(client::Client& client, const GalleryQueries& what,
                                             std::span<const int32_t> labels) {
  RankingAccumulator ranking({1, 5});
  std::vector<int64_t> ranked;
  const auto add = [&](int64_t query, const v1::QueryResult& result) -> absl::Status {
    ranked.clear();
    for (const v1::Hit& hit : result.hits()) {
      const int64_t id = static_cast<int64_t>(hit.id().number());
      if (id != query) ranked.push_back(labels[static_cast<size_t>(id)]);
    }
    if (ranked.size() + 1 != labels.size()) {
      return Internal(StrCat("query ", query, " ranked ", ranked.size() + 1, " of ", labels.size(), " items"));
    }
    ranking.AddRanked(labels[static_cast<size_t>(query)], ranked);
    return absl::OkStatus();
  };
  LC_RETURN_IF_ERROR(SearchEach(client, what, static_cast<int64_t>(labels.size()), add));
  const RankingMetrics metrics = ranking.Finish();
  DemoRow row;
  row.cmc1 = metrics.cmc[0];
  row.cmc5 = metrics.cmc[1];
  row.map = metrics.map;
  row.how = what.evaluate_generations.empty()
                ? StrCat("Search", Through(what.adapters), ", collection '", what.collection,
                         "', exact, queries of generation ", what.generation)
                : StrCat("Search with evaluate_generations, which overrides the reach, collection '", what.collection,
                         "', exact, queries of generation ", what.generation);
  return row;
}

absl::StatusOr<Neighbours> NearestThroughSearch(client::Client& client, const GalleryQueries& what, int k) {
  Neighbours all;
  const auto add = [&all](int64_t, const v1::QueryResult& result) {
    auto& list = all.emplace_back();
    for (const v1::Hit& hit : result.hits()) list.emplace_back(hit.id().number(), hit.distance());
    return absl::OkStatus();
  };
  LC_RETURN_IF_ERROR(SearchEach(client, what, k, add));
  return all;
}

absl::Status AskWithImage(client::Client& client, const std::string& collection, const std::string& png) {
  v1::SearchRequest request;
  request.set_collection(collection);
  request.set_k(10);
  request.add_queries()->mutable_input()->set_image(png);
  LC_ASSIGN_OR_RETURN(const v1::SearchResponse response, client.Search(request));
  if (response.results_size() != 1) return Internal("search answered no result");
  if (response.results(0).has_error()) return client::StatusOf(response.results(0).error());
  if (response.results(0).hits_size() == 0) return Internal("search found nothing");
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CountReembedded(client::Client& client, const std::string& collection, uint32_t generation) {
  v1::CountRequest request;
  request.set_collection(collection);
  LC_ASSIGN_OR_RETURN(const v1::CountResponse response, client.Count(request));
  int64_t others = 0;
  for (const auto& share : response.generations()) {
    if (share.generation() != generation) others += static_cast<int64_t>(share.count());
  }
  return others;
}

}  // namespace lightcone::cli

#include "server/engine/search/query_inputs.h"

#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/model_watch.h"
#include "server/engine/embed/embed_inputs.h"

namespace lightcone::server {
namespace {

// The raw inputs of a call whose queries have no error as yet.
struct QueryInputs {
  std::vector<const RawInput*> inputs;
  std::vector<size_t> positions;  // of their queries

  QueryInputs(const SearchCall& call, const std::vector<BoundVector>& queries) {
    LC_DCHECK(call.queries.size() == queries.size());
    for (size_t i = 0; i < queries.size(); ++i) {
      const auto* input = std::get_if<RawInput>(&call.queries[i].content);
      if (input == nullptr || !queries[i].status.ok()) continue;
      inputs.push_back(input);
      positions.push_back(i);
    }
  }
  absl::StatusOr<EmbeddedInputs> Embed(const Context& engine, const Collection& collection,
                                       const GenerationRecord& generation, const CallContext& context) const {
    const auto field_of = [&](size_t i) { return StrCat("queries[", positions[i], "].input"); };
    return EmbedInputs(engine, collection, generation, inputs, EmbedRole::kQuery, field_of, context);
  }
};

}  // namespace

absl::Status EmbedQueries(const Context& engine, const Collection& collection, const GenerationRecord& generation,
                          const SearchCall& call, const CallContext& context, std::vector<BoundVector>* queries) {
  const QueryInputs given(call, *queries);
  LC_ASSIGN_OR_RETURN(EmbeddedInputs vectors, given.Embed(engine, collection, generation, context));
  for (size_t i = 0; i < vectors.size(); ++i) {
    BoundVector& bound = (*queries)[given.positions[i]];
    bound.status = vectors[i].status();
    if (bound.status.ok()) bound.z = std::move(*vectors[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EmbedOlder(const Context& engine, Collection& collection, const CollectionState& state,
                                       const GenerationRecord& generation, const SearchCall& call,
                                       const CallContext& context, std::vector<BoundVector>* queries) {
  const QueryInputs given(call, *queries);
  std::string error;
  if (given.inputs.empty()) return error;
  for (const uint32_t older : collection.Pin()->Generations(generation.generation)) {
    const GenerationRecord* const record = state.Find(older);
    if (older >= generation.generation || record == nullptr || !record->has_encoder) continue;
    CallContext part = context;  // What hangs leaves the search its time.
    const absl::Time now = absl::Now();
    if (context.deadline != absl::InfiniteFuture()) part.deadline = now + (context.deadline - now) / 2;
    absl::StatusOr<EmbeddedInputs> vectors = given.Embed(engine, collection, *record, part);
    LC_RETURN_IF_ERROR(CheckAlive(context, "search"));
    if (!vectors.ok()) vectors = EmbeddedInputs(given.inputs.size(), vectors.status());
    for (size_t i = 0; i < vectors->size(); ++i) {
      absl::StatusOr<std::vector<float>>& vector = (*vectors)[i];
      if (vector.ok()) {
        (*queries)[given.positions[i]].older.push_back({older, *std::move(vector)});
      } else if (error.empty()) {
        error = StrCat("generation ", older, ": ", MessageOf(vector.status()));
      }
    }
  }
  return error;
}

std::vector<std::string> WatchModels(const Served& served, const GenerationRecord& generation, const SearchCall& call,
                                     std::vector<BoundVector>* queries) {
  if (!served.model_watch->watches()) return {};
  std::map<uint32_t, std::pair<std::vector<std::span<const float>>, std::vector<size_t>>> by_generation;
  const auto add = [&](uint32_t of, std::span<const float> z, size_t query) {
    by_generation[of].first.push_back(z);
    by_generation[of].second.push_back(query);
  };
  for (size_t i = 0; i < queries->size(); ++i) {
    const BoundVector& query = (*queries)[i];
    if (!query.status.ok() || query.left_out || call.queries[i].is_computed) continue;
    add(generation.generation, query.z, i);
    for (const OlderVector& older : query.older) add(older.generation, older.z, i);
  }
  const bool rejects = served.collection->state()->record.foreign_vectors == ForeignVectors::kReject;
  std::vector<std::string> warnings;
  for (const auto& [of, looked_at] : by_generation) {
    const auto& [vectors, places] = looked_at;
    ForeignFinding finding = served.model_watch->LookAtQueries(of, vectors);
    // An older generation's vector ranks older items alone: that is no reason to give up the query.
    const bool refuses = rejects && of == generation.generation;
    std::vector<size_t> refused = refuses ? finding.refused : std::vector<size_t>();
    if (refuses && finding.most_refused) {
      refused.resize(vectors.size());
      std::iota(refused.begin(), refused.end(), size_t{0});
    }
    for (const size_t place : refused) {
      (*queries)[places[place]].status = FailedPrecondition(
          StrCat("queries[", places[place], "]: ", finding.warning, "; the collection's foreign_vectors is 'reject'"));
    }
    if (!finding.warning.empty()) warnings.push_back(std::move(finding.warning));
  }
  return warnings;
}

}  // namespace lightcone::server

#include "bench/engine_gallery.h"

#include <algorithm>

#include "base/status.h"
#include "bench/clusters.h"

namespace lightcone::bench {

EngineGallery::EngineGallery(const std::string& folder, int dimension, int64_t items, const std::string& helper)
    : dimension_(dimension), items_(items), queries_(ClusteredVectors(kQueries, dimension, 500, 0.7, 999)) {
  options_.data_folder = folder;
  options_.helper_program = helper;
  options_.index_unsealed_bytes_max = 0;  // which would cut what is to be one segment
}

absl::Status EngineGallery::Reopen() {
  engine_.reset();
  LC_ASSIGN_OR_RETURN(engine_, server::Engine::Open(options_));
  return absl::OkStatus();
}

absl::Status EngineGallery::Fill(int64_t both) {
  LC_RETURN_IF_ERROR(Reopen());
  server::CreateCollectionCall create;
  create.name = kName;
  create.index.growing_rows_max = items_;  // one segment, built once
  create.index.build_threads = 2;
  LC_RETURN_IF_ERROR(engine_->CreateCollection(create).status());
  for (const uint32_t parent : {0u, 1u}) {
    server::RegisterCall add;
    add.collection = kName;
    add.parent = parent;
    add.manifest_json = StrCat("{\"dimension\": ", dimension_, ", \"curvature\": 1.0, \"clip_radius\": 1.2}");
    LC_RETURN_IF_ERROR(engine_->RegisterGeneration(add).status());
  }
  LC_RETURN_IF_ERROR(Activate(1));
  constexpr int64_t kLoadBatch = 1'000;
  for (int64_t begin = 0; begin < items_; begin += kLoadBatch) {
    const int64_t n = std::min(kLoadBatch, items_ - begin);
    LC_RETURN_IF_ERROR(Upsert(begin, n, Durability::kProcess));
    if (begin < both) LC_RETURN_IF_ERROR(Upsert(begin, std::min(n, both - begin), Durability::kProcess, 2, true));
  }
  IndexChange usual;
  usual.growing_rows_max = IndexSettings().growing_rows_max;
  return engine_->Rebuild(kName, usual, /*wait=*/true, "", {}).status();
}

std::vector<float> EngineGallery::VectorsOf(int64_t first, int64_t n) const {
  return ClusteredVectors(n, dimension_, 500, 0.7, 1000 + static_cast<uint64_t>(first));
}

absl::Status EngineGallery::Upsert(int64_t first, int64_t n, Durability durability, uint32_t generation,
                                   bool same_content) {
  const std::vector<float> rows = VectorsOf(first, n);
  server::UpsertBatch batch;
  batch.collection = kName;
  batch.generation = generation;
  batch.same_content = same_content;
  batch.durability = durability;
  for (int64_t i = 0; i < n; ++i) {
    server::UpsertItem& item = batch.items.emplace_back();
    item.id = ItemId(static_cast<uint64_t>(first + i));
    item.content = std::vector<float>(rows.begin() + i * dimension_, rows.begin() + (i + 1) * dimension_);
  }
  return engine_->Upsert(std::move(batch), {}).status();
}

absl::Status EngineGallery::Activate(uint32_t generation) {
  server::ActivateCall call;
  call.collection = kName;
  call.generation = generation;
  return engine_->ActivateGeneration(call).status();
}

absl::StatusOr<server::SearchAnswer> EngineGallery::Search(size_t i) const {
  server::SearchCall call;
  call.collection = kName;
  call.queries.resize(1);
  const auto query = queries_.begin() + static_cast<std::ptrdiff_t>(i % kQueries) * dimension_;
  call.queries[0].content = std::vector<float>(query, query + dimension_);
  LC_ASSIGN_OR_RETURN(server::SearchAnswer answer, engine_->Search(call, {}));
  LC_RETURN_IF_ERROR(answer.results[0].status);
  return answer;
}

}  // namespace lightcone::bench

#include "bench/load.h"

#include "base/status.h"
#include "client/upsert_stream.h"

namespace lightcone::bench {

absl::Status MakeCollection(client::Client& client, const std::string& name, int dimension,
                            const v1::IndexSettings& index) {
  v1::CreateRequest create;
  *create.mutable_index() = index;
  create.set_name(name);
  create.set_geometry(v1::GEOMETRY_LORENTZ);
  create.set_curvature(1.0);
  LC_RETURN_IF_ERROR(client.CreateCollection(create).status());
  v1::RegisterRequest add;
  add.set_collection(name);
  add.set_manifest_json(StrCat("{\"dimension\": ", dimension, ", \"curvature\": 1.0, \"clip_radius\": 1.2}"));
  LC_ASSIGN_OR_RETURN(const v1::RegisterResponse added, client.RegisterGeneration(add));
  v1::ActivateRequest activate;
  activate.set_collection(name);
  activate.set_generation(added.generation().generation());
  return client.ActivateGeneration(activate).status();
}

v1::UpsertRequest MakeBatch(const std::string& collection, uint64_t first_id, const float* rows, int64_t count,
                            int dimension) {
  v1::UpsertRequest batch;
  batch.set_collection(collection);
  for (int64_t i = 0; i < count; ++i) {
    v1::Item* item = batch.add_items();
    item->mutable_id()->set_number(first_id + static_cast<uint64_t>(i));
    client::SetVector(rows + i * dimension, dimension, item->mutable_vector());
  }
  return batch;
}

absl::Status LoadRows(client::Client& client, const std::string& collection, std::span<const float> rows, int dimension,
                      uint64_t first_id, const std::function<std::string(uint64_t id)>& payload_of) {
  constexpr int64_t kBatch = 1'000;
  const int64_t n = static_cast<int64_t>(rows.size()) / dimension;
  absl::Status refused;
  client::UpsertStreamOptions options;
  options.on_acknowledge = [&refused](uint64_t, const absl::StatusOr<v1::UpsertResponse>& outcome) {
    if (!outcome.ok() && refused.ok()) refused = outcome.status();
  };
  auto stream = client.OpenUpsertStream(options);
  for (int64_t begin = 0; begin < n; begin += kBatch) {
    const int64_t count = std::min(kBatch, n - begin);
    v1::UpsertRequest batch =
        MakeBatch(collection, first_id + static_cast<uint64_t>(begin), &rows[begin * dimension], count, dimension);
    batch.set_durability(v1::DURABILITY_PROCESS);
    if (payload_of) {
      for (v1::Item& item : *batch.mutable_items()) item.set_payload_json(payload_of(item.id().number()));
    }
    LC_RETURN_IF_ERROR(stream->Send(std::move(batch), static_cast<uint64_t>(begin)));
  }
  LC_RETURN_IF_ERROR(stream->Finish());
  return refused;
}

}  // namespace lightcone::bench

#include "server/engine/write/write_calls.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "geometry/uncertainty.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/model_watch.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/embed/embed_inputs.h"
#include "server/engine/write/writer.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

std::string ItemField(size_t i, std::string_view part) { return StrCat("items[", i, "]", part); }

absl::Status CheckIds(const UpsertBatch& batch, const Limits& limits) {
  absl::flat_hash_map<std::string, size_t> seen;
  seen.reserve(batch.items.size());
  for (size_t i = 0; i < batch.items.size(); ++i) {
    if (std::holds_alternative<std::string>(batch.items[i].id.value)) {
      LC_RETURN_IF_ERROR(CheckItemId(batch.items[i].id, limits.id_bytes_max, ItemField(i, ".id")));
    }
    const auto [first, is_new] = seen.try_emplace(keys::EncodeItemId(batch.items[i].id), i);
    if (!is_new) {
      return InvalidField(ItemField(i, ".id"),
                          StrCat(ToString(batch.items[i].id), ", as in ", ItemField(first->second, "")),
                          "each id once in a batch");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUpsert(const UpsertBatch& batch, const Limits& limits) {
  LC_RETURN_IF_ERROR(CheckCount(batch.items.size(), limits.batch_items_max, "items"));
  LC_RETURN_IF_ERROR(CheckIds(batch, limits));
  if (batch.same_content && batch.keep_payload) return InvalidField("keep_payload", "set", "unset with same_content");
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const UpsertItem& item = batch.items[i];
    if (item.ttl_ms) LC_RETURN_IF_ERROR(CheckTtl(*item.ttl_ms, ItemField(i, ".ttl_ms")));
    if (batch.same_content && item.ttl_ms) {
      return InvalidField(ItemField(i, ".ttl_ms"), "set", "nothing with same_content: the item keeps its time");
    }
    if (batch.same_content && !item.payload_json.empty()) {
      return InvalidField(ItemField(i, ".payload_json"), "set", "empty with same_content: the payload is kept");
    }
    if (batch.keep_payload && (item.ttl_ms || !item.payload_json.empty())) {
      return InvalidField(ItemField(i, item.ttl_ms ? ".ttl_ms" : ".payload_json"), "set",
                          "nothing with keep_payload: the item keeps its own");
    }
    if (!item.payload_json.empty()) {
      LC_RETURN_IF_ERROR(CheckPayload(item.payload_json, limits.payload_bytes_max, ItemField(i, ".payload_json")));
    }
    const auto* input = std::get_if<RawInput>(&item.content);
    if (batch.keep_input && input == nullptr) {
      return InvalidField(ItemField(i, ".vector"), "a vector", "a raw input with keep_input");
    }
    if (input != nullptr) LC_RETURN_IF_ERROR(CheckInput(*input, limits, ItemField(i, ".input")));
  }
  return absl::OkStatus();
}

// About what the items take on the wire.
int64_t WrittenBytes(const UpsertBatch& batch) {
  int64_t bytes = 0;
  for (const UpsertItem& item : batch.items) {
    const auto* const vector = std::get_if<std::vector<float>>(&item.content);
    const auto* const name = std::get_if<std::string>(&item.id.value);
    bytes += vector != nullptr ? static_cast<int64_t>(vector->size() * sizeof(float))
                               : InputBytes(std::get<RawInput>(item.content));
    bytes += static_cast<int64_t>(item.payload_json.size() + (name != nullptr ? name->size() : sizeof(uint64_t)));
  }
  return bytes;
}

absl::Status EmbedItems(const Context& engine, const Collection& collection, const GenerationRecord& generation,
                        const UpsertBatch& batch, const CallContext& context, std::vector<PreparedItem>* items) {
  std::vector<const RawInput*> inputs;
  std::vector<size_t> positions;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    if (const auto* input = std::get_if<RawInput>(&batch.items[i].content)) {
      inputs.push_back(input);
      positions.push_back(i);
    }
  }
  const auto field_of = [&](size_t i) { return ItemField(positions[i], ".input"); };
  LC_ASSIGN_OR_RETURN(auto vectors,
                      EmbedInputs(engine, collection, generation, inputs, EmbedRole::kDocument, field_of, context));
  for (size_t i = 0; i < vectors.size(); ++i) {
    LC_RETURN_IF_ERROR(vectors[i].status());
    PreparedItem& item = (*items)[positions[i]];
    item.z = std::move(*vectors[i]);
    if (batch.keep_input) item.input = EncodeInput(*inputs[i]);
  }
  return absl::OkStatus();
}

absl::Status PrepareItems(const Context& engine, const Collection& collection, const GenerationRecord& generation,
                          UpsertBatch* batch, const CallContext& context, std::vector<PreparedItem>* items) {
  items->resize(batch->items.size());
  // Vectors first: a batch with a bad one must not cost the encoder anything.
  for (size_t i = 0; i < batch->items.size(); ++i) {
    auto* vector = std::get_if<std::vector<float>>(&batch->items[i].content);
    if (vector == nullptr) continue;
    if (!CheckVector(generation.space, *vector, "vector").ok()) {  // The name is made for the error only.
      return CheckVector(generation.space, *vector, ItemField(i, ".vector"));
    }
    (*items)[i].z = std::move(*vector);
  }
  LC_RETURN_IF_ERROR(EmbedItems(engine, collection, generation, *batch, context, items));
  const int64_t default_ttl_ms = collection.state()->record.default_ttl_ms;
  for (size_t i = 0; i < items->size(); ++i) {
    UpsertItem& given = batch->items[i];
    PreparedItem& item = (*items)[i];
    item.uncertainty = static_cast<float>(UncertaintyOf(generation.space, item.z));
    item.key = keys::Item(collection.number(), given.id);
    item.id = std::move(given.id);
    item.expected_sequence = given.expected_sequence;
    item.ttl_ms = given.ttl_ms.value_or(default_ttl_ms);
    item.payload_json = given.payload_json.empty() ? "{}" : std::move(given.payload_json);
    EmbeddingRecord record{std::move(item.z), item.uncertainty};
    item.embedding = EncodeEmbedding(record);
    item.z = std::move(record.z);
  }
  return absl::OkStatus();
}

// The warning about vectors that do not look like the generation's; empty: none. FAILED_PRECONDITION names the first of
// them where they are to be refused.
absl::StatusOr<std::string> WatchModel(const Served& served, const WriteJob& job, bool refuses_foreign) {
  if (!served.model_watch->watches()) return std::string();
  std::vector<std::span<const float>> vectors;
  for (const PreparedItem& item : job.items) vectors.emplace_back(item.z);
  // A backfill writes in its own order, so that where its vectors lie moves with that.
  ForeignFinding finding = served.model_watch->LookAtRows(job.generation, vectors, /*by_time=*/!job.same_content);
  if (!refuses_foreign || !finding.some_refused) return std::move(finding.warning);
  const std::string which = finding.refused.empty() ? "items" : ItemField(finding.refused.front(), " and others");
  return FailedPrecondition(StrCat(which, ": ", finding.warning, "; the collection's foreign_vectors is 'reject'"));
}

}  // namespace

absl::StatusOr<WriteResult> WriteCalls::Upsert(UpsertBatch batch, const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckAlive(context, "upsert"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(batch.collection));
  const auto state = served->collection->state();
  LC_RETURN_IF_ERROR(CheckLimits(state->record, context_.options.limits,
                                 [&batch](const Limits& limits) { return CheckUpsert(batch, limits); }));
  const bool brings_vectors = std::any_of(batch.items.begin(), batch.items.end(), [](const UpsertItem& item) {
    return std::holds_alternative<std::vector<float>>(item.content);
  });
  if (brings_vectors) LC_RETURN_IF_ERROR(state->CheckNamed(batch.generation));
  LC_ASSIGN_OR_RETURN(const GenerationRecord* generation, state->Resolve(batch.generation));
  LC_RETURN_IF_ERROR(CheckModel(*generation, batch.model));
  if (context.meter != nullptr) {
    LC_RETURN_IF_ERROR(context.meter->TakeWrite(static_cast<int64_t>(batch.items.size()), WrittenBytes(batch)));
  }
  const bool refuses = state->record.foreign_vectors == ForeignVectors::kReject;
  return Write(*served, *generation, std::move(batch), refuses, context);
}

absl::StatusOr<WriteResult> WriteCalls::WriteVectors(const Served& served, const GenerationRecord& generation,
                                                     UpsertBatch batch, const CallContext& context) {
  return Write(served, generation, std::move(batch), /*refuses_foreign=*/false, context);
}

absl::StatusOr<WriteResult> WriteCalls::Write(const Served& served, const GenerationRecord& generation,
                                              UpsertBatch batch, bool refuses_foreign, const CallContext& context) {
  WriteJob job;
  job.generation = generation.generation;
  job.same_content = batch.same_content;
  job.keep_payload = batch.keep_payload;
  job.durability = batch.durability;
  LC_RETURN_IF_ERROR(PrepareItems(context_, *served.collection, generation, &batch, context, &job.items));
  LC_ASSIGN_OR_RETURN(std::string warning, WatchModel(served, job, refuses_foreign));
  LC_ASSIGN_OR_RETURN(WriteResult result, served.writer->Submit(&job, context));
  if (job.same_content) served.backfill->NoteEmbedded(job.generation, job.written);
  if (!warning.empty()) result.warnings.push_back(std::move(warning));
  return result;
}

absl::StatusOr<WriteResult> WriteCalls::Delete(const std::string& name, const std::vector<ItemId>& ids,
                                               Durability durability, const CallContext& context) {
  LC_RETURN_IF_ERROR(CheckAlive(context, "delete"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  LC_RETURN_IF_ERROR(CheckCount(ids.size(), context_.options.limits.batch_items_max, "ids"));
  for (size_t i = 0; i < ids.size(); ++i) {
    LC_RETURN_IF_ERROR(CheckItemId(ids[i], context_.options.limits.id_bytes_max, StrCat("ids[", i, "]")));
  }
  WriteJob job;
  job.ids = ids;
  job.durability = durability;
  return served->writer->Submit(&job, context);
}

}  // namespace lightcone::server

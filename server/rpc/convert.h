// Conversion between wire and engine, and nothing more. The engine checks limits and meaning. A value that the engine's
// types cannot express (an unknown enumerator, bytes that are no whole number of floats, an unset oneof) is refused
// here with INVALID_ARGUMENT, which names the field by its path ("items[3].vector.f32_le"). Threads: pure functions. No
// gRPC stands here, so that fuzzers and tests link little.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lightcone/v1/backfill.pb.h"
#include "lightcone/v1/collections.pb.h"
#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/jobs.pb.h"
#include "lightcone/v1/probes.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "lightcone/v1/training.pb.h"
#include "lightcone/v1/types.pb.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/api/types.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/api/verb_types.h"

namespace lightcone::server {

// Makes the path of a field for a message. It is no string: a batch has thousands of fields, and few are wrong.
using FieldPath = absl::FunctionRef<std::string()>;

// Parts of messages. `field` is the path for messages of errors.
absl::StatusOr<ItemId> FromWire(const v1::ItemId& id, FieldPath field);
absl::StatusOr<std::vector<float>> FromWire(const v1::Vector& vector, FieldPath field);
absl::StatusOr<RawInput> FromWire(const v1::RawInput& input, FieldPath field);
absl::StatusOr<FilterNode> FromWire(const v1::Filter& filter, std::string_view field);
absl::StatusOr<FilterValue> FromWire(const v1::FilterValue& value, std::string_view field);
absl::StatusOr<std::vector<ItemId>> FromWire(const google::protobuf::RepeatedPtrField<v1::ItemId>& ids);
absl::StatusOr<Durability> FromWire(v1::Durability durability);
absl::StatusOr<Metric> FromWire(v1::Geometry geometry);
// Fields that are 0 stay unset.
absl::StatusOr<IndexChange> FromWire(const v1::IndexSettings& settings);

// INVALID_ARGUMENT for more than kFilterNodesMax conditions, whose conversion would cost many times their bytes.
absl::Status CheckNodes(const v1::Filter& filter);

// nullopt when the message has no filter. An empty filter is refused.
template <typename Message>
absl::StatusOr<std::optional<FilterNode>> FilterOf(const Message& message) {
  if (!message.has_filter()) return std::optional<FilterNode>();
  const absl::Status few = CheckNodes(message.filter());
  if (!few.ok()) return few;
  absl::StatusOr<FilterNode> node = FromWire(message.filter(), "filter");
  if (!node.ok()) return node.status();
  return std::optional<FilterNode>(*std::move(node));
}

PayloadSelection FromWire(const v1::PayloadSelection& selection);

// Calls.
absl::StatusOr<UpsertBatch> FromWire(const v1::UpsertRequest& request);
// A query that cannot be converted carries its error, and the call goes on.
absl::StatusOr<SearchCall> FromWire(const v1::SearchRequest& request);
absl::StatusOr<CreateCollectionCall> FromWire(const v1::CreateRequest& request, const IndexSettings& defaults);
absl::StatusOr<UpdateCollectionCall> FromWire(const v1::UpdateRequest& request);
absl::StatusOr<IndexPayloadCall> FromWire(const v1::IndexPayloadRequest& request);
// REQUIRES: the request has a filter. INVALID_ARGUMENT where it has ids besides.
absl::StatusOr<DeleteByFilterCall> FilterDeleteOf(const v1::DeleteRequest& request);
absl::StatusOr<ChangePayloadCall> FromWire(const v1::ChangePayloadRequest& request);
absl::StatusOr<FacetCall> FromWire(const v1::FacetRequest& request);
GroupBy FromWire(const v1::GroupBy& group_by);
absl::StatusOr<OrderBy> FromWire(const v1::OrderBy& order_by);
RegisterCall FromWire(const v1::RegisterRequest& request);
ActivateCall FromWire(const v1::ActivateRequest& request);
SwitchCall FromWire(const v1::RollbackRequest& request);
PutAdapterCall FromWire(const v1::PutAdapterRequest& request);
DropAdapterCall FromWire(const v1::DropAdapterRequest& request);
absl::StatusOr<AdapterMode> FromWire(v1::AdapterMode mode);
StartBackfillCall FromWire(const v1::BackfillStartRequest& request);
absl::StatusOr<ValidateCall> FromWire(const v1::ValidateRequest& request);
FitAdapterCall FromWire(const v1::FitAdapterRequest& request);
SetCanaryCall FromWire(const v1::SetCanaryRequest& request);
absl::StatusOr<PutProbesCall> FromWire(const v1::PutProbesRequest& request);
absl::StatusOr<LeaseCall> FromWire(const v1::LeaseRequest& request);

// Answers.
// INVALID_ARGUMENT when an id stands twice, since the answer would hold its item twice.
absl::Status CheckDistinct(const std::vector<ItemId>& ids);
v1::Durability ToWire(Durability durability);
google::protobuf::Timestamp TimestampOf(absl::Time time);
absl::StatusOr<int64_t> TtlOf(uint64_t ttl_ms, std::string_view field);
void ToWire(const ItemId& id, v1::ItemId* out);
void ToWire(const std::vector<float>& vector, v1::Vector* out);  // The encoding is f32_le.
void ToWire(const WriteResult& result, Durability durability, v1::UpsertResponse* out);
void ToWire(SearchAnswer answer, v1::SearchResponse* out);
void ToWire(StoredItem item, v1::StoredItem* out);
void ToWire(const CountAnswer& answer, v1::CountResponse* out);
void ToWire(const FieldValue& value, v1::FilterValue* out);
void ToWire(const ChangePayloadAnswer& answer, Durability durability, v1::ChangePayloadResponse* out);
void ToWire(const FacetAnswer& answer, v1::FacetResponse* out);
void ToWire(const CollectionStatus& status, v1::CollectionInfo* out);
void ToWire(const GenerationStatus& status, v1::GenerationInfo* out);
void ToWire(const AuditEntry& entry, v1::AuditEntry* out);
void ToWire(const AdapterStatus& status, v1::AdapterInfo* out);
void ToWire(const BackfillStatus& status, v1::StatusResponse* out);
EstimateCall FromWire(const v1::EstimateRequest& request);
void ToWire(const EmbeddingEstimate& estimate, v1::EstimateResponse* out);
void ToWire(LeaseAnswer answer, v1::LeaseResponse* out);
void ToWire(const ProbeSetStatus& set, v1::ProbeSetInfo* out);
void ToWire(const JobStatus& job, v1::JobInfo* out);
void ToWire(const JobStatus& job, v1::TrainingJob* out);
void ToWire(const CanaryStatus& status, v1::CanaryInfo* out);
void ToWire(const ValidationReport& report, v1::Validation* out);

}  // namespace lightcone::server

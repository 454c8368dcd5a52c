// The C++ client of Lightcone: typed calls over gRPC with deadlines, typed errors and retries of what is safe to retry.
//
//   auto client = client::Client::Connect({.address = "127.0.0.1:7700"});
//   v1::SearchRequest request;  ...
//   absl::StatusOr<v1::SearchResponse> answer = (*client)->Search(request);
//
// Errors are the server's canonical code and message; where a field is at fault, PartsOf(status) (base/status.h) gives
// field, value and what is allowed. The client adds UNAVAILABLE (no server at the address), DEADLINE_EXCEEDED and, for
// its own options, INVALID_ARGUMENT. No gRPC header is needed to use it.
//
// Retries, on UNAVAILABLE only, with jittered exponential backoff and always within the call's deadline:
//   - reads: always safe;
//   - Upsert, Delete, ChangePayload and the reconnections of an UpsertStream: only with ClientOptions::retry_writes.
//   They are
//     idempotent by id, so the same write twice leaves the same state; but when the answer of a write is lost and
//     *another* writer of the same id comes between, the retry undoes what that writer was told is written. The client
//     cannot know whether the lost call reached the server. Set it where one writer owns its ids (a bulk load);
//   - operator calls (collections, generations): safe because of their request_id, which is generated when empty and
//     stays the same over the retries of a call.
// RESOURCE_EXHAUSTED (overload) is not retried here: the server asks for less, and the application decides how. Only
// SnapshotClient (client/snapshots.h) waits for its turn.
//
// Threads: every method of Client is safe concurrently. A stream or cursor belongs to one thread at a time and must not
// outlive its client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lightcone/v1/backfill.pb.h"
#include "lightcone/v1/collections.pb.h"
#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/jobs.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "lightcone/v1/training.pb.h"

namespace lightcone::client {

class ScrollCursor;
class UpsertStream;
struct UpsertStreamOptions;

struct ClientOptions {
  std::string address = "127.0.0.1:7700";                 // HOST:PORT
  absl::Duration timeout = absl::Seconds(30);             // timeout of a call without one, retries included; > 0
  int retries_max = 4;                                    // most tries after the first one; 0 .. 100
  absl::Duration backoff_first = absl::Milliseconds(50);  // pause before the first retry; doubles, jittered by half
  absl::Duration backoff_max = absl::Seconds(2);          // longest pause; >= backoff_first
  bool retry_writes = false;                              // Upsert, Delete, ChangePayload, UpsertStream: see above
  std::string operator_name = {};                         // name for requests that leave it out; <= 128 bytes
  int64_t message_bytes_max = int64_t{1} << 30;           // bytes of a message, both ways; up to 2^31 - 1
  // How often the client asks the server during calls whether it is there, 1 s .. 1 h (a server takes no less). Without
  // an answer in as long the calls end UNAVAILABLE. A watch without a deadline thereby notices a host that vanished.
  absl::Duration keepalive = absl::Seconds(20);

  std::string api_key = {};    // key or token that each call shows; empty: none. Printable ASCII, <= 8192 bytes
  std::string ca_file = {};    // PEM with the authorities of the server's certificate; empty: no encryption
  std::string cert_file = {};  // PEM with the client's own certificate chain; needs ca_file and key_file
  std::string key_file = {};   // PEM with the private key of cert_file

  // INVALID_ARGUMENT names the field, the value and what is allowed. An api_key is never part of a message.
  absl::Status Validate() const;
};

struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // 0: ClientOptions::timeout; InfiniteDuration(): no deadline
  int retries_max = -1;                           // -1: ClientOptions::retries_max
};

template <typename Response>
using Answer = absl::StatusOr<Response>;

// The calls of operators: generations, adapters, probe sets, jobs, trainings, canaries and backfills.
class OperatorCalls {
 public:
  // Generations.
  Answer<v1::RegisterResponse> RegisterGeneration(const v1::RegisterRequest& request, const CallOptions& = {});
  // Every page of ListGenerations and of ListAdapters, from the request's token on.
  Answer<v1::GenerationsListResponse> AllGenerations(const v1::GenerationsListRequest& request,
                                                     const CallOptions& = {});
  Answer<v1::ListAdaptersResponse> AllAdapters(const v1::ListAdaptersRequest& request, const CallOptions& = {});
  Answer<v1::GenerationsListResponse> ListGenerations(const v1::GenerationsListRequest& request,
                                                      const CallOptions& = {});
  Answer<v1::GenerationsGetResponse> GetGeneration(const v1::GenerationsGetRequest& request, const CallOptions& = {});
  Answer<v1::ActivateResponse> ActivateGeneration(const v1::ActivateRequest& request, const CallOptions& = {});
  Answer<v1::RollbackResponse> RollbackGeneration(const v1::RollbackRequest& request, const CallOptions& = {});
  Answer<v1::AuditResponse> Audit(const v1::AuditRequest& request, const CallOptions& = {});

  // Adapters of a pair of generations.
  Answer<v1::PutAdapterResponse> PutAdapter(const v1::PutAdapterRequest& request, const CallOptions& = {});
  Answer<v1::DropAdapterResponse> DropAdapter(const v1::DropAdapterRequest& request, const CallOptions& = {});
  Answer<v1::ListAdaptersResponse> ListAdapters(const v1::ListAdaptersRequest& request, const CallOptions& = {});

  Answer<v1::FitAdapterResponse> FitAdapter(const v1::FitAdapterRequest& request, const CallOptions& = {});
  Answer<v1::SampleItemsResponse> SampleItems(const v1::SampleItemsRequest& request, const CallOptions& = {});

  // Probe sets and jobs.
  Answer<v1::PutProbesResponse> PutProbes(const v1::PutProbesRequest& request, const CallOptions& = {});
  Answer<v1::DropProbesResponse> DropProbes(const v1::DropProbesRequest& request, const CallOptions& = {});
  Answer<v1::ListProbesResponse> ListProbes(const v1::ListProbesRequest& request, const CallOptions& = {});
  Answer<v1::ValidateResponse> ValidateGeneration(const v1::ValidateRequest& request, const CallOptions& = {});
  Answer<v1::RetireResponse> RetireGeneration(const v1::RetireRequest& request, const CallOptions& = {});
  Answer<v1::JobsGetResponse> GetJob(const v1::JobsGetRequest& request, const CallOptions& = {});
  Answer<v1::JobsListResponse> ListJobs(const v1::JobsListRequest& request, const CallOptions& = {});
  Answer<v1::JobsCancelResponse> CancelJob(const v1::JobsCancelRequest& request, const CallOptions& = {});
  // Calls `see` with the job after each change until the job has ended, and returns it. After a broken connection the
  // client watches again. CallOptions::timeout bounds the whole: use InfiniteDuration() for long jobs.
  Answer<v1::JobInfo> WatchJob(const std::string& id, const std::function<void(const v1::JobInfo&)>& see,
                               const CallOptions& options = {});

  // Trainings are jobs of one kind. WatchTraining behaves as WatchJob.
  Answer<v1::TrainingStartResponse> StartTraining(const v1::TrainingStartRequest& request, const CallOptions& = {});
  Answer<v1::TrainingGetResponse> GetTraining(const v1::TrainingGetRequest& request, const CallOptions& = {});
  Answer<v1::TrainingListResponse> ListTrainings(const v1::TrainingListRequest& request, const CallOptions& = {});
  Answer<v1::TrainingJob> WatchTraining(const std::string& id, const std::function<void(const v1::TrainingJob&)>& see,
                                        const CallOptions& options = {});
  Answer<v1::CancelResponse> CancelTraining(const v1::CancelRequest& request, const CallOptions& = {});

  // A canary.
  Answer<v1::SetCanaryResponse> SetCanary(const v1::SetCanaryRequest& request, const CallOptions& = {});
  Answer<v1::GetCanaryResponse> GetCanary(const v1::GetCanaryRequest& request, const CallOptions& = {});

  // Lazy backfill. A lease whose answer was lost is retried with other items. The lost lease ends by its timeout.
  Answer<v1::BackfillStartResponse> StartBackfill(const v1::BackfillStartRequest& request, const CallOptions& = {});
  Answer<v1::PauseResponse> PauseBackfill(const v1::PauseRequest& request, const CallOptions& = {});
  Answer<v1::EstimateResponse> EstimateBackfill(const v1::EstimateRequest& request, const CallOptions& = {});
  Answer<v1::StatusResponse> BackfillStatus(const v1::StatusRequest& request, const CallOptions& = {});
  Answer<v1::LeaseResponse> LeaseBackfill(const v1::LeaseRequest& request, const CallOptions& = {});
  // Watches as WatchJob until the backfill is done, stopped or failed; returns at once where there is none.
  Answer<v1::StatusResponse> WatchBackfill(const std::string& collection,
                                           const std::function<void(const v1::StatusResponse&)>& see,
                                           const CallOptions& options = {});

  struct Impl;  // client/channel.h

 protected:
  explicit OperatorCalls(std::unique_ptr<Impl> impl);
  ~OperatorCalls();

  const std::unique_ptr<Impl> impl_;
};

class Client : public OperatorCalls {
 public:
  // Checks the options, reads the files and makes the channel, without waiting for a server. The first call, or
  // WaitUntilServing, waits. NOT_FOUND names a file that is not there.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // grpc.health.v1: OK when the server says SERVING; UNAVAILABLE when it is not there, starting or draining.
  absl::Status CheckHealth(const CallOptions& options = {});
  // Asks for health until the server serves. DEADLINE_EXCEEDED, with the last answer, after `timeout`.
  absl::Status WaitUntilServing(absl::Duration timeout);

  // Retrieval.
  Answer<v1::UpsertResponse> Upsert(const v1::UpsertRequest& request, const CallOptions& = {});
  Answer<v1::GetResponse> Get(const v1::GetRequest& request, const CallOptions& = {});
  Answer<v1::DeleteResponse> Delete(const v1::DeleteRequest& request, const CallOptions& = {});
  Answer<v1::ChangePayloadResponse> ChangePayload(const v1::ChangePayloadRequest& request, const CallOptions& = {});
  Answer<v1::SearchResponse> Search(const v1::SearchRequest& request, const CallOptions& = {});
  Answer<v1::CountResponse> Count(const v1::CountRequest& request, const CallOptions& = {});
  Answer<v1::FacetResponse> Facet(const v1::FacetRequest& request, const CallOptions& = {});
  // See client/upsert_stream.h and client/scroll_cursor.h.
  std::unique_ptr<UpsertStream> OpenUpsertStream(UpsertStreamOptions options);
  std::unique_ptr<ScrollCursor> Scroll(const v1::ScrollRequest& request, const CallOptions& options = {});

  // Collections.
  Answer<v1::CreateResponse> CreateCollection(const v1::CreateRequest& request, const CallOptions& = {});
  Answer<v1::CollectionsListResponse> ListCollections(const v1::CollectionsListRequest& request,
                                                      const CallOptions& = {});
  // Every page of ListCollections.
  absl::StatusOr<std::vector<v1::CollectionInfo>> AllCollections(const CallOptions& options = {});
  Answer<v1::CollectionsGetResponse> GetCollection(const v1::CollectionsGetRequest& request, const CallOptions& = {});
  Answer<v1::DropResponse> DropCollection(const v1::DropRequest& request, const CallOptions& = {});
  Answer<v1::SetAliasResponse> SetAlias(const v1::SetAliasRequest& request, const CallOptions& = {});
  Answer<v1::UpdateResponse> UpdateCollection(const v1::UpdateRequest& request, const CallOptions& = {});
  Answer<v1::IndexPayloadResponse> IndexPayload(const v1::IndexPayloadRequest& request, const CallOptions& = {});
  Answer<v1::RebuildResponse> RebuildCollection(const v1::RebuildRequest& request, const CallOptions& = {});

  const ClientOptions& options() const;

 private:
  explicit Client(std::unique_ptr<Impl> impl);
};

// Error of one query or one batch as a status with the parts of a FieldError.
absl::Status StatusOf(const v1::PartError& error);

// New request_id of 32 hexadecimal digits. Threads: safe.
std::string NewRequestId();

// Puts `count` float32 values into `vector` as f32_le, the cheapest encoding.
void SetVector(const float* values, int64_t count, v1::Vector* vector);
// Values of a vector of any encoding, as float32. INVALID_ARGUMENT when no encoding is set or the bytes are no whole
// number of elements.
absl::StatusOr<std::vector<float>> VectorOf(const v1::Vector& vector);

}  // namespace lightcone::client

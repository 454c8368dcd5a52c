#include "client/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_format.h"
#include "base/half.h"
#include "client/channel.h"

namespace lightcone::client {
namespace {

// A copy of an operator's request with a request_id, so that every retry of the call carries the same one, and with the
// operator's name.
template <typename Request>
Request Operated(const Request& request, const ClientOptions& options) {
  Request copy = request;
  if (copy.request_id().empty()) copy.set_request_id(NewRequestId());
  if constexpr (requires { copy.operator_name(); }) {
    if (copy.operator_name().empty()) copy.set_operator_name(options.operator_name);
  }
  return copy;
}

// Writes are made once unless the application asks for more.
CallOptions ForWrite(const ClientOptions& options, CallOptions call) {
  if (!options.retry_writes) call.retries_max = 0;
  return call;
}

}  // namespace

absl::Status ClientOptions::Validate() const {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return InvalidField("address", StrCat("'", address, "'"), "HOST:PORT");
  }
  if (timeout <= absl::ZeroDuration()) return InvalidField("timeout", absl::FormatDuration(timeout), "above 0");
  if (retries_max < 0 || retries_max > 100) return InvalidField("retries_max", StrCat(retries_max), "0 .. 100");
  if (backoff_first <= absl::ZeroDuration()) {
    return InvalidField("backoff_first", absl::FormatDuration(backoff_first), "above 0");
  }
  if (backoff_max < backoff_first) {
    return InvalidField("backoff_max", absl::FormatDuration(backoff_max),
                        StrCat("at least backoff_first = ", absl::FormatDuration(backoff_first)));
  }
  if (message_bytes_max < 1024 || message_bytes_max > 2'147'483'647) {
    return InvalidField("message_bytes_max", StrCat(message_bytes_max), "1024 .. 2147483647");
  }
  if (keepalive < absl::Seconds(1) || keepalive > absl::Hours(1)) {
    return InvalidField("keepalive", absl::FormatDuration(keepalive), "1s .. 1h");
  }
  if (api_key.size() > 8'192 ||
      !std::all_of(api_key.begin(), api_key.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
    return InvalidField("api_key", StrCat(api_key.size(), " bytes"),
                        "at most 8192 bytes of printable ASCII, no spaces");
  }
  if (cert_file.empty() != key_file.empty()) {
    return InvalidField(cert_file.empty() ? "cert_file" : "key_file", "not set", "both cert_file and key_file");
  }
  if (!cert_file.empty() && ca_file.empty()) return InvalidField("ca_file", "not set", "set beside cert_file");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  LC_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ChannelCredentials> credentials, CredentialsOf(options));
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(options, std::move(credentials))));
}

OperatorCalls::OperatorCalls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OperatorCalls::~OperatorCalls() = default;
Client::Client(std::unique_ptr<Impl> impl) : OperatorCalls(std::move(impl)) {}
Client::~Client() = default;

const ClientOptions& Client::options() const { return impl_->options; }

#define LC_CLIENT_CALL(Name, stub, Service, Method, Request, Response)                                    \
  Answer<v1::Response> LC_CLIENT_CLASS::Name(const v1::Request& request, const CallOptions& call) {       \
    return CallWithRetries(impl_->options, call, impl_->stub.get(), &v1::Service::Stub::Method, request); \
  }
#define LC_CLIENT_WRITE_CALL(Name, stub, Service, Method, Request, Response)                        \
  Answer<v1::Response> LC_CLIENT_CLASS::Name(const v1::Request& request, const CallOptions& call) { \
    return CallWithRetries(impl_->options, ForWrite(impl_->options, call), impl_->stub.get(),       \
                           &v1::Service::Stub::Method, request);                                    \
  }
#define LC_CLIENT_OPERATOR_CALL(Name, stub, Service, Method, Request, Response)                     \
  Answer<v1::Response> LC_CLIENT_CLASS::Name(const v1::Request& request, const CallOptions& call) { \
    return CallWithRetries(impl_->options, call, impl_->stub.get(), &v1::Service::Stub::Method,     \
                           Operated(request, impl_->options));                                      \
  }

#define LC_CLIENT_CLASS Client
LC_CLIENT_WRITE_CALL(Upsert, retrieval, Retrieval, Upsert, UpsertRequest, UpsertResponse)
LC_CLIENT_CALL(Get, retrieval, Retrieval, Get, GetRequest, GetResponse)
LC_CLIENT_WRITE_CALL(Delete, retrieval, Retrieval, Delete, DeleteRequest, DeleteResponse)
LC_CLIENT_WRITE_CALL(ChangePayload, retrieval, Retrieval, ChangePayload, ChangePayloadRequest, ChangePayloadResponse)
LC_CLIENT_CALL(Search, retrieval, Retrieval, Search, SearchRequest, SearchResponse)
LC_CLIENT_CALL(Count, retrieval, Retrieval, Count, CountRequest, CountResponse)
LC_CLIENT_CALL(Facet, retrieval, Retrieval, Facet, FacetRequest, FacetResponse)

LC_CLIENT_OPERATOR_CALL(CreateCollection, collections, Collections, Create, CreateRequest, CreateResponse)
LC_CLIENT_CALL(ListCollections, collections, Collections, List, CollectionsListRequest, CollectionsListResponse)
LC_CLIENT_CALL(GetCollection, collections, Collections, Get, CollectionsGetRequest, CollectionsGetResponse)
LC_CLIENT_OPERATOR_CALL(DropCollection, collections, Collections, Drop, DropRequest, DropResponse)
LC_CLIENT_OPERATOR_CALL(SetAlias, collections, Collections, SetAlias, SetAliasRequest, SetAliasResponse)
LC_CLIENT_OPERATOR_CALL(UpdateCollection, collections, Collections, Update, UpdateRequest, UpdateResponse)
LC_CLIENT_OPERATOR_CALL(IndexPayload, collections, Collections, IndexPayload, IndexPayloadRequest, IndexPayloadResponse)
LC_CLIENT_OPERATOR_CALL(RebuildCollection, collections, Collections, Rebuild, RebuildRequest, RebuildResponse)

#undef LC_CLIENT_CLASS
#define LC_CLIENT_CLASS OperatorCalls
LC_CLIENT_OPERATOR_CALL(RegisterGeneration, generations, Generations, Register, RegisterRequest, RegisterResponse)
LC_CLIENT_CALL(ListGenerations, generations, Generations, List, GenerationsListRequest, GenerationsListResponse)
LC_CLIENT_CALL(GetGeneration, generations, Generations, Get, GenerationsGetRequest, GenerationsGetResponse)
LC_CLIENT_OPERATOR_CALL(ActivateGeneration, generations, Generations, Activate, ActivateRequest, ActivateResponse)
LC_CLIENT_OPERATOR_CALL(RollbackGeneration, generations, Generations, Rollback, RollbackRequest, RollbackResponse)
LC_CLIENT_CALL(Audit, generations, Generations, Audit, AuditRequest, AuditResponse)

LC_CLIENT_OPERATOR_CALL(PutAdapter, generations, Generations, PutAdapter, PutAdapterRequest, PutAdapterResponse)
LC_CLIENT_OPERATOR_CALL(DropAdapter, generations, Generations, DropAdapter, DropAdapterRequest, DropAdapterResponse)
LC_CLIENT_OPERATOR_CALL(FitAdapter, generations, Generations, FitAdapter, FitAdapterRequest, FitAdapterResponse)
LC_CLIENT_CALL(SampleItems, generations, Generations, SampleItems, SampleItemsRequest, SampleItemsResponse)
LC_CLIENT_CALL(ListAdapters, generations, Generations, ListAdapters, ListAdaptersRequest, ListAdaptersResponse)

LC_CLIENT_OPERATOR_CALL(PutProbes, generations, Generations, PutProbes, PutProbesRequest, PutProbesResponse)
LC_CLIENT_OPERATOR_CALL(DropProbes, generations, Generations, DropProbes, DropProbesRequest, DropProbesResponse)
LC_CLIENT_CALL(ListProbes, generations, Generations, ListProbes, ListProbesRequest, ListProbesResponse)
LC_CLIENT_OPERATOR_CALL(ValidateGeneration, generations, Generations, Validate, ValidateRequest, ValidateResponse)
LC_CLIENT_OPERATOR_CALL(RetireGeneration, generations, Generations, Retire, RetireRequest, RetireResponse)
LC_CLIENT_CALL(GetJob, jobs, Jobs, Get, JobsGetRequest, JobsGetResponse)
LC_CLIENT_CALL(ListJobs, jobs, Jobs, List, JobsListRequest, JobsListResponse)
LC_CLIENT_OPERATOR_CALL(CancelJob, jobs, Jobs, Cancel, JobsCancelRequest, JobsCancelResponse)
LC_CLIENT_OPERATOR_CALL(StartTraining, training, Training, Start, TrainingStartRequest, TrainingStartResponse)
LC_CLIENT_CALL(GetTraining, training, Training, Get, TrainingGetRequest, TrainingGetResponse)
LC_CLIENT_CALL(ListTrainings, training, Training, List, TrainingListRequest, TrainingListResponse)
LC_CLIENT_OPERATOR_CALL(CancelTraining, training, Training, Cancel, CancelRequest, CancelResponse)
LC_CLIENT_OPERATOR_CALL(SetCanary, generations, Generations, SetCanary, SetCanaryRequest, SetCanaryResponse)
LC_CLIENT_CALL(GetCanary, generations, Generations, GetCanary, GetCanaryRequest, GetCanaryResponse)

LC_CLIENT_OPERATOR_CALL(StartBackfill, backfill, Backfill, Start, BackfillStartRequest, BackfillStartResponse)
LC_CLIENT_OPERATOR_CALL(PauseBackfill, backfill, Backfill, Pause, PauseRequest, PauseResponse)
LC_CLIENT_CALL(EstimateBackfill, backfill, Backfill, Estimate, EstimateRequest, EstimateResponse)
LC_CLIENT_CALL(BackfillStatus, backfill, Backfill, Status, StatusRequest, StatusResponse)
LC_CLIENT_CALL(LeaseBackfill, backfill, Backfill, Lease, LeaseRequest, LeaseResponse)

#undef LC_CLIENT_CLASS
#undef LC_CLIENT_CALL
#undef LC_CLIENT_WRITE_CALL
#undef LC_CLIENT_OPERATOR_CALL

absl::StatusOr<std::vector<v1::CollectionInfo>> Client::AllCollections(const CallOptions& call) {
  std::vector<v1::CollectionInfo> all;
  v1::CollectionsListRequest request;
  do {
    LC_ASSIGN_OR_RETURN(v1::CollectionsListResponse page, ListCollections(request, call));
    for (v1::CollectionInfo& info : *page.mutable_collections()) all.push_back(std::move(info));
    request.set_token(page.token());
  } while (!request.token().empty());
  return all;
}

namespace {

// Every page of a list, in one answer without a token. `list` answers one page.
template <typename Response, typename Request, typename List>
absl::StatusOr<Response> AllPages(Request request, List list) {
  Response all;
  do {
    LC_ASSIGN_OR_RETURN(Response page, list(request));
    request.set_token(page.token());
    all.MergeFrom(page);
  } while (!request.token().empty());
  all.clear_token();
  return all;
}

}  // namespace

absl::StatusOr<v1::GenerationsListResponse> OperatorCalls::AllGenerations(const v1::GenerationsListRequest& request,
                                                                          const CallOptions& call) {
  return AllPages<v1::GenerationsListResponse>(
      request, [&](const v1::GenerationsListRequest& page) { return ListGenerations(page, call); });
}

absl::StatusOr<v1::ListAdaptersResponse> OperatorCalls::AllAdapters(const v1::ListAdaptersRequest& request,
                                                                    const CallOptions& call) {
  return AllPages<v1::ListAdaptersResponse>(
      request, [&](const v1::ListAdaptersRequest& page) { return ListAdapters(page, call); });
}

std::string NewRequestId() {
  static thread_local absl::BitGen random;
  return absl::StrFormat("%016x%016x", absl::Uniform<uint64_t>(random), absl::Uniform<uint64_t>(random));
}

void SetVector(const float* values, int64_t count, v1::Vector* vector) {
  static_assert(std::endian::native == std::endian::little, "f32_le is copied as it lies in memory");
  vector->set_f32_le(values, static_cast<size_t>(count) * sizeof(float));
}

absl::StatusOr<std::vector<float>> VectorOf(const v1::Vector& vector) {
  switch (vector.encoding_case()) {
    case v1::Vector::kFloats:
      return std::vector<float>(vector.floats().values().begin(), vector.floats().values().end());
    case v1::Vector::kF32Le: {
      const std::string& bytes = vector.f32_le();
      if (bytes.size() % sizeof(float) != 0) {
        return InvalidField("vector.f32_le", StrCat(bytes.size(), " bytes"), "a multiple of 4");
      }
      std::vector<float> values(bytes.size() / sizeof(float));
      if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    }
    case v1::Vector::kF16Le: {
      const std::string& bytes = vector.f16_le();
      if (bytes.size() % 2 != 0) {
        return InvalidField("vector.f16_le", StrCat(bytes.size(), " bytes"), "a multiple of 2");
      }
      std::vector<float> values(bytes.size() / 2);
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t low = static_cast<uint8_t>(bytes[2 * i]);
        const uint16_t high = static_cast<uint8_t>(bytes[2 * i + 1]);
        values[i] = HalfToFloat(static_cast<uint16_t>(low | (high << 8)));
      }
      return values;
    }
    case v1::Vector::ENCODING_NOT_SET:
      break;
  }
  return InvalidField("vector.encoding", "not set", "floats, f32_le or f16_le");
}

}  // namespace lightcone::client

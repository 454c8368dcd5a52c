#include <map>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "server/rpc/checked_service.h"
#include "server/rpc/convert.h"
#include "server/rpc/services.h"
#include "server/rpc/streams.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

constexpr std::string_view kSearchMethod = "Retrieval/Search";

// The call ends well where queries of it do not, and what they were answered is in the answer alone.
void ObserveFailedQueries(const RpcCore& core, const CallContext& call, const SearchAnswer& answer,
                          absl::Time started) {
  std::map<absl::StatusCode, std::pair<const absl::Status*, uint64_t>> failed;  // the first of a code, and how many
  for (const QueryAnswer& result : answer.results) {
    if (result.status.ok()) continue;
    auto& [first, count] = failed[result.status.code()];
    if (count++ == 0) first = &result.status;
  }
  for (const auto& [code, errors] : failed) {
    core.ObserveParts(call, kSearchMethod, *errors.first, started, errors.second);
  }
}

// UpsertStream reads and writes bytes (upsert_stream.cc).
template <typename Base>
using RawUpsertStream = v1::Retrieval::WithRawCallbackMethod_UpsertStream<Base>;
template <typename Base>
using Reads = v1::Retrieval::WithCallbackMethod_Get<
    v1::Retrieval::WithCallbackMethod_Search<v1::Retrieval::WithCallbackMethod_Scroll<
        v1::Retrieval::WithCallbackMethod_Count<v1::Retrieval::WithCallbackMethod_Facet<Base>>>>>;
template <typename Base>
using Writes = v1::Retrieval::WithCallbackMethod_Upsert<
    v1::Retrieval::WithCallbackMethod_Delete<v1::Retrieval::WithCallbackMethod_ChangePayload<Base>>>;
using CallbackService = Writes<RawUpsertStream<Reads<v1::Retrieval::Service>>>;

class RetrievalService final : public CheckedService<CallbackService> {
 public:
  explicit RetrievalService(RpcCore* core) : CheckedService(core) {
    Check(&RetrievalService::Upsert);
    Check(&RetrievalService::Get);
    Check(&RetrievalService::Delete);
    Check(&RetrievalService::Search);
    Check(&RetrievalService::Scroll);
    Check(&RetrievalService::Count);
    Check(&RetrievalService::Facet);
    Check(&RetrievalService::ChangePayload);
  }

  Unary* Upsert(Context* context, const v1::UpsertRequest* request, v1::UpsertResponse* response) override {
    return StartUnary(core_, &core_->write_lane(), context, "Retrieval/Upsert", request,
                      [=, this](const CallContext& call) -> absl::Status {
                        LC_ASSIGN_OR_RETURN(UpsertBatch batch, FromWire(*request));
                        const Durability durability = batch.durability;
                        LC_ASSIGN_OR_RETURN(const WriteResult result, core_->engine().Upsert(std::move(batch), call));
                        ToWire(result, durability, response);
                        return absl::OkStatus();
                      });
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* UpsertStream(Context* context) override {
    return StartUpsertStream(core_, context);
  }

  Unary* Get(Context* context, const v1::GetRequest* request, v1::GetResponse* response) override {
    return StartUnary(core_, &core_->read_lane(), context, "Retrieval/Get", request,
                      [=, this](const CallContext& call) -> absl::Status {
                        LC_ASSIGN_OR_RETURN(const std::vector<ItemId> ids, FromWire(request->ids()));
                        LC_RETURN_IF_ERROR(CheckDistinct(ids));
                        const ItemParts parts(request->with_vector(), FromWire(request->payload()));
                        LC_ASSIGN_OR_RETURN(GetAnswer answer, core_->engine().Get(request->collection(), ids,
                                                                                  request->generation(), parts, call));
                        for (StoredItem& item : answer.items) ToWire(std::move(item), response->add_items());
                        for (const ItemId& id : answer.missing) ToWire(id, response->add_missing());
                        return absl::OkStatus();
                      });
  }

  Unary* Delete(Context* context, const v1::DeleteRequest* request, v1::DeleteResponse* response) override {
    return StartUnary(core_, &core_->write_lane(), context, "Retrieval/Delete", request,
                      [=, this](const CallContext& call) -> absl::Status {
                        return request->has_filter() ? DeleteByFilter(*request, call, response)
                                                     : DeleteByIds(*request, call, response);
                      });
  }

  Unary* Search(Context* context, const v1::SearchRequest* request, v1::SearchResponse* response) override {
    // A search that may have to wait, for a write or for an encoder, must not hold a thread that others could search
    // on.
    const bool waits = request->wait_for_sequence() != 0 || request->refresh_top() != 0;
    Lane& lane = waits ? core_->wait_lane() : core_->read_lane();
    return StartUnary(core_, &lane, context, kSearchMethod, request,
                      [=, this](const CallContext& call) -> absl::Status {
                        const absl::Time started = absl::Now();
                        LC_ASSIGN_OR_RETURN(const SearchCall search, FromWire(*request));
                        LC_ASSIGN_OR_RETURN(SearchAnswer answer, core_->engine().Search(search, call));
                        ObserveFailedQueries(*core_, call, answer, started);
                        ToWire(std::move(answer), response);
                        return absl::OkStatus();
                      });
  }

  grpc::ServerWriteReactor<v1::ScrollResponse>* Scroll(Context* context, const v1::ScrollRequest* request) override {
    return StartScroll(core_, context, request);
  }

  Unary* Count(Context* context, const v1::CountRequest* request, v1::CountResponse* response) override {
    return StartUnary(core_, &core_->read_lane(), context, "Retrieval/Count", request,
                      [=, this](const CallContext& call) -> absl::Status {
                        LC_ASSIGN_OR_RETURN(const auto filter, FilterOf(*request));
                        LC_ASSIGN_OR_RETURN(const CountAnswer answer,
                                            core_->engine().Count(request->collection(), filter, call));
                        ToWire(answer, response);
                        return absl::OkStatus();
                      });
  }

  Unary* Facet(Context* context, const v1::FacetRequest* request, v1::FacetResponse* response) override {
    return StartUnary(core_, &core_->read_lane(), context, "Retrieval/Facet", request,
                      [=, this](const CallContext& call) -> absl::Status {
                        LC_ASSIGN_OR_RETURN(const FacetCall facet, FromWire(*request));
                        LC_ASSIGN_OR_RETURN(const FacetAnswer answer, core_->engine().Facet(facet, call));
                        ToWire(answer, response);
                        return absl::OkStatus();
                      });
  }

  Unary* ChangePayload(Context* context, const v1::ChangePayloadRequest* request,
                       v1::ChangePayloadResponse* response) override {
    return StartUnary(core_, &core_->write_lane(), context, "Retrieval/ChangePayload", request,
                      [=, this](const CallContext& call) -> absl::Status {
                        LC_ASSIGN_OR_RETURN(const ChangePayloadCall change, FromWire(*request));
                        LC_ASSIGN_OR_RETURN(const ChangePayloadAnswer answer,
                                            core_->engine().ChangePayload(change, call));
                        ToWire(answer, change.durability, response);
                        return absl::OkStatus();
                      });
  }

 private:
  absl::Status DeleteByIds(const v1::DeleteRequest& request, const CallContext& call, v1::DeleteResponse* response) {
    if (request.limit() != 0) return InvalidField("limit", StrCat(request.limit()), "0 where there is no filter");
    if (!request.token().empty()) return InvalidField("token", "given", "left out where there is no filter");
    LC_ASSIGN_OR_RETURN(const std::vector<ItemId> ids, FromWire(request.ids()));
    LC_ASSIGN_OR_RETURN(const Durability durability, FromWire(request.durability()));
    LC_ASSIGN_OR_RETURN(const WriteResult result, core_->engine().Delete(request.collection(), ids, durability, call));
    response->set_sequence(result.sequence);
    response->set_deleted(result.items);
    response->set_durability(ToWire(durability));
    return absl::OkStatus();
  }

  absl::Status DeleteByFilter(const v1::DeleteRequest& request, const CallContext& call, v1::DeleteResponse* response) {
    LC_ASSIGN_OR_RETURN(const DeleteByFilterCall deletion, FilterDeleteOf(request));
    LC_ASSIGN_OR_RETURN(const DeleteByFilterAnswer answer, core_->engine().DeleteByFilter(deletion, call));
    response->set_sequence(answer.sequence);
    response->set_deleted(answer.deleted);
    response->set_durability(ToWire(deletion.durability));
    response->set_token(answer.token);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeRetrievalService(RpcCore* core) { return std::make_unique<RetrievalService>(core); }

}  // namespace lightcone::server

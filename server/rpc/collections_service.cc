#include <algorithm>
#include <utility>

#include "base/status.h"
#include "lightcone/v1/collections.grpc.pb.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/page.h"
#include "server/rpc/services.h"

namespace lightcone::server {
namespace {

class CollectionsService final : public OperatorService<v1::Collections::CallbackService> {
 public:
  explicit CollectionsService(RpcCore* core) : OperatorService(core) {
    Check(&CollectionsService::Create);
    Check(&CollectionsService::List);
    Check(&CollectionsService::Get);
    Check(&CollectionsService::Drop);
    Check(&CollectionsService::SetAlias);
    Check(&CollectionsService::Snapshot);
    Check(&CollectionsService::Restore);
    Check(&CollectionsService::Rebuild);
    Check(&CollectionsService::Update);
    Check(&CollectionsService::IndexPayload);
  }

  Unary* Create(Context* context, const v1::CreateRequest* request, v1::CreateResponse* response) override {
    return Operate(context, "Collections/Create", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const CreateCollectionCall call, FromWire(*request, core_->options().index_defaults));
      return Convert(core_->engine().CreateCollection(call), response->mutable_collection());
    });
  }

  Unary* List(Context* context, const v1::CollectionsListRequest* request,
              v1::CollectionsListResponse* response) override {
    return Operate(context, "Collections/List", request, [=, this](const CallContext& call) -> absl::Status {
      LC_ASSIGN_OR_RETURN(std::vector<CollectionStatus> all, core_->engine().ListCollections());
      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
      if (call.sees) std::erase_if(all, [&](const CollectionStatus& one) { return !call.sees(one.name); });
      return FillPage(
          all, *request, response->mutable_collections(), response->mutable_token(),
          [](const CollectionStatus& status) { return status.name; },
          [](const CollectionStatus& status, v1::CollectionInfo* out) {
            ToWire(status, out);
            return absl::OkStatus();
          });
    });
  }

  Unary* Get(Context* context, const v1::CollectionsGetRequest* request,
             v1::CollectionsGetResponse* response) override {
    return Operate(context, "Collections/Get", request, [=, this](const CallContext&) {
      return Convert(core_->engine().GetCollection(request->name()), response->mutable_collection());
    });
  }

  Unary* Drop(Context* context, const v1::DropRequest* request, v1::DropResponse*) override {
    return Operate(context, "Collections/Drop", request, [=, this](const CallContext&) {
      return core_->engine().DropCollection(request->name(), request->request_id());
    });
  }

  Unary* SetAlias(Context* context, const v1::SetAliasRequest* request, v1::SetAliasResponse*) override {
    return Operate(context, "Collections/SetAlias", request, [=, this](const CallContext&) {
      return core_->engine().SetAlias(request->alias(), request->collection(), request->request_id());
    });
  }

  Unary* Snapshot(Context* context, const v1::SnapshotRequest* request, v1::SnapshotResponse*) override {
    return Refuse(context, "Collections/Snapshot", request);
  }

  Unary* Restore(Context* context, const v1::RestoreRequest* request, v1::RestoreResponse*) override {
    return Refuse(context, "Collections/Restore", request);
  }

  Unary* Update(Context* context, const v1::UpdateRequest* request, v1::UpdateResponse* response) override {
    return Operate(context, "Collections/Update", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const UpdateCollectionCall call, FromWire(*request));
      return Convert(core_->engine().UpdateCollection(call), response->mutable_collection());
    });
  }

  Unary* Rebuild(Context* context, const v1::RebuildRequest* request, v1::RebuildResponse* response) override {
    return OperateOrWait(
        request->wait(), context, "Collections/Rebuild", request, [=, this](const CallContext& call) -> absl::Status {
          LC_ASSIGN_OR_RETURN(const IndexChange index, FromWire(request->index()));
          return Convert(
              core_->engine().Rebuild(request->collection(), index, request->wait(), request->request_id(), call),
              response->mutable_collection());
        });
  }

  Unary* IndexPayload(Context* context, const v1::IndexPayloadRequest* request,
                      v1::IndexPayloadResponse* response) override {
    return OperateOrWait(request->wait(), context, "Collections/IndexPayload", request,
                         [=, this](const CallContext& call) -> absl::Status {
                           LC_ASSIGN_OR_RETURN(const IndexPayloadCall change, FromWire(*request));
                           return Convert(core_->engine().IndexPayload(change, call), response->mutable_collection());
                         });
  }

 private:
  Unary* Refuse(Context* context, std::string_view method, const google::protobuf::Message* request) {
    return Operate(context, method, request, [method](const CallContext&) {
      return Unimplemented(StrCat(method, " is not implemented in this version of Lightcone; ",
                                  "the service Snapshots makes snapshots of collections and restores them"));
    });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeCollectionsService(RpcCore* core) {
  return std::make_unique<CollectionsService>(core);
}

}  // namespace lightcone::server

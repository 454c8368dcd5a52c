#include <utility>

#include "base/status.h"
#include "lightcone/v1/generations.grpc.pb.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/page.h"
#include "server/rpc/services.h"

namespace lightcone::server {
namespace {

class GenerationsService final : public OperatorService<v1::Generations::CallbackService> {
 public:
  explicit GenerationsService(RpcCore* core) : OperatorService(core) {
    Check(&GenerationsService::Register);
    Check(&GenerationsService::List);
    Check(&GenerationsService::Get);
    Check(&GenerationsService::Activate);
    Check(&GenerationsService::SetCanary);
    Check(&GenerationsService::GetCanary);
    Check(&GenerationsService::Rollback);
    Check(&GenerationsService::Audit);
    Check(&GenerationsService::PutAdapter);
    Check(&GenerationsService::DropAdapter);
    Check(&GenerationsService::ListAdapters);
    Check(&GenerationsService::FitAdapter);
    Check(&GenerationsService::SampleItems);
    Check(&GenerationsService::Validate);
    Check(&GenerationsService::Retire);
    Check(&GenerationsService::PutProbes);
    Check(&GenerationsService::ListProbes);
    Check(&GenerationsService::DropProbes);
  }

  Unary* Register(Context* context, const v1::RegisterRequest* request, v1::RegisterResponse* response) override {
    // The trial of an encoder may take its time: it must not hold the only thread of the operate lane.
    const bool wait = !request->encoder().empty() && core_->options().operate_lane.threads == 1;
    return OperateOrWait(wait, context, "Generations/Register", request, [=, this](const CallContext&) {
      return Convert(core_->engine().RegisterGeneration(FromWire(*request)), response->mutable_generation());
    });
  }

  Unary* List(Context* context, const v1::GenerationsListRequest* request,
              v1::GenerationsListResponse* response) override {
    return Operate(context, "Generations/List", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const std::vector<GenerationStatus> all,
                          core_->engine().ListGenerations(request->collection()));
      return FillPage(
          all, *request, response->mutable_generations(), response->mutable_token(),
          [](const GenerationStatus& status) { return PageKey(status.generation); },
          [&](const GenerationStatus& status, v1::GenerationInfo* out) -> absl::Status {
            if (request->without_manifests()) {
              ToWire(status, out);
              return absl::OkStatus();
            }
            LC_ASSIGN_OR_RETURN(const GenerationStatus with_manifest,
                                core_->engine().GetGeneration(request->collection(), status.generation));
            ToWire(with_manifest, out);
            return absl::OkStatus();
          });
    });
  }

  Unary* Get(Context* context, const v1::GenerationsGetRequest* request,
             v1::GenerationsGetResponse* response) override {
    return Operate(context, "Generations/Get", request, [=, this](const CallContext&) {
      return Convert(core_->engine().GetGeneration(request->collection(), request->generation()),
                     response->mutable_generation());
    });
  }

  Unary* Activate(Context* context, const v1::ActivateRequest* request, v1::ActivateResponse* response) override {
    return OperateAtOnce(context, "Generations/Activate", request, [=, this](const CallContext& call) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const ActivateAnswer answer,
                          core_->engine().ActivateGeneration(Named(call, FromWire(*request))));
      return Answer(answer, response);
    });
  }

  Unary* SetCanary(Context* context, const v1::SetCanaryRequest* request, v1::SetCanaryResponse* response) override {
    return OperateAtOnce(context, "Generations/SetCanary", request, [=, this](const CallContext& call) {
      return Convert(core_->engine().SetCanary(Named(call, FromWire(*request))), response->mutable_canary());
    });
  }

  Unary* GetCanary(Context* context, const v1::GetCanaryRequest* request, v1::GetCanaryResponse* response) override {
    return Operate(context, "Generations/GetCanary", request, [=, this](const CallContext&) {
      return Convert(core_->engine().GetCanary(request->collection()), response->mutable_canary());
    });
  }

  Unary* Rollback(Context* context, const v1::RollbackRequest* request, v1::RollbackResponse* response) override {
    return OperateAtOnce(context, "Generations/Rollback", request, [=, this](const CallContext& call) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const ActivateAnswer answer,
                          core_->engine().RollbackGeneration(Named(call, FromWire(*request))));
      return Answer(answer, response);
    });
  }

  Unary* Audit(Context* context, const v1::AuditRequest* request, v1::AuditResponse* response) override {
    return Operate(context, "Generations/Audit", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const std::vector<AuditEntry> entries,
                          core_->engine().ListAudit(request->collection(), request->limit()));
      for (const AuditEntry& entry : entries) ToWire(entry, response->add_entries());
      return absl::OkStatus();
    });
  }

  Unary* PutAdapter(Context* context, const v1::PutAdapterRequest* request, v1::PutAdapterResponse* response) override {
    return Operate(context, "Generations/PutAdapter", request, [=, this](const CallContext&) {
      return Convert(core_->engine().PutAdapter(FromWire(*request)), response->mutable_adapter());
    });
  }

  Unary* DropAdapter(Context* context, const v1::DropAdapterRequest* request, v1::DropAdapterResponse*) override {
    return Operate(context, "Generations/DropAdapter", request,
                   [=, this](const CallContext&) { return core_->engine().DropAdapter(FromWire(*request)); });
  }

  Unary* ListAdapters(Context* context, const v1::ListAdaptersRequest* request,
                      v1::ListAdaptersResponse* response) override {
    return Operate(context, "Generations/ListAdapters", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const std::vector<AdapterStatus> all, core_->engine().ListAdapters(request->collection()));
      return FillPage(
          all, *request, response->mutable_adapters(), response->mutable_token(),
          [](const AdapterStatus& status) { return StrCat(PageKey(status.from), "-", PageKey(status.to)); },
          [](const AdapterStatus& status, v1::AdapterInfo* out) {
            ToWire(status, out);
            return absl::OkStatus();
          });
    });
  }

  Unary* FitAdapter(Context* context, const v1::FitAdapterRequest* request, v1::FitAdapterResponse* response) override {
    return Operate(context, "Generations/FitAdapter", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(*response->mutable_job(), core_->engine().FitAdapter(FromWire(*request)));
      return absl::OkStatus();
    });
  }
  Unary* SampleItems(Context* context, const v1::SampleItemsRequest* request,
                     v1::SampleItemsResponse* response) override {
    return Operate(context, "Generations/SampleItems", request, [=, this](const CallContext& call) -> absl::Status {
      SampleItemsCall sample{request->collection(), request->generation(), request->items()};
      if (request->has_seed()) sample.seed = request->seed();
      LC_ASSIGN_OR_RETURN(const std::vector<SampledItem> items, core_->engine().SampleItems(sample, call));
      for (const SampledItem& item : items) {
        v1::SampledItem* to = response->add_items();
        server::ToWire(item.id, to->mutable_id());
        to->set_sequence(item.sequence);
        to->set_generation(item.generation);
        to->set_has_input(item.has_input);
      }
      return absl::OkStatus();
    });
  }
  Unary* Validate(Context* context, const v1::ValidateRequest* request, v1::ValidateResponse* response) override {
    return Operate(context, "Generations/Validate", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const ValidateCall call, FromWire(*request));
      LC_ASSIGN_OR_RETURN(*response->mutable_job(), core_->engine().ValidateGeneration(call));
      return absl::OkStatus();
    });
  }
  Unary* Retire(Context* context, const v1::RetireRequest* request, v1::RetireResponse* response) override {
    return Operate(context, "Generations/Retire", request, [=, this](const CallContext& call) -> absl::Status {
      LC_ASSIGN_OR_RETURN(
          const RetireAnswer answer,
          core_->engine().RetireGeneration({request->request_id(), request->collection(), request->generation(),
                                            request->reason(), OperatorOf(call, request->operator_name())}));
      ToWire(answer.generation, response->mutable_generation());
      response->set_job(answer.job);
      return absl::OkStatus();
    });
  }
  Unary* PutProbes(Context* context, const v1::PutProbesRequest* request, v1::PutProbesResponse* response) override {
    return Operate(context, "Generations/PutProbes", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const PutProbesCall call, FromWire(*request));
      return Convert(core_->engine().PutProbes(call), response->mutable_probes());
    });
  }

  Unary* ListProbes(Context* context, const v1::ListProbesRequest* request, v1::ListProbesResponse* response) override {
    return Operate(context, "Generations/ListProbes", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const std::vector<ProbeSetStatus> all, core_->engine().ListProbes(request->collection()));
      for (const ProbeSetStatus& set : all) ToWire(set, response->add_probes());
      return absl::OkStatus();
    });
  }

  Unary* DropProbes(Context* context, const v1::DropProbesRequest* request, v1::DropProbesResponse*) override {
    return Operate(context, "Generations/DropProbes", request, [=, this](const CallContext&) {
      return core_->engine().DropProbes(request->collection(), request->name(), request->request_id());
    });
  }

 private:
  // The call with the name of its caller, which the caller cannot choose.
  template <typename Call>
  static Call Named(const CallContext& context, Call call) {
    call.operator_name = OperatorOf(context, call.operator_name);
    return call;
  }
  template <typename Response>
  static absl::Status Answer(const ActivateAnswer& answer, Response* response) {
    ToWire(answer.generation, response->mutable_generation());
    response->set_previous_generation(answer.previous_generation);
    response->set_out_of_reach(answer.out_of_reach);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationsService(RpcCore* core) {
  return std::make_unique<GenerationsService>(core);
}

}  // namespace lightcone::server

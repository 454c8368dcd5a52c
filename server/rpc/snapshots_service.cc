#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "lightcone/v1/snapshots.grpc.pb.h"
#include "server/rpc/error.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/services.h"

namespace lightcone::server {
namespace {

void SnapshotToWire(const SnapshotStatus& status, v1::SnapshotInfo* out) {
  const SnapshotManifest& manifest = status.manifest;
  out->set_name(manifest.name);
  out->set_folder(status.folder);
  if (!status.damage.ok()) {
    out->set_damage(MessageOf(status.damage));
    return;
  }
  out->set_version(manifest.version);
  *out->mutable_created() = TimestampOf(absl::FromUnixMicros(manifest.time_us));
  out->set_sequence(manifest.sequence);
  out->set_files(manifest.files.size());
  out->set_bytes(manifest.Bytes());
  out->set_scheduled(manifest.scheduled);
  if (status.verified) *out->mutable_verified() = TimestampOf(*status.verified);
  for (const SnapshotCollection& one : manifest.collections) {
    v1::SnapshotContent* content = out->add_collections();
    content->set_collection(one.name);
    content->set_items(one.items);
    content->set_sequence(one.sequence);
    content->set_active_generation(one.active_generation);
  }
}

absl::Status ConvertSnapshot(absl::StatusOr<SnapshotStatus> status, v1::SnapshotInfo* out) {
  LC_RETURN_IF_ERROR(status.status());
  SnapshotToWire(*status, out);
  return absl::OkStatus();
}

// What downloads and uploads share: each step runs on the wait lane, and exactly one step or transfer is under way at a
// time, so that the stream needs no lock. The stream is busy while a step runs.
template <typename Reactor>
class SteppedStream : public Reactor {
 protected:
  SteppedStream(RpcCore* core, grpc::CallbackServerContext* context, std::string_view method)
      : core_(core), call_(*context), method_(method), started_(absl::Now()) {
    context_.deadline = DeadlineOf(*context);
    context_.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
  }

  // Whether the gate lets the caller in; ends the stream otherwise.
  bool Admit(const grpc::CallbackServerContext& context) {
    absl::StatusOr<Caller> caller = core_->gate().Admit(context, method_, &context_);
    if (!caller.ok()) {
      End(caller.status());
      return false;
    }
    caller_ = *std::move(caller);
    return true;
  }

  // Runs `work` on the lane, then `next` with its status.
  void Step(std::function<absl::Status()> work, std::function<void(const absl::Status&)> next) {
    const absl::Status entered = core_->Enter();
    if (!entered.ok()) return End(entered);
    RpcCore* const core = core_;  // the object may be gone once the transport has the answer or the status
    core->wait_lane().Submit(
        {[this, core, work = std::move(work), next = std::move(next)](const absl::Status& admitted) {
           absl::Status status = admitted;
           if (status.ok()) status = StillWanted(context_, core->Now());
           if (status.ok()) status = Guarded(work);
           next(status);
           core->Leave();
         },
         context_.deadline});
  }

  void End(const absl::Status& status) {
    core_->Observe(call_, context_, method_, nullptr, status, started_);
    caller_.slot.Release();
    this->Finish(ToGrpc(status));
  }

  absl::Status CheckRequest(const google::protobuf::Message& request) const {
    return core_->gate().CheckRequest(caller_, request);
  }

  RpcCore* const core_;

 private:
  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

  const grpc::CallbackServerContext& call_;
  const std::string_view method_;
  const absl::Time started_;
  CallContext context_;
  Caller caller_;
  std::atomic<bool> cancelled_{false};
};

class DownloadStream final : public SteppedStream<grpc::ServerWriteReactor<v1::DownloadSnapshotResponse>> {
 public:
  DownloadStream(RpcCore* core, grpc::CallbackServerContext* context, const v1::DownloadSnapshotRequest& request)
      : SteppedStream(core, context, "Snapshots/DownloadSnapshot"), request_(request) {}

  void Begin(const grpc::CallbackServerContext& context) {
    if (Admit(context)) Next();
  }

 private:
  void Next() {
    Step([this] { return ReadPiece(); },
         [this](const absl::Status& status) {
           if (!status.ok() || response_.data().empty()) return End(status);
           StartWrite(&response_);
         });
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(MakeStatus(absl::StatusCode::kCancelled, "the client went away"));
    Next();
  }

  absl::Status ReadPiece() {
    if (archive_ == nullptr) {
      LC_RETURN_IF_ERROR(CheckRequest(request_));
      LC_ASSIGN_OR_RETURN(archive_, core_->engine().snapshots().Download(request_.name()));
    }
    LC_ASSIGN_OR_RETURN(*response_.mutable_data(), archive_->Next());
    return absl::OkStatus();
  }

  const v1::DownloadSnapshotRequest request_;
  std::unique_ptr<ArchiveWriter> archive_;
  v1::DownloadSnapshotResponse response_;
};

// Pieces travel as bytes, and are weighed and parsed as the requests of other methods are.
class UploadStream final : public SteppedStream<grpc::ServerReadReactor<grpc::ByteBuffer>> {
 public:
  UploadStream(RpcCore* core, grpc::CallbackServerContext* context, v1::UploadSnapshotResponse* response)
      : SteppedStream(core, context, "Snapshots/UploadSnapshot"), response_(response) {}

  void Begin(const grpc::CallbackServerContext& context) {
    if (Admit(context)) StartRead(&bytes_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Step([this] { return TakeEnd(); }, [this](const absl::Status& status) { End(status); });
    Step([this] { return TakePiece(); },
         [this](const absl::Status& status) { status.ok() ? StartRead(&bytes_) : End(status); });
  }

  absl::Status Open(const v1::UploadSnapshotRequest& request) {
    if (upload_ != nullptr) return absl::OkStatus();
    LC_RETURN_IF_ERROR(CheckRequest(request));
    LC_ASSIGN_OR_RETURN(upload_, core_->engine().snapshots().Upload(request.name()));
    return absl::OkStatus();
  }

  absl::Status TakePiece() {
    const MessageRules& rules = core_->RulesOf(*v1::UploadSnapshotRequest::descriptor());
    v1::UploadSnapshotRequest request;
    LC_ASSIGN_OR_RETURN(const ParsedBytes taken, ParseChecked(rules, &core_->parse_budget(), &bytes_, &request));
    LC_RETURN_IF_ERROR(Open(request));
    return upload_->Append(request.data());
  }

  absl::Status TakeEnd() {
    LC_RETURN_IF_ERROR(Open({}));
    const absl::Status taken = ConvertSnapshot(upload_->Finish(), response_->mutable_snapshot());
    upload_.reset();
    return taken;
  }

  v1::UploadSnapshotResponse* const response_;
  std::unique_ptr<SnapshotUpload> upload_;
  grpc::ByteBuffer bytes_;  // message of the read in progress
};

class SnapshotsService final : public OperatorService<v1::Snapshots::CallbackService> {
 public:
  explicit SnapshotsService(RpcCore* core) : OperatorService(core) {
    Check(&SnapshotsService::CreateSnapshot);
    Check(&SnapshotsService::ListSnapshots);
    Check(&SnapshotsService::DeleteSnapshot);
    Check(&SnapshotsService::VerifySnapshot);
    Check(&SnapshotsService::DownloadSnapshot);
    Check(&SnapshotsService::RestoreCollection);
    MarkMethodCallback(core->RulesOf(*v1::UploadSnapshotRequest::descriptor()).method_index,
                       new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer, v1::UploadSnapshotResponse>(
                           [core](Context* context, v1::UploadSnapshotResponse* response) {
                             auto* stream = new UploadStream(core, context, response);
                             stream->Begin(*context);
                             return stream;
                           }));
  }

  Unary* CreateSnapshot(Context* context, const v1::CreateSnapshotRequest* request,
                        v1::CreateSnapshotResponse* response) override {
    return OperateOrWait(true, context, "Snapshots/CreateSnapshot", request, [=, this](const CallContext& call) {
      const CreateSnapshotCall create{.name = request->name(),
                                      .request_id = request->request_id(),
                                      .collections = {request->collections().begin(), request->collections().end()}};
      return ConvertSnapshot(snapshots().Create(create, call), response->mutable_snapshot());
    });
  }

  Unary* ListSnapshots(Context* context, const v1::ListSnapshotsRequest* request,
                       v1::ListSnapshotsResponse* response) override {
    return Operate(context, "Snapshots/ListSnapshots", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const std::vector<SnapshotStatus> all, snapshots().List());
      for (const SnapshotStatus& one : all) SnapshotToWire(one, response->add_snapshots());
      return absl::OkStatus();
    });
  }

  Unary* DeleteSnapshot(Context* context, const v1::DeleteSnapshotRequest* request,
                        v1::DeleteSnapshotResponse*) override {
    return Operate(context, "Snapshots/DeleteSnapshot", request,
                   [=, this](const CallContext&) { return snapshots().Delete(request->name()); });
  }

  Unary* VerifySnapshot(Context* context, const v1::VerifySnapshotRequest* request,
                        v1::VerifySnapshotResponse* response) override {
    return OperateOrWait(true, context, "Snapshots/VerifySnapshot", request, [=, this](const CallContext& call) {
      return ConvertSnapshot(snapshots().Verify(request->name(), call), response->mutable_snapshot());
    });
  }

  grpc::ServerWriteReactor<v1::DownloadSnapshotResponse>* DownloadSnapshot(
      Context* context, const v1::DownloadSnapshotRequest* request) override {
    auto* stream = new DownloadStream(core_, context, *request);
    stream->Begin(*context);
    return stream;
  }

  Unary* RestoreCollection(Context* context, const v1::RestoreCollectionRequest* request,
                           v1::RestoreCollectionResponse* response) override {
    return OperateOrWait(
        true, context, "Snapshots/RestoreCollection", request, [=, this](const CallContext& call) -> absl::Status {
          const RestoreCollectionCall restore{.request_id = request->request_id(),
                                              .snapshot = request->snapshot(),
                                              .collection = request->collection(),
                                              .name = request->name()};
          LC_ASSIGN_OR_RETURN(const RestoredCollection restored, snapshots().RestoreCollection(restore, call));
          response->set_name(restored.name);
          response->set_items(restored.items);
          response->set_sequence(restored.sequence);
          response->set_active_generation(restored.active_generation);
          return absl::OkStatus();
        });
  }

 private:
  Snapshots& snapshots() const { return core_->engine().snapshots(); }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeSnapshotsService(RpcCore* core) { return std::make_unique<SnapshotsService>(core); }

}  // namespace lightcone::server

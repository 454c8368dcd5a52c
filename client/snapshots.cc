#include "client/snapshots.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/files.h"
#include "client/channel.h"
#include "lightcone/v1/snapshots.grpc.pb.h"

namespace lightcone::client {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

absl::Status WriteStream(grpc::ClientReader<v1::DownloadSnapshotResponse>& stream, const std::string& path,
                         const std::function<void(uint64_t)>& seen) {
  const File file(std::fopen(path.c_str(), "wbe"));
  if (file == nullptr) return ErrnoStatus(errno, "create", path);
  // It will hold all data of a server.
  if (::fchmod(::fileno(file.get()), 0600) != 0) return ErrnoStatus(errno, "chmod", path);
  v1::DownloadSnapshotResponse piece;
  uint64_t bytes = 0;
  while (stream.Read(&piece)) {
    if (std::fwrite(piece.data().data(), 1, piece.data().size(), file.get()) != piece.data().size()) {
      return ErrnoStatus(errno, "write", path);
    }
    bytes += piece.data().size();
    if (seen) seen(bytes);
  }
  if (std::fflush(file.get()) != 0) return ErrnoStatus(errno, "write", path);
  return SyncFile(path);
}

}  // namespace

struct SnapshotClient::Impl {
  Impl(const ClientOptions& options, std::shared_ptr<grpc::ChannelCredentials> credentials)
      : shared(options, std::move(credentials)), stub(v1::Snapshots::NewStub(shared.channel)) {}
  const OperatorCalls::Impl shared;
  const std::unique_ptr<v1::Snapshots::Stub> stub;
};

SnapshotClient::SnapshotClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SnapshotClient::~SnapshotClient() = default;

absl::StatusOr<std::unique_ptr<SnapshotClient>> SnapshotClient::Connect(const ClientOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  LC_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ChannelCredentials> credentials, CredentialsOf(options));
  return std::unique_ptr<SnapshotClient>(new SnapshotClient(std::make_unique<Impl>(options, std::move(credentials))));
}

Answer<v1::CreateSnapshotResponse> SnapshotClient::Create(const v1::CreateSnapshotRequest& request,
                                                          const CallOptions& call) {
  v1::CreateSnapshotRequest copy = request;
  if (copy.request_id().empty()) copy.set_request_id(NewRequestId());
  return CallWithRetries(impl_->shared.options, call, impl_->stub.get(), &v1::Snapshots::Stub::CreateSnapshot, copy,
                         RetryOn::kAbsenceAndOthers);
}

Answer<v1::ListSnapshotsResponse> SnapshotClient::List(const CallOptions& call) {
  return CallWithRetries(impl_->shared.options, call, impl_->stub.get(), &v1::Snapshots::Stub::ListSnapshots,
                         v1::ListSnapshotsRequest());
}

absl::Status SnapshotClient::Delete(const std::string& name, const CallOptions& call) {
  v1::DeleteSnapshotRequest request;
  request.set_name(name);
  CallOptions once = call;
  once.retries_max = 0;
  return CallWithRetries(impl_->shared.options, once, impl_->stub.get(), &v1::Snapshots::Stub::DeleteSnapshot, request)
      .status();
}

Answer<v1::VerifySnapshotResponse> SnapshotClient::Verify(const std::string& name, const CallOptions& call) {
  v1::VerifySnapshotRequest request;
  request.set_name(name);
  return CallWithRetries(impl_->shared.options, call, impl_->stub.get(), &v1::Snapshots::Stub::VerifySnapshot, request);
}

Answer<v1::RestoreCollectionResponse> SnapshotClient::RestoreCollection(const v1::RestoreCollectionRequest& request,
                                                                        const CallOptions& call) {
  v1::RestoreCollectionRequest copy = request;
  if (copy.request_id().empty()) copy.set_request_id(NewRequestId());
  return CallWithRetries(impl_->shared.options, call, impl_->stub.get(), &v1::Snapshots::Stub::RestoreCollection, copy,
                         RetryOn::kAbsenceAndOthers);
}

absl::Status SnapshotClient::Download(const std::string& name, const std::string& file,
                                      const std::function<void(uint64_t)>& seen, const CallOptions& call) {
  std::error_code error;
  if (std::filesystem::exists(file, error)) return AlreadyExists(StrCat("file '", file, "' exists"));
  grpc::ClientContext context;
  Prepare(impl_->shared.options, DeadlineOf(impl_->shared.options, call.timeout), &context);
  v1::DownloadSnapshotRequest request;
  request.set_name(name);
  const auto stream = impl_->stub->DownloadSnapshot(&context, request);
  const std::string partial = file + ".partial";
  absl::Status status = WriteStream(*stream, partial, seen);
  if (!status.ok()) context.TryCancel();
  const absl::Status answered = FromGrpc(stream->Finish());
  status.Update(answered);
  if (status.ok()) {
    std::filesystem::rename(partial, file, error);
    if (error) status = ErrnoStatus(error.value(), "rename to", file);
  }
  if (!status.ok()) {
    std::filesystem::remove(partial, error);
    return status;
  }
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

Answer<v1::UploadSnapshotResponse> SnapshotClient::Upload(const std::string& file, const std::string& name,
                                                          const std::function<void(uint64_t)>& seen,
                                                          const CallOptions& call) {
  const File in(std::fopen(file.c_str(), "rbe"));
  if (in == nullptr) return ErrnoStatus(errno, "open", file);
  grpc::ClientContext context;
  Prepare(impl_->shared.options, DeadlineOf(impl_->shared.options, call.timeout), &context);
  v1::UploadSnapshotResponse response;
  const auto stream = impl_->stub->UploadSnapshot(&context, &response);
  v1::UploadSnapshotRequest piece;
  piece.set_name(name);
  std::vector<char> buffer(kPieceBytes);
  uint64_t bytes = 0;
  bool taken = true;
  while (taken) {
    const size_t n = std::fread(buffer.data(), 1, buffer.size(), in.get());
    if (n == 0) break;
    piece.set_data(buffer.data(), n);
    taken = stream->Write(piece);
    bytes += n;
    if (seen) seen(bytes);
    piece.clear_name();
  }
  const bool failed = std::ferror(in.get()) != 0;
  if (failed) context.TryCancel();
  stream->WritesDone();
  const absl::Status status = FromGrpc(stream->Finish());
  if (failed) return ErrnoStatus(EIO, "read", file);
  LC_RETURN_IF_ERROR(status);
  return response;
}

}  // namespace lightcone::client

// A Retrieval, Collections and Snapshots service on loopback that answers as a test tells it to: it fails, breaks
// streams, counts.
#pragma once

#include <grpcpp/grpcpp.h>

#include <climits>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/strings.h"
#include "lightcone/v1/collections.grpc.pb.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "lightcone/v1/snapshots.grpc.pb.h"

namespace lightcone::client {

class ScriptedServer : public v1::Retrieval::Service, public v1::Collections::Service, public v1::Snapshots::Service {
 public:
  ScriptedServer() { Start("127.0.0.1:0"); }
  ~ScriptedServer() override { Stop(); }

  void Stop() {
    if (!stopping_.HasBeenNotified()) stopping_.Notify();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  const std::string& address() const { return address_; }

  // The next calls answer these, one each; then they succeed.
  void Script(std::vector<grpc::Status> statuses) {
    absl::MutexLock lock(&mutex_);
    script_ = std::move(statuses);
  }
  int calls() const {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }
  std::vector<std::string> request_ids() const {
    absl::MutexLock lock(&mutex_);
    return request_ids_;
  }
  // Batches as they arrived, over all connections.
  std::vector<uint64_t> tags() const {
    absl::MutexLock lock(&mutex_);
    return tags_;
  }

  // Scripted before the first call, not changed after.
  absl::Notification* count_hangs = nullptr;  // notified by a Count, which then lasts as long as the server
  int break_stream_after = -1;                // acknowledgements, once
  int break_scroll_after = -1;                // pages, once
  bool never_acknowledge = false;
  int never_read_from = INT_MAX;  // upsert streams, counted as calls from 1: this one and later ones hang
  uint64_t refuse_tag = UINT64_MAX;
  grpc::Status break_with{grpc::StatusCode::UNAVAILABLE, "the connection broke"};

  grpc::Status Count(grpc::ServerContext*, const v1::CountRequest*, v1::CountResponse* response) override {
    if (count_hangs != nullptr) {
      count_hangs->Notify();
      stopping_.WaitForNotification();
    }
    response->set_count(42);
    return Next();
  }
  grpc::Status Upsert(grpc::ServerContext*, const v1::UpsertRequest* request, v1::UpsertResponse* response) override {
    response->set_items(static_cast<uint32_t>(request->items_size()));
    return Next();
  }
  grpc::Status Delete(grpc::ServerContext*, const v1::DeleteRequest* request, v1::DeleteResponse* response) override {
    response->set_deleted(static_cast<uint32_t>(request->ids_size()));
    return Next();
  }
  grpc::Status Drop(grpc::ServerContext*, const v1::DropRequest* request, v1::DropResponse*) override {
    Note(request->request_id());
    return Next();
  }
  grpc::Status CreateSnapshot(grpc::ServerContext*, const v1::CreateSnapshotRequest* request,
                              v1::CreateSnapshotResponse*) override {
    Note(request->request_id());
    return Next();
  }
  grpc::Status RestoreCollection(grpc::ServerContext*, const v1::RestoreCollectionRequest* request,
                                 v1::RestoreCollectionResponse*) override {
    Note(request->request_id());
    return Next();
  }
  grpc::Status List(grpc::ServerContext*, const v1::CollectionsListRequest* request,
                    v1::CollectionsListResponse* response) override {
    response->add_collections()->set_name(request->token().empty() ? "first" : "second");
    if (request->token().empty()) response->set_token("more");
    return Next();
  }

  grpc::Status Scroll(grpc::ServerContext*, const v1::ScrollRequest* request,
                      grpc::ServerWriter<v1::ScrollResponse>* writer) override {
    Next();
    uint64_t first = request->token().empty() ? 0 : std::stoull(request->token());
    const uint64_t end = request->limit() > 0 ? std::min<uint64_t>(10, first + request->limit()) : 10;
    int pages = 0;
    for (; first < end; ++first) {
      if (TakeBreak(&break_scroll_after, pages++)) return break_with;
      v1::ScrollResponse page;
      page.add_items()->mutable_id()->set_number(first);
      if (first + 1 < 10) page.set_token(StrCat(first + 1));
      writer->Write(page);
    }
    return grpc::Status::OK;
  }

  grpc::Status UpsertStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::UpsertStreamResponse, v1::UpsertStreamRequest>* stream) override {
    Next();
    if (calls() >= never_read_from) {
      stopping_.WaitForNotification();
      return break_with;
    }
    v1::UpsertStreamRequest request;
    int acknowledged = 0;
    while (stream->Read(&request)) {
      {
        absl::MutexLock lock(&mutex_);
        tags_.push_back(request.tag());
      }
      if (TakeBreak(&break_stream_after, acknowledged)) return break_with;
      if (never_acknowledge) continue;
      v1::UpsertStreamResponse response;
      response.set_tag(request.tag());
      if (request.tag() == refuse_tag) {
        response.mutable_error()->set_code(3);
        response.mutable_error()->set_message("field 'items[1].vector' is bad; allowed: good");
        response.mutable_error()->mutable_violation()->set_field("items[1].vector");
      } else {
        response.mutable_written()->set_sequence(request.tag() + 1);
      }
      stream->Write(response);
      ++acknowledged;
    }
    return grpc::Status::OK;
  }

 private:
  void Start(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<v1::Retrieval::Service*>(this));
    builder.RegisterService(static_cast<v1::Collections::Service*>(this));
    builder.RegisterService(static_cast<v1::Snapshots::Service*>(this));
    server_ = builder.BuildAndStart();
    address_ = StrCat("127.0.0.1:", port);
  }

  void Note(const std::string& request_id) {
    absl::MutexLock lock(&mutex_);
    request_ids_.push_back(request_id);
  }

  grpc::Status Next() {
    absl::MutexLock lock(&mutex_);
    ++calls_;
    if (script_.empty()) return grpc::Status::OK;
    const grpc::Status status = script_.front();
    script_.erase(script_.begin());
    return status;
  }

  bool TakeBreak(int* after, int done) {
    absl::MutexLock lock(&mutex_);
    if (*after != done) return false;
    *after = -1;
    return true;
  }

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  absl::Notification stopping_;
  mutable absl::Mutex mutex_;
  std::vector<grpc::Status> script_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> request_ids_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> tags_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lightcone::client

// A server on loopback and stubs to it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lightcone/v1/backfill.grpc.pb.h"
#include "lightcone/v1/collections.grpc.pb.h"
#include "lightcone/v1/generations.grpc.pb.h"
#include "lightcone/v1/jobs.grpc.pb.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "lightcone/v1/training.grpc.pb.h"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {

MATCHER_P2(Fails, code, text, "") {
  *result_listener << "code " << arg.error_code() << ", message: " << arg.error_message();
  return arg.error_code() == code && arg.error_message().find(text) != std::string::npos;
}

class WireTest : public testing::Test {
 protected:
  WireTest() { SetUpLog("error", "text"); }

  // `engine` null: the real one in a fresh folder.
  void Serve(std::unique_ptr<Engine> engine = nullptr) {
    config_.listen = "127.0.0.1:0";
    if (config_.http_listen == ServerConfig().http_listen) config_.http_listen = "127.0.0.1:0";
    config_.engine.data_folder = folder_.path() + "/data";
    config_.engine.store.memory_bytes = 32 << 20;
    absl::StatusOr<std::unique_ptr<RunningServer>> server = RunningServer::Start(config_, std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Connect();
  }

  void Connect() {
    channel_ = grpc::CreateCustomChannel(server_->bound().grpc, grpc::InsecureChannelCredentials(), Arguments());
    retrieval_ = v1::Retrieval::NewStub(channel_);
    collections_ = v1::Collections::NewStub(channel_);
    generations_ = v1::Generations::NewStub(channel_);
    backfill_ = v1::Backfill::NewStub(channel_);
    jobs_ = v1::Jobs::NewStub(channel_);
    training_ = v1::Training::NewStub(channel_);
  }

  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // tests of one process must not share connections
    return arguments;
  }

  grpc::Status Create(const std::string& name, v1::Geometry geometry = v1::GEOMETRY_EUCLIDEAN) {
    grpc::ClientContext context;
    v1::CreateRequest request;
    request.set_request_id("create-" + name);
    request.set_name(name);
    request.set_geometry(geometry);
    v1::CreateResponse response;
    return collections_->Create(&context, request, &response);
  }

  grpc::Status Register(const std::string& collection, const std::string& manifest, const std::string& request_id,
                        uint32_t parent = 0) {
    grpc::ClientContext context;
    v1::RegisterRequest request;
    request.set_request_id(request_id);
    request.set_collection(collection);
    request.set_manifest_json(manifest);
    request.set_parent(parent);
    v1::RegisterResponse response;
    return generations_->Register(&context, request, &response);
  }

  grpc::Status Activate(const std::string& collection, uint32_t generation, const std::string& request_id,
                        std::optional<uint32_t> expect_active = std::nullopt) {
    grpc::ClientContext context;
    v1::ActivateRequest request;
    request.set_request_id(request_id);
    request.set_collection(collection);
    request.set_generation(generation);
    if (expect_active.has_value()) request.set_expect_active(*expect_active);
    v1::ActivateResponse response;
    return generations_->Activate(&context, request, &response);
  }

  // A Euclidean collection of dimension 4 with generation 1 active.
  void MakeGallery(const std::string& name, v1::Geometry geometry = v1::GEOMETRY_EUCLIDEAN) {
    ASSERT_TRUE(Create(name, geometry).ok());
    const std::string manifest = geometry == v1::GEOMETRY_LORENTZ
                                     ? R"({"dimension":4,"curvature":1.0,"clip_radius":1.0})"
                                     : R"({"dimension":4})";
    const grpc::Status registered = Register(name, manifest, name + "-register-1");
    ASSERT_TRUE(registered.ok()) << registered.error_message();
    const grpc::Status activated = Activate(name, 1, name + "-activate-1");
    ASSERT_TRUE(activated.ok()) << activated.error_message();
  }

  static v1::UpsertRequest Batch(const std::string& collection, const std::vector<std::string>& names) {
    v1::UpsertRequest request;
    request.set_collection(collection);
    float x = 0;
    for (const std::string& name : names) {
      v1::Item* item = request.add_items();
      item->mutable_id()->set_name(name);
      for (const float value : {x, 1.0f, 2.0f, 3.0f}) item->mutable_vector()->mutable_floats()->add_values(value);
      item->set_payload_json("{\"rank\":" + std::to_string(static_cast<int>(x)) + "}");
      x += 1;
    }
    return request;
  }

  grpc::Status Upsert(const v1::UpsertRequest& request, v1::UpsertResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::UpsertResponse scratch;
    return retrieval_->Upsert(&context, request, response == nullptr ? &scratch : response);
  }

  static v1::SearchRequest SearchFor(const std::string& collection, const std::vector<float>& vector, uint32_t k = 3) {
    v1::SearchRequest request;
    request.set_collection(collection);
    request.set_k(k);
    *request.add_queries()->mutable_vector()->mutable_f32_le() =
        std::string(reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float));
    return request;
  }

  grpc::Status Search(const v1::SearchRequest& request, v1::SearchResponse* response) {
    grpc::ClientContext context;
    return retrieval_->Search(&context, request, response);
  }

  TemporaryFolder folder_;
  ServerConfig config_;
  std::unique_ptr<RunningServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Retrieval::Stub> retrieval_;
  std::unique_ptr<v1::Collections::Stub> collections_;
  std::unique_ptr<v1::Generations::Stub> generations_;
  std::unique_ptr<v1::Backfill::Stub> backfill_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Training::Stub> training_;
};

}  // namespace lightcone::server

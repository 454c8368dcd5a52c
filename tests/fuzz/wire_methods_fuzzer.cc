// Any bytes as the request of any method: the first two choose the method (method_tags.h), the rest is sent as it is to
// a server over a small engine, through the transport, the checks before parsing, the conversion and the engine. No
// call ends as INTERNAL or UNKNOWN, no call but an upload finds damage, and the engine opens again over what the calls
// wrote. What a call finds depends on earlier ones: a finding may need the run that led to it.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/server.h"
#include "tests/fuzz/method_tags.h"
#include "tests/fuzz/small_engine.h"

namespace {

using namespace lightcone::server;  // NOLINT: a program of one file

constexpr int kCallsOfAnEngine = 500;
constexpr std::chrono::milliseconds kCallTime{50};  // A call that waits for something ends then.
constexpr int kAnswersMax = 8;                      // messages that are read of one call

class Served {
 public:
  Served() { Start(); }
  ~Served() { server_.reset(); }

  void Call(const google::protobuf::MethodDescriptor& method, const uint8_t* bytes, size_t size) {
    if (++calls_ > kCallsOfAnEngine) Renew();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTime);
    const std::string path = "/" + method.service()->full_name() + "/" + method.name();
    const auto call = stub_->PrepareCall(&context, path, &queue_);
    call->StartCall(nullptr);
    const grpc::Slice slice(bytes, size);
    grpc::ByteBuffer answer;
    bool open = Done();
    if (open) {
      call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
      open = Done();
    }
    // A watch says what there is and then waits.
    const int answers_max = method.name() == "Watch" ? 1 : kAnswersMax;
    for (int i = 0; open; ++i) {
      if (i == answers_max) context.TryCancel();
      call->Read(&answer, nullptr);
      open = Done();
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    Done();
    Check(path, status);
  }

 private:
  void Start() {
    calls_ = 0;
    RpcOptions options;
    options.listen = "unix:" + engine_.folder() + "/socket";
    options.read_lane.threads = options.write_lane.threads = options.operate_lane.threads = 2;
    options.wait_lane.threads = 2;
    auto server = RpcServer::Start(&engine_.engine(), options);
    if (!server.ok()) std::abort();
    server_ = *std::move(server);
    stub_ =
        std::make_unique<grpc::GenericStub>(grpc::CreateChannel(options.listen, grpc::InsecureChannelCredentials()));
  }
  void Renew() {
    stub_.reset();
    server_.reset();
    engine_.Renew();
    Start();
  }
  bool Done() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  static void Check(const std::string& path, const grpc::Status& status) {
    const grpc::StatusCode code = status.error_code();
    const bool damage = code == grpc::StatusCode::DATA_LOSS && !path.ends_with("/UploadSnapshot");
    if (!damage && code != grpc::StatusCode::INTERNAL && code != grpc::StatusCode::UNKNOWN) return;
    std::fprintf(stderr, "%s: %d %s\n", path.c_str(), code, status.error_message().c_str());
    std::abort();
  }

  SmallEngine engine_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
  int calls_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kMethodTagBytes || size > 1 << 16) return 0;
  static Served served;
  served.Call(MethodOf(data), data + kMethodTagBytes, size - kMethodTagBytes);
  return 0;
}

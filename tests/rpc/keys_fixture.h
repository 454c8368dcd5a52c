// A server that asks for keys, and calls of any method by its name.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/log.h"
#include "server/auth/file_watch.h"
#include "server/auth/key_file.h"
#include "server/auth/keyring.h"
#include "server/auth/quota.h"
#include "server/rpc/server.h"
#include "tests/rpc/fake_engine.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {

// A line of the file of keys. The key is `name`, with "-key" behind it.
inline std::string KeyLine(const std::string& name, auth::Scopes scopes, std::vector<std::string> collections = {"*"},
                           absl::Time expires = absl::InfiniteFuture(), const std::string& key = "") {
  auth::KeyEntry entry;
  entry.name = name;
  entry.hash = auth::HashOf(key.empty() ? name + "-key" : key);
  entry.grant = {scopes, std::move(collections)};
  entry.expires = expires;
  return auth::LineOf(entry) + "\n";
}

// The same with limits, and for every scope.
inline std::string LimitedLine(const std::string& name, const auth::CallLimits& limits, const std::string& key = "") {
  auth::KeyEntry entry;
  entry.name = name;
  entry.hash = auth::HashOf(key.empty() ? name + "-key" : key);
  entry.grant = {auth::kAdmin, {"*"}};
  entry.limits = limits;
  return auth::LineOf(entry) + "\n";
}

// What a call ended with, and its last answer.
struct Ended {
  grpc::Status status;
  std::string answer;
};

inline std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Calls a method of any kind with one message.
inline Ended CallByName(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                        const std::string& message, const std::string& key, const std::string& header = "api-key") {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  if (!key.empty()) context.AddMetadata(header, key);
  grpc::CompletionQueue queue;
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  void* const tag = &queue;
  auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(tag);
  done();
  const grpc::Slice slice(message);
  call->Write(grpc::ByteBuffer(&slice, 1), tag);
  if (done()) {
    call->WritesDone(tag);
    done();
  }
  Ended ended;
  grpc::ByteBuffer answer;
  for (call->Read(&answer, tag); done(); call->Read(&answer, tag)) ended.answer = BytesOf(answer);
  call->Finish(&ended.status, tag);
  done();
  queue.Shutdown();
  return ended;
}

class KeysTest : public testing::Test {
 protected:
  KeysTest() { SetUpLog("off", "text"); }

  void Serve(const std::string& lines) {
    Write(lines);
    auto keys = auth::Keyring::Open(
        {.keys_file = folder_ / "keys", .token_secrets_file = secrets_file_, .steady_clock = steady_clock_});
    ASSERT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
    RpcOptions options;
    options.keys = keys_.get();
    auto server = RpcServer::Start(&engine_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    watch_ = std::make_unique<auth::FileWatch>(
        std::vector<auth::WatchedFiles>{{keys_->Files(), [this] { keys_->Reload().IgnoreError(); }}});
    channel_ = Connect();
  }

  void Write(const std::string& lines) { ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", lines).ok()); }

  // Waits until the keys were read again `times` times.
  void AwaitReloads(uint64_t times) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (keys_->figures().reloads_total < times && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
    ASSERT_EQ(keys_->figures().reloads_total, times);
  }

  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), arguments);
  }

  TemporaryFolder folder_;
  std::string secrets_file_;  // of tokens; empty: none are taken
  FakeEngine engine_;
  auth::Quota::Clock steady_clock_ = SteadyNanos;  // clock of the keys' limits; set before Serve
  std::unique_ptr<auth::Keyring> keys_;
  std::unique_ptr<auth::FileWatch> watch_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace lightcone::server

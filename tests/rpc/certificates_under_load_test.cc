// Server certificate, authority of client certificates and API keys are replaced while calls run, on gRPC and HTTPS.
// The promises are those of docs/operate/trust.md. What runs goes on, and so do connections that stand. New connections
// meet the new files within two seconds, and then an old certificate or an old key opens nothing.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "tests/http/tls_client.h"
#include "tests/rpc/keys_fixture.h"
#include "tests/support/authority.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

constexpr int kReplacements = 50;
constexpr absl::Duration kReloadMax = absl::Seconds(2);  // the documented wait for new files
constexpr absl::Duration kSlack = absl::Seconds(18);     // what a busy machine or a sanitizer adds to one such wait
constexpr absl::Duration kPatience = absl::Seconds(60);  // longest time of a call
constexpr absl::Duration kPollEvery = absl::Milliseconds(25);
constexpr absl::Duration kCallEvery = absl::Milliseconds(2);  // pause of a caller, which leaves cores to other tests
constexpr char kSteadyKey[] = "steady-key";

// What one replacement puts in place. All authorities have the same name, so that only their keys tell them apart.
struct Identity {
  std::string authority;           // PEM of the authority that signed both certificates
  Authority::Pair server, client;  // certificates with their keys
  std::string client_name;         // name in the client's certificate
  std::string api_key;
};

Identity MakeIdentity(int number) {
  const Authority authority;
  Identity out;
  out.authority = authority.certificate();
  out.client_name = StrCat("worker-", number, ".example");
  out.server = authority.Issue("server");
  out.client = authority.Issue(out.client_name);
  out.api_key = StrCat("rolling-", number);
  return out;
}

// A key that stays, the key of the identity, and the rights of its client certificate.
std::string KeyFileOf(const Identity& identity) {
  auth::KeyEntry worker;
  worker.name = "worker";
  worker.certificate = identity.client_name;
  worker.grant = {auth::kRead, {"*"}};
  return KeyLine("steady", auth::kRead) +
         KeyLine("rolling", auth::kRead | auth::kWrite, {"*"}, absl::InfiniteFuture(), identity.api_key) +
         auth::LineOf(worker) + "\n";
}

void Prepare(const std::string& key, grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  if (!key.empty()) context->AddMetadata("api-key", key);
}

grpc::Status Search(const std::shared_ptr<grpc::Channel>& channel, const std::string& key,
                    const std::string& collection = "c") {
  grpc::ClientContext context;
  Prepare(key, &context);
  v1::SearchRequest request;
  request.set_collection(collection);
  v1::SearchResponse response;
  return v1::Retrieval::NewStub(channel)->Search(&context, request, &response);
}

// The number of the answer; 0: there was none.
int AskWhetherItExists(TlsClient* client, const std::string& key, const std::string& collection = "c") {
  const std::string header = key.empty() ? "" : StrCat("api-key: ", key, "\r\n");
  const std::string answer = client->Get(StrCat("/collections/", collection, "/exists"), header);
  return answer.starts_with("HTTP/1.1 ") && answer.size() >= 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

// A host that was refused often is told so in place of the reason. All callers of the test are one host.
bool KeyIsRefused(const grpc::Status& status) {
  return status.error_code() == grpc::UNAUTHENTICATED || status.error_code() == grpc::RESOURCE_EXHAUSTED;
}
bool KeyIsRefused(int http) { return http == 401 || http == 429; }

class UpsertCalls {
 public:
  UpsertCalls(const std::shared_ptr<grpc::Channel>& channel, const std::string& key)
      : stub_(v1::Retrieval::NewStub(channel)) {
    Prepare(key, &context_);
    stream_ = stub_->UpsertStream(&context_);
  }

  // Whether the batch was acknowledged.
  bool WriteBatch() {
    v1::UpsertStreamRequest request;
    request.mutable_batch()->set_collection("c");
    v1::Item* const item = request.mutable_batch()->add_items();
    item->mutable_id()->set_name("a");
    item->mutable_vector()->mutable_floats()->add_values(1);
    v1::UpsertStreamResponse answer;
    return stream_->Write(request) && stream_->Read(&answer) && answer.has_written();
  }

  grpc::Status End() {
    stream_->WritesDone();
    v1::UpsertStreamResponse answer;
    while (stream_->Read(&answer)) {
    }
    return stream_->Finish();
  }

 private:
  const std::unique_ptr<v1::Retrieval::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::UpsertStreamRequest, v1::UpsertStreamResponse>> stream_;
};

// Callers that call all the time, a thread each.
class Load {
 public:
  using Call = std::function<std::string()>;  // returns what went wrong; empty: nothing

  Load() = default;
  ~Load() { Stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void AddCaller(Call call) {
    std::atomic<int64_t>* const calls = &calls_.emplace_back(0);
    threads_.emplace_back([this, calls, call = std::move(call)] {
      while (!stopping_.load()) {
        const std::string error = call();
        if (!error.empty()) RecordFailure(error);
        ++*calls;
        absl::SleepFor(kCallEvery);
      }
    });
  }

  // Waits until each caller has ended a call that it began after this point.
  void AwaitCallOfEach() {
    const absl::Time deadline = absl::Now() + kPatience;
    std::vector<int64_t> before;
    for (const std::atomic<int64_t>& calls : calls_) before.push_back(calls.load());
    for (size_t i = 0; i < before.size(); ++i) {
      while (calls_[i].load() < before[i] + 2 && absl::Now() < deadline) absl::SleepFor(kCallEvery);
      EXPECT_GE(calls_[i].load(), before[i] + 2) << "caller " << i << " hangs";
    }
  }

  void Stop() {
    stopping_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // The first failure of a call, and the number of all; empty: none failed.
  std::string failure() const {
    absl::MutexLock lock(&mutex_);
    return failures_ == 0 ? "" : StrCat(failures_, " calls failed, the first with: ", first_failure_);
  }

 private:
  void RecordFailure(const std::string& error) {
    absl::MutexLock lock(&mutex_);
    if (failures_++ == 0) first_failure_ = error;
  }

  std::atomic<bool> stopping_{false};
  std::deque<std::atomic<int64_t>> calls_;  // ended calls of each caller
  std::vector<std::thread> threads_;
  mutable absl::Mutex mutex_;
  std::string first_failure_ ABSL_GUARDED_BY(mutex_);
  int64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

class CertificatesUnderLoad : public testing::Test {
 protected:
  // Calls that the engine holds until the test lets them go on.
  struct Held {
    absl::Notification grpc_began, http_began, go_on;
  };

  CertificatesUnderLoad() { SetUpLog("off", "text"); }

  void Start(const Identity& identity) {
    WriteFiles(identity);
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.http_listen = "127.0.0.1:0";
    config.tls = {.certificate_file = folder_ / "server.pem",
                  .key_file = folder_ / "server.key",
                  .client_ca_file = folder_ / "clients.pem"};
    config.auth.keys_file = folder_ / "keys";
    config.read_lane.wait_seconds_max = 0;  // No call is refused because held ones make the lane look slow.
    auto engine = std::make_unique<FakeEngine>();
    engine->on_search = [this](const SearchCall& call, const CallContext&) -> absl::StatusOr<SearchAnswer> {
      if (call.collection == "held") Hold(&Held::grpc_began);
      return SearchAnswer{};
    };
    engine->on_get_collection = [this](const std::string& name) -> absl::StatusOr<CollectionStatus> {
      if (name == "held") Hold(&Held::http_began);
      return CollectionStatus{};
    };
    auto server = RunningServer::Start(config, std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string& http = server_->bound().http;
    http_port_ = std::stoi(http.substr(http.rfind(':') + 1));
  }

  void WriteFiles(const Identity& identity) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", KeyFileOf(identity)).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.key", identity.server.key).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.pem", identity.server.certificate).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "clients.pem", identity.authority).ok());
  }

  // A channel with a connection of its own, for a client that takes servers of this authority alone.
  std::shared_ptr<grpc::Channel> OpenChannel(const std::string& authority, const Authority::Pair& client) const {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = authority;
    tls.pem_private_key = client.key;
    tls.pem_cert_chain = client.certificate;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    return grpc::CreateCustomChannel(server_->bound().grpc, grpc::SslCredentials(tls), arguments);
  }
  std::unique_ptr<TlsClient> OpenHttp(const std::string& authority, const Authority::Pair& client) const {
    return std::make_unique<TlsClient>(http_port_, TlsClientOptions{.authority = authority, .pair = client});
  }

  void AddCallers(const Identity& identity, Load* load) const {
    for (int i = 0; i < 2; ++i) {
      load->AddCaller([channel = OpenChannel(identity.authority, identity.client)]() -> std::string {
        const grpc::Status status = Search(channel, kSteadyKey);
        return status.ok() ? "" : StrCat("gRPC code ", int{status.error_code()}, ": ", status.error_message());
      });
      const std::shared_ptr<TlsClient> http = OpenHttp(identity.authority, identity.client);
      load->AddCaller([http]() -> std::string {
        const int status = AskWhetherItExists(http.get(), kSteadyKey);
        return status == 200 ? "" : StrCat("HTTP ", status);
      });
    }
  }

  // New connections show the new certificate and key, and take the new server alone.
  void AwaitReload(const Identity& next) {
    const absl::Time began = absl::Now();
    bool http = false, grpc = false;
    while (!grpc && absl::Now() - began < kReloadMax + kSlack) {
      http = http || AskWhetherItExists(OpenHttp(next.authority, next.client).get(), next.api_key) == 200;
      grpc = http && Search(OpenChannel(next.authority, next.client), next.api_key).ok();
      if (!grpc) absl::SleepFor(kPollEvery);
    }
    EXPECT_TRUE(http) << "the new files did not come into use over HTTP";
    EXPECT_TRUE(grpc) << "the new files did not come into use over gRPC";
    waits_.push_back(absl::Now() - began);
  }

  // Each connection has one old part: the client's certificate, the authority that the client takes, or the key.
  void ExpectOldPartsAreRefused(const Identity& old, const Identity& next) const {
    EXPECT_EQ(Search(OpenChannel(next.authority, old.client), next.api_key).error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(AskWhetherItExists(OpenHttp(next.authority, old.client).get(), next.api_key), 0);
    EXPECT_EQ(Search(OpenChannel(old.authority, next.client), next.api_key).error_code(), grpc::UNAVAILABLE);
    EXPECT_FALSE(OpenHttp(old.authority, next.client)->connected());
    EXPECT_TRUE(KeyIsRefused(Search(OpenChannel(next.authority, next.client), old.api_key)));
    EXPECT_TRUE(KeyIsRefused(AskWhetherItExists(OpenHttp(next.authority, next.client).get(), old.api_key)));
  }

  void ReplaceOnce(const Identity& old, const Identity& next, Load* load) {
    // Before: connections whose certificate stands for a line, a stream, and a held call on each port.
    const auto channel = OpenChannel(old.authority, old.client);
    const auto http = OpenHttp(old.authority, old.client);
    EXPECT_TRUE(Search(channel, "").ok());
    EXPECT_EQ(AskWhetherItExists(http.get(), ""), 200);
    UpsertCalls stream(channel, old.api_key);
    EXPECT_TRUE(stream.WriteBatch());
    const std::shared_ptr<Held> held = HoldNextCalls();
    std::thread grpc_call([&] { EXPECT_TRUE(Search(channel, old.api_key, "held").ok()); });
    std::thread http_call(
        [&] { EXPECT_EQ(AskWhetherItExists(OpenHttp(old.authority, old.client).get(), old.api_key, "held"), 200); });
    EXPECT_TRUE(held->grpc_began.WaitForNotificationWithTimeout(kPatience));
    EXPECT_TRUE(held->http_began.WaitForNotificationWithTimeout(kPatience));

    WriteFiles(next);
    AwaitReload(next);
    ExpectOldPartsAreRefused(old, next);

    // Connections that stand go on for a valid key. Their certificate is worth nothing without its line.
    EXPECT_TRUE(Search(channel, kSteadyKey).ok());
    EXPECT_EQ(AskWhetherItExists(http.get(), kSteadyKey), 200);
    EXPECT_TRUE(KeyIsRefused(Search(channel, "")));
    EXPECT_TRUE(KeyIsRefused(AskWhetherItExists(http.get(), "")));
    EXPECT_TRUE(KeyIsRefused(Search(channel, old.api_key)));
    EXPECT_TRUE(KeyIsRefused(AskWhetherItExists(http.get(), old.api_key)));

    // Calls that began before go on, and the stream keeps the rights with which it began.
    held->go_on.Notify();
    grpc_call.join();
    http_call.join();
    EXPECT_TRUE(stream.WriteBatch());
    EXPECT_TRUE(stream.End().ok());
    load->AwaitCallOfEach();
  }

  std::vector<absl::Duration> waits_;  // from the last written file to the first connections with the new ones

 private:
  std::shared_ptr<Held> HoldNextCalls() {
    absl::MutexLock lock(&mutex_);
    held_ = std::make_shared<Held>();
    return held_;
  }

  void Hold(absl::Notification Held::*began) {
    std::shared_ptr<Held> held;
    {
      absl::MutexLock lock(&mutex_);
      held = held_;
    }
    (held.get()->*began).Notify();
    held->go_on.WaitForNotification();
  }

  absl::Mutex mutex_;
  std::shared_ptr<Held> held_ ABSL_GUARDED_BY(mutex_);
  TemporaryFolder folder_;
  int http_port_ = 0;
  std::unique_ptr<RunningServer> server_;  // ends first
};

TEST_F(CertificatesUnderLoad, NoCallFailsThatBeganBeforeAndNothingOldOpensAConnectionAfter) {
  Identity old = MakeIdentity(0);
  ASSERT_NO_FATAL_FAILURE(Start(old));
  Load load;
  AddCallers(old, &load);
  load.AwaitCallOfEach();
  for (int i = 1; i <= kReplacements && !HasFailure(); ++i) {
    SCOPED_TRACE(StrCat("replacement ", i));
    Identity next = MakeIdentity(i);
    ReplaceOnce(old, next, &load);
    old = std::move(next);
  }
  load.Stop();
  EXPECT_EQ(load.failure(), "");
  // How long replacements took to be in use, for a look at the figures: a busy machine may delay any of them.
  std::sort(waits_.begin(), waits_.end());
  ASSERT_FALSE(waits_.empty());
  RecordProperty("median_wait_ms", static_cast<int>(absl::ToInt64Milliseconds(waits_[waits_.size() / 2])));
  RecordProperty("longest_wait_ms", static_cast<int>(absl::ToInt64Milliseconds(waits_.back())));
}

}  // namespace
}  // namespace lightcone::server

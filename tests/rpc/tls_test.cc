// Encryption, client certificates, certificates that are replaced, and servers that refuse to listen in the open.
#include <atomic>
#include <thread>

#include "client/client.h"
#include "server/app/serve.h"
#include "server/app/trust.h"
#include "tests/rpc/keys_fixture.h"
#include "tests/support/authority.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;

class TlsTest : public KeysTest {
 protected:
  ~TlsTest() override {
    watch_.reset();
    server_.reset();
  }

  void WritePair(const Authority::Pair& pair, const std::string& name = "server") {
    ASSERT_TRUE(WriteFileAtomically(folder_ / (name + ".key"), pair.key).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / (name + ".pem"), pair.certificate).ok());
  }
  void WriteAuthority(const Authority& authority, const std::string& name) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / name, authority.certificate()).ok());
  }

  void ServeTls(const std::string& lines, const std::string& client_ca = "") {
    if (!lines.empty()) {
      Write(lines);
      keys_ = auth::Keyring::Open({.keys_file = folder_ / "keys"}).value();
    }
    auto certificates = auth::Certificates::Open({.certificate_file = folder_ / "server.pem",
                                                  .key_file = folder_ / "server.key",
                                                  .client_ca_file = client_ca.empty() ? "" : folder_ / client_ca});
    ASSERT_TRUE(certificates.ok()) << certificates.status();
    certificates_ = *std::move(certificates);
    RpcOptions options;
    options.keys = keys_.get();
    options.certificates = certificates_.get();
    server_ = RpcServer::Start(&engine_, options).value();
    watch_ = std::make_unique<auth::FileWatch>(
        std::vector<auth::WatchedFiles>{{certificates_->Files(), [this] { certificates_->Reload().IgnoreError(); }}});
  }

  // A client with the files of these names; empty: without.
  std::unique_ptr<client::Client> ClientWith(const std::string& ca, const std::string& pair = "",
                                             const std::string& key = "") {
    client::ClientOptions options;
    options.address = server_->address();
    options.timeout = absl::Seconds(10);
    options.retries_max = 0;
    options.api_key = key;
    if (!ca.empty()) options.ca_file = folder_ / ca;
    if (!pair.empty()) options.cert_file = folder_ / (pair + ".pem");
    if (!pair.empty()) options.key_file = folder_ / (pair + ".key");
    return client::Client::Connect(options).value();
  }

  static absl::Status List(client::Client* client) { return client->ListCollections({}).status(); }

  Authority authority_;
  std::unique_ptr<auth::Certificates> certificates_;
};

TEST_F(TlsTest, CallsAreEncryptedAndTheServerIsTheOneThatItsAuthorityKnows) {
  const Authority stranger;
  WritePair(authority_.Issue("server"));
  WriteAuthority(authority_, "ca.pem");
  WriteAuthority(stranger, "stranger.pem");
  ServeTls(KeyLine("read", auth::kRead));
  EXPECT_TRUE(List(ClientWith("ca.pem", "", "read-key").get()).ok());
  EXPECT_TRUE(ClientWith("ca.pem")->CheckHealth().ok());
  EXPECT_EQ(List(ClientWith("ca.pem").get()).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(List(ClientWith("stranger.pem", "", "read-key").get()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(List(ClientWith("", "", "read-key").get()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(TlsTest, AClientCertificateIsAskedForAndStandsForItsLine) {
  const Authority stranger;
  WritePair(authority_.Issue("server"));
  WritePair(authority_.Issue("worker.example"), "worker");
  WritePair(authority_.Issue("other.example"), "other");
  WritePair(stranger.Issue("worker.example"), "stranger");
  WriteAuthority(authority_, "ca.pem");
  auth::KeyEntry worker;
  worker.name = "worker";
  worker.certificate = "worker.example";
  worker.grant = {auth::kRead, {"*"}};
  ServeTls(auth::LineOf(worker), "ca.pem");
  EXPECT_TRUE(List(ClientWith("ca.pem", "worker").get()).ok());
  EXPECT_EQ(List(ClientWith("ca.pem", "other").get()).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(List(ClientWith("ca.pem", "stranger").get()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(List(ClientWith("ca.pem").get()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(TlsTest, CertificatesAreReplacedUnderLoadAndNoCallFails) {
  WritePair(authority_.Issue("server"));
  WriteAuthority(authority_, "ca.pem");
  ServeTls("");
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0}, failed{0};
  std::vector<std::thread> load;
  for (int i = 0; i < 2; ++i) {
    load.emplace_back([&] {
      const auto client = ClientWith("ca.pem");
      while (!stop.load()) {
        if (!List(client.get()).ok()) ++failed;
        ++calls;
      }
    });
  }
  std::string last = "ca.pem";
  for (int round = 0; round < 2; ++round) {
    // New connections meet the new authority's certificate; a pair that does not belong together comes between.
    const Authority next;
    const std::string name = StrCat("ca", round, ".pem");
    WriteAuthority(next, name);
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.key", "no key").ok());
    EXPECT_FALSE(certificates_->Reload().ok());
    EXPECT_TRUE(List(ClientWith(last).get()).ok());
    WritePair(next.Issue("server"));
    absl::Status met = Unavailable("not tried");
    for (const absl::Time deadline = absl::Now() + absl::Seconds(30); !met.ok() && absl::Now() < deadline;) {
      met = List(ClientWith(name).get());
    }
    EXPECT_TRUE(met.ok()) << met;
    EXPECT_EQ(List(ClientWith(last).get()).code(), absl::StatusCode::kUnavailable);
    last = name;
  }
  stop.store(true);
  for (std::thread& thread : load) thread.join();
  EXPECT_GT(calls.load(), 0);
  EXPECT_EQ(failed.load(), 0);
}

absl::Status Exposure(const ServerConfig& config) {
  const Address grpc = ParseAddress(config.listen, "listen").value();
  if (config.http_listen.empty()) return CheckExposure(config, grpc, std::nullopt);
  return CheckExposure(config, grpc, ParseAddress(config.http_listen, "http_listen").value());
}

TEST(Exposure, BeyondLoopbackNothingListensWithoutTlsAndKeys) {
  ServerConfig config;
  config.http_listen = "";
  for (const char* local : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "unix:/tmp/s"}) {
    config.listen = local;
    EXPECT_TRUE(Exposure(config).ok()) << local;
  }
  for (const char* open : {"0.0.0.0:1", "[::]:1", "10.0.0.7:1", "example.com:1", "127.example.com:1"}) {
    config.listen = open;
    EXPECT_EQ(Exposure(config).code(), absl::StatusCode::kInvalidArgument) << open;
  }
  config.tls = {.certificate_file = "c", .key_file = "k", .client_ca_file = ""};
  EXPECT_FALSE(Exposure(config).ok());
  config.auth.keys_file = "keys";
  EXPECT_TRUE(Exposure(config).ok());
  config.tls = {};
  EXPECT_FALSE(Exposure(config).ok());
  config.insecure = true;
  EXPECT_TRUE(Exposure(config).ok());
}

TEST(Exposure, HttpBeyondLoopbackNeedsTlsAndKeysToo) {
  ServerConfig config;
  config.http_listen = "0.0.0.0:1";
  EXPECT_THAT(MessageOf(Exposure(config)), HasSubstr("http_listen"));
  config.tls = {.certificate_file = "c", .key_file = "k", .client_ca_file = ""};
  EXPECT_THAT(MessageOf(Exposure(config)), HasSubstr("http_listen"));
  config.auth.keys_file = "keys";
  EXPECT_TRUE(Exposure(config).ok());
  config.tls = {};
  EXPECT_FALSE(Exposure(config).ok());
  config.insecure = true;
  EXPECT_TRUE(Exposure(config).ok());
}

TEST(Exposure, TlsFilesComeTogether) {
  ServerConfig config;
  config.tls.certificate_file = "c";
  EXPECT_THAT(MessageOf(Exposure(config)), HasSubstr("tls.key_file"));
  config.tls = {.certificate_file = "", .key_file = "", .client_ca_file = "ca"};
  EXPECT_THAT(MessageOf(Exposure(config)), HasSubstr("tls.certificate_file"));
}

TEST(Exposure, AServerInTheOpenDoesNotStart) {
  ServerConfig config;
  config.listen = "0.0.0.0:0";
  config.http_listen = "";
  const auto server = RunningServer::Start(config, std::make_unique<FakeEngine>());
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(server.status()), HasSubstr("--insecure"));
}

TEST(Exposure, AServerWithABrokenFileOfKeysDoesNotStart) {
  TemporaryFolder folder;
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http_listen = "";
  config.auth.keys_file = folder / "keys";
  EXPECT_EQ(RunningServer::Start(config, std::make_unique<FakeEngine>()).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(folder / "keys", "{").ok());
  EXPECT_THAT(MessageOf(RunningServer::Start(config, std::make_unique<FakeEngine>()).status()), HasSubstr("line 1"));
}

}  // namespace
}  // namespace lightcone::server

// TLS on the HTTP port: who is taken, certificates that are replaced, and clients that never end their handshake.
#include <deque>

#include "absl/time/clock.h"
#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "server/auth/key_file.h"
#include "server/http/server.h"
#include "server/http/tls_transport.h"
#include "tests/http/raw_client.h"
#include "tests/http/tls_client.h"
#include "tests/rpc/fake_engine.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class HttpTls : public testing::Test {
 protected:
  HttpTls() {
    SetUpLog("off", "text");
    WritePair(authority_.Issue("server"));
  }

  void WritePair(const Authority::Pair& pair) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.key", pair.key).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.pem", pair.certificate).ok());
  }

  void Start(const std::string& keys = "", const std::string& client_ca = "") {
    config_.listen = "127.0.0.1:0";
    config_.http_listen = "127.0.0.1:0";
    config_.tls = {
        .certificate_file = folder_ / "server.pem", .key_file = folder_ / "server.key", .client_ca_file = ""};
    if (!client_ca.empty()) {
      ASSERT_TRUE(WriteFileAtomically(folder_ / "clients.pem", client_ca).ok());
      config_.tls.client_ca_file = folder_ / "clients.pem";
    }
    if (!keys.empty()) {
      ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", keys).ok());
      config_.auth.keys_file = folder_ / "keys";
    }
    auto server = RunningServer::Start(config_, std::make_unique<FakeEngine>());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int Port() const {
    const std::string& address = server_->bound().http;
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  TemporaryFolder folder_;
  Authority authority_;
  ServerConfig config_;
  std::unique_ptr<RunningServer> server_;
};

TEST_F(HttpTls, PagesComeEncryptedByTls12AndLaterAlone) {
  Start();
  for (const int version : {0, TLS1_2_VERSION}) {
    TlsClient client(Port(), {.authority = authority_.certificate(), .version_max = version});
    EXPECT_THAT(client.Get("/healthz"), StartsWith("HTTP/1.1 200")) << version;
    EXPECT_THAT(client.Get("/metrics"), StartsWith("HTTP/1.1 200")) << "a second request of the connection";
  }
  EXPECT_FALSE(TlsClient(Port(), {.authority = "", .version_max = TLS1_1_VERSION}).connected());
  EXPECT_FALSE(TlsClient(Port(), {.authority = Authority().certificate()}).connected());
  RawClient plain(Port());
  plain.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(plain.Read(), testing::Not(HasSubstr("200")));
}

TEST_F(HttpTls, AClientCertificateIsAskedForAndStandsForItsLine) {
  const Authority stranger;
  auth::KeyEntry worker;
  worker.name = "worker";
  worker.certificate = "worker.example";
  worker.grant = {auth::kRead, {"*"}};
  Start(auth::LineOf(worker) + "\n", authority_.certificate());
  const auto scrape = [&](const Authority::Pair& pair) {
    return TlsClient(Port(), {.authority = authority_.certificate(), .pair = pair}).Get("/metrics");
  };
  EXPECT_THAT(scrape(authority_.Issue("worker.example")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(scrape(authority_.Issue("other.example")), StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(scrape(stranger.Issue("worker.example")), "");
  EXPECT_EQ(scrape({}), "");
}

TEST_F(HttpTls, NewConnectionsMeetNewCertificatesAndOldOnesGoOn) {
  Start();
  TlsClient old(Port(), {.authority = authority_.certificate()});
  EXPECT_THAT(old.Get("/healthz"), StartsWith("HTTP/1.1 200"));
  const Authority next;
  WritePair(next.Issue("server"));
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  bool met = false;
  while (!met && absl::Now() < deadline) {
    met = TlsClient(Port(), {.authority = next.certificate()}).connected();
  }
  EXPECT_TRUE(met);
  EXPECT_FALSE(TlsClient(Port(), {.authority = authority_.certificate()}).connected());
  EXPECT_THAT(old.Get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTls, HandshakesThatNeverEndHoldUpNobodyAndAreCutOff) {
  auto certificates = auth::Certificates::Open(
      {.certificate_file = folder_ / "server.pem", .key_file = folder_ / "server.key", .client_ca_file = ""});
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.limits.handshake = std::chrono::milliseconds(200);
  options.transport = MakeTlsTransport(certificates->get());
  options.routes.Add({"GET", "/health", RouteAccess::Open(), HttpLane::kIo, true, 0, [](const HttpRequest&) {
                        return HttpAnswer{200, kPlainText, "ok"};
                      }});
  const auto server = HttpServer::Start(std::move(options)).value();
  std::deque<RawClient> silent;
  for (int i = 0; i < 50; ++i) silent.emplace_back(server->port()).Send(i % 2 == 0 ? "" : "\x16\x03\x01");
  EXPECT_THAT(TlsClient(server->port(), {.authority = authority_.certificate()}).Get("/health"), HasSubstr("200 OK"));
  for (RawClient& client : silent) EXPECT_EQ(client.Read(), "");
}

}  // namespace
}  // namespace lightcone::server

// A client of a local port that speaks TLS. Every read of it ends. Threads: belongs to one thread at a time.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "tests/support/authority.h"

namespace lightcone::server {

struct TlsClientOptions {
  std::string authority;      // PEM; empty: any server is taken
  Authority::Pair pair = {};  // certificate of the client; empty: none
  int version_max = 0;        // of TLS; 0: the newest
};

class TlsClient {
 public:
  TlsClient(int port, const TlsClientOptions& options) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to servers that have hung up.
    const timeval wait{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    const int at_once = 1;  // Else the request waits for the server's acknowledgement of the handshake.
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<uint16_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    Configure(options);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    connected_ = SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    ssl_.reset();
    close(fd_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Whether the client took the server. Under TLS 1.3 it learns only by reading whether the server took it.
  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(ssl_.get()); }

  // The first bytes of the answer; empty: the server hung up.
  std::string Ask(const std::string& request) {
    if (!connected_ || SSL_write(ssl_.get(), request.data(), static_cast<int>(request.size())) <= 0) return "";
    char bytes[4096];
    const int got = SSL_read(ssl_.get(), bytes, sizeof(bytes));
    ERR_clear_error();
    return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : "";
  }
  std::string Get(const std::string& path, const std::string& headers = "") {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  }

 private:
  using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

  static Bio BioOf(const std::string& pem) {
    return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free};
  }
  static X509* CertificateOf(const std::string& pem) {
    return PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr);
  }

  void Configure(const TlsClientOptions& options) {
    if (options.version_max != 0) {
      SSL_CTX_set_security_level(context_.get(), 0);
      SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
      SSL_CTX_set_max_proto_version(context_.get(), options.version_max);
    }
    if (!options.authority.empty()) {
      X509* const authority = CertificateOf(options.authority);
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority);
      X509_free(authority);
      SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    }
    if (options.pair.certificate.empty()) return;
    X509* const certificate = CertificateOf(options.pair.certificate);
    EVP_PKEY* const key = PEM_read_bio_PrivateKey(BioOf(options.pair.key).get(), nullptr, nullptr, nullptr);
    EXPECT_EQ(SSL_CTX_use_certificate(context_.get(), certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context_.get(), key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  const int fd_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
  bool connected_ = false;
};

}  // namespace lightcone::server

#include "server/http/tls_transport.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>

namespace lightcone::server {
namespace {

// The sockets of OpenSSL itself raise SIGPIPE when the client is gone.
int SocketOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

bool MayRetry() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

int SendBytes(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(SocketOf(bio), bytes, static_cast<size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && MayRetry()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int ReceiveBytes(BIO* bio, char* out, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(SocketOf(bio), out, static_cast<size_t>(size), MSG_DONTWAIT);
  if (got < 0 && MayRetry()) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long ControlSocket(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without signals");
    BIO_meth_set_write(made, &SendBytes);
    BIO_meth_set_read(made, &ReceiveBytes);
    BIO_meth_set_ctrl(made, &ControlSocket);
    return made;
  }();
  return method;
}

std::string TextOfAsn1(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string TextOfAddress(const ASN1_OCTET_STRING* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(address) != 16) return "";
  return ::inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof(text)) == nullptr ? "" : text;
}

// Subject alternative names, then common names, as gRPC gives them.
std::vector<std::string> NamesIn(const X509& certificate) {
  std::vector<std::string> names;
  using Names = std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)>;
  const Names alternative(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; alternative != nullptr && i < sk_GENERAL_NAME_num(alternative.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(alternative.get(), i);
    if (name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL) {
      names.push_back(TextOfAsn1(name->d.ia5));
    } else if (name->type == GEN_IPADD) {
      names.push_back(TextOfAddress(name->d.iPAddress));
    }
  }
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
    unsigned char* text = nullptr;
    const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size < 0) continue;
    names.emplace_back(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
    OPENSSL_free(text);
  }
  std::erase(names, "");
  ERR_clear_error();
  return names;
}

class Tls final : public Transport {
 public:
  // `context` null or no memory: the handshake fails.
  Tls(const std::shared_ptr<ssl_ctx_st>& context, int socket)
      : socket_(socket), ssl_(context == nullptr ? nullptr : SSL_new(context.get()), &SSL_free) {
    BIO* const bio = ssl_ == nullptr ? nullptr : BIO_new(SocketMethod());
    broken_ = bio == nullptr;
    if (broken_) return;
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_accept_state(ssl_.get());
  }

  Moved ShakeHands() override {
    return Move([this] { return SSL_do_handshake(ssl_.get()); }).how;
  }

  std::vector<std::string> ClientNames() const override {
    if (broken_ || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return {};
    const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
    return certificate == nullptr ? std::vector<std::string>() : NamesIn(*certificate);
  }

  Transfer Read(char* out, size_t size) override {
    return Move([&] { return SSL_read(ssl_.get(), out, static_cast<int>(std::min<size_t>(size, INT_MAX))); });
  }

  Transfer Write(const char* bytes, size_t size) override {
    return Move([&] { return SSL_write(ssl_.get(), bytes, static_cast<int>(std::min<size_t>(size, INT_MAX))); });
  }

  void EndSending() override {
    // Where the socket takes nothing more now, the end of its stream is all that the client sees.
    if (!broken_ && SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ::shutdown(socket_, SHUT_WR);
  }

 private:
  template <typename Call>
  Transfer Move(const Call& call) {
    if (broken_) return {};
    ERR_clear_error();
    const int moved = call();
    if (moved > 0) return {Moved::kBytes, static_cast<size_t>(moved)};
    const int error = SSL_get_error(ssl_.get(), moved);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ) return {Moved::kWantRead, 0};
    if (error == SSL_ERROR_WANT_WRITE) return {Moved::kWantWrite, 0};
    if (error == SSL_ERROR_ZERO_RETURN) return {Moved::kEnd, 0};
    broken_ = true;  // Nothing may be called after a fatal error.
    return {};
  }

  const int socket_;
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;  // holds its context
  bool broken_ = false;
};

}  // namespace

MakeTransport MakeTlsTransport(const auth::Certificates* certificates) {
  return [certificates](int socket) { return std::make_unique<Tls>(certificates->context(), socket); };
}

}  // namespace lightcone::server

// The context of OpenSSL with which a server accepts connections. Threads: pure functions.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace lightcone::server::auth {

// TLS 1.2 and later, without renegotiation and without resumption, so that each connection shows its certificate.
// `pair`: PEM of a private key, its certificate, and those between it and its authority. `client_ca`: PEM of the
// authorities of client certificates, without one of which a handshake fails; empty: none is asked for.
// INVALID_ARGUMENT for text that OpenSSL does not take.
absl::StatusOr<std::shared_ptr<ssl_ctx_st>> MakeTlsContext(const std::string& pair, const std::string& client_ca);

}  // namespace lightcone::server::auth

// A connection encrypted by TLS. Threads: MakeTlsTransport's result is called by the thread that serves every
// connection; the certificates may change on any thread.
#pragma once

#include "server/auth/certificates.h"
#include "server/http/transport.h"

namespace lightcone::server {

// Each new connection gets the newest certificates. Connections that stand keep theirs. `certificates` must outlive the
// result and every transport.
MakeTransport MakeTlsTransport(const auth::Certificates* certificates);

}  // namespace lightcone::server

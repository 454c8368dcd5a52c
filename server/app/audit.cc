#include "server/app/audit.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "server/app/log.h"
#include "server/app/trust.h"
#include "server/auth/access.h"
#include "server/http/http_gate.h"

namespace lightcone::server {

absl::StatusOr<std::unique_ptr<Audit>> Audit::Open(const ServerConfig& config) {
  if (config.audit.file.empty()) return std::unique_ptr<Audit>();
  LC_ASSIGN_OR_RETURN(std::unique_ptr<audit::AuditFile> file,
                      audit::AuditFile::Open({.path = config.audit.file,
                                              .bytes_max = config.audit.bytes_max,
                                              .kept = config.audit.kept,
                                              .log = [](const std::string& line) { LogWarning(line); }}));
  return std::unique_ptr<Audit>(new Audit(std::move(file), config.audit.data, AsksForKeys(config)));
}

bool Audit::Wants(auth::Scopes scopes) const {
  constexpr uint8_t kOperators = auth::kOperate.bits | auth::kAdmin.bits;
  return scopes.bits != 0 && (data_ || (scopes.bits & kOperators) != 0);
}

bool Audit::Records(std::string_view method) const {
  const auth::Access* const access = auth::FindAccess(method);
  return access != nullptr && Wants(access->needed);
}

void Audit::RecordCall(const CallRecord& record) {
  if (record.subject == nullptr || record.parts != 0) return;
  const CallSubject& subject = *record.subject;
  if (with_keys_ && subject.caller.empty()) return;
  file_->Write({.time = absl::Now(),
                .caller = subject.caller,
                .method = record.method,
                .collection = subject.collection,
                .source = subject.source,
                .collections = subject.collections,
                .code = CodeName(record.code),
                .request_id = subject.request_id,
                .peer = subject.peer});
}

void Audit::RecordRequest(const HttpRecord& record) {
  const HttpRequest& request = record.request;
  if (!Wants(record.route.access.scopes()) || (with_keys_ && request.caller.principal == nullptr)) return;
  const auto id = request.headers.find("x-request-id");
  const std::string caller = request.caller.name(), method = StrCat(request.method, " ", request.path);
  const std::string collection = CollectionNameOf(record.route, request), code = StrCat(record.status);
  file_->Write({.time = absl::Now(),
                .caller = caller,
                .method = method,
                .collection = collection,
                .code = code,
                .request_id = id == request.headers.end() ? std::string_view() : std::string_view(id->second),
                .peer = request.peer});
}

}  // namespace lightcone::server

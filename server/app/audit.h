// Which calls of gRPC and HTTP go into the audit file, and how. Threads: every method is safe from any thread.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/audit/audit_file.h"
#include "server/http/server.h"
#include "server/options/config.h"
#include "server/rpc/rpc_options.h"

namespace lightcone::server {

// Calls of operators are recorded always, and others where `audit.data` says so. Where keys are asked for, a call
// without a valid one is not: nobody without a key can fill the file. Health, pages and reflection are not.
class Audit {
 public:
  // Null where `audit.file` is empty. Errors of AuditFile::Open.
  static absl::StatusOr<std::unique_ptr<Audit>> Open(const ServerConfig& config);

  // Whether calls of a method of gRPC are recorded.
  bool Records(std::string_view method) const;
  // Needs the record's subject. Parts of calls are not recorded.
  void RecordCall(const CallRecord& record);
  void RecordRequest(const HttpRecord& record);
  audit::AuditFigures figures() const { return file_->figures(); }

 private:
  Audit(std::unique_ptr<audit::AuditFile> file, bool data, bool with_keys)
      : file_(std::move(file)), data_(data), with_keys_(with_keys) {}
  bool Wants(auth::Scopes scopes) const;

  const std::unique_ptr<audit::AuditFile> file_;
  const bool data_, with_keys_;
};

}  // namespace lightcone::server

// Whether a caller may make a call: who it is, before anything of its message is looked at, and then whether it may use
// the collections that the message names. With no keys everybody may do everything.
// Threads: every method is safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "server/auth/access.h"
#include "server/auth/keyring.h"
#include "server/auth/quota.h"
#include "server/engine/api/engine.h"
#include "server/rpc/rpc_options.h"

namespace lightcone::server {

// Who makes a call, and what the call needs. Both are null where no keys are asked for.
struct Caller {
  auth::PrincipalPtr principal;
  const auth::Access* access = nullptr;
  auth::CallSlot slot = {};  // held while the call runs, and released before its end is sent
};

class Gate {
 public:
  // `keys` may be null: no keys are asked for. Both must outlive the gate. `writes` may be null: no limit holds for all
  // writes together.
  Gate(Engine* engine, auth::Keyring* keys, auth::QuotaPtr writes)
      : engine_(engine), keys_(keys), writes_(std::move(writes)) {}

  // Takes a call from the caller's limits. UNAUTHENTICATED, RESOURCE_EXHAUSTED or PERMISSION_DENIED, as Keyring has
  // them, or RESOURCE_EXHAUSTED as Quota has it. `context` gets the caller's name, also where the call is refused for
  // its scope or a limit, what it sees and its meter.
  absl::StatusOr<Caller> Admit(const grpc::CallbackServerContext& call, std::string_view method,
                               CallContext* context) const;

  // A meter of the caller's, as Admit gives one: for the next page or batch of a stream. May be null.
  std::shared_ptr<CallMeter> MeterOf(const Caller& caller) const;

  // The error that Admit would give now, for a call whose message is not parsed yet. Takes nothing from the limits.
  absl::Status CheckUnparsed(const grpc::CallbackServerContext& call, std::string_view method,
                             CallContext* context) const;

  // PERMISSION_DENIED for a collection that the caller may not use, whether there is one or not. NOT_FOUND for an
  // unknown collection that it might use, and for a job that it does not see. Neither lists what there is.
  absl::Status CheckRequest(const Caller& caller, const google::protobuf::Message& request) const;

  // The same for the name of a collection or an alias.
  absl::Status CheckName(const Caller& caller, const std::string& name) const;

 private:
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& call, std::string_view method,
                                  CallContext* context) const;
  absl::Status CheckNewName(const Caller& caller, const std::string& name) const;
  absl::Status CheckJob(const Caller& caller, const std::string& id) const;

  Engine* const engine_;
  auth::Keyring* const keys_;
  const auth::QuotaPtr writes_;
};

// Who makes a call about what. `request` may be null: the call names nothing.
CallSubject SubjectOf(const grpc::CallbackServerContext& call, const CallContext& context, std::string_view method,
                      const google::protobuf::Message* request);

// The collection, alias or new name that a request names, the new name before the source; empty: none.
std::string CollectionIn(std::string_view method, const google::protobuf::Message& request);

// The name for the audit log: the caller's, with the one that its request states. At most 128 bytes.
std::string OperatorOf(const CallContext& context, const std::string& stated);

}  // namespace lightcone::server

#include "server/rpc/gate.h"

#include <optional>

#include "base/status.h"
#include "google/protobuf/descriptor.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"

namespace lightcone::server {
namespace {

constexpr size_t kOperatorBytesMax = 128;
constexpr std::string_view kUpsertMethod = "Retrieval/Upsert";  // the method whose messages bring rows

std::string_view ViewOf(grpc::string_ref text) { return {text.data(), text.size()}; }

// The text behind "Bearer ", whose case does not matter.
std::string_view BearerOf(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = value[i] >= 'A' && value[i] <= 'Z' ? static_cast<char>(value[i] + ('a' - 'A')) : value[i];
    if (c != kScheme[i]) return {};
  }
  return value.substr(kScheme.size());
}

std::string_view KeyOf(const grpc::CallbackServerContext& call) {
  const auto& metadata = call.client_metadata();
  if (const auto at = metadata.find("api-key"); at != metadata.end()) return ViewOf(at->second);
  const auto at = metadata.find("authorization");
  return at == metadata.end() ? std::string_view() : BearerOf(ViewOf(at->second));
}

std::vector<std::string> CertificateNamesOf(const grpc::CallbackServerContext& call) {
  std::vector<std::string> names;
  const std::shared_ptr<const grpc::AuthContext> context = call.auth_context();
  if (context == nullptr || !context->IsPeerAuthenticated()) return names;
  for (const char* property : {GRPC_X509_SAN_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME}) {
    for (const grpc::string_ref& name : context->FindPropertyValues(property)) names.emplace_back(ViewOf(name));
  }
  return names;
}

std::string TextOfField(const google::protobuf::Message& message, std::string_view field) {
  const auto* descriptor = message.GetDescriptor()->FindFieldByName(std::string(field));
  return descriptor == nullptr ? std::string() : message.GetReflection()->GetString(message, descriptor);
}

std::vector<std::string> ListOfField(const google::protobuf::Message& message, std::string_view field) {
  std::vector<std::string> texts;
  const auto* descriptor = message.GetDescriptor()->FindFieldByName(std::string(field));
  if (descriptor == nullptr) return texts;
  const google::protobuf::Reflection& fields = *message.GetReflection();
  for (int i = 0; i < fields.FieldSize(message, descriptor); ++i) {
    texts.push_back(fields.GetRepeatedString(message, descriptor, i));
  }
  return texts;
}

}  // namespace

absl::StatusOr<Caller> Gate::Admit(const grpc::CallbackServerContext& call, std::string_view method,
                                   CallContext* context) const {
  LC_ASSIGN_OR_RETURN(Caller caller, Identify(call, method, context));
  const auth::QuotaPtr quota = caller.principal == nullptr ? nullptr : caller.principal->quota;
  LC_ASSIGN_OR_RETURN(caller.slot, auth::CallSlot::Take(quota));
  context->meter = MeterOf(caller);
  return caller;
}

std::shared_ptr<CallMeter> Gate::MeterOf(const Caller& caller) const {
  return auth::MeterOf(caller.principal == nullptr ? nullptr : caller.principal->quota, writes_);
}

absl::Status Gate::CheckUnparsed(const grpc::CallbackServerContext& call, std::string_view method,
                                 CallContext* context) const {
  LC_ASSIGN_OR_RETURN(const Caller caller, Identify(call, method, context));
  const auth::QuotaPtr quota = caller.principal == nullptr ? nullptr : caller.principal->quota;
  if (quota != nullptr) LC_RETURN_IF_ERROR(quota->CheckCall());
  if (method != kUpsertMethod) return absl::OkStatus();
  if (quota != nullptr) LC_RETURN_IF_ERROR(quota->CheckRows());
  return writes_ == nullptr ? absl::OkStatus() : writes_->CheckRows();
}

absl::StatusOr<Caller> Gate::Identify(const grpc::CallbackServerContext& call, std::string_view method,
                                      CallContext* context) const {
  if (keys_ == nullptr) return Caller{};
  const std::string peer = call.peer();
  auth::Shown shown = {.key = KeyOf(call), .certificates = {}, .peer = peer};
  if (shown.key.empty()) shown.certificates = CertificateNamesOf(call);
  Caller caller;
  LC_ASSIGN_OR_RETURN(caller.principal, keys_->Authenticate(shown));
  context->caller = caller.principal->name;
  caller.access = auth::FindAccess(method);
  if (caller.access == nullptr) {
    return MakeStatus(absl::StatusCode::kPermissionDenied, StrCat("no scope is known that allows ", method));
  }
  LC_RETURN_IF_ERROR(keys_->CheckCall(*caller.principal, caller.access->needed, method));
  if (!caller.principal->MayUseAll(caller.access->needed)) {
    context->sees = [principal = caller.principal, needed = caller.access->needed](const std::string& collection) {
      return principal->MayUse(needed, collection);
    };
  }
  if (!caller.principal->MayUseAll(auth::kWrite)) {
    context->may_write = [principal = caller.principal](const std::string& collection) {
      return principal->MayUse(auth::kWrite, collection);
    };
  }
  return caller;
}

absl::Status Gate::CheckRequest(const Caller& caller, const google::protobuf::Message& request) const {
  if (caller.principal == nullptr || caller.principal->MayUseAll(caller.access->needed)) return absl::OkStatus();
  const auth::Access& access = *caller.access;
  if (access.everything) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      StrCat("'", caller.principal->name, "' has the scope ", auth::TextOf(access.needed),
                             " for some collections; ", access.method, " needs it for all of them"));
  }
  if (!access.collection_field.empty()) {
    const std::string name = TextOfField(request, access.collection_field);
    if (!name.empty() || !access.may_be_empty) LC_RETURN_IF_ERROR(CheckName(caller, name));
  }
  std::string source;
  if (!access.source_field.empty()) {
    source = TextOfField(request, access.source_field);
    LC_RETURN_IF_ERROR(keys_->CheckCollection(*caller.principal, access.needed, source, source));
  }
  if (!access.name_field.empty()) {
    const std::string name = TextOfField(request, access.name_field);
    LC_RETURN_IF_ERROR(CheckNewName(caller, name.empty() ? source : name));
  }
  if (!access.job_field.empty()) return CheckJob(caller, TextOfField(request, access.job_field));
  return absl::OkStatus();
}

absl::Status Gate::CheckName(const Caller& caller, const std::string& name) const {
  if (caller.principal == nullptr) return absl::OkStatus();
  const std::optional<std::string> resolved = engine_->ResolveName(name);
  LC_RETURN_IF_ERROR(keys_->CheckCollection(*caller.principal, caller.access->needed, resolved.value_or(name), name));
  if (!resolved.has_value()) return NotFound(StrCat("no collection '", name, "'"));
  return absl::OkStatus();
}

absl::Status Gate::CheckNewName(const Caller& caller, const std::string& name) const {
  LC_RETURN_IF_ERROR(keys_->CheckCollection(*caller.principal, caller.access->needed, name, name));
  // An alias that stands for a foreign collection today.
  const std::string resolved = engine_->ResolveName(name).value_or(name);
  return keys_->CheckCollection(*caller.principal, caller.access->needed, resolved, name);
}

absl::Status Gate::CheckJob(const Caller& caller, const std::string& id) const {
  const absl::StatusOr<JobStatus> job = engine_->GetJob(id);
  if (job.ok() && caller.principal->MayUse(caller.access->needed, job->collection)) return absl::OkStatus();
  return NotFound(StrCat("no job '", id, "'"));
}

std::string CollectionIn(std::string_view method, const google::protobuf::Message& request) {
  const auth::Access* const access = auth::FindAccess(method);
  std::string name;
  if (access == nullptr) return name;
  for (const std::string_view field : {access->collection_field, access->name_field, access->source_field}) {
    if (name.empty() && !field.empty()) name = TextOfField(request, field);
  }
  return name;
}

CallSubject SubjectOf(const grpc::CallbackServerContext& call, const CallContext& context, std::string_view method,
                      const google::protobuf::Message* request) {
  CallSubject subject;
  subject.caller = context.caller;
  subject.peer = call.peer();
  const auth::Access* const access = auth::FindAccess(method);
  if (request == nullptr || access == nullptr) return subject;
  subject.collection = CollectionIn(method, *request);
  if (!access->source_field.empty()) subject.source = TextOfField(*request, access->source_field);
  subject.collections = ListOfField(*request, access->list_field);
  subject.request_id = TextOfField(*request, "request_id");
  return subject;
}

std::string OperatorOf(const CallContext& context, const std::string& stated) {
  if (context.caller.empty()) return stated;
  const std::string both = StrCat(context.caller, " (", stated, ")");
  return stated.empty() || both.size() > kOperatorBytesMax ? context.caller : both;
}

}  // namespace lightcone::server

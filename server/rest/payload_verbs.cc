// Changes of payloads, and lists of changes of points.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/rest/fields.h"
#include "server/rest/point_filter.h"
#include "server/rest/point_text.h"
#include "server/rest/verbs.h"

namespace lightcone::server::rest {
namespace {

using nlohmann::json;

// Makes the change batch by batch, for as long as the filter has points left.
Answer MakeChange(const RestCall& call, const Fields& body, ChangePayloadCall change) {
  LC_RETURN_IF_ERROR(body.Refuse("shard_key", "there are no shards"));
  change.collection = call.collection();
  if (const json* points = body.Find("points")) {
    LC_ASSIGN_OR_RETURN(change.ids, PointIdsFrom(*points, "points"));
    if (change.ids.empty()) return InvalidField("points", "empty", "at least one id");
  } else {
    LC_ASSIGN_OR_RETURN(change.filter, PointFilterOf(call, body));
    if (!change.filter) return InvalidField(body.At("points"), "missing", "one of points, filter");
  }
  uint64_t sequence = 0;
  do {
    LC_ASSIGN_OR_RETURN(ChangePayloadAnswer done, call.engine.ChangePayload(change, call.context));
    if (!done.missing.empty()) {
      return NotFound(StrCat("no point ", PointIdText(done.missing[0]), ", and ", done.missing.size() - 1,
                             " more are missing; the payloads of ", done.changed, " others were changed"));
    }
    sequence = std::max(sequence, done.sequence);
    change.token = std::move(done.token);
  } while (!change.token.empty());
  return UpdateResult(call, sequence);
}

absl::StatusOr<std::string> PayloadOf(const Fields& body) {
  LC_ASSIGN_OR_RETURN(const json* const payload, body.Require("payload", "a JSON object"));
  if (!payload->is_object()) return InvalidField(body.At("payload"), ShownJson(*payload), "a JSON object");
  return TextOfJson(*payload);
}

constexpr std::pair<const char*, Answer (*)(const RestCall&)> kOperations[] = {
    {"upsert", UpsertPoints},          {"delete", DeletePoints},
    {"set_payload", SetPayload},       {"overwrite_payload", OverwritePayload},
    {"clear_payload", ClearPayload},   {"delete_payload", DeletePayloadKeys},
    {"update_vectors", UpdateVectors},
};

Answer MakeOperation(const RestCall& call, const json& given, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields operation, Fields::Of(given, path));
  LC_RETURN_IF_ERROR(operation.Refuse("delete_vectors", "a point without a vector is none: delete whole points"));
  for (const auto& [name, make] : kOperations) {
    const json* body = operation.Find(name);
    if (body == nullptr) continue;
    Answer made = make(RestCall{call.engine, call.index_defaults, call.request, *body, call.context, call.version});
    if (!made.ok()) return Annotate(made.status(), operation.At(name));
    return made;
  }
  return InvalidField(
      path, "without a known member",
      "one of upsert, delete, set_payload, overwrite_payload, clear_payload, delete_payload, update_vectors");
}

}  // namespace

Answer SetPayload(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  ChangePayloadCall change;
  change.change = PayloadChange::kSet;
  LC_ASSIGN_OR_RETURN(change.payload_json, PayloadOf(body));
  LC_ASSIGN_OR_RETURN(const std::string key, body.Text("key"));
  LC_ASSIGN_OR_RETURN(change.key, PayloadPathFrom(key, "key"));
  return MakeChange(call, body, std::move(change));
}

Answer OverwritePayload(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_RETURN_IF_ERROR(body.Refuse("key", "the whole payload is overwritten; set a part of it"));
  ChangePayloadCall change;
  change.change = PayloadChange::kOverwrite;
  LC_ASSIGN_OR_RETURN(change.payload_json, PayloadOf(body));
  return MakeChange(call, body, std::move(change));
}

Answer DeletePayloadKeys(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  ChangePayloadCall change;
  change.change = PayloadChange::kDeleteKeys;
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> keys, body.Texts("keys"));
  if (keys.empty()) return InvalidField("keys", "empty", "at least one path");
  for (const std::string& key : keys) {
    LC_ASSIGN_OR_RETURN(std::string path, PayloadPathFrom(key, StrCat("keys[", change.keys.size(), "]")));
    change.keys.push_back(std::move(path));
  }
  return MakeChange(call, body, std::move(change));
}

Answer ClearPayload(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  ChangePayloadCall change;
  change.change = PayloadChange::kClear;
  return MakeChange(call, body, std::move(change));
}

// In the order of the list. It is no transaction: what was made before an error stays.
Answer ChangePoints(const RestCall& call) {
  LC_ASSIGN_OR_RETURN(const Fields body, Fields::Of(call.body, ""));
  LC_ASSIGN_OR_RETURN(const json* const operations, body.Require("operations", "an array of operations"));
  if (!operations->is_array()) return InvalidField("operations", ShownJson(*operations), "an array of operations");
  std::vector<std::string> answers;
  for (size_t i = 0; i < operations->size(); ++i) {
    LC_ASSIGN_OR_RETURN(std::string made, MakeOperation(call, (*operations)[i], StrCat("operations[", i, "]")));
    answers.push_back(std::move(made));
  }
  return ListText(answers);
}

}  // namespace lightcone::server::rest

#include "server/engine/collection/strict_checks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "base/status.h"
#include "server/engine/filter/payload_path.h"

namespace lightcone::server {
namespace {

std::string StrictModeOf(const CollectionRecord& record) {
  return StrCat("strict mode of collection '", record.name, "'");
}

// The type of the index that answers a leaf best.
PayloadType TypeFor(const FilterNode& leaf) {
  if (IsOfPlaces(leaf.kind)) return PayloadType::kGeo;
  if (leaf.kind == FilterNode::Kind::kText && leaf.match != FilterNode::TextMatch::kPrefix) return PayloadType::kText;
  const FilterValue* value = leaf.values.empty() ? nullptr : &leaf.values[0];
  for (const auto* bound : {&leaf.greater, &leaf.greater_equal, &leaf.less, &leaf.less_equal}) {
    if (*bound) value = &**bound;
  }
  if (value == nullptr || std::holds_alternative<std::string>(*value)) return PayloadType::kKeyword;
  if (std::holds_alternative<bool>(*value)) return PayloadType::kBoolean;
  return std::holds_alternative<int64_t>(*value) ? PayloadType::kInteger : PayloadType::kFloat;
}

// Whether an index of the type answers the leaf without reading the payloads of all items that have the field.
bool Answers(PayloadType type, const FilterNode& leaf) {
  switch (leaf.kind) {
    case FilterNode::Kind::kExists:
    case FilterNode::Kind::kIsNull:
    case FilterNode::Kind::kValuesCount:
      return true;
    case FilterNode::Kind::kEquals:
    case FilterNode::Kind::kIn:
    case FilterNode::Kind::kRange:
      return type != PayloadType::kText && type != PayloadType::kGeo;
    default:
      return type == TypeFor(leaf);
  }
}

// The first leaf that no index answers; nullptr: there is none.
const FilterNode* FindUnindexed(const FilterNode& node, const std::vector<PayloadField>& fields) {
  switch (node.kind) {
    case FilterNode::Kind::kAnd:
    case FilterNode::Kind::kOr:
    case FilterNode::Kind::kNot:
      for (const FilterNode& child : node.children) {
        if (const FilterNode* const found = FindUnindexed(child, fields)) return found;
      }
      return nullptr;
    case FilterNode::Kind::kHasId:
      return nullptr;
    case FilterNode::Kind::kNested:
      return &node;
    default:
      break;
  }
  if (node.field == kGenerationField || node.field == kUncertaintyField) return nullptr;
  const bool answered = std::any_of(fields.begin(), fields.end(), [&](const PayloadField& field) {
    return CanonicalPath(field.path) == node.field && Answers(field.type, node);
  });
  return answered ? nullptr : &node;
}

}  // namespace

Limits LimitsUnder(const Limits& limits, const StrictMode& strict) {
  Limits under = limits;
  const auto lower = [&strict](std::optional<uint32_t> StrictMode::*bound, int64_t* limit) {
    if (const uint32_t most = strict.Bound(bound); most > 0) *limit = std::min<int64_t>(*limit, most);
  };
  lower(&StrictMode::k_max, &under.k_max);
  lower(&StrictMode::ef_max, &under.ef_max);
  lower(&StrictMode::queries_max, &under.queries_max);
  lower(&StrictMode::batch_items_max, &under.batch_items_max);
  lower(&StrictMode::payload_bytes_max, &under.payload_bytes_max);
  return under;
}

absl::Status CheckLimits(const CollectionRecord& record, const Limits& limits,
                         absl::FunctionRef<absl::Status(const Limits& limits)> check) {
  const absl::Status status = check(LimitsUnder(limits, record.strict_mode));
  if (status.ok() || !record.strict_mode.enabled.value_or(false) || !check(limits).ok()) return status;
  return Annotate(status, StrictModeOf(record));
}

absl::Status CheckStrictSearch(const CollectionRecord& record, const SearchCall& call) {
  const StrictMode& strict = record.strict_mode;
  const auto check = [&]() -> absl::Status {
    if (call.exact && strict.Refuses(&StrictMode::allow_exact)) return InvalidField("exact", "true", "false");
    if (const uint32_t most = strict.Bound(&StrictMode::ef_max); most > 0) {
      if (call.nprobe > static_cast<int64_t>(most)) {
        return InvalidField("nprobe", StrCat(call.nprobe), StrCat("0 (the collection's setting) .. ", most));
      }
      // It may choose any width.
      if (call.target_recall > 0) {
        return InvalidField("target_recall", StrCat(call.target_recall), StrCat("0, or an ef of at most ", most));
      }
    }
    const uint32_t most = strict.Bound(&StrictMode::k_max);
    if (most > 0 && call.refresh_top > static_cast<int64_t>(most)) {
      return InvalidField("refresh_top", StrCat(call.refresh_top), StrCat("0 .. ", most));
    }
    return absl::OkStatus();
  };
  return Annotate(check(), StrictModeOf(record));
}

absl::Status CheckStrictFilter(const CollectionRecord& record, const Filter* filter, bool writes) {
  const auto allowed = writes ? &StrictMode::allow_unindexed_writes : &StrictMode::allow_unindexed_reads;
  if (filter == nullptr || !record.strict_mode.Refuses(allowed)) return absl::OkStatus();
  const FilterNode* const leaf = FindUnindexed(filter->root(), record.payload_fields);
  if (leaf == nullptr) return absl::OkStatus();
  const bool nested = leaf->kind == FilterNode::Kind::kNested;
  const std::string value = nested ? StrCat("a nested condition on '", leaf->field, "', which reads payloads")
                                   : StrCat("a condition on '", leaf->field, "', which no payload index answers");
  const std::string index =
      nested ? std::string("conditions on indexed fields")
             : StrCat("conditions on indexed fields; `lightcone collection index-payload ", record.name, " --add '",
                      leaf->field, "=", PayloadTypeName(TypeFor(*leaf)), "'` adds the index");
  return Annotate(FieldError(absl::StatusCode::kFailedPrecondition, "filter", value, index), StrictModeOf(record));
}

}  // namespace lightcone::server

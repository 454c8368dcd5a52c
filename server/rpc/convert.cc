#include "server/rpc/convert.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/dcheck.h"
#include "base/half.h"
#include "base/status.h"
#include "server/rpc/convert_filter.h"

namespace lightcone::server {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian, and so is every target here");

constexpr std::string_view kVectorKinds = "one of floats, f32_le, f16_le";

absl::StatusOr<std::vector<float>> FloatsOf(const std::string& bytes, FieldPath field) {
  if (bytes.size() % sizeof(float) != 0) {
    return InvalidField(field(), StrCat(bytes.size(), " bytes long"), "a multiple of 4 bytes (little-endian float32)");
  }
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

absl::StatusOr<std::vector<float>> HalvesOf(const std::string& bytes, FieldPath field) {
  if (bytes.size() % 2 != 0) {
    return InvalidField(field(), StrCat(bytes.size(), " bytes long"), "a multiple of 2 bytes (little-endian float16)");
  }
  std::vector<float> out(bytes.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    out[i] = HalfToFloat(half);
  }
  return out;
}

absl::StatusOr<FilterValue> ValueOf(const v1::FilterValue& value, const std::string& field) {
  switch (value.kind_case()) {
    case v1::FilterValue::kText:
      return FilterValue(value.text());
    case v1::FilterValue::kInteger:
      return FilterValue(int64_t{value.integer()});
    case v1::FilterValue::kNumber:
      return FilterValue(value.number());
    case v1::FilterValue::kBoolean:
      return FilterValue(value.boolean());
    case v1::FilterValue::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "not set", "one of text, integer, number, boolean");
}

absl::StatusOr<FilterNode> RangeOf(const v1::FilterRange& range, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kRange;
  node.field = range.field();
  const auto bound = [&](bool has, const v1::FilterValue& value, std::string_view name,
                         std::optional<FilterValue>* out) -> absl::Status {
    if (!has) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(*out, ValueOf(value, StrCat(path, ".", name)));
    return absl::OkStatus();
  };
  LC_RETURN_IF_ERROR(bound(range.has_greater(), range.greater(), "greater", &node.greater));
  LC_RETURN_IF_ERROR(bound(range.has_greater_equal(), range.greater_equal(), "greater_equal", &node.greater_equal));
  LC_RETURN_IF_ERROR(bound(range.has_less(), range.less(), "less", &node.less));
  LC_RETURN_IF_ERROR(bound(range.has_less_equal(), range.less_equal(), "less_equal", &node.less_equal));
  return node;
}

absl::StatusOr<FilterNode> CountOf(const v1::FilterValuesCount& count, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kValuesCount;
  node.field = count.field();
  const auto at_least = [&node](uint64_t least) { node.count_least = std::max(node.count_least, least); };
  const auto at_most = [&node](uint64_t most) { node.count_most = std::min(node.count_most, most); };
  bool any = false, none = false;  // none: no number is within the bounds
  if (count.has_greater()) any = true, none = none || count.greater() == UINT64_MAX, at_least(count.greater() + 1);
  if (count.has_greater_equal()) any = true, at_least(count.greater_equal());
  if (count.has_less()) any = true, none = none || count.less() == 0, at_most(count.less() - 1);
  if (count.has_less_equal()) any = true, at_most(count.less_equal());
  if (!any) return InvalidField(path, "without a bound", "at least one of greater, greater_equal, less, less_equal");
  if (none) node.count_least = 1, node.count_most = 0;
  return node;
}

absl::StatusOr<FilterNode> GroupOf(FilterNode::Kind kind, const google::protobuf::RepeatedPtrField<v1::Filter>& of,
                                   const std::string& path) {
  FilterNode node;
  node.kind = kind;
  node.children.reserve(of.size());
  for (int i = 0; i < of.size(); ++i) {
    LC_ASSIGN_OR_RETURN(FilterNode child, FromWire(of[i], StrCat(path, "[", i, "]")));
    node.children.push_back(std::move(child));
  }
  return node;
}

// Number of conditions; counting ends beyond kFilterNodesMax.
int CountNodes(const v1::Filter& filter, int before) {
  int nodes = before + 1;
  if (filter.has_not_()) return CountNodes(filter.not_(), nodes);
  if (filter.has_nested()) return CountNodes(filter.nested().filter(), nodes);
  const bool either = filter.has_or_();
  if (!either && !filter.has_and_()) return nodes;
  for (const v1::Filter& child : either ? filter.or_().of() : filter.and_().of()) {
    if (nodes > kFilterNodesMax) break;
    nodes = CountNodes(child, nodes);
  }
  return nodes;
}

}  // namespace

absl::Status CheckNodes(const v1::Filter& filter) {
  if (CountNodes(filter, 0) <= kFilterNodesMax) return absl::OkStatus();
  return InvalidField("filter", StrCat("of more than ", kFilterNodesMax, " nodes"),
                      StrCat("at most ", kFilterNodesMax));
}

absl::StatusOr<ItemId> FromWire(const v1::ItemId& id, FieldPath field) {
  switch (id.kind_case()) {
    case v1::ItemId::kName:
      return ItemId{id.name()};
    case v1::ItemId::kNumber:
      return ItemId{uint64_t{id.number()}};
    case v1::ItemId::KIND_NOT_SET:
      break;
  }
  return InvalidField(field(), "not set", "one of name, number");
}

absl::StatusOr<std::vector<ItemId>> FromWire(const google::protobuf::RepeatedPtrField<v1::ItemId>& ids) {
  std::vector<ItemId> out;
  out.reserve(ids.size());
  for (int i = 0; i < ids.size(); ++i) {
    LC_ASSIGN_OR_RETURN(ItemId id, FromWire(ids[i], [&] { return StrCat("ids[", i, "]"); }));
    out.push_back(std::move(id));
  }
  return out;
}

absl::StatusOr<std::vector<float>> FromWire(const v1::Vector& vector, FieldPath field) {
  switch (vector.encoding_case()) {
    case v1::Vector::kFloats: {
      const auto& values = vector.floats().values();
      return std::vector<float>(values.begin(), values.end());
    }
    case v1::Vector::kF32Le:
      return FloatsOf(vector.f32_le(), [&] { return StrCat(field(), ".f32_le"); });
    case v1::Vector::kF16Le:
      return HalvesOf(vector.f16_le(), [&] { return StrCat(field(), ".f16_le"); });
    case v1::Vector::ENCODING_NOT_SET:
      break;
  }
  return InvalidField(field(), "not set", kVectorKinds);
}

absl::StatusOr<RawInput> FromWire(const v1::RawInput& input, FieldPath field) {
  switch (input.kind_case()) {
    case v1::RawInput::kImage:
      return RawInput(input.image());
    case v1::RawInput::kTensor: {
      TensorInput tensor;
      tensor.shape.assign(input.tensor().shape().begin(), input.tensor().shape().end());
      LC_ASSIGN_OR_RETURN(tensor.values,
                          FloatsOf(input.tensor().f32_le(), [&] { return StrCat(field(), ".tensor.f32_le"); }));
      return RawInput(std::move(tensor));
    }
    case v1::RawInput::kText:
      return RawInput(TextInput{input.text()});
    case v1::RawInput::KIND_NOT_SET:
      break;
  }
  return InvalidField(field(), "not set", "one of image, tensor, text");
}

absl::StatusOr<FilterValue> FromWire(const v1::FilterValue& value, std::string_view field) {
  return ValueOf(value, std::string(field));
}

absl::StatusOr<FilterNode> FromWire(const v1::Filter& filter, std::string_view field) {
  const std::string path(field);
  FilterNode node;
  switch (filter.kind_case()) {
    case v1::Filter::kAnd:
      return GroupOf(FilterNode::Kind::kAnd, filter.and_().of(), StrCat(path, ".and"));
    case v1::Filter::kOr:
      return GroupOf(FilterNode::Kind::kOr, filter.or_().of(), StrCat(path, ".or"));
    case v1::Filter::kNot: {
      node.kind = FilterNode::Kind::kNot;
      LC_ASSIGN_OR_RETURN(FilterNode child, FromWire(filter.not_(), StrCat(path, ".not")));
      node.children.push_back(std::move(child));
      return node;
    }
    case v1::Filter::kEquals: {
      node.kind = FilterNode::Kind::kEquals;
      node.field = filter.equals().field();
      LC_ASSIGN_OR_RETURN(FilterValue value, ValueOf(filter.equals().value(), StrCat(path, ".equals.value")));
      node.values.push_back(std::move(value));
      return node;
    }
    case v1::Filter::kIn: {
      node.kind = FilterNode::Kind::kIn;
      node.field = filter.in().field();
      for (int i = 0; i < filter.in().values_size(); ++i) {
        LC_ASSIGN_OR_RETURN(FilterValue value, ValueOf(filter.in().values(i), StrCat(path, ".in.values[", i, "]")));
        node.values.push_back(std::move(value));
      }
      return node;
    }
    case v1::Filter::kRange:
      return RangeOf(filter.range(), StrCat(path, ".range"));
    case v1::Filter::kExists: {
      node.kind = FilterNode::Kind::kExists;
      node.field = filter.exists().field();
      return node;
    }
    case v1::Filter::kIsNull: {
      node.kind = FilterNode::Kind::kIsNull;
      node.field = filter.is_null().field();
      return node;
    }
    case v1::Filter::kIsEmpty: {
      node.kind = FilterNode::Kind::kValuesCount;
      node.field = filter.is_empty().field();
      node.count_most = 0;
      return node;
    }
    case v1::Filter::kValuesCount:
      return CountOf(filter.values_count(), StrCat(path, ".values_count"));
    case v1::Filter::kHasId:
    case v1::Filter::kNested:
    case v1::Filter::kText:
    case v1::Filter::kGeoRadius:
    case v1::Filter::kGeoBox:
    case v1::Filter::kGeoPolygon:
    default:
      return ConditionOf(filter, path);
  }
}

PayloadSelection FromWire(const v1::PayloadSelection& selection) {
  return {{selection.include().begin(), selection.include().end()},
          {selection.exclude().begin(), selection.exclude().end()}};
}

absl::StatusOr<Durability> FromWire(v1::Durability durability) {
  switch (durability) {
    case v1::DURABILITY_UNSPECIFIED:
    case v1::DURABILITY_DURABLE:
      return Durability::kDurable;
    case v1::DURABILITY_PROCESS:
      return Durability::kProcess;
    default:
      break;
  }
  return InvalidField("durability", StrCat(static_cast<int>(durability)),
                      "DURABILITY_DURABLE (1), DURABILITY_PROCESS (2), or 0, which means DURABLE");
}

absl::StatusOr<UpsertBatch> FromWire(const v1::UpsertRequest& request) {
  UpsertBatch batch;
  batch.collection = request.collection();
  batch.generation = request.generation();
  batch.same_content = request.same_content();
  batch.keep_input = request.keep_input();
  batch.keep_payload = request.keep_payload();
  batch.model = request.model();
  LC_ASSIGN_OR_RETURN(batch.durability, FromWire(request.durability()));
  batch.items.reserve(request.items_size());
  for (int i = 0; i < request.items_size(); ++i) {
    const v1::Item& from = request.items(i);
    UpsertItem item;
    LC_ASSIGN_OR_RETURN(item.id, FromWire(from.id(), [&] { return StrCat("items[", i, "].id"); }));
    switch (from.content_case()) {
      case v1::Item::kVector: {
        LC_ASSIGN_OR_RETURN(std::vector<float> z,
                            FromWire(from.vector(), [&] { return StrCat("items[", i, "].vector"); }));
        item.content = std::move(z);
        break;
      }
      case v1::Item::kInput: {
        LC_ASSIGN_OR_RETURN(RawInput input, FromWire(from.input(), [&] { return StrCat("items[", i, "].input"); }));
        item.content = std::move(input);
        break;
      }
      case v1::Item::CONTENT_NOT_SET:
        return InvalidField(StrCat("items[", i, "].content"), "not set", "one of vector, input");
    }
    item.payload_json = from.payload_json();
    if (from.has_expected_sequence()) item.expected_sequence = from.expected_sequence();
    if (from.has_ttl_ms()) {
      LC_ASSIGN_OR_RETURN(item.ttl_ms, TtlOf(from.ttl_ms(), StrCat("items[", i, "].ttl_ms")));
    }
    batch.items.push_back(std::move(item));
  }
  return batch;
}

absl::StatusOr<AdapterMode> FromWire(v1::AdapterMode mode) {
  switch (mode) {
    case v1::ADAPTER_MODE_UNSPECIFIED:
      return AdapterMode::kDefault;
    case v1::ADAPTER_MODE_NONE:
      return AdapterMode::kNone;
    case v1::ADAPTER_MODE_QUERY:
      return AdapterMode::kQuery;
    case v1::ADAPTER_MODE_ITEM:
      return AdapterMode::kItem;
    default:
      break;
  }
  return InvalidField("adapter_mode", StrCat(static_cast<int>(mode)),
                      "ADAPTER_MODE_NONE (1), ADAPTER_MODE_QUERY (2), ADAPTER_MODE_ITEM (3), or 0 for all adapters");
}

namespace {

absl::StatusOr<std::vector<OlderVector>> OlderVectorsOf(const v1::Query& from, int i) {
  std::vector<OlderVector> all;
  all.reserve(static_cast<size_t>(from.older_vectors_size()));
  for (int j = 0; j < from.older_vectors_size(); ++j) {
    const v1::GenerationVector& one = from.older_vectors(j);
    LC_ASSIGN_OR_RETURN(std::vector<float> z, FromWire(one.vector(), [&] {
                          return StrCat("queries[", i, "].older_vectors[", j, "].vector");
                        }));
    all.push_back({one.generation(), std::move(z)});
  }
  return all;
}

absl::StatusOr<Query> QueryOf(const v1::Query& from, int i) {
  Query query;
  if (from.older_vectors_size() > 0 && !from.has_vector()) {
    return InvalidField(StrCat("queries[", i, "].older_vectors"), "given", "left out where there is no vector");
  }
  if (from.has_canary_vector() && !from.has_vector()) {
    return InvalidField(StrCat("queries[", i, "].canary_vector"), "given", "left out where there is no vector");
  }
  switch (from.content_case()) {
    case v1::Query::kVector: {
      LC_ASSIGN_OR_RETURN(std::vector<float> z,
                          FromWire(from.vector(), [&] { return StrCat("queries[", i, "].vector"); }));
      query.content = std::move(z);
      LC_ASSIGN_OR_RETURN(query.older_vectors, OlderVectorsOf(from, i));
      if (from.has_canary_vector()) {
        LC_ASSIGN_OR_RETURN(query.canary_vector,
                            FromWire(from.canary_vector(), [&] { return StrCat("queries[", i, "].canary_vector"); }));
      }
      return query;
    }
    case v1::Query::kInput: {
      LC_ASSIGN_OR_RETURN(RawInput input, FromWire(from.input(), [&] { return StrCat("queries[", i, "].input"); }));
      query.content = std::move(input);
      return query;
    }
    case v1::Query::kItem: {
      LC_ASSIGN_OR_RETURN(ItemId id, FromWire(from.item(), [&] { return StrCat("queries[", i, "].item"); }));
      query.content = QueryByItem{std::move(id)};
      return query;
    }
    case v1::Query::CONTENT_NOT_SET:
      break;
  }
  return InvalidField(StrCat("queries[", i, "].content"), "not set", "one of vector, input, item");
}

// 0 when the request has none.
absl::StatusOr<double> TargetRecallOf(const v1::SearchRequest& request) {
  if (!request.has_target_recall()) return 0.0;
  const double target = request.target_recall();
  if (!(target > 0 && target <= 1)) return InvalidField("target_recall", StrCat(target), "above 0, up to 1");
  if (request.ef() != 0) return InvalidField("target_recall", StrCat(target), "left out where 'ef' is given");
  if (request.nprobe() != 0) return InvalidField("target_recall", StrCat(target), "left out where 'nprobe' is given");
  if (request.exact()) return InvalidField("target_recall", StrCat(target), "left out where 'exact' is");
  return target;
}

}  // namespace

absl::StatusOr<DeleteByFilterCall> FilterDeleteOf(const v1::DeleteRequest& request) {
  LC_DCHECK(request.has_filter());
  if (request.ids_size() > 0) return InvalidField("ids", "given", "left out where there is a filter");
  DeleteByFilterCall call;
  call.collection = request.collection();
  LC_ASSIGN_OR_RETURN(call.filter, FromWire(request.filter(), "filter"));
  call.limit = request.limit();
  call.token = request.token();
  LC_ASSIGN_OR_RETURN(call.durability, FromWire(request.durability()));
  return call;
}

absl::StatusOr<SearchCall> FromWire(const v1::SearchRequest& request) {
  SearchCall call;
  call.collection = request.collection();
  call.generation = request.generation();
  call.k = request.k();
  LC_ASSIGN_OR_RETURN(call.filter, FilterOf(request));
  call.exact = request.exact();
  if (request.ef() > static_cast<uint32_t>(std::numeric_limits<int>::max())) {
    return InvalidField("ef", StrCat(request.ef()), StrCat("0 .. ", std::numeric_limits<int>::max()));
  }
  call.ef = static_cast<int>(request.ef());
  if (request.nprobe() > static_cast<uint32_t>(std::numeric_limits<int>::max())) {
    return InvalidField("nprobe", StrCat(request.nprobe()), StrCat("0 .. ", std::numeric_limits<int>::max()));
  }
  call.nprobe = static_cast<int>(request.nprobe());
  LC_ASSIGN_OR_RETURN(call.target_recall, TargetRecallOf(request));
  call.with_payload = request.with_payload();
  call.with_vector = request.with_vector();
  call.wait_for_sequence = request.wait_for_sequence();
  LC_ASSIGN_OR_RETURN(call.adapter_mode, FromWire(request.adapter_mode()));
  call.profile = request.profile();
  call.offset = request.offset();
  if (request.has_score_threshold()) call.score_threshold = request.score_threshold();
  if (request.has_distance_max()) call.distance_max = request.distance_max();
  if (request.has_relevance_min()) call.relevance_min = request.relevance_min();
  call.scale_generation = request.scale_generation();
  call.payload = FromWire(request.payload());
  if (request.has_group_by()) call.group_by = FromWire(request.group_by());
  call.refresh_top = request.refresh_top();
  call.embed_older = request.embed_older();
  call.canary_key = request.canary_key();
  call.model = request.model();
  call.evaluate_generations.assign(request.evaluate_generations().begin(), request.evaluate_generations().end());
  call.queries.reserve(request.queries_size());
  for (int i = 0; i < request.queries_size(); ++i) {
    absl::StatusOr<Query> query = QueryOf(request.queries(i), i);
    if (query.ok()) {
      call.queries.push_back(*std::move(query));
    } else {
      call.queries.emplace_back().error = query.status();
    }
  }
  return call;
}

}  // namespace lightcone::server

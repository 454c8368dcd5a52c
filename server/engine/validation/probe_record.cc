#include "server/engine/validation/probe_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/collection/record_json.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kProbesKind = "probes";

Json ToJson(const FilterValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

bool IsPair(const Json& json) {
  return json.is_array() && json.size() == 2 && json[0].is_number_unsigned() && json[1].is_number_unsigned();
}

bool ReadLabel(const Json& json, std::optional<FilterValue>* out) {
  if (json.is_string()) {
    *out = json.get<std::string>();
  } else if (json.is_boolean()) {
    *out = json.get<bool>();
  } else if (json.is_number_float()) {
    *out = json.get<double>();
  } else if (json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) {
    *out = json.get<int64_t>();
  } else {
    return false;
  }
  return true;
}

// Takes the bytes that a probe's line announces off the front of the binary part.
class ProbeReader {
 public:
  explicit ProbeReader(std::string_view rest) : rest_(rest) {}

  bool Read(const Json& json, Probe* out) {
    if (!json.is_object()) return false;
    if (json.contains("vectors") && !ReadVectors(json["vectors"], out)) return false;
    if (json.contains("input") && !ReadInput(json["input"], out)) return false;
    if (json.contains("relevant")) {
      if (!json["relevant"].is_array()) return false;
      for (const Json& id : json["relevant"]) {
        if (!ReadItemId(id, &out->relevant.emplace_back())) return false;
      }
    }
    if (json.contains("label") && !ReadLabel(json["label"], &out->label)) return false;
    if (json.contains("item") && !ReadItemId(json["item"], &out->item.emplace())) return false;
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  bool ReadVectors(const Json& json, Probe* out) {
    if (!json.is_array()) return false;
    for (const Json& one : json) {  // [generation, dimension]
      if (!IsPair(one)) return false;
      const uint64_t generation = one[0].get<uint64_t>(), dimension = one[1].get<uint64_t>();
      if (generation == 0 || generation > UINT32_MAX || dimension == 0 || dimension > kDimensionMax) return false;
      if (rest_.size() < dimension * 4) return false;
      std::vector<float> z(dimension);
      std::memcpy(z.data(), rest_.data(), dimension * 4);
      rest_.remove_prefix(dimension * 4);
      out->vectors.emplace_back(static_cast<uint32_t>(generation), std::move(z));
    }
    return true;
  }

  bool ReadInput(const Json& json, Probe* out) {
    if (!json.is_number_unsigned() || json.get<uint64_t>() > rest_.size()) return false;
    auto input = DecodeInput(rest_.substr(0, json.get<uint64_t>()));
    if (!input.ok()) return false;
    out->input = *std::move(input);
    rest_.remove_prefix(json.get<uint64_t>());
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::string EncodeProbeHead(const ProbeSetStatus& set) {
  return Dump({{"format", kFormat},
               {"name", set.name},
               {"label_field", set.label_field},
               {"probes", set.probes},
               {"inputs", set.inputs},
               {"vectors", set.vectors},
               {"bytes", set.bytes},
               {"put_us", absl::ToUnixMicros(set.put)}});
}

absl::StatusOr<ProbeSetStatus> DecodeProbeHead(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord(kProbesKind, bytes));
  ProbeSetStatus set;
  FieldReader reader(kProbesKind, json);
  int64_t put_us = 0;
  reader.Read("name", &set.name);
  reader.Read("label_field", &set.label_field);
  reader.Read("probes", &set.probes);
  reader.Read("inputs", &set.inputs);
  reader.Read("bytes", &set.bytes);
  reader.Read("put_us", &put_us);
  const Json* vectors = reader.Find("vectors");
  if (vectors != nullptr && !vectors->is_array()) reader.Fail("vectors");
  LC_RETURN_IF_ERROR(reader.status());
  for (const Json& one : *vectors) {
    if (!IsPair(one)) {
      return DataLoss("probes record: field 'vectors' is missing or damaged");
    }
    set.vectors.emplace_back(one[0].get<uint32_t>(), one[1].get<uint32_t>());
  }
  set.put = absl::FromUnixMicros(put_us);
  return set;
}

std::string EncodeProbes(const std::vector<Probe>& probes) {
  Json list = Json::array();
  std::string binary;
  for (const Probe& probe : probes) {
    Json one = Json::object();
    if (!probe.vectors.empty()) {
      Json vectors = Json::array();
      for (const auto& [generation, z] : probe.vectors) {
        vectors.push_back({generation, z.size()});
        binary.append(reinterpret_cast<const char*>(z.data()), z.size() * sizeof(float));
      }
      one["vectors"] = std::move(vectors);
    }
    if (probe.input) {
      const std::string input = EncodeInput(*probe.input);
      one["input"] = input.size();
      binary += input;
    }
    if (!probe.relevant.empty()) {
      Json relevant = Json::array();
      for (const ItemId& id : probe.relevant) relevant.push_back(server::ToJson(id));
      one["relevant"] = std::move(relevant);
    }
    if (probe.label) one["label"] = ToJson(*probe.label);
    if (probe.item) one["item"] = server::ToJson(*probe.item);
    list.push_back(std::move(one));
  }
  return Dump({{"format", kFormat}, {"probes", std::move(list)}}) + "\n" + binary;
}

absl::StatusOr<std::vector<Probe>> DecodeProbes(std::string_view bytes) {
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord(kProbesKind, bytes.substr(0, line)));
  FieldReader fields(kProbesKind, json);
  const Json* list = fields.Find("probes");
  if (list != nullptr && !list->is_array()) fields.Fail("probes");
  LC_RETURN_IF_ERROR(fields.status());
  ProbeReader reader(bytes.substr(std::min(line + 1, bytes.size())));
  std::vector<Probe> probes;
  for (const Json& one : *list) {
    if (!reader.Read(one, &probes.emplace_back())) {
      return DataLoss(StrCat("probes record: probe ", probes.size() - 1, " is damaged"));
    }
  }
  if (!reader.at_end()) return DataLoss("probes record: bytes behind the last probe");
  return probes;
}

}  // namespace lightcone::server

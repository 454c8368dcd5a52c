#include "index/rows/manifest.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/status.h"
#include "index/rows/segment.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

using Json = nlohmann::json;

constexpr size_t kDocumentBytesMax = 16 << 20;

constexpr uint32_t kStatesVersion = 2;  // A file of another version counts as damaged.

struct StatesHeader {
  uint32_t magic = 0x5347434c;  // "LCGS"
  uint32_t version = kStatesVersion;
  uint32_t rows = 0;
  uint32_t crc32c = 0;  // checksum of the sequence and the states
  uint64_t sequence = 0;
};
static_assert(sizeof(StatesHeader) == kStatesHeaderBytes);

// A document is {"crc32c": of `content`'s compact text, "content": {...}}.
std::string Seal(const Json& content) {
  const Json document = {{"crc32c", Crc32c(content.dump())}, {"content", content}};
  return document.dump(1) + "\n";
}

// Reads fields of one JSON object and remembers the first that is missing or wrong.
class Reader {
 public:
  Reader(const Json& object, std::string_view where) : object_(object), where_(where) {
    if (!object.is_object()) status_ = DataLoss(StrCat(where, " is no object"));
  }

  template <typename T>
  T Integer(const char* name, T low, T high) {
    const Json* value = Find(name);
    if (value == nullptr) return low;
    if (value->is_number_unsigned()) {
      const uint64_t v = value->get<uint64_t>();
      if (v >= static_cast<uint64_t>(low) && v <= static_cast<uint64_t>(high)) return static_cast<T>(v);
    }
    Fail(name, StrCat("an integer of ", low, " .. ", high));
    return low;
  }

  double Number(const char* name) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_number()) return value->get<double>();
    if (value != nullptr) Fail(name, "a number");
    return 0;
  }

  std::string Text(const char* name) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    if (value != nullptr) Fail(name, "a text");
    return "";
  }

  bool Bool(const char* name) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    if (value != nullptr) Fail(name, "true or false");
    return false;
  }

  const Json& Array(const char* name) {
    static const Json* const empty = new Json(Json::array());
    const Json* value = Find(name);
    if (value != nullptr && value->is_array()) return *value;
    if (value != nullptr) Fail(name, "a list");
    return *empty;
  }

  Space ReadSpace() {
    Space space;
    const auto metric = ParseMetric(Text("metric"));
    if (metric.ok()) {
      space.metric = *metric;
    } else {
      Fail("metric", "a metric's name");
    }
    space.dimension = Integer<int>("dimension", 1, kDimensionMax);
    space.curvature = Number("curvature");
    space.clip_radius = Number("clip_radius");
    if (status_.ok() && !space.Validate().ok()) status_ = DataLoss(MessageOf(space.Validate()));
    return space;
  }

  void Fail(std::string_view name, std::string_view wanted) {
    if (status_.ok()) status_ = DataLoss(StrCat(where_, ".", name, " is not ", wanted));
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* name) {
    if (!status_.ok()) return nullptr;
    const auto it = object_.find(name);
    if (it != object_.end()) return &*it;
    status_ = DataLoss(StrCat(where_, ".", std::string(name), " is missing"));
    return nullptr;
  }

  const Json& object_;
  const std::string where_;
  absl::Status status_;
};

absl::StatusOr<Json> Unseal(std::string_view text, std::string_view what) {
  if (text.size() > kDocumentBytesMax) return DataLoss(StrCat(what, " has ", text.size(), " bytes: too many"));
  // A bound on nesting: the parser's tree is freed recursively.
  int depth = 0;
  const auto shallow = [&depth](int level, Json::parse_event_t, Json&) {
    depth = std::max(depth, level);
    return level < 32;
  };
  Json document = Json::parse(text.begin(), text.end(), shallow, /*allow_exceptions=*/false);
  if (document.is_discarded() || depth >= 32) return DataLoss(StrCat(what, " is no JSON document"));
  Reader reader(document, what);
  const uint32_t sum = reader.Integer<uint32_t>("crc32c", 0, std::numeric_limits<uint32_t>::max());
  LC_RETURN_IF_ERROR(reader.status());
  const auto content = document.find("content");
  if (content == document.end()) return DataLoss(StrCat(what, ".content is missing"));
  if (Crc32c(content->dump(-1, ' ', false, Json::error_handler_t::replace)) != sum) {
    return DataLoss(StrCat(what, " has a wrong checksum"));
  }
  Json inner = std::move(*content);
  Reader version(inner, what);
  const int format = version.Integer<int>("format", 1, 1'000'000);
  LC_RETURN_IF_ERROR(version.status());
  if (format != kIndexFormatVersion) {
    return DataLoss(StrCat(what, " has format version ", format, "; known: ", kIndexFormatVersion));
  }
  return inner;
}

void PutSpace(const Space& space, Json& json) {
  json["metric"] = std::string(MetricName(space.metric));
  json["dimension"] = space.dimension;
  json["curvature"] = space.curvature;
  json["clip_radius"] = space.clip_radius;
}

// Of measurements: "walks" of a graph by their "ef", "probes" of lists by how many there were.
struct MeasuredNames {
  const char* list;
  const char* breadth;
};
constexpr MeasuredNames kWalkNames{"walks", "ef"}, kProbeNames{"probes", "lists"};
MeasuredNames MeasuredNamesOf(const SegmentManifest& m) { return m.kind == "ivf" ? kProbeNames : kWalkNames; }

absl::StatusOr<std::vector<RecallAt>> ReadMeasured(const Json& list, const MeasuredNames& names) {
  std::vector<RecallAt> measured;
  for (const Json& item : list) {
    Reader entry(item, StrCat("manifest.", names.list));
    RecallAt point;
    point.breadth = entry.Integer<int>(names.breadth, 1, 1'000'000);
    point.recall = entry.Number("recall");
    if (!(point.recall >= 0 && point.recall <= 1)) entry.Fail("recall", "a share");
    if (!measured.empty() && point.breadth <= measured.back().breadth) {
      entry.Fail(names.breadth, "more than the one before");
    }
    LC_RETURN_IF_ERROR(entry.status());
    measured.push_back(point);
  }
  return measured;
}

Json MeasuredJson(const std::vector<RecallAt>& measured, const MeasuredNames& names) {
  Json list = Json::array();
  for (const RecallAt& point : measured) list.push_back({{names.breadth, point.breadth}, {"recall", point.recall}});
  return list;
}

constexpr uint64_t kU64Max = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kGenerationMax = std::numeric_limits<uint32_t>::max() - 1;

// The names and sizes that a manifest has to list.
absl::Status CheckFiles(const SegmentManifest& m) {
  const auto check = [&m](std::string_view name, uint64_t row_bytes) {
    const FileEntry* file = m.File(name);
    if (file == nullptr) return DataLoss(StrCat("manifest lists no ", name));
    const uint64_t expected = static_cast<uint64_t>(m.rows) * row_bytes;
    if (row_bytes != 0 && file->bytes != expected) {
      return DataLoss(StrCat("manifest gives ", name, " ", file->bytes, " bytes instead of ", expected));
    }
    return absl::OkStatus();
  };
  LC_RETURN_IF_ERROR(check(kVectorsFile, static_cast<uint64_t>(m.stride) * sizeof(float)));
  LC_RETURN_IF_ERROR(check(kFactorsFile, sizeof(RowFactors)));
  LC_RETURN_IF_ERROR(check(kIdsFile, sizeof(uint64_t)));
  LC_RETURN_IF_ERROR(check(kUncertaintyFile, sizeof(float)));
  for (const CodeKind kind : kCodeKinds) {
    const FileEntry* const file = m.File(CodesFileOf(kind));
    const uint64_t expected = CodesBytes(kind, m.space.dimension, m.rows);
    if (file == nullptr || file->bytes == expected) continue;
    return DataLoss(StrCat("manifest gives ", file->name, " ", file->bytes, " bytes instead of ", expected));
  }
  if (m.kind == "flat") return absl::OkStatus();
  return check(m.kind == "hnsw" ? kGraphFile : kListsFile, 0);
}

}  // namespace

const FileEntry* SegmentManifest::File(std::string_view name) const {
  for (const FileEntry& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string EncodeManifest(const SegmentManifest& m) {
  Json json = {{"format", kIndexFormatVersion},
               {"id", m.id},
               {"generation", m.generation},
               {"kind", m.kind},
               {"rows", m.rows},
               {"stride", m.stride},
               {"first_sequence", m.first_sequence},
               {"last_sequence", m.last_sequence},
               {"hnsw_m", m.hnsw_m},
               {"hnsw_ef_construction", m.hnsw_ef_construction},
               {MeasuredNamesOf(m).list, MeasuredJson(m.measured, MeasuredNamesOf(m))},
               {"files", Json::array()}};
  PutSpace(m.space, json);
  if (m.bias_max) json["bias_max"] = *m.bias_max;
  if (m.rebuild > 0) json["rebuild"] = m.rebuild;
  if (m.provisional) json["provisional"] = true;
  if (m.mended) json["mended"] = true;
  if (!m.codes_asked.empty()) json["codes_asked"] = m.codes_asked;
  for (const FileEntry& file : m.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", file.crc32c}});
  }
  return Seal(json);
}

absl::StatusOr<SegmentManifest> DecodeManifest(std::string_view text) {
  LC_ASSIGN_OR_RETURN(const Json json, Unseal(text, "manifest"));
  Reader reader(json, "manifest");
  SegmentManifest m;
  m.id = reader.Integer<uint64_t>("id", 0, kU64Max);
  m.generation = reader.Integer<uint32_t>("generation", 1, kGenerationMax);
  m.space = reader.ReadSpace();
  m.kind = reader.Text("kind");
  m.rows = reader.Integer<int64_t>("rows", 1, kSegmentRowsMax);
  m.stride = reader.Integer<int64_t>("stride", 1, 2 * kDimensionMax);
  m.first_sequence = reader.Integer<uint64_t>("first_sequence", 0, kU64Max);
  m.last_sequence = reader.Integer<uint64_t>("last_sequence", 0, kU64Max);
  m.hnsw_m = reader.Integer<int>("hnsw_m", 0, 1'000'000);
  m.hnsw_ef_construction = reader.Integer<int>("hnsw_ef_construction", 0, 1'000'000);
  if (json.contains("bias_max")) {
    m.bias_max = static_cast<float>(reader.Number("bias_max"));
    if (!(*m.bias_max >= 0 && std::isfinite(*m.bias_max))) reader.Fail("bias_max", "a finite number of 0 or more");
  }
  if (json.contains("rebuild"))
    m.rebuild = reader.Integer<uint32_t>("rebuild", 0, std::numeric_limits<uint32_t>::max());
  if (json.contains("provisional")) m.provisional = reader.Bool("provisional");
  if (json.contains("mended")) m.mended = reader.Bool("mended");
  if (json.contains("codes_asked")) m.codes_asked = reader.Text("codes_asked");
  LC_RETURN_IF_ERROR(reader.status());
  const MeasuredNames names = MeasuredNamesOf(m);
  if (json.contains(names.list)) {
    LC_ASSIGN_OR_RETURN(m.measured, ReadMeasured(reader.Array(names.list), names));
  }
  for (const Json& item : reader.Array("files")) {
    Reader entry(item, "manifest.files");
    FileEntry file;
    file.name = entry.Text("name");
    file.bytes = entry.Integer<uint64_t>("bytes", 0, kU64Max);
    file.crc32c = entry.Integer<uint32_t>("crc32c", 0, std::numeric_limits<uint32_t>::max());
    LC_RETURN_IF_ERROR(entry.status());
    m.files.push_back(std::move(file));
  }
  LC_RETURN_IF_ERROR(reader.status());
  if (m.kind != "flat" && m.kind != "hnsw" && m.kind != "ivf")
    return DataLoss(StrCat("manifest.kind is '", m.kind, "'"));
  if (m.stride < m.space.dimension) return DataLoss("manifest.stride is less than the dimension");
  LC_RETURN_IF_ERROR(CheckFiles(m));
  return m;
}

std::string EncodeCarried(const CarriedManifest& manifest) {
  return Seal({{"format", kIndexFormatVersion},
               {"segment", manifest.segment},
               {"vectors_crc32c", manifest.vectors_crc32c},
               {"adapter_crc32c", manifest.adapter_crc32c},
               {"old_graph", manifest.old_graph},
               {"walks", MeasuredJson(manifest.walks, kWalkNames)}});
}

absl::StatusOr<CarriedManifest> DecodeCarried(std::string_view text) {
  LC_ASSIGN_OR_RETURN(const Json json, Unseal(text, "carried"));
  Reader reader(json, "carried");
  constexpr uint32_t kU32Max = std::numeric_limits<uint32_t>::max();
  CarriedManifest manifest;
  manifest.segment = reader.Integer<uint64_t>("segment", 0, kU64Max);
  manifest.vectors_crc32c = reader.Integer<uint32_t>("vectors_crc32c", 0, kU32Max);
  manifest.adapter_crc32c = reader.Integer<uint32_t>("adapter_crc32c", 0, kU32Max);
  manifest.old_graph = reader.Bool("old_graph");
  LC_ASSIGN_OR_RETURN(manifest.walks, ReadMeasured(reader.Array("walks"), kWalkNames));
  LC_RETURN_IF_ERROR(reader.status());
  return manifest;
}

std::string EncodeIndexCheckpoint(const IndexCheckpoint& checkpoint) {
  Json json = {{"format", kIndexFormatVersion},
               {"next_segment_id", checkpoint.next_segment_id},
               {"newest_sequence", checkpoint.newest_sequence},
               {"generations", Json::array()}};
  for (const IndexCheckpoint::Generation& g : checkpoint.generations) {
    Json item = {
        {"generation", g.generation}, {"sequence", g.sequence}, {"complete", g.complete}, {"segments", g.segments}};
    PutSpace(g.space, item);
    json["generations"].push_back(std::move(item));
  }
  return Seal(json);
}

absl::StatusOr<IndexCheckpoint> DecodeIndexCheckpoint(std::string_view text) {
  LC_ASSIGN_OR_RETURN(const Json json, Unseal(text, "checkpoint"));
  Reader reader(json, "checkpoint");
  IndexCheckpoint checkpoint;
  checkpoint.next_segment_id = reader.Integer<uint64_t>("next_segment_id", 1, kU64Max);
  checkpoint.newest_sequence = reader.Integer<uint64_t>("newest_sequence", 0, kU64Max);
  for (const Json& item : reader.Array("generations")) {
    Reader entry(item, "checkpoint.generations");
    IndexCheckpoint::Generation g;
    g.generation = entry.Integer<uint32_t>("generation", 1, kGenerationMax);
    g.sequence = entry.Integer<uint64_t>("sequence", 0, kU64Max);
    g.complete = entry.Bool("complete");
    g.space = entry.ReadSpace();
    for (const Json& id : entry.Array("segments")) {
      if (!id.is_number_unsigned()) return DataLoss("checkpoint.segments holds something else than ids");
      g.segments.push_back(id.get<uint64_t>());
    }
    LC_RETURN_IF_ERROR(entry.status());
    checkpoint.generations.push_back(std::move(g));
  }
  LC_RETURN_IF_ERROR(reader.status());
  return checkpoint;
}

std::string EncodeStates(const SegmentStates& states) {
  StatesHeader header;
  header.rows = static_cast<uint32_t>(states.of_rows.size());
  header.sequence = states.sequence;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(reinterpret_cast<const char*>(states.of_rows.data()), states.of_rows.size() * sizeof(uint32_t));
  header.crc32c = Crc32c(std::string_view(bytes).substr(offsetof(StatesHeader, sequence)));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

absl::StatusOr<SegmentStates> DecodeStates(std::string_view bytes, int64_t rows) {
  StatesHeader header;
  const StatesHeader known;
  if (bytes.size() < sizeof(header)) return DataLoss("state file is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::string_view body = bytes.substr(sizeof(header));
  if (header.magic != known.magic || header.version != known.version) return DataLoss("state file has a wrong header");
  if (static_cast<int64_t>(header.rows) != rows || body.size() != static_cast<uint64_t>(rows) * sizeof(uint32_t)) {
    return DataLoss(StrCat("state file has ", header.rows, " rows instead of ", rows));
  }
  if (Crc32c(bytes.substr(offsetof(StatesHeader, sequence))) != header.crc32c) {
    return DataLoss("state file has a wrong checksum");
  }
  SegmentStates states;
  states.sequence = header.sequence;
  states.of_rows.resize(static_cast<size_t>(rows));
  std::memcpy(states.of_rows.data(), body.data(), body.size());
  return states;
}

}  // namespace lightcone

#include "snapshot/manifest.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/sealed.h"
#include "base/status.h"

namespace lightcone {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNameBytesMax = 128;

// Reads typed fields; remembers the first that is missing or of another type.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  void Read(const char* name, std::string* out) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_string()) return void(*out = value->get<std::string>());
    Fail(name);
  }
  void Read(const char* name, bool* out) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_boolean()) return void(*out = value->get<bool>());
    Fail(name);
  }
  void Read(const char* name, uint64_t* out, uint64_t max = UINT64_MAX) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= max) {
      return void(*out = value->get<uint64_t>());
    }
    Fail(name);
  }
  void Read(const char* name, uint32_t* out) {
    uint64_t wide = 0;
    Read(name, &wide, UINT32_MAX);
    *out = static_cast<uint32_t>(wide);
  }
  void Read(const char* name, std::vector<std::string>* out) {
    const Json* value = Find(name);
    const auto is_text = [](const Json& one) { return one.is_string(); };
    if (value != nullptr && value->is_array() && std::all_of(value->begin(), value->end(), is_text)) {
      return void(*out = value->get<std::vector<std::string>>());
    }
    Fail(name);
  }
  const std::string& failed() const { return failed_; }

 private:
  const Json* Find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto at = json_.find(name);
    return at == json_.end() ? nullptr : &*at;
  }
  void Fail(const char* name) {
    if (failed_.empty()) failed_ = name;
  }

  const Json& json_;
  std::string failed_;
};

bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.size() > kSnapshotPathBytesMax) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return std::all_of(path.begin(), path.end(), [](char c) { return c > ' ' && c < 127 && c != '\\'; });
}

absl::Status Damaged(std::string_view place, std::string_view what) {
  return DataLoss(StrCat("snapshot manifest '", place, "' is damaged: ", what));
}

// The list `name` of the manifest, each element read by `read`.
template <typename T, typename Read>
absl::Status ReadList(const Json& content, const char* name, std::string_view place, const Read& read,
                      std::vector<T>* out) {
  const auto list = content.find(name);
  if (list == content.end() || !list->is_array()) return Damaged(place, StrCat("field '", name, "'"));
  for (const Json& one : *list) {
    Reader reader(one);
    read(reader, &out->emplace_back());
    if (!reader.failed().empty()) return Damaged(place, StrCat("field '", name, "', '", reader.failed(), "'"));
  }
  return absl::OkStatus();
}

// Manifests of requests without an id have no such member, nor do those of older servers.
absl::Status ReadAsked(const Json& content, std::string_view place, std::optional<AskedSnapshot>* out) {
  const auto asked = content.find("asked");
  if (asked == content.end()) return absl::OkStatus();
  AskedSnapshot read;
  Reader reader(*asked);
  reader.Read("name", &read.name);
  reader.Read("collections", &read.collections);
  if (!reader.failed().empty()) return Damaged(place, StrCat("field 'asked', '", reader.failed(), "'"));
  *out = std::move(read);
  return absl::OkStatus();
}

}  // namespace

uint64_t SnapshotManifest::Bytes() const {
  uint64_t bytes = 0;
  for (const SnapshotFile& file : files) bytes += file.bytes;
  return bytes;
}

const SnapshotFile* SnapshotManifest::File(std::string_view path) const {
  const auto at = std::lower_bound(files.begin(), files.end(), path,
                                   [](const SnapshotFile& file, std::string_view p) { return file.path < p; });
  return at != files.end() && at->path == path ? &*at : nullptr;
}

absl::Status CheckSnapshotName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (!name.empty() && name.size() <= kNameBytesMax && name[0] != '.' &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return InvalidField("name", StrCat("'", name, "'"), "1 .. 128 of A-Z a-z 0-9 . _ -, no dot first");
}

std::string EncodeSnapshotManifest(const SnapshotManifest& manifest) {
  Json content = {{"format", kSnapshotFormat},
                  {"version", manifest.version},
                  {"name", manifest.name},
                  {"request_id", manifest.request_id},
                  {"scheduled", manifest.scheduled},
                  {"sequence", manifest.sequence},
                  {"time_us", static_cast<uint64_t>(manifest.time_us)}};
  if (manifest.asked) content["asked"] = {{"name", manifest.asked->name}, {"collections", manifest.asked->collections}};
  content["collections"] = Json::array();
  for (const SnapshotCollection& one : manifest.collections) {
    content["collections"].push_back({{"name", one.name},
                                      {"items", one.items},
                                      {"sequence", one.sequence},
                                      {"active_generation", one.active_generation}});
  }
  content["files"] = Json::array();
  for (const SnapshotFile& file : manifest.files) {
    content["files"].push_back({{"path", file.path}, {"bytes", file.bytes}, {"crc32c", file.crc32c}});
  }
  return SealedText(content);
}

absl::StatusOr<SnapshotManifest> DecodeSnapshotManifest(std::string_view text, std::string_view place) {
  LC_ASSIGN_OR_RETURN(const Json content, ParseSealed(text, place));
  Reader reader(content);
  uint64_t format = 0, time_us = 0;
  reader.Read("format", &format);
  if (!reader.failed().empty() || format == 0) return Damaged(place, "field 'format'");
  SnapshotManifest out;
  reader.Read("version", &out.version);
  if (format > kSnapshotFormat) {
    return FailedPrecondition(StrCat("snapshot manifest '", place, "' has format ", format, ", made by version ",
                                     out.version, "; this program reads formats 1 .. ", kSnapshotFormat));
  }
  reader.Read("name", &out.name);
  reader.Read("request_id", &out.request_id);
  reader.Read("scheduled", &out.scheduled);
  reader.Read("sequence", &out.sequence);
  reader.Read("time_us", &time_us, INT64_MAX);
  out.time_us = static_cast<int64_t>(time_us);
  if (!reader.failed().empty()) return Damaged(place, StrCat("field '", reader.failed(), "'"));
  if (!CheckSnapshotName(out.name).ok()) return Damaged(place, "field 'name'");
  LC_RETURN_IF_ERROR(ReadAsked(content, place, &out.asked));
  const auto collection = [](Reader& one, SnapshotCollection* to) {
    one.Read("name", &to->name);
    one.Read("items", &to->items);
    one.Read("sequence", &to->sequence);
    one.Read("active_generation", &to->active_generation);
  };
  LC_RETURN_IF_ERROR(ReadList(content, "collections", place, collection, &out.collections));
  const auto file = [](Reader& one, SnapshotFile* to) {
    one.Read("path", &to->path);
    one.Read("bytes", &to->bytes, INT64_MAX);
    one.Read("crc32c", &to->crc32c);
  };
  LC_RETURN_IF_ERROR(ReadList(content, "files", place, file, &out.files));
  uint64_t bytes = 0;
  for (size_t i = 0; i < out.files.size(); ++i) {
    if (!IsPlainPath(out.files[i].path)) return Damaged(place, "a file's path leads elsewhere");
    if (i > 0 && out.files[i - 1].path >= out.files[i].path) return Damaged(place, "the files are not in order");
    bytes += out.files[i].bytes;  // both are at most INT64_MAX, so that the sum does not wrap
    if (bytes > INT64_MAX) return Damaged(place, "the files have more bytes than any disk");
  }
  return out;
}

absl::StatusOr<SnapshotManifest> ReadSnapshotManifest(const std::string& folder) {
  const std::string path = StrCat(folder, "/", kSnapshotManifestName);
  const absl::StatusOr<std::string> text = ReadFile(path, kSnapshotManifestBytesMax);
  if (absl::IsNotFound(text.status())) {
    return DataLoss(StrCat("'", folder, "' is no whole snapshot: it has no ", kSnapshotManifestName));
  }
  LC_RETURN_IF_ERROR(text.status());
  return DecodeSnapshotManifest(*text, path);
}

}  // namespace lightcone

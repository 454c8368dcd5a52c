// Records of the engine as JSON objects with a format version: what their encoders and decoders share.
// A record lists its fields once, for both directions: [](auto& f, auto& r) { f.Field("name", r.name); }
// Threads: pure functions; a FieldReader or FieldWriter belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "geometry/metric.h"
#include "nlohmann/json.hpp"
#include "store/records.h"

namespace lightcone::server {

using Json = nlohmann::json;

inline constexpr uint32_t kFormat = 1;
// Of records that say what older servers would take for something else: drafts and canaries.
inline constexpr uint32_t kFormatOfCanaries = 2;
// Where a collection has payload indexes of words or places.
inline constexpr uint32_t kFormatOfWords = 3;

// Reads typed fields of an object; the first that is missing or of another type is remembered.
class FieldReader {
 public:
  FieldReader(std::string_view kind, const Json& json) : kind_(kind), json_(json) {}

  template <typename T>
  void Field(const char* name, T& out) {
    Read(name, &out);
  }
  // Records of older servers lack it.
  template <typename T>
  void Later(const char* name, T& out) {
    if (Has(name)) Read(name, &out);
  }
  // Not written where it is the default.
  template <typename T>
  void Optional(const char* name, T& out, const T& /*default_value*/ = T()) {
    Later(name, out);
  }
  void Check(const char* name, bool good) {
    if (!good) Fail(name);
  }
  // One of these names.
  template <typename T, size_t n>
  void Named(const char* name, const std::pair<T, std::string_view> (&names)[n], T& out) {
    std::string text;
    Read(name, &text);
    for (const auto& [value, known] : names) {
      if (known != text) continue;
      out = value;
      return;
    }
    Fail(name);
  }

  void Read(const char* name, std::string* out) {
    if (const Json* value = Find(name)) Take(name, value->is_string(), *value, out);
  }
  void Read(const char* name, bool* out) {
    if (const Json* value = Find(name)) Take(name, value->is_boolean(), *value, out);
  }
  void Read(const char* name, double* out) {
    if (const Json* value = Find(name)) Take(name, value->is_number(), *value, out);
  }
  void Read(const char* name, uint64_t* out) {
    if (const Json* value = Find(name)) Take(name, value->is_number_unsigned(), *value, out);
  }
  void Read(const char* name, uint32_t* out) {
    uint64_t wide = 0;
    Read(name, &wide);
    if (wide > UINT32_MAX) return Fail(name);
    *out = static_cast<uint32_t>(wide);
  }
  void Read(const char* name, int64_t* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) return Fail(name);
    Take(name, value->is_number_integer(), *value, out);
  }
  void Read(const char* name, int* out) {
    int64_t wide = 0;
    Read(name, &wide);
    if (wide < INT32_MIN || wide > INT32_MAX) return Fail(name);
    *out = static_cast<int>(wide);
  }
  void Read(const char* name, Metric* out) {
    std::string text;
    Read(name, &text);
    if (!status_.ok()) return;
    const auto metric = ParseMetric(text);
    if (!metric.ok()) return Fail(name);
    *out = *metric;
  }
  // By its number; the record checks the range.
  template <typename T>
  requires std::is_enum_v<T>
  void Read(const char* name, T* out) {
    uint32_t number = 0;
    Read(name, &number);
    *out = static_cast<T>(number);
  }
  template <typename T>
  void Read(const char* name, std::optional<T>* out) {
    Read(name, &out->emplace());
  }
  const Json* Find(const char* name) {
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    Fail(name);
    return nullptr;
  }
  void Fail(const char* name) {
    if (status_.ok()) status_ = DataLoss(StrCat(kind_, " record: field '", name, "' is missing or damaged"));
  }
  bool Has(const char* name) const { return json_.contains(name); }
  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  void Take(const char* name, bool right_type, const Json& value, T* out) {
    if (!right_type) return Fail(name);
    *out = value.get<T>();
  }

  const std::string_view kind_;
  const Json& json_;
  absl::Status status_;
};

// Writes what a FieldReader reads.
class FieldWriter {
 public:
  explicit FieldWriter(uint32_t format = kFormat) { json_["format"] = format; }

  template <typename T>
  void Field(const char* name, const T& value) {
    json_[name] = value;
  }
  void Field(const char* name, const Metric& value) { json_[name] = MetricName(value); }
  template <typename T>
  void Field(const char* name, const std::optional<T>& value) {
    json_[name] = *value;
  }
  template <typename T>
  void Later(const char* name, const T& value) {
    Field(name, value);
  }
  template <typename T>
  void Optional(const char* name, const T& value, const T& default_value = T()) {
    if (value != default_value) Field(name, value);
  }
  template <typename T, size_t n>
  void Named(const char* name, const std::pair<T, std::string_view> (&names)[n], const T& value) {
    for (const auto& [known, text] : names) {
      if (known == value) json_[name] = text;
    }
  }
  void Check(const char* /*name*/, bool /*good*/) {}
  Json& json() { return json_; }

 private:
  Json json_;
};

// DATA_LOSS when the bytes are no object with a format; FAILED_PRECONDITION for one above `newest`.
absl::StatusOr<Json> ParseRecord(std::string_view kind, std::string_view bytes, uint32_t newest = kFormat);

// Never fails: what is not UTF-8 is replaced.
std::string Dump(const Json& json);

template <typename Record, typename Fields>
std::string EncodeFields(const Record& record, const Fields& fields, uint32_t format = kFormat) {
  FieldWriter writer(format);
  fields(writer, record);
  return Dump(writer.json());
}
template <typename Record, typename Fields>
absl::StatusOr<Record> DecodeFields(std::string_view kind, std::string_view bytes, const Fields& fields,
                                    uint32_t newest = kFormat) {
  LC_ASSIGN_OR_RETURN(const Json json, ParseRecord(kind, bytes, newest));
  Record record;
  FieldReader reader(kind, json);
  fields(reader, record);
  LC_RETURN_IF_ERROR(reader.status());
  return record;
}

// An item's id: a number or a text, as it is.
Json ToJson(const ItemId& id);
bool ReadItemId(const Json& json, ItemId* out);

}  // namespace lightcone::server

// The members of a JSON object by name, with errors that say where they stand. A member that is null counts as absent,
// and members that nobody reads are ignored, as Qdrant does.
// Threads: const methods are safe from any thread. Errors: INVALID_ARGUMENT names the field, its value and what is
// allowed; UNIMPLEMENTED for a feature that is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {

// A value as messages show it: a scalar as it is, cut to 60 bytes; of others their kind.
std::string ShownJson(const nlohmann::json& value);

class Fields {
 public:
  // An error unless `object` is one. `path` names it in errors: "points[3]"; empty: the body. Keeps a reference.
  static absl::StatusOr<Fields> Of(const nlohmann::json& object, std::string path);

  // nullptr: absent or null.
  const nlohmann::json* Find(const char* name) const;
  // An error where it is absent.
  absl::StatusOr<const nlohmann::json*> Require(const char* name, std::string_view allowed) const;
  // "points[3].id"
  std::string At(std::string_view name) const;

  absl::StatusOr<bool> Flag(const char* name, bool fallback) const;
  absl::StatusOr<int64_t> Whole(const char* name, int64_t fallback, int64_t low, int64_t high) const;
  absl::StatusOr<std::optional<double>> Number(const char* name) const;
  // An empty text where it is absent.
  absl::StatusOr<std::string> Text(const char* name) const;
  absl::StatusOr<std::vector<std::string>> Texts(const char* name) const;
  // UNIMPLEMENTED where the member is there. `why`: a sentence's end, "there are no shards".
  absl::Status Refuse(const char* name, std::string_view why) const;

 private:
  Fields(const nlohmann::json& object, std::string path) : object_(&object), path_(std::move(path)) {}
  const nlohmann::json* object_;
  std::string path_;
};

// UNIMPLEMENTED: "field 'F' is not supported: WHY".
absl::Status NotSupported(std::string_view field, std::string_view why);

}  // namespace lightcone::server

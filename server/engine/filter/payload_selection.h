// The fields of payloads that an answer has.
// Threads: const methods are safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/filter/payload_path.h"

namespace lightcone::server {

// Paths as in filters (payload_path.h). A path through an array chooses from each of its elements.
struct PayloadSelection {
  std::vector<std::string> include;  // empty: all fields
  std::vector<std::string> exclude;  // fields that are left out of these
  bool all() const { return include.empty() && exclude.empty(); }
};

class PayloadSelector {
 public:
  // Selects all fields.
  PayloadSelector() = default;
  // INVALID_ARGUMENT names "FIELD.include[i]" or "FIELD.exclude[i]": a wrong path, one of more than
  // kPayloadPathBytesMax bytes, or more than kPayloadFieldsMax paths (payload_field.h).
  static absl::StatusOr<PayloadSelector> Make(const PayloadSelection& selection, std::string_view field);

  bool all() const { return include_.empty() && exclude_.empty(); }
  // The payload with the selected fields, which keep their places in objects and arrays: elements of an array that have
  // none of the fields are left out. The payload itself if all fields are selected, or if it does not parse.
  std::string Of(std::string payload_json) const;

 private:
  std::vector<PathKeys> include_, exclude_;
};

}  // namespace lightcone::server

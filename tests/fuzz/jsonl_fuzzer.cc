// Arbitrary text as a line of a jsonl file and of an ids file, and as an import's state: read, or refused with a
// status.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/formats/ids.h"
#include "cli/formats/import_state.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::cli;
  const std::string line(reinterpret_cast<const char*>(data), size);
  const ReadOptions options = {.payload_fields = {"a", "class"}};
  Row row;
  if (ParseJsonRow(line, options, &row).ok()) {
    if (row.vector.empty()) std::abort();
    for (const float value : row.vector) {
      if (!std::isfinite(value)) std::abort();
    }
    if (row.payload_json.has_value() && !nlohmann::json::accept(*row.payload_json)) std::abort();
  }
  const auto state = ParseImportState(line, "fuzz");
  if (state.ok()) {
    if (state->next_row < 0 || state->next_row > kImportRowMax) std::abort();
    const auto again = ParseImportState(ImportStateText(*state), "fuzz").value();
    if (again.next_row != state->next_row || again.collection != state->collection) std::abort();
  }
  Row named;
  if (ParseIdLine(line, options, &named).ok()) {
    if (!named.id.has_value()) std::abort();
    const auto again = ParseItemId(ItemIdText(*named.id));
    if (!again.ok() || again->SerializeAsString() != named.id->SerializeAsString()) std::abort();
  }
  return 0;
}

#include "cli/formats/import_state.h"

#include "base/json_depth.h"
#include "base/status.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {

std::string ImportStateText(int64_t next_row) { return StrCat("{\"next_row\":", next_row, "}\n"); }

absl::StatusOr<int64_t> ParseImportState(std::string_view text, std::string_view what) {
  const auto foreign = [&] { return DataLoss(StrCat("'", what, "' is no state file of an import")); };
  if (JsonNestsDeeper(text, /*limit=*/8)) return foreign();
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains("next_row")) return foreign();
  const nlohmann::json& row = state["next_row"];
  if (!row.is_number_unsigned() || row.get<uint64_t>() > uint64_t{kImportRowMax}) {
    return FieldError(absl::StatusCode::kDataLoss, StrCat(what, ": next_row"), Shown(row),
                      StrCat("a whole number, 0 .. ", kImportRowMax));
  }
  return row.get<int64_t>();
}

}  // namespace lightcone::cli

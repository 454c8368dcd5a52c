#include "cli/formats/import_state.h"

#include "base/files.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "cli/formats/readers.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

using Json = nlohmann::json;

absl::Status Damaged(std::string_view what, std::string_view field, const Json& value, std::string_view allowed) {
  return FieldError(absl::StatusCode::kDataLoss, StrCat(what, ": ", field), Shown(value), allowed);
}

absl::Status OfAnother(std::string_view what, std::string_view field, std::string_view before, std::string_view now) {
  return FailedPrecondition(StrCat("'", what, "' is the state of another import: its ", field, " is ", before,
                                   ", this one's is ", now, "; give this import a --state of its own, or remove '",
                                   what, "' to begin at the first row"));
}

absl::Status ReadNumber(const Json& state, const char* field, uint64_t most, std::string_view what, uint64_t* number) {
  const Json& value = state[field];
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
    return Damaged(what, field, value, StrCat("a whole number, 0 .. ", most));
  }
  *number = value.get<uint64_t>();
  return absl::OkStatus();
}

absl::Status ReadText(const Json& state, const char* field, std::string_view what, std::string* text) {
  const Json& value = state[field];
  if (!value.is_string()) return Damaged(what, field, value, "a text");
  *text = value.get<std::string>();
  return absl::OkStatus();
}

}  // namespace

std::string ImportStateText(const ImportState& state) {
  const nlohmann::ordered_json json = {{"next_row", state.next_row},
                                       {"collection", state.collection},
                                       {"file", state.file},
                                       {"generation", state.generation},
                                       {"rows_crc32c", state.rows_crc32c}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ImportState> ParseImportState(std::string_view text, std::string_view what) {
  const auto foreign = [&] { return DataLoss(StrCat("'", what, "' is no state file of an import")); };
  if (JsonNestsDeeper(text, /*limit=*/8)) return foreign();
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("next_row")) return foreign();
  uint64_t next_row = 0, generation = 0, checksum = 0;
  LC_RETURN_IF_ERROR(ReadNumber(json, "next_row", uint64_t{kImportRowMax}, what, &next_row));
  // A state that says only how far it is may be of any file. To take it for this one's could leave rows out silently,
  // which costs more than to name the row by hand.
  for (const char* field : {"collection", "file", "generation", "rows_crc32c"}) {
    if (json.contains(field)) continue;
    return DataLoss(StrCat("'", what, "' does not say of which import it is (no ", field,
                           "; older versions wrote it so): go on with --start ", next_row,
                           " and another --state, or remove it to begin at the first row"));
  }
  ImportState state;
  state.next_row = static_cast<int64_t>(next_row);
  LC_RETURN_IF_ERROR(ReadText(json, "collection", what, &state.collection));
  LC_RETURN_IF_ERROR(ReadText(json, "file", what, &state.file));
  LC_RETURN_IF_ERROR(ReadNumber(json, "generation", UINT32_MAX, what, &generation));
  LC_RETURN_IF_ERROR(ReadNumber(json, "rows_crc32c", UINT32_MAX, what, &checksum));
  state.generation = static_cast<uint32_t>(generation);
  state.rows_crc32c = static_cast<uint32_t>(checksum);
  return state;
}

absl::Status CheckSameTarget(const ImportState& state, std::string_view collection, uint32_t generation,
                             std::string_view what) {
  if (state.collection != collection) {
    return OfAnother(what, "collection", StrCat("'", state.collection, "'"), StrCat("'", collection, "'"));
  }
  if (state.generation != generation) {
    return OfAnother(what, "--generation", StrCat(state.generation), StrCat(generation));
  }
  return absl::OkStatus();
}

absl::Status OtherRows(const ImportState& state, std::string_view file, std::string_view what) {
  return FailedPrecondition(StrCat("'", what, "' is the state of another import: the rows of '", file, "' before row ",
                                   state.next_row, " are not those that were imported from '", state.file,
                                   "'; give this import a --state of its own, or remove '", what,
                                   "' to begin at the first row"));
}

uint32_t AddToChecksum(const Row& row, uint32_t checksum) {
  const auto add = [&checksum](std::string_view bytes) { checksum = Crc32c(bytes, checksum); };
  // Each part with a mark behind it, so that no two rows run into the same bytes.
  if (row.id.has_value()) add(row.id->has_number() ? StrCat(row.id->number()) : StrCat("'", row.id->name()));
  add(StrCat("\n", row.generation, "\n", row.payload_json.value_or(""), "\n", row.vector.size(), "\n"));
  add({reinterpret_cast<const char*>(row.vector.data()), row.vector.size() * sizeof(float)});
  if (row.text.has_value()) add(StrCat("\ntext\n", *row.text));
  return checksum;
}

}  // namespace lightcone::cli

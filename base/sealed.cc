#include "base/sealed.h"

#include "base/files.h"
#include "base/json_depth.h"
#include "base/ordered_json.h"
#include "base/status.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kSealedBytesMax = int64_t{64} << 20;
constexpr int kDepthMax = 64;  // limit of the recursion that prints a value

std::string TextOf(const ordered_json& content) {
  return content.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string SealedText(const ordered_json& content) {
  const std::string text = TextOf(content);
  return StrCat("{\"crc32c\":", Crc32c(text), ",\"content\":", text, "}\n");
}

absl::Status WriteSealed(const std::string& path, const ordered_json& content) {
  return WriteFileAtomically(path, SealedText(content));
}

absl::StatusOr<ordered_json> ReadSealed(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kSealedBytesMax));
  return ParseSealed(text, path);
}

absl::StatusOr<ordered_json> ParseSealed(std::string_view text, std::string_view path) {
  const ordered_json file =
      JsonNestsDeeper(text, kDepthMax) ? ordered_json(ordered_json::value_t::discarded) : ParseOrderedJson(text);
  const bool sealed = file.is_object() && file.contains("crc32c") && file["crc32c"].is_number_unsigned() &&
                      file.contains("content") && file["content"].is_object();
  if (!sealed || file["crc32c"].get<uint64_t>() != Crc32c(TextOf(file["content"]))) {
    return DataLoss(StrCat("'", path, "' is damaged: its checksum is not that of its content"));
  }
  return file["content"];
}

}  // namespace lightcone

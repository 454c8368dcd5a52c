#include "store/folder.h"

#include <charconv>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMarkerStart = "lightcone store format ";
constexpr int64_t kMarkerBytesMax = 4096;

std::string MarkerPath(const std::string& folder) { return (fs::path(folder) / kMarkerName).string(); }

absl::Status CheckMarker(const std::string& folder, std::string_view text) {
  uint64_t format = 0;
  const bool ours = text.starts_with(kMarkerStart);
  if (ours) text.remove_prefix(kMarkerStart.size());
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), format);
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  if (!ours || parsed.ec != std::errc() || !(text.empty() || text.front() == '\n')) {
    return FailedPrecondition(StrCat("folder '", folder, "': its file ", kMarkerName, " is not of a Lightcone store"));
  }
  return format == kStoreFormat ? absl::OkStatus() : WrongFormat(folder, format);
}

// The name of the first thing in the folder that an interrupted creation or a fresh mount does not explain.
absl::StatusOr<std::string> FirstForeignName(const std::string& folder) {
  std::error_code error;
  std::string found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name != StrCat(kMarkerName, ".tmp") && name != "lost+found") found = name;
  }
  if (error) return ErrnoStatus(error.value(), "list folder", folder);
  return found;
}

}  // namespace

absl::Status WrongFormat(const std::string& folder, uint64_t format) {
  return FailedPrecondition(StrCat("store '", folder, "' has format ", format, "; this program reads format ",
                                   kStoreFormat, ": open it with a version of Lightcone that reads store format ",
                                   format));
}

absl::Status WriteMarker(const std::string& folder) {
  return WriteFileAtomically(MarkerPath(folder), StrCat(kMarkerStart, kStoreFormat, "\n"));
}

absl::Status PrepareStoreFolder(const std::string& folder) {
  if (folder.empty()) return InvalidField("store.folder", "empty", "the path of a folder");
  LC_RETURN_IF_ERROR(Annotate(MakeFolders(folder), "open store"));
  auto marker = ReadFile(MarkerPath(folder), kMarkerBytesMax);
  if (marker.ok()) return CheckMarker(folder, *marker);
  if (!absl::IsNotFound(marker.status())) return Annotate(marker.status(), "open store");
  LC_ASSIGN_OR_RETURN(const std::string foreign, FirstForeignName(folder));
  if (!foreign.empty()) {
    return FailedPrecondition(StrCat("folder '", folder, "' is not a Lightcone store: it holds '", foreign,
                                     "' and no file ", kMarkerName,
                                     "; allowed: a missing or empty folder, or a store"));
  }
  return Annotate(WriteMarker(folder), "create store");
}

absl::Status CheckCurrentFile(const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::path(folder) / "CURRENT", error)) return absl::OkStatus();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".sst") continue;
    return DataLoss(StrCat("it is damaged: there is no file 'CURRENT' beside '", it->path().filename().string(), "'",
                           kDamagedAdvice));
  }
  return absl::OkStatus();
}

}  // namespace lightcone

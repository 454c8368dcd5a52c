#include "store/folder.h"

#include <charconv>
#include <filesystem>
#include <fstream>

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

// The manifest: blocks of records, each of masked checksum (4 bytes), length (2), type (1) and content. The checksum
// covers type and content.
constexpr size_t kManifestBlockBytes = 32 << 10, kManifestHeadBytes = 7;

// Whether the bytes are a whole record once one bit of its length is flipped back.
bool HasFlippedLength(std::string_view record) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(record[i])); };
  const uint32_t masked = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  const uint32_t length = byte(4) | byte(5) << 8;
  const uint32_t rotated = masked - 0xa282ead8u;
  const uint32_t checksum = rotated >> 17 | rotated << 15;
  for (int bit = 0; bit < 16; ++bit) {
    const size_t bytes = length ^ 1u << bit;
    if (bytes > record.size() - kManifestHeadBytes) continue;
    if (Crc32c(record.substr(kManifestHeadBytes - 1, 1 + bytes)) == checksum) return true;
  }
  return false;
}

// RocksDB passes over a last record that is longer than what is left of the manifest: it counts as one that was being
// written. Where it is whole but for its length, that would drop the tables that it and all later records name.
absl::Status CheckManifestTail(const std::string& folder) {
  const auto current = ReadFile((fs::path(folder) / "CURRENT").string(), kMarkerBytesMax);
  if (!current.ok()) return absl::OkStatus();  // RocksDB tells of it.
  const std::string name = current->substr(0, current->find('\n'));
  std::ifstream file(fs::path(folder) / name, std::ios::binary);
  std::string block(kManifestBlockBytes, '\0'), last;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    last = block.substr(0, static_cast<size_t>(file.gcount()));
  }
  for (std::string_view rest = last; rest.size() >= kManifestHeadBytes;) {
    const size_t bytes = static_cast<uint8_t>(rest[4]) | static_cast<size_t>(static_cast<uint8_t>(rest[5])) << 8;
    if (bytes <= rest.size() - kManifestHeadBytes) {
      rest.remove_prefix(kManifestHeadBytes + bytes);
    } else if (HasFlippedLength(rest)) {
      return DataLoss(StrCat("it is damaged: the length of a record of '", name, "' is wrong", kDamagedAdvice));
    } else {
      break;
    }
  }
  return absl::OkStatus();
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
  if (fs::exists(fs::path(folder) / "CURRENT", error)) return CheckManifestTail(folder);
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".sst") continue;
    return DataLoss(StrCat("it is damaged: there is no file 'CURRENT' beside '", it->path().filename().string(), "'",
                           kDamagedAdvice));
  }
  return absl::OkStatus();
}

}  // namespace lightcone

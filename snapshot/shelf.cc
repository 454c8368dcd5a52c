#include "snapshot/shelf.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "snapshot/folder_sink.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr char kVerifiedName[] = "verified";  // microseconds since 1970, as text
constexpr char kUploadedName[] = "uploaded";  // an empty file
constexpr std::string_view kPartialEnd = ".partial";

std::optional<int64_t> ReadVerified(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(StrCat(folder, "/", kVerifiedName), 64);
  if (!text.ok()) return std::nullopt;
  int64_t time_us = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), time_us);
  return read.ec == std::errc() ? std::optional(time_us) : std::nullopt;
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), "remove", path) : absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? ErrnoStatus(error.value(), StrCat("rename '", from, "' to"), to) : absl::OkStatus();
}

}  // namespace

bool IsUploadedSnapshot(const std::string& folder) {
  std::error_code error;
  return fs::exists(StrCat(folder, "/", kUploadedName), error) || error;
}

std::string SnapshotShelf::PartialOf(const std::string& name) const { return StrCat(folder_, "/.", name, kPartialEnd); }

absl::StatusOr<std::vector<ShelvedSnapshot>> SnapshotShelf::List() const {
  std::vector<ShelvedSnapshot> out;
  std::error_code error;
  if (!fs::exists(folder_, error)) return out;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code gone;
    if (!CheckSnapshotName(name).ok() || !it->is_directory(gone) || name == "lost+found") continue;
    ShelvedSnapshot one{name, ReadSnapshotManifest(PathOf(name)), ReadVerified(PathOf(name))};
    if (!one.manifest.ok() && !fs::exists(PathOf(name), gone)) continue;  // deleted just now
    out.push_back(std::move(one));
  }
  if (error) return ErrnoStatus(error.value(), "list folder", folder_);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

absl::Status SnapshotShelf::CheckExists(const std::string& name) const {
  LC_RETURN_IF_ERROR(CheckSnapshotName(name));
  std::error_code error;
  if (fs::is_directory(PathOf(name), error)) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> all, List());
  std::string names;
  for (const ShelvedSnapshot& one : all) names += (names.empty() ? "" : ", ") + one.name;
  return NotFound(StrCat("no snapshot '", name, "'; there are: ", names.empty() ? "none" : names));
}

absl::Status SnapshotShelf::CheckNew(const std::string& name) const {
  LC_RETURN_IF_ERROR(CheckSnapshotName(name));
  std::error_code error;
  if (!fs::exists(PathOf(name), error)) return absl::OkStatus();
  return AlreadyExists(StrCat("snapshot '", name, "' exists"));
}

absl::StatusOr<std::string> SnapshotShelf::Begin(const std::string& name) const {
  LC_RETURN_IF_ERROR(CheckNew(name));
  LC_RETURN_IF_ERROR(MakeFolders(folder_));
  const std::string partial = PartialOf(name);
  LC_RETURN_IF_ERROR(RemoveAll(partial));
  LC_RETURN_IF_ERROR(MakePrivateFolder(partial));
  LC_RETURN_IF_ERROR(MakeFolders(StrCat(partial, "/", kSnapshotDataName)));
  return partial;
}

absl::Status SnapshotShelf::Commit(const std::string& name, const std::string& manifest_text) const {
  const std::string partial = PartialOf(name);
  LC_RETURN_IF_ERROR(SyncFolders(partial));
  LC_RETURN_IF_ERROR(WriteFileAtomically(StrCat(partial, "/", kSnapshotManifestName), manifest_text));
  LC_RETURN_IF_ERROR(CheckNew(name));
  LC_RETURN_IF_ERROR(Rename(partial, PathOf(name)));
  return SyncFolder(folder_);
}

absl::Status SnapshotShelf::MarkUploaded(const std::string& name) const {
  return WriteFileAtomically(StrCat(PartialOf(name), "/", kUploadedName), "");
}

void SnapshotShelf::Abandon(const std::string& name) const { (void)RemoveAll(PartialOf(name)); }

absl::Status SnapshotShelf::Delete(const std::string& name) const {
  LC_RETURN_IF_ERROR(CheckExists(name));
  const std::string partial = PartialOf(name);
  LC_RETURN_IF_ERROR(RemoveAll(partial));
  LC_RETURN_IF_ERROR(Rename(PathOf(name), partial));
  LC_RETURN_IF_ERROR(SyncFolder(folder_));
  return RemoveAll(partial);
}

absl::Status SnapshotShelf::SetVerified(const std::string& name, int64_t time_us) const {
  return WriteFileAtomically(StrCat(PathOf(name), "/", kVerifiedName), StrCat(time_us));
}

absl::Status SnapshotShelf::RemoveLeftovers() const {
  std::vector<std::string> leftovers;
  std::error_code error;
  if (!fs::exists(folder_, error)) return absl::OkStatus();
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') && name.ends_with(kPartialEnd)) leftovers.push_back(it->path().string());
  }
  if (error) return ErrnoStatus(error.value(), "list folder", folder_);
  for (const std::string& path : leftovers) LC_RETURN_IF_ERROR(RemoveAll(path));
  return absl::OkStatus();
}

}  // namespace lightcone

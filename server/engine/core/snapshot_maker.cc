#include "server/engine/core/snapshot_maker.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/files.h"
#include "base/link.h"
#include "base/status.h"
#include "server/engine/collection/meta.h"
#include "server/engine/core/collection_rows.h"
#include "server/engine/core/engine_load.h"
#include "snapshot/read.h"
#include "spdlog/spdlog.h"
#include "store/checkpoint.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr int kLinkTriesMax = 20;
constexpr char kIndexFile[] = "index.json";

// Inode of a file; 0 where it is missing.
uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), "remove", path) : absl::OkStatus();
}

// Links every folder in `from`. One that goes away meanwhile is left out: no checkpoint lists it any more.
absl::Status LinkSegments(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::exists(from, error)) return absl::OkStatus();
  fs::create_directories(to, error);
  if (error) return ErrnoStatus(error.value(), "create folder", to);
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".tmp")) continue;
    const absl::Status linked = LinkFolder(it->path().string(), to + "/" + name);
    if (absl::IsNotFound(linked)) {
      LC_RETURN_IF_ERROR(RemoveAll(to + "/" + name));
    } else {
      LC_RETURN_IF_ERROR(linked);
    }
  }
  return error ? ErrnoStatus(error.value(), "list folder", from) : absl::OkStatus();
}

// The folders of an index: its checkpoint first, then all segments. Segments of a checkpoint are removed only after the
// next checkpoint was renamed into place. Where the file is still the same one, all of its segments were linked.
absl::Status LinkIndex(const std::string& from, const std::string& to) {
  const std::string checkpoint = StrCat(from, "/", kIndexFile);
  for (int i = 0; i < kLinkTriesMax; ++i) {
    LC_RETURN_IF_ERROR(RemoveAll(to));
    LC_RETURN_IF_ERROR(MakeFolders(to));
    struct stat before {};
    const bool known = ::stat(checkpoint.c_str(), &before) == 0;
    const absl::Status linked = LinkFile(checkpoint, StrCat(to, "/", kIndexFile));
    if (absl::IsNotFound(linked)) return absl::OkStatus();  // nothing was sealed yet
    LC_RETURN_IF_ERROR(linked);
    std::error_code error;
    std::vector<std::string> folders;
    for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
      if (it->is_directory(error)) folders.push_back(it->path().filename().string());
    }
    if (error) return ErrnoStatus(error.value(), "list folder", from);
    for (const std::string& name : folders) {
      LC_RETURN_IF_ERROR(LinkSegments(StrCat(from, "/", name), StrCat(to, "/", name)));
    }
    struct stat copied {};
    const bool found = known && ::stat(StrCat(to, "/", kIndexFile).c_str(), &copied) == 0;
    const bool same_file = copied.st_ino == before.st_ino || copied.st_nlink == 1;  // a link, or a copy
    if (found && same_file && InodeOf(checkpoint) == before.st_ino) return absl::OkStatus();
  }
  spdlog::warn(
      "snapshot: index '{}' changed at each of {} tries; it is left out, and a restored server builds it again", from,
      kLinkTriesMax);
  return RemoveAll(to);
}

bool IsLogOrLock(std::string_view name) { return name.starts_with("LOG") || name == "LOCK"; }

// Removes the folders below `folder` that are named by no number of `numbers`.
absl::Status KeepNumbers(const std::string& folder, const std::set<std::string>& numbers) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  std::vector<std::string> strays;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!numbers.contains(it->path().filename().string())) strays.push_back(it->path().string());
  }
  if (error) return ErrnoStatus(error.value(), "list folder", folder);
  for (const std::string& path : strays) LC_RETURN_IF_ERROR(RemoveAll(path));
  return absl::OkStatus();
}

absl::Status CheckEncoders(const Store& store, uint32_t number, const std::string& name, const DataFolders& folders) {
  const keys::Range range = keys::GenerationRecordRange(number);
  const auto rows = store.Scan(Table::kGenerations, range.begin, range.end);
  for (; rows->Valid(); rows->Next()) {
    LC_ASSIGN_OR_RETURN(const GenerationRecord one, DecodeGeneration(rows->value()));
    std::error_code error;
    if (!one.has_encoder || one.endpoint || one.retired) continue;
    if (fs::exists(folders.Encoder(number, one.generation), error)) continue;
    return Aborted(StrCat("the encoder of generation ", one.generation, " of collection '", name,
                          "' went away while the snapshot was made; make another one"));
  }
  return rows->status();
}

absl::StatusOr<SnapshotCollection> DescribeCollection(const Store& store, uint32_t number,
                                                      const CollectionRecord& record) {
  SnapshotCollection out;
  out.name = record.name;
  out.active_generation = record.active_generation;
  const auto stored = store.Get(Table::kMeta, keys::Meta(ProgressName(number)));
  if (absl::IsNotFound(stored.status())) return out;
  LC_RETURN_IF_ERROR(stored.status());
  LC_ASSIGN_OR_RETURN(const ProgressRecord progress, DecodeProgress(*stored));
  out.items = progress.ItemCount();
  out.sequence = progress.sequence;
  return out;
}

}  // namespace

absl::Status SnapshotMaker::Fill(const std::string& data, SnapshotManifest* manifest,
                                 const std::function<bool()>& cancelled) {
  LC_RETURN_IF_ERROR(context_.store->CheckGrowth(0));
  if (chosen_.empty()) {
    LC_RETURN_IF_ERROR(CopyAll(data, data + "/store"));
    LC_RETURN_IF_ERROR(Describe(data, manifest));
  } else {
    // Below a folder of its own: RocksDB begins a checkpoint beside its place, under other names.
    const std::string work = WorkFolder(context_.folders), whole = work + "/store";
    LC_RETURN_IF_ERROR(RemoveAll(work));
    const absl::Cleanup clean = [&work] { (void)RemoveAll(work); };
    LC_RETURN_IF_ERROR(MakeFolders(work));
    LC_RETURN_IF_ERROR(CopyAll(data, whole));
    LC_RETURN_IF_ERROR(KeepChosen(whole, data, manifest, cancelled));
  }
  return ListFiles(data, manifest, cancelled);
}

absl::Status SnapshotMaker::CopyAll(const std::string& data, const std::string& store) {
  {
    absl::MutexLock lock(&maintenance_.trim_mutex());
    for (const ServedPtr& served : context_.catalog.All()) {
      const uint32_t number = served->collection->number();
      if (!chosen_.empty() && !chosen_.contains(number)) continue;
      LC_RETURN_IF_ERROR(LinkIndex(context_.folders.Index(number), DataFolders{data}.Index(number)));
    }
    // An encoder is written before the record that names it, and removed after it: one of the two calls finds it.
    LC_RETURN_IF_ERROR(LinkEncoders(data));
    LC_RETURN_IF_ERROR(context_.store->Checkpoint(store));
  }
  return LinkEncoders(data);
}

absl::Status SnapshotMaker::KeepChosen(const std::string& whole, const std::string& data, SnapshotManifest* manifest,
                                       const std::function<bool()>& cancelled) const {
  uint64_t sequence = 0;
  {
    LC_ASSIGN_OR_RETURN(const OpenedCheckpoint opened, OpenCheckpoint(whole, context_.options.store));
    sequence = opened.sequence;
    const auto check = [&](uint64_t bytes) {
      if (cancelled && cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "the snapshot was given up");
      return context_.store->CheckGrowth(bytes);
    };
    LC_RETURN_IF_ERROR(WriteChosenStore(*opened.store, chosen_, data + "/store", context_.options.store, check));
  }
  LC_RETURN_IF_ERROR(Describe(data, manifest));
  manifest->sequence = sequence;  // of the server, not of the new store
  return absl::OkStatus();
}

absl::Status SnapshotMaker::LinkEncoders(const std::string& data) const {
  const std::string from = context_.folders.data + "/encoders", to = data + "/encoders";
  LC_RETURN_IF_ERROR(MakeFolders(to));
  if (chosen_.empty()) return LinkEncodersIn(from, to);
  for (const uint32_t number : chosen_) {
    LC_RETURN_IF_ERROR(LinkEncodersIn(context_.folders.Encoders(number), DataFolders{data}.Encoders(number)));
  }
  return absl::OkStatus();
}

absl::Status SnapshotMaker::LinkEncodersIn(const std::string& from, const std::string& to) const {
  std::error_code error;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (!it->is_regular_file(gone) || it->path().extension() == ".tmp") continue;
    const fs::path place = fs::path(to) / fs::relative(it->path(), from, gone);
    fs::create_directories(place.parent_path(), gone);
    const absl::Status linked = LinkFile(it->path().string(), place.string());
    if (!absl::IsAlreadyExists(linked) && !absl::IsNotFound(linked)) LC_RETURN_IF_ERROR(linked);
  }
  const bool vanished = error == std::errc::no_such_file_or_directory;
  return error && !vanished ? ErrnoStatus(error.value(), "list folder", from) : absl::OkStatus();
}

absl::Status SnapshotMaker::Describe(const std::string& data, SnapshotManifest* manifest) const {
  const DataFolders folders{data};
  std::set<std::string> numbers;
  {
    LC_ASSIGN_OR_RETURN(const OpenedCheckpoint opened, OpenCheckpoint(data + "/store", context_.options.store));
    manifest->sequence = opened.sequence;
    LC_ASSIGN_OR_RETURN(const auto found, FindCollections(*opened.store));
    for (const auto& [number, encoded] : found) {
      LC_ASSIGN_OR_RETURN(const CollectionRecord record, DecodeCollection(encoded));
      LC_ASSIGN_OR_RETURN(SnapshotCollection one, DescribeCollection(*opened.store, number, record));
      LC_RETURN_IF_ERROR(CheckEncoders(*opened.store, number, record.name, folders));
      manifest->collections.push_back(std::move(one));
      numbers.insert(StrCat(number));
    }
  }
  LC_RETURN_IF_ERROR(KeepNumbers(data + "/index", numbers));
  return KeepNumbers(data + "/encoders", numbers);
}

absl::Status SnapshotMaker::ListFiles(const std::string& data, SnapshotManifest* manifest,
                                      const std::function<bool()>& cancelled) const {
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::recursive_directory_iterator it(data, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    if (IsLogOrLock(it->path().filename().string())) {
      fs::remove(it->path(), error);
    } else {
      paths.push_back(it->path().string().substr(data.size() + 1));
    }
  }
  if (error) return ErrnoStatus(error.value(), "list folder", data);
  std::sort(paths.begin(), paths.end());
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> earlier, shelf_.List());
  for (const std::string& path : paths) {
    if (cancelled && cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "the snapshot was given up");
    if (path.size() > kSnapshotPathBytesMax) return Internal(StrCat("snapshot: path '", path, "' is too long"));
    const std::string place = StrCat(data, "/", path);
    const uint64_t inode = InodeOf(place);
    // The same file as in an earlier snapshot has the same content, and is on disk.
    const auto same = std::find_if(earlier.rbegin(), earlier.rend(), [&](const ShelvedSnapshot& one) {
      return one.manifest.ok() && one.manifest->File(path) != nullptr &&
             InodeOf(StrCat(shelf_.PathOf(one.name), "/", kSnapshotDataName, "/", path)) == inode;
    });
    if (same != earlier.rend()) {
      manifest->files.push_back(*same->manifest->File(path));
      continue;
    }
    LC_RETURN_IF_ERROR(SyncFile(place));
    LC_ASSIGN_OR_RETURN(SnapshotFile file, ChecksumFile(place));
    file.path = path;
    manifest->files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

}  // namespace lightcone::server

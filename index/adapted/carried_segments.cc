#include "index/adapted/carried_segments.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "base/exceptions.h"
#include "base/files.h"
#include "base/status.h"
#include "index/rows/disk_pace.h"
#include "index/rows/manifest.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kRetryAfter = absl::Minutes(1);

absl::Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), "remove", path) : absl::OkStatus();
}

// Removes every entry of the folder whose name is none of these numbers. A missing folder is empty.
absl::Status KeepOnlyNames(const std::string& folder, std::span<const uint64_t> numbers) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  std::vector<std::string> gone;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto named = [&name](uint64_t number) { return StrCat(number) == name; };
    if (std::none_of(numbers.begin(), numbers.end(), named)) gone.push_back(entry.path().string());
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  for (const std::string& path : gone) LC_RETURN_IF_ERROR(Remove(path));
  return absl::OkStatus();
}

}  // namespace

absl::Status KeepOnlyVersions(const std::string& folder, std::span<const uint64_t> versions) {
  return KeepOnlyNames(folder, versions);
}

CarriedSegments::CarriedSegments(const Adapter* adapter, uint32_t adapter_crc32c, std::string folder,
                                 std::shared_ptr<AdaptedBudget> disk)
    : adapter_(adapter), adapter_crc32c_(adapter_crc32c), folder_(std::move(folder)), disk_(std::move(disk)) {}

CarriedSegments::~CarriedSegments() {
  absl::MutexLock lock(&mu_);
  for (const auto& [id, entry] : entries_) disk_->Give(entry.budgeted);
}

std::string CarriedSegments::PathOf(uint64_t id) const { return StrCat(folder_, "/", id); }

std::shared_ptr<const AdaptedSegment> CarriedSegments::Find(const std::shared_ptr<const Segment>& segment) const {
  std::shared_ptr<const CarriedSegment> carried;
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto found = entries_.find(segment->id());
    if (found == entries_.end() || found->second.carried == nullptr) return nullptr;
    carried = found->second.carried;
  }
  if (carried->files->damaged()) return nullptr;
  return std::make_shared<const AdaptedSegment>(segment, std::move(carried));
}

bool CarriedSegments::Wanted(const SealedSegment& segment) const {
  if (segment.lists() != nullptr || segment.manifest().provisional) return false;
  absl::ReaderMutexLock lock(&mu_);
  const auto found = entries_.find(segment.id());
  if (found == entries_.end()) return true;
  const Entry& entry = found->second;
  const bool whole = entry.finished && !entry.carried->files->damaged();
  return !whole && absl::Now() >= entry.retry_at;
}

void CarriedSegments::Publish(uint64_t id, CarriedSegment carried, bool finished) {
  auto published = std::make_shared<const CarriedSegment>(std::move(carried));
  absl::MutexLock lock(&mu_);
  Entry& entry = entries_[id];
  entry.carried = std::move(published);
  entry.finished = finished;
}

absl::Status CarriedSegments::TakeBudget(const CarryPlan& plan) {
  absl::MutexLock lock(&mu_);
  Entry& entry = entries_[plan.segment->id()];
  if (entry.budgeted > 0) return absl::OkStatus();
  const int64_t bytes = CarriedBytes(*plan.segment, *plan.adapter, plan.settings);
  if (!disk_->Take(bytes)) {
    return ResourceExhausted(StrCat("segment ", plan.segment->id(), " as carried takes up to ", bytes,
                                    " bytes of disk; left of engine.carried_disk_bytes_max: ", disk_->left()));
  }
  entry.budgeted = bytes;
  return absl::OkStatus();
}

absl::Status CarriedSegments::Carry(const std::shared_ptr<const SealedSegment>& segment, const IndexSettings& settings,
                                    const std::function<bool()>& stop) {
  if (!Wanted(*segment)) return absl::OkStatus();
  absl::Status status;
  try {
    status = CarryOrOpen({segment, adapter_, settings}, stop);
  } catch (...) {  // out of memory or threads
    status = StatusOfException();
  }
  if (status.ok()) return status;
  // A whole segment stays: only its check was cut short.
  std::error_code error;
  const bool whole = absl::IsCancelled(status) && fs::exists(StrCat(PathOf(segment->id()), "/", kCarriedFile), error);
  for (const char* end : {"", ".flat"}) {
    if (!whole) (void)Remove(PathOf(segment->id()) + end);
  }
  absl::MutexLock lock(&mu_);
  Entry& entry = entries_[segment->id()];
  entry.carried.reset();
  disk_->Give(std::exchange(entry.budgeted, 0));
  if (absl::IsCancelled(status)) {
    entries_.erase(segment->id());
    return status;
  }
  spdlog::warn("carrying segment {} of generation {} into '{}': {}", segment->id(), segment->generation(), folder_,
               MessageOf(status));
  entry.retry_at = absl::IsInvalidArgument(status) ? absl::InfiniteFuture() : absl::Now() + kRetryAfter;
  return Annotate(status, StrCat("carry segment ", segment->id()));
}

absl::Status CarriedSegments::CarryOrOpen(const CarryPlan& plan, const std::function<bool()>& stop) {
  const uint64_t id = plan.segment->id();
  const std::string path = PathOf(id), flat_path = path + ".flat";
  LC_RETURN_IF_ERROR(TakeBudget(plan));
  if (absl::StatusOr<CarriedSegment> opened = Open(*plan.segment, stop); opened.ok()) {
    Publish(id, *std::move(opened), /*finished=*/true);
    return absl::OkStatus();
  } else if (absl::IsCancelled(opened.status())) {
    return opened.status();
  } else if (!absl::IsNotFound(opened.status())) {
    spdlog::warn("'{}': {}; carrying the segment again", path, MessageOf(opened.status()));
  }
  LC_RETURN_IF_ERROR(Remove(path));
  LC_RETURN_IF_ERROR(Remove(flat_path));
  LC_RETURN_IF_ERROR(MakeFolders(folder_));
  CarriedSegment carried;
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<SealedSegment> rows, CarryRows(plan, flat_path, stop));
  carried.files = rows;
  Publish(id, carried, /*finished=*/false);
  LC_ASSIGN_OR_RETURN(carried.old_graph, OldGraphHolds(plan, rows, stop, &carried.walks));
  const bool build = !carried.old_graph && plan.segment->graph() != nullptr;
  if (build) {
    carried.walks.clear();
    LC_ASSIGN_OR_RETURN(carried.files, GraphCarried(plan, rows, StrCat(flat_path, "/", kVectorsFile), path, stop));
    LC_RETURN_IF_ERROR(Commit(*plan.segment, path, carried));
    LC_RETURN_IF_ERROR(Remove(flat_path));
  } else {
    if (!carried.old_graph) carried.walks.clear();
    LC_RETURN_IF_ERROR(Commit(*plan.segment, flat_path, carried));
    if (std::rename(flat_path.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename", flat_path);
    LC_RETURN_IF_ERROR(SyncFolder(folder_));
  }
  Publish(id, std::move(carried), /*finished=*/true);
  return absl::OkStatus();
}

absl::Status CarriedSegments::Commit(const SealedSegment& segment, const std::string& folder,
                                     const CarriedSegment& carried) const {
  if (carried.files->damaged()) return DataLoss(StrCat("'", folder, "' cannot be read back"));
  const CarriedManifest manifest{segment.id(), segment.manifest().File(kVectorsFile)->crc32c, adapter_crc32c_,
                                 carried.old_graph, carried.walks};
  return WriteFileAtomically(StrCat(folder, "/", kCarriedFile), EncodeCarried(manifest));
}

absl::StatusOr<CarriedSegment> CarriedSegments::Open(const SealedSegment& segment,
                                                     const std::function<bool()>& stop) const {
  const std::string path = PathOf(segment.id());
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(StrCat(path, "/", kCarriedFile), int64_t{1} << 24));
  LC_ASSIGN_OR_RETURN(CarriedManifest manifest, DecodeCarried(text));
  if (manifest.segment != segment.id() || manifest.adapter_crc32c != adapter_crc32c_ ||
      manifest.vectors_crc32c != segment.manifest().File(kVectorsFile)->crc32c) {
    return DataLoss("carried from another segment, or by another adapter");
  }
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<const SealedSegment> files, SealedSegment::Open(path, false));
  LC_RETURN_IF_ERROR(files->Check([&stop](size_t bytes) {
    AwaitCheckPace(bytes, stop);
    return !stop();
  }));
  if (!(files->space() == Normalized(adapter_->target())) || files->rows() != segment.rows()) {
    return DataLoss("carried rows are of another space or number");
  }
  if (manifest.old_graph && segment.graph() == nullptr) return DataLoss("the segment has no graph to lead through it");
  return CarriedSegment{files, manifest.old_graph, std::move(manifest.walks)};
}

absl::Status CarriedSegments::KeepOnly(std::span<const uint64_t> segments) {
  std::vector<uint64_t> kept(segments.begin(), segments.end());
  std::sort(kept.begin(), kept.end());
  if (swept_ && kept == kept_) return absl::OkStatus();
  {
    absl::MutexLock lock(&mu_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (std::binary_search(kept.begin(), kept.end(), it->first)) {
        ++it;
        continue;
      }
      disk_->Give(it->second.budgeted);
      entries_.erase(it++);
    }
  }
  LC_RETURN_IF_ERROR(KeepOnlyNames(folder_, kept));
  kept_ = std::move(kept);
  swept_ = true;
  return absl::OkStatus();
}

int64_t CarriedSegments::rows() const {
  absl::ReaderMutexLock lock(&mu_);
  int64_t rows = 0;
  for (const auto& [id, entry] : entries_) rows += entry.carried == nullptr ? 0 : entry.carried->files->rows();
  return rows;
}

int64_t CarriedSegments::bytes() const {
  absl::ReaderMutexLock lock(&mu_);
  int64_t bytes = 0;
  for (const auto& [id, entry] : entries_) bytes += entry.carried == nullptr ? 0 : entry.carried->files->mapped_bytes();
  return bytes;
}

}  // namespace lightcone

#include "server/engine/collection/repair.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "server/engine/collection/item_check.h"
#include "server/engine/collection/meta.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/salvage.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

// Copies a file or a folder, durably. What cannot be read is named in the report and left out.
absl::Status CopyOne(const fs::path& from, const fs::path& to, RepairReport* report) {
  std::error_code error;
  if (!fs::is_directory(from, error)) {
    fs::copy_file(from, to, error);
    if (!error) return SyncFile(to.string());
    const absl::Status failed = ErrnoStatus(error.value(), "copy", from.string());
    if (absl::IsResourceExhausted(failed)) return failed;
    fs::remove(to, error);
    report->damage.push_back(StrCat("file '", from.string(), "' is left out: ", MessageOf(failed)));
    return absl::OkStatus();
  }
  LC_RETURN_IF_ERROR(MakeFolders(to.string()));
  fs::directory_iterator it(from, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    LC_RETURN_IF_ERROR(CopyOne(it->path(), to / it->path().filename(), report));
  }
  if (error) report->damage.push_back(StrCat("folder '", from.string(), "' cannot be listed: ", error.message()));
  return SyncFolder(to.string());
}

// Everything but the store, which is read row by row, and the index, which is a cache of it.
absl::Status CopyFiles(const std::string& from, const std::string& to, RepairReport* report) {
  for (const char* const name : {"encoders", "trainings"}) {
    std::error_code error;
    if (!fs::exists(fs::path(from) / name, error)) continue;
    LC_RETURN_IF_ERROR(CopyOne(fs::path(from) / name, fs::path(to) / name, report));
  }
  return absl::OkStatus();
}

// Names of collections by number, as the table of names has them.
std::map<uint32_t, std::string> NamesOf(const Store& store) {
  std::map<uint32_t, std::string> names;
  const std::string prefix = keys::CollectionName("");
  const auto rows = store.Scan(Table::kMeta, prefix, "");
  for (; rows->Valid() && rows->key().starts_with(prefix); rows->Next()) {
    const auto number = ParseNumber(rows->value(), "the number of a collection");
    if (number.ok()) names.try_emplace(*number, rows->key().substr(prefix.size()));
  }
  return names;
}

// Why a server will refuse the collection; empty: it will not.
std::string WhyRefused(const Store& store, uint32_t number, const CollectionRecord& record) {
  const keys::Range range = keys::GenerationRecordRange(number);
  uint32_t expected = 1;
  for (const auto rows = store.Scan(Table::kGenerations, range.begin, range.end); rows->Valid(); rows->Next()) {
    const auto generation = DecodeGeneration(rows->value());
    if (!generation.ok() || generation->generation != expected) break;
    ++expected;
  }
  if (expected > record.last_generation) return "";
  return StrCat("the record of generation ", expected, " is lost");
}

absl::Status CheckCollection(Store& store, std::string_view key, std::string_view value, RepairReport* report) {
  LC_ASSIGN_OR_RETURN(const CollectionRecord record, DecodeCollection(value));
  RepairReport::OfCollection& one = report->collections.emplace_back();
  for (const char byte : key) one.number = one.number << 8 | static_cast<uint8_t>(byte);
  one.name = record.name;
  one.refused = WhyRefused(store, one.number, record);
  LC_RETURN_IF_ERROR(CheckItems(store, &one));
  WriteBatch names;
  names.Put(Table::kMeta, keys::CollectionName(record.name), StrCat(one.number));
  for (const std::string& alias : record.aliases) {
    names.Put(Table::kMeta, keys::CollectionName(alias), StrCat(one.number));
  }
  return store.Write(names, Durability::kProcess);
}

// Collections whose record is lost but whose name is there.
absl::Status NoteLostCollections(Store& store, RepairReport* report) {
  uint32_t highest = 0;
  WriteBatch batch;
  for (const auto& one : report->collections) highest = std::max(highest, one.number);
  for (const auto& [number, name] : NamesOf(store)) {
    highest = std::max(highest, number);
    const bool there =
        std::ranges::any_of(report->collections, [n = number](const auto& one) { return one.number == n; });
    if (there) continue;
    RepairReport::OfCollection& lost = report->collections.emplace_back();
    lost.number = number;
    lost.refused = StrCat("the record of collection '", name, "' is lost, and the collection with it");
    batch.Delete(Table::kMeta, keys::CollectionName(name));
  }
  const std::string key = keys::Meta(kNextCollectionName);
  const auto next = store.Get(Table::kMeta, key);
  const auto number = next.ok() ? ParseNumber(*next, "next_collection") : absl::StatusOr<uint32_t>(next.status());
  if (highest > 0 && (!number.ok() || *number <= highest)) batch.Put(Table::kMeta, key, StrCat(highest + 1));
  return batch.empty() ? absl::OkStatus() : store.Write(batch, Durability::kProcess);
}

absl::Status CheckCollections(const std::string& folder, RepairReport* report) {
  StoreOptions options;
  options.reserve_bytes = 0;
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(folder, options));
  const auto rows = store->Scan(Table::kCollections, "", "");
  for (; rows->Valid(); rows->Next()) {
    LC_RETURN_IF_ERROR(CheckCollection(*store, rows->key(), rows->value(), report));
  }
  LC_RETURN_IF_ERROR(rows->status());
  LC_RETURN_IF_ERROR(NoteLostCollections(*store, report));
  return store->Sync();
}

absl::StatusOr<RepairReport> Repair(const std::string& from, const std::string& to) {
  LC_RETURN_IF_ERROR(MakeFolders(to));
  RepairReport report;
  LC_ASSIGN_OR_RETURN(SalvageReport saved, SalvageStore(from + "/store", to + "/store"));
  report.damage = std::move(saved.damage);
  for (const SalvageReport::LostRange& range : saved.ranges) {
    report.damage.push_back(StrCat("rows of table '", TableName(range.table), "' between ", range.begin, " and ",
                                   range.end, " cannot be read"));
  }
  for (const std::string& value : saved.values) report.damage.push_back(StrCat("the value of ", value, " is damaged"));
  LC_RETURN_IF_ERROR(CopyFiles(from, to, &report));
  LC_RETURN_IF_ERROR(CheckCollections(to + "/store", &report));
  return report;
}

}  // namespace

absl::StatusOr<RepairReport> RepairDataFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::exists(from + "/store", error)) {
    return FailedPrecondition(StrCat("folder '", from, "' holds no folder 'store': it is no data folder of Lightcone"));
  }
  fs::path place = fs::absolute(to, error).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "a/b/" means "a/b"
  const std::string partial = place.string() + ".partial";
  for (const std::string& path : {place.string(), partial}) {
    if (!to.empty() && !fs::exists(path, error)) continue;
    return FailedPrecondition(StrCat("'", path, "' exists or is no name; allowed: a folder that does not exist yet"));
  }
  absl::StatusOr<RepairReport> report = Repair(from, partial);
  if (report.ok()) {
    fs::rename(partial, place, error);
    if (error) report = ErrnoStatus(error.value(), "rename to", place.string());
  }
  if (!report.ok()) {
    fs::remove_all(partial, error);
    return Annotate(report.status(), StrCat("repair '", from, "'"));
  }
  LC_RETURN_IF_ERROR(SyncFolder(place.parent_path().string()));
  return report;
}

}  // namespace lightcone::server

#include "tests/system/power_disk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPageBytes = 4096, kSectorBytes = 512;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::mt19937_64 RandomOf(uint64_t seed, uint64_t number) {
  std::seed_seq seeds{seed & UINT32_MAX, seed >> 32, number & UINT32_MAX, number >> 32};
  return std::mt19937_64(seeds);
}

// A number of changes from 0 to all: none, all and any number are equally likely.
size_t SomeOf(size_t all, std::mt19937_64* random) {
  switch ((*random)() % 3) {
    case 0:
      return 0;
    case 1:
      return all;
    default:
      return static_cast<size_t>((*random)() % (all + 1));
  }
}

}  // namespace

const char* PowerPolicyName(PowerPolicy policy) {
  switch (policy) {
    case PowerPolicy::kLost:
      return "lost";
    case PowerPolicy::kKept:
      return "kept";
    case PowerPolicy::kRandom:
      break;
  }
  return "random";
}

PowerRecords ReadPowerLog(const std::string& path) {
  PowerRecords out;
  const std::string log = ReadAll(path);
  out.whole = fs::exists(path);
  for (size_t at = 0; at < log.size();) {
    PowerHeader header{};
    out.whole = false;
    if (log.size() - at < sizeof(header)) break;
    std::memcpy(&header, log.data() + at, sizeof(header));
    const uint64_t bytes = sizeof(header) + uint64_t{header.path_bytes} + header.other_bytes + header.data_bytes;
    if (log.size() - at < bytes) break;
    const size_t skipped = sizeof(header.checksum);
    if (PowerChecksum(log.data() + at + skipped, bytes - skipped) != header.checksum) break;
    out.whole = true;
    PowerRecord record;
    record.kind = static_cast<PowerKind>(header.kind);
    record.device = header.device;
    record.inode = header.inode;
    record.offset = header.offset;
    record.size = header.size;
    size_t from = at + sizeof(header);
    record.path = log.substr(from, header.path_bytes);
    from += header.path_bytes;
    record.other = log.substr(from, header.other_bytes);
    from += header.other_bytes;
    record.data = log.substr(from, header.data_bytes);
    out.records.push_back(std::move(record));
    at += bytes;
  }
  return out;
}

PowerDisk::PowerDisk(const std::string& folder) : folder_(folder) {
  struct stat info {};
  (void)::lstat(folder.c_str(), &info);
  root_ = MakeNode(true, info.st_dev, info.st_ino);
  Scan(folder, root_);
}

PowerDisk::NodePtr PowerDisk::MakeNode(bool is_folder, uint64_t device, uint64_t inode) {
  auto node = std::make_shared<Node>();
  node->number = ++nodes_made_;
  node->is_folder = is_folder;
  nodes_[{device, inode}] = node;  // in place of one that is gone, whose inode is used again
  return node;
}

void PowerDisk::Scan(const std::string& path, const NodePtr& folder) {
  std::set<std::string> names;  // the order of a folder is no part of its state
  for (const auto& entry : fs::directory_iterator(path)) names.insert(entry.path().filename().string());
  for (const std::string& name : names) {
    const std::string at = path + "/" + name;
    struct stat info {};
    (void)::lstat(at.c_str(), &info);
    const auto linked = nodes_.find({info.st_dev, info.st_ino});
    NodePtr node;
    if (linked != nodes_.end()) {
      node = linked->second;
    } else {
      node = MakeNode(S_ISDIR(info.st_mode), info.st_dev, info.st_ino);
      if (node->is_folder) {
        Scan(at, node);
      } else {
        node->synced = ReadAll(at);
      }
    }
    folder->synced_entries[name] = folder->entries[name] = node;
  }
}

PowerDisk::Place PowerDisk::Find(const std::string& path) const {
  if (path.compare(0, folder_.size(), folder_) != 0) return {};
  NodePtr at = root_;
  std::string name;
  const fs::path inner(path.substr(folder_.size()));
  for (const fs::path& part : inner) {
    const std::string text = part.string();
    if (text.empty() || text == "/" || text == ".") continue;
    if (text == "..") return {};
    if (!name.empty()) {
      const auto found = at->entries.find(name);
      if (found == at->entries.end() || !found->second->is_folder) return {};
      at = found->second;
    }
    name = text;
  }
  return {at, name};
}

PowerDisk::NodePtr PowerDisk::FindNode(const std::string& path) const {
  const Place place = Find(path);
  if (place.folder == nullptr) return nullptr;
  const auto found = place.folder->entries.find(place.name);
  return found == place.folder->entries.end() ? nullptr : found->second;
}

void PowerDisk::ApplyEdit(const Edit& edit, Entries* entries) {
  if (!edit.gone.empty()) entries->erase(edit.gone);
  if (!edit.come.empty()) (*entries)[edit.come] = edit.node;
}

void PowerDisk::AddEdit(const NodePtr& folder, Edit edit) {
  ApplyEdit(edit, &folder->entries);
  folder->edits.push_back(std::move(edit));
}

void PowerDisk::ApplyChange(const Change& change, std::string* bytes) {
  switch (change.kind) {
    case kPowerWrite:
      if (bytes->size() < change.offset + change.data.size()) bytes->resize(change.offset + change.data.size());
      bytes->replace(change.offset, change.data.size(), change.data);
      break;
    case kPowerTruncate:
      bytes->resize(change.size);
      break;
    case kPowerExtend:
      bytes->resize(std::max<size_t>(bytes->size(), change.size));
      break;
    default:
      for (uint64_t i = change.offset; i < std::min<uint64_t>(bytes->size(), change.offset + change.size); ++i) {
        (*bytes)[i] = '\0';
      }
  }
}

// Makes changes and edits durable up to number `done`, counted from the node's beginning.
void PowerDisk::Commit(const NodePtr& node, uint64_t done) {
  while (node->done < done && !node->changes.empty()) {
    ApplyChange(node->changes.front(), &node->synced);
    node->changes.erase(node->changes.begin());
    ++node->done;
  }
  while (node->done < done && !node->edits.empty()) {
    const Edit edit = std::move(node->edits.front());
    node->edits.erase(node->edits.begin());
    ++node->done;
    ApplyEdit(edit, &node->synced_entries);
    const NodePtr other = edit.other.lock();
    if (edit.move == 0 || other == nullptr) continue;
    const auto part = std::find_if(other->edits.begin(), other->edits.end(),
                                   [&edit](const Edit& one) { return one.move == edit.move; });
    if (part == other->edits.end()) continue;
    Commit(other, other->done + static_cast<uint64_t>(part - other->edits.begin()) + 1);
  }
}

std::string PowerDisk::Apply(const PowerRecord& record) {
  switch (record.kind) {
    case kPowerNote:
      return "";
    case kPowerWrite:
    case kPowerTruncate:
    case kPowerExtend:
    case kPowerZero:
      return ApplyToFile(record);
    case kPowerSyncBegin:
    case kPowerSyncEnd:
      return Sync(record);
    case kPowerRename:
      return Rename(record);
    case kPowerCreate:
    case kPowerMakeFolder:
    case kPowerLink:
    case kPowerRemove:
      return ApplyToFolder(record);
    case kPowerUnsupported:
      return "not recorded: " + record.path;
  }
  return "a record of an unknown kind";
}

std::string PowerDisk::ApplyToFile(const PowerRecord& record) {
  const auto found = nodes_.find({record.device, record.inode});
  if (found == nodes_.end() || found->second->is_folder) return "a change of a file that is not known";
  found->second->changes.push_back({record.kind, record.offset, record.size, record.data});
  return "";
}

std::string PowerDisk::Sync(const PowerRecord& record) {
  if (record.kind == kPowerSyncBegin) {
    const auto found = nodes_.find({record.device, record.inode});
    if (found == nodes_.end()) return "a sync of a file that is not known";
    const NodePtr& node = found->second;
    syncs_[record.size] = {node, node->done + node->changes.size() + node->edits.size()};
    return "";
  }
  const auto begun = syncs_.find(record.size);
  if (begun == syncs_.end()) return "a sync that has not begun";
  Commit(begun->second.first, begun->second.second);
  syncs_.erase(begun);
  return "";
}

std::string PowerDisk::ApplyToFolder(const PowerRecord& record) {
  const Place place = Find(record.kind == kPowerLink ? record.other : record.path);
  if (place.folder == nullptr || place.name.empty()) return "no folder of " + record.path + " " + record.other;
  const bool found = place.folder->entries.contains(place.name);
  if (found != (record.kind == kPowerRemove)) {
    return (found ? "a name that is there already: " : "no such name: ") + record.path + " " + record.other;
  }
  Edit edit;
  if (record.kind == kPowerRemove) {
    edit.gone = place.name;
  } else {
    edit.come = place.name;
    edit.node = record.kind == kPowerLink ? FindNode(record.path)
                                          : MakeNode(record.kind == kPowerMakeFolder, record.device, record.inode);
    if (edit.node == nullptr) return "a link to what is not there: " + record.path;
  }
  AddEdit(place.folder, std::move(edit));
  return "";
}

std::string PowerDisk::Rename(const PowerRecord& record) {
  const Place from = Find(record.path), to = Find(record.other);
  const NodePtr node = FindNode(record.path);
  if (node == nullptr || to.folder == nullptr || to.name.empty()) {
    return "a rename that cannot be: " + record.path + " to " + record.other;
  }
  if (FindNode(record.other) == node) return "";  // two names of one file: both stay
  if (from.folder == to.folder) {
    AddEdit(to.folder, {.gone = from.name, .come = to.name, .node = node});
    return "";
  }
  const uint64_t move = ++moves_;
  AddEdit(from.folder, {.gone = from.name, .come = "", .node = nullptr, .move = move, .other = to.folder});
  AddEdit(to.folder, {.gone = "", .come = to.name, .node = node, .move = move, .other = from.folder});
  return "";
}

size_t PowerDisk::KeptEdits(const Node& folder, const Cut& cut) {
  if (cut.policy == PowerPolicy::kLost) return 0;
  if (cut.policy == PowerPolicy::kKept) return folder.edits.size();
  std::mt19937_64 random = RandomOf(cut.seed, folder.number);
  return SomeOf(folder.edits.size(), &random);
}

bool PowerDisk::IsKept(const Node& folder, size_t edit, const Cut& cut) {
  const Edit& one = folder.edits[edit];
  const NodePtr other = one.other.lock();
  if (one.move == 0 || !one.come.empty() || other == nullptr) return edit < KeptEdits(folder, cut);
  for (size_t i = 0; i < other->edits.size(); ++i) {
    if (other->edits[i].move == one.move) return i < KeptEdits(*other, cut);
  }
  return edit < KeptEdits(folder, cut);
}

// The page that begins at byte `at`, after the first `changes` changes since the sync.
std::string PowerDisk::PageOf(const Node& file, uint64_t at, size_t changes) {
  std::string page(kPageBytes, '\0');
  const auto fill = [&](uint64_t from, uint64_t end, const char* data) {
    const uint64_t first = std::max(from, at), last = std::min(end, at + kPageBytes);
    for (uint64_t i = first; i < last; ++i) page[i - at] = data == nullptr ? '\0' : data[i - from];
  };
  fill(0, file.synced.size(), file.synced.data());
  for (size_t i = 0; i < changes; ++i) {
    const Change& change = file.changes[i];
    if (change.kind == kPowerWrite) fill(change.offset, change.offset + change.data.size(), change.data.data());
    if (change.kind == kPowerTruncate) fill(change.size, UINT64_MAX, nullptr);
    if (change.kind == kPowerZero) fill(change.offset, change.offset + change.size, nullptr);
  }
  return page;
}

std::string PowerDisk::BytesOf(const Node& file, const Cut& cut) {
  std::string bytes = file.synced;
  if (cut.policy == PowerPolicy::kLost || file.changes.empty()) return bytes;
  std::vector<size_t> lengths = {bytes.size()};
  for (const Change& change : file.changes) {
    ApplyChange(change, &bytes);
    lengths.push_back(bytes.size());
  }
  if (cut.policy == PowerPolicy::kKept) return bytes;
  std::mt19937_64 random = RandomOf(cut.seed, file.number);
  const size_t all = file.changes.size();
  const size_t length = lengths[SomeOf(all, &random)];
  bytes.clear();
  while (bytes.size() < length) {
    const uint64_t at = bytes.size();
    std::string page = PageOf(file, at, SomeOf(all, &random));
    if (at + kPageBytes >= length && random() % 2 == 0) {
      const uint64_t torn = (1 + random() % (kPageBytes / kSectorBytes - 1)) * kSectorBytes;
      page = PageOf(file, at, all).substr(0, torn) + page.substr(torn);
    }
    bytes += page;
  }
  bytes.resize(length);
  return bytes;
}

std::string PowerDisk::Write(const Node& folder, const std::string& to, Cut* cut) {
  std::error_code error;
  if (!fs::create_directory(to, error)) return "cannot make folder " + to + ": " + error.message();
  Entries entries = folder.synced_entries;
  for (size_t i = 0; i < folder.edits.size(); ++i) {
    if (IsKept(folder, i, *cut)) ApplyEdit(folder.edits[i], &entries);
  }
  for (const auto& [name, node] : entries) {
    const std::string path = to + "/" + name;
    if (node->is_folder) {
      if (std::string failed = Write(*node, path, cut); !failed.empty()) return failed;
      continue;
    }
    const auto [made, fresh] = cut->paths.emplace(node.get(), path);
    if (!fresh) {
      fs::create_hard_link(made->second, path, error);
      if (error) return "cannot link " + path + ": " + error.message();
      continue;
    }
    const std::string bytes = BytesOf(*node, *cut);
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) return "cannot write " + path;
  }
  return "";
}

std::string PowerDisk::Materialise(const std::string& to, PowerPolicy policy, uint64_t seed) const {
  Cut cut{.policy = policy, .seed = seed, .paths = {}};
  return Write(*root_, to, &cut);
}

std::string FirstDifference(const std::string& folder, const std::string& other) {
  std::set<std::string> names;
  for (const std::string& one : {folder, other}) {
    for (const auto& entry : fs::recursive_directory_iterator(one)) {
      names.insert(entry.path().string().substr(one.size()));
    }
  }
  for (const std::string& name : names) {
    const std::string a = folder + name, b = other + name;
    if (!fs::exists(a) || !fs::exists(b)) return name + " is in one of them alone";
    if (fs::is_directory(a) != fs::is_directory(b)) return name + " is a folder in one of them alone";
    if (!fs::is_directory(a) && ReadAll(a) != ReadAll(b)) return name + " has other bytes";
  }
  return "";
}

}  // namespace lightcone

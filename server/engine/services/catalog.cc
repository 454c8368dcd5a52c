#include "server/engine/services/catalog.h"

#include "base/status.h"

namespace lightcone::server {
namespace {

// Names no other collection: who may use one need not know the others.
absl::Status NoCollection(const std::string& name) { return NotFound(StrCat("no collection '", name, "'")); }

}  // namespace

absl::StatusOr<ServedPtr> Catalog::Find(const std::string& name) const {
  absl::ReaderMutexLock lock(&mu_);
  if (const auto found = collections_.find(name); found != collections_.end()) return found->second;
  if (const auto alias = aliases_.find(name); alias != aliases_.end()) return alias->second;
  if (const auto refused = refused_.find(name); refused != refused_.end()) return refused->second;
  return NoCollection(name);
}

absl::StatusOr<ServedPtr> Catalog::FindByName(const std::string& name) const {
  absl::ReaderMutexLock lock(&mu_);
  if (const auto refused = refused_.find(name); refused != refused_.end()) return refused->second;
  if (const auto found = collections_.find(name); found != collections_.end()) return found->second;
  if (!aliases_.contains(name)) return NoCollection(name);
  return InvalidField("name", StrCat("'", name, "', an alias"), "the name of a collection");
}

absl::StatusOr<ServedPtr> Catalog::FindByNumber(uint32_t number, const std::string& name) const {
  absl::ReaderMutexLock lock(&mu_);
  for (const auto& [known, served] : collections_) {
    if (served->collection->number() == number) return served;
  }
  return NotFound(StrCat("collection '", name, "' has been dropped"));
}

ServedPtr Catalog::TargetOf(const std::string& alias) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto found = aliases_.find(alias);
  return found == aliases_.end() ? nullptr : found->second;
}

std::optional<std::string> Catalog::ResolveName(const std::string& name) const {
  absl::ReaderMutexLock lock(&mu_);
  if (const auto alias = aliases_.find(name); alias != aliases_.end()) return alias->second->collection->name();
  if (collections_.contains(name) || refused_.contains(name)) return name;
  return std::nullopt;
}

std::vector<ServedPtr> Catalog::All() const {
  absl::ReaderMutexLock lock(&mu_);
  std::vector<ServedPtr> all;
  for (const auto& [name, served] : collections_) all.push_back(served);
  return all;
}

absl::Status Catalog::CheckNew(const std::string& name, int64_t collections_max) const {
  LC_RETURN_IF_ERROR(CheckNoCollection(name));
  absl::ReaderMutexLock lock(&mu_);
  if (aliases_.contains(name)) return AlreadyExists(StrCat("an alias named '", name, "' exists already"));
  if (const auto refused = refused_.find(name); refused != refused_.end()) return refused->second;
  if (static_cast<int64_t>(collections_.size()) < collections_max) return absl::OkStatus();
  return ResourceExhausted(
      StrCat("there are ", collections_.size(), " collections; allowed: at most ", collections_max));
}

absl::Status Catalog::CheckNoCollection(const std::string& name) const {
  absl::ReaderMutexLock lock(&mu_);
  if (!collections_.contains(name)) return absl::OkStatus();
  return AlreadyExists(StrCat("a collection named '", name, "' exists already"));
}

absl::Status Catalog::RefusalOf(const std::string& name) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto refused = refused_.find(name);
  return refused == refused_.end() ? absl::OkStatus() : refused->second;
}

std::vector<std::pair<std::string, absl::Status>> Catalog::Refused() const {
  absl::ReaderMutexLock lock(&mu_);
  std::vector<std::pair<std::string, absl::Status>> refused;
  for (const std::string& name : refused_names_) refused.emplace_back(name, refused_.at(name));
  return refused;
}

void Catalog::Add(const ServedPtr& served) {
  const auto state = served->collection->state();
  absl::MutexLock lock(&mu_);
  collections_[state->record.name] = served;
  for (const std::string& alias : state->record.aliases) aliases_[alias] = served;
}

void Catalog::Remove(const CollectionRecord& record) {
  absl::MutexLock lock(&mu_);
  collections_.erase(record.name);
  for (const std::string& alias : record.aliases) aliases_.erase(alias);
}

void Catalog::SetAlias(const std::string& alias, ServedPtr target) {
  absl::MutexLock lock(&mu_);
  if (target == nullptr) {
    aliases_.erase(alias);
  } else {
    aliases_[alias] = std::move(target);
  }
}

void Catalog::Refuse(const CollectionRecord& record, const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  refused_[record.name] = why;
  refused_names_.push_back(record.name);
  for (const std::string& alias : record.aliases) refused_[alias] = why;
}

}  // namespace lightcone::server

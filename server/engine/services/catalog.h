// The collections in service by name and by alias, and those that the start refused.
// Threads: every method is safe from any thread. Locks are taken in this order: operator_mutex(), a collection's
// operator mutex, the catalog's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/services/served.h"

namespace lightcone::server {

class Catalog {
 public:
  // Held by whoever adds, drops or renames: one change of the catalog at a time.
  absl::Mutex& operator_mutex() ABSL_LOCK_RETURNED(operator_mu_) { return operator_mu_; }

  // By name or alias. A refused collection answers with the reason.
  absl::StatusOr<ServedPtr> Find(const std::string& name) const;
  // By name alone. INVALID_ARGUMENT for an alias; else as Find.
  absl::StatusOr<ServedPtr> FindByName(const std::string& name) const;
  // NOT_FOUND says that collection `name` has been dropped.
  absl::StatusOr<ServedPtr> FindByNumber(uint32_t number, const std::string& name) const;
  // nullptr when there is no such alias.
  ServedPtr TargetOf(const std::string& alias) const;
  // As Engine::ResolveName.
  std::optional<std::string> ResolveName(const std::string& name) const;
  std::vector<ServedPtr> All() const;
  // ALREADY_EXISTS for a name in use. RESOURCE_EXHAUSTED where there are `collections_max` already.
  absl::Status CheckNew(const std::string& name, int64_t collections_max) const;
  absl::Status CheckNoCollection(const std::string& name) const;
  // OK where the start refused no collection of this name or alias.
  absl::Status RefusalOf(const std::string& name) const;
  std::vector<std::pair<std::string, absl::Status>> Refused() const;

  // With the aliases of its record.
  void Add(const ServedPtr& served);
  void Remove(const CollectionRecord& record);
  // nullptr removes the alias.
  void SetAlias(const std::string& alias, ServedPtr target);
  void Refuse(const CollectionRecord& record, const absl::Status& why);

  // Numbers are used up even if a creation fails: a write in doubt may hold them.
  uint32_t TakeNumber() ABSL_EXCLUSIVE_LOCKS_REQUIRED(operator_mu_) { return next_number_++; }
  void SetNextNumber(uint32_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(operator_mu_) { next_number_ = number; }

 private:
  absl::Mutex operator_mu_;
  uint32_t next_number_ ABSL_GUARDED_BY(operator_mu_) = 1;

  mutable absl::Mutex mu_ ABSL_ACQUIRED_AFTER(operator_mu_);
  std::map<std::string, ServedPtr> collections_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ServedPtr> aliases_ ABSL_GUARDED_BY(mu_);
  // By name and alias: the index needs too much memory, or records are damaged.
  std::map<std::string, absl::Status> refused_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> refused_names_ ABSL_GUARDED_BY(mu_);  // the names in refused_, without the aliases
};

}  // namespace lightcone::server

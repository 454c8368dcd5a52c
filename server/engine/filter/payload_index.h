// The payload indexes of one collection: bitmaps of internal ids by value, for the fields that the operator named.
// New content has new internal ids, and a change of the payload alone replaces the values of an id (Replace). So
// sealing, merging, backfill and activation leave the indexes untouched.
//
// It is a cache of the store, in memory. A field takes every write from the moment it is declared, and a build in the
// background reads the payloads that were there before; until that is through, and after every start, conditions on the
// field are answered by reading payloads, as those on fields without an index are.
//
// An item with a damaged payload passes no filter that an index answers. Its field's error says so.
//
// Every id that a search may meet is in the index: it enters before its row enters the collection's index, and leaves
// when no pinned view can show it.
// Threads: all methods are safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/work_pool.h"
#include "server/engine/filter/field_index.h"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/payload_field.h"
#include "server/engine/filter/payload_path.h"

namespace lightcone::server {

// Where payloads come from. Implemented by the collection.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Visits every payload that some view may still show, as of a moment after the call began. Ends with the first error
  // of `visit` or the store. A damaged item is logged, and its id goes to `damaged`.
  virtual absl::Status ForEachPayload(
      absl::FunctionRef<absl::Status(uint64_t internal_id, std::string_view json)> visit,
      std::vector<uint64_t>* damaged) = 0;
  // About how many payloads ForEachPayload visits.
  virtual uint64_t Payloads() = 0;
  // Which of these ids the store has no more, and never will.
  virtual absl::StatusOr<std::vector<bool>> Gone(std::span<const uint64_t> internal_ids) = 0;
};

// The internal ids that a filter's kHasId conditions stand for.
using IdsOfConditions = std::map<const FilterNode*, IdSet>;

// What the indexes know of a filter.
struct CompiledFilter {
  IdBounds bounds;
  std::vector<std::string> indexed, unindexed;  // the filter's fields, each once
  const IdsOfConditions* ids = nullptr;         // while it is compiled
  bool exact() const { return !bounds.may; }
};

class PayloadIndex {
 public:
  explicit PayloadIndex(PayloadSource* source) : source_(source) {}
  ~PayloadIndex();

  // Builds fields that are new and drops those left out. REQUIRES: CheckPayloadFields accepts `fields`.
  void Declare(std::span<const PayloadField> fields) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether any field is declared. Cheap.
  bool active() const { return active_.load(std::memory_order_relaxed); }

  using Entry = std::pair<uint64_t, std::string_view>;  // internal id, payload
  // Adds new contents, before their rows are visible.
  void Add(std::span<const Entry> entries) ABSL_LOCKS_EXCLUDED(mu_);
  // A payload that took the place of another one.
  struct Replacement {
    uint64_t internal_id = 0;
    std::string before, after;
  };
  // Moves ids from the values of their old payloads to those of their new ones. REQUIRES: the store has the new ones,
  // and the one writer of the collection calls.
  void Replace(std::span<const Replacement> replacements) ABSL_LOCKS_EXCLUDED(mu_);
  // Names a content that no view shows any more, unless its write failed. Sweep finds out and removes it. Cheap.
  void Discard(uint64_t internal_id, std::string payload) ABSL_LOCKS_EXCLUDED(discard_mu_);
  // Removes discarded contents. After an error of the store the next call goes on.
  absl::Status Sweep() ABSL_LOCKS_EXCLUDED(mu_, discard_mu_);

  // For rows of one generation, in a view that was pinned before the call. With `may_test` conditions that very many
  // ids meet may become tests.
  // `ids`: for conditions on ids, which else are left to whoever reads items.
  CompiledFilter Compile(const FilterNode& root, uint32_t generation, bool may_test,
                         const IdsOfConditions* ids = nullptr) const ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `use` with the index over a path, in its canonical spelling, while nobody changes it. NOT_FOUND where no
  // index is declared, UNAVAILABLE while it is being built.
  absl::Status UseField(const std::string& path,
                        absl::FunctionRef<void(const PayloadField& field, const FieldIndex& index)> use) const
      ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<PayloadIndexStatus> Status() const ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  // Until every field is ready, or `give_up` says so (asked now and then): then false.
  bool WaitReady(const std::function<bool()>& give_up) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Field {
    // REQUIRES: the path parses.
    explicit Field(PayloadField f);
    const PayloadField field;
    const PathKeys keys;
    const std::string path;  // canonical spelling
    FieldIndex index;
    bool ready = false;
    absl::Status error;
  };
  using FieldPtr = std::shared_ptr<Field>;

  IdBounds CompileNode(const FilterNode& node, uint32_t generation, bool may_test, CompiledFilter* out) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  IdBounds CompileAnd(const FilterNode& node, uint32_t generation, CompiledFilter* out) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Adds the conditions below an `and`, through nested ones.
  static void AddConditions(const FilterNode& node, std::vector<const FilterNode*>* conditions);
  // `path` in its canonical spelling. nullptr: no index answers conditions on it.
  const Field* Find(const std::string& path) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool Building() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Builds the fields that are not ready. Returns how long the next build may wait.
  absl::Duration BuildDeclared() ABSL_LOCKS_EXCLUDED(mu_);
  // Reads every payload into these fields, as far as they are still declared; how many items were left out as damaged.
  absl::StatusOr<size_t> Build(const std::vector<FieldPtr>& fields) ABSL_LOCKS_EXCLUDED(mu_);
  // What the payloads hold in `fields`: one row an entry.
  static std::vector<std::vector<PayloadValues>> Read(std::span<const Entry> entries,
                                                      const std::vector<FieldPtr>& fields);
  // Calls change(field, id, values) for all entries, taking the lock for a few at a time.
  void Change(std::span<const Entry> entries, const std::vector<FieldPtr>& fields,
              absl::FunctionRef<void(FieldIndex&, uint64_t, const PayloadValues&)> change) ABSL_LOCKS_EXCLUDED(mu_);

  PayloadSource* const source_;
  std::atomic<bool> active_{false};

  mutable absl::Mutex mu_;
  std::vector<FieldPtr> fields_ ABSL_GUARDED_BY(mu_);
  IdSet damaged_ ABSL_GUARDED_BY(mu_);  // ids of damaged payloads
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // whether a build reads payloads
  IdSet replaced_ ABSL_GUARDED_BY(mu_);  // ids whose payload was replaced during this build, which may read the old one
  std::unique_ptr<RecurringWork> work_ ABSL_GUARDED_BY(mu_);  // builds; null until a field was declared

  absl::Mutex sweep_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  absl::Mutex discard_mu_;
  std::vector<std::pair<uint64_t, std::string>> discarded_ ABSL_GUARDED_BY(discard_mu_);
};

}  // namespace lightcone::server

// The payload indexes of one collection: bitmaps of internal ids by value, for the fields that the operator named. A
// payload belongs to its internal id for good (new content has new ids), so nothing here knows of segments,
// generations or views: sealing, merging, backfill and activation leave it untouched.
//
// It is a cache of the store, in memory. A field takes every write from the moment it is declared, and a build in the
// background reads the payloads that were there before; until that is through, and after every start, conditions on the
// field are answered by reading payloads, as those on fields without an index are.
//
// Nobody knows what a damaged payload holds: its item passes no filter that an index answers, and its field says so as
// its error.
//
// What a search may meet is in the index: an id is added before its row enters the collection's index, and removed
// after no pinned view can show it any more.
// Threads: all methods are safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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

namespace lightcone::server {

// Where payloads come from. Implemented by the collection.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Every payload that some view may still show, as of a moment after the call has begun. Ends with the first error of
  // `visit`, or with one of the store. A damaged item is logged, and its id goes to `damaged`.
  virtual absl::Status ForEachPayload(
      absl::FunctionRef<absl::Status(uint64_t internal_id, std::string_view json)> visit,
      std::vector<uint64_t>* damaged) = 0;
  // How many payloads that is, about.
  virtual uint64_t Payloads() = 0;
  // Which of these ids the store has no more; those it will never have again.
  virtual absl::StatusOr<std::vector<bool>> Gone(std::span<const uint64_t> internal_ids) = 0;
};

// A filter as far as the indexes know it.
struct CompiledFilter {
  IdBounds bounds;
  std::vector<std::string> indexed, unindexed;  // fields of the filter, each once
  bool exact() const { return !bounds.may; }
};

class PayloadIndex {
 public:
  explicit PayloadIndex(PayloadSource* source) : source_(source) {}
  ~PayloadIndex();

  // Makes these the fields: new ones are built, those left out are dropped. REQUIRES: CheckPayloadFields.
  void Declare(std::span<const PayloadField> fields) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether there is any field; cheap.
  bool active() const { return active_.load(std::memory_order_relaxed); }

  using Entry = std::pair<uint64_t, std::string_view>;  // internal id, payload
  // New contents, before their rows are visible.
  void Add(std::span<const Entry> entries) ABSL_LOCKS_EXCLUDED(mu_);
  // A content that no view shows any more, unless its write failed: Sweep finds out, and removes it. Cheap.
  void Discard(uint64_t internal_id, std::string payload) ABSL_LOCKS_EXCLUDED(discard_mu_);
  // Now and then. Errors of the store; what is left is swept the next time.
  absl::Status Sweep() ABSL_LOCKS_EXCLUDED(mu_, discard_mu_);

  // For rows of one generation. For a view that was pinned before the call. With `may_test` the filter may have tests
  // of what very many ids meet.
  CompiledFilter Compile(const FilterNode& root, uint32_t generation, bool may_test) const ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<PayloadIndexStatus> Status() const ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  // Until every field is ready, or `give_up` says so (asked now and then): then false.
  bool WaitReady(const std::function<bool()>& give_up) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Field {
    explicit Field(PayloadField f) : field(std::move(f)), index(field.type) {}
    const PayloadField field;
    FieldIndex index;
    bool ready = false;
    absl::Status error;
  };
  using FieldPtr = std::shared_ptr<Field>;

  // With `may_test` what very many ids meet may be tests.
  IdBounds CompileNode(const FilterNode& node, uint32_t generation, bool may_test, CompiledFilter* out) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  IdBounds CompileAnd(const FilterNode& node, uint32_t generation, CompiledFilter* out) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // The conditions below an `and`, and those of what is an `and` itself there.
  static void AddConditions(const FilterNode& node, std::vector<const FilterNode*>* conditions);
  // nullptr: no index answers conditions on it.
  const Field* Find(const std::string& path) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool Building() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Builds the fields that are not ready. Returns how long the next build may wait.
  absl::Duration BuildDeclared() ABSL_LOCKS_EXCLUDED(mu_);
  // Reads every payload into these fields, as far as they are still declared; how many items were left out as damaged.
  absl::StatusOr<size_t> Build(const std::vector<FieldPtr>& fields) ABSL_LOCKS_EXCLUDED(mu_);
  // What the payloads hold in the fields given: one row an entry.
  static std::vector<std::vector<PayloadValues>> Read(std::span<const Entry> entries,
                                                      const std::vector<FieldPtr>& fields);
  // change(field, id, values) for all of them, under the lock by parts.
  void Change(std::span<const Entry> entries, const std::vector<FieldPtr>& fields,
              absl::FunctionRef<void(FieldIndex&, uint64_t, const PayloadValues&)> change) ABSL_LOCKS_EXCLUDED(mu_);

  PayloadSource* const source_;
  std::atomic<bool> active_{false};

  mutable absl::Mutex mu_;
  std::vector<FieldPtr> fields_ ABSL_GUARDED_BY(mu_);
  IdSet damaged_ ABSL_GUARDED_BY(mu_);  // whose payloads nobody can read
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;                 // whether a build reads payloads
  std::unique_ptr<RecurringWork> work_ ABSL_GUARDED_BY(mu_);  // builds; null until a field was declared

  absl::Mutex sweep_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  absl::Mutex discard_mu_;
  std::vector<std::pair<uint64_t, std::string>> discarded_ ABSL_GUARDED_BY(discard_mu_);
};

}  // namespace lightcone::server

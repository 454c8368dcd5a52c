// One collection in service: its records as published, its index, and the bookkeeping that lets a search resolve rows
// of a view that is older than the store. Threads: every method is safe from any thread unless it says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "index/api/collection_index.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/expiry.h"
#include "server/engine/collection/id_cache.h"
#include "server/engine/collection/meta.h"
#include "server/engine/collection/reach.h"
#include "server/engine/filter/payload_index.h"
#include "store/records.h"
#include "store/store.h"

namespace lightcone::server {

// What became of an operator's batch. One that the disk refused may be in the store all the same, but always whole:
// `in_store` is true when all of it reads back, and then memory has to follow before `status` is answered.
struct OperatorWrite {
  bool in_store = false;
  absl::Status status;
};

// The records as of one moment; immutable once published, so a call that holds one is untouched by an activation.
struct CollectionState {
  CollectionRecord record;
  std::string encoded;                        // bytes of `record` in the store: conditional batches expect them
  std::vector<GenerationRecord> generations;  // [i] is generation i + 1
  Reach reach;                                // reach with the adapters in force

  // nullptr when there is none of that number.
  const GenerationRecord* Find(uint32_t generation) const;
  // `asked` or, for 0, the active one. NOT_FOUND lists the generations; FAILED_PRECONDITION when none is active or the
  // one asked for is retired or a draft.
  absl::StatusOr<const GenerationRecord*> Resolve(uint32_t asked) const;
  // The same with drafts.
  absl::StatusOr<const GenerationRecord*> ResolveAny(uint32_t asked) const;
  // INVALID_ARGUMENT lists the generations where the collection demands that an upsert of vectors names one.
  absl::Status CheckNamed(uint32_t asked) const;
};

// The generation of an item's embedding that a view of `view_generation` serves: the newest at or below it. Items that
// only newer generations embedded give their oldest. REQUIRES: `generations` is not empty.
uint32_t HeadGeneration(const std::vector<uint32_t>& generations, uint32_t view_generation);

// Items that some view serves, and a view of `generation` with this reach does not. REQUIRES: it is a generation.
int64_t OutOfReach(const IndexView& view, const CollectionState& state, const Reach& reach, uint32_t generation);

// Content that a write has replaced or deleted, kept until no search can still meet its rows.
struct RetiredItem {
  ItemId id;
  ItemRecord record;
  uint64_t sequence = 0;  // sequence of the write that retired the content
};

// Deletes all keys of a collection in every table, after its record is gone.
absl::Status DeleteKeysOf(Store& store, uint32_t number);

class Collection;

// A view of the index, pinned: what its rows stand for stays resolvable. Movable; release it soon.
class PinnedView {
 public:
  PinnedView(PinnedView&& other) noexcept;
  PinnedView& operator=(PinnedView&&) = delete;
  ~PinnedView();
  const IndexView& operator*() const { return *view_; }
  const IndexView* operator->() const { return view_.get(); }
  PinnedView Again() const;  // the same view, pinned once more
  // Internal ids that the view shows, though they have expired; nullptr: none.
  const IdSet* expired() const { return expired_.get(); }

 private:
  friend class Collection;
  PinnedView(Collection* collection, std::shared_ptr<const IdSet> expired, std::shared_ptr<const IndexView> view,
             uint64_t sequence);
  Collection* collection_;  // nullptr after a move
  std::shared_ptr<const IdSet> expired_;
  std::shared_ptr<const IndexView> view_;
  uint64_t sequence_;
};

// What a row stands for.
struct ResolvedRow {
  bool found = false;
  ItemId id;
  ItemRecord record;              // filled when asked for
  uint64_t retired_sequence = 0;  // sequence of the write that retired the content; 0: it is in the store
};

// Whoever waits for Collection::Open. A thread that mends the index may ask while Open runs, and after it.
// Threads: safe.
class OpeningCaller {
 public:
  // `given_up`: nobody waits any more; empty: that is not known.
  void Set(std::function<bool()> given_up) ABSL_LOCKS_EXCLUDED(mu_);
  // CANCELLED where nobody waits any more.
  absl::Status CheckWanted() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  std::function<bool()> given_up_ ABSL_GUARDED_BY(mu_);
};

class Collection final : private RowSource {
 public:
  // Opens the index and replays the change log. Errors name the collection. `encoded`: the record as the store holds
  // it, which an older server may have written. CANCELLED soon after `given_up` says so; it is asked in this call
  // alone, by several threads.
  static absl::StatusOr<std::shared_ptr<Collection>> Open(
      uint32_t number, Store* store, const ForwardClock* clock, const std::string& index_folder,
      CollectionRecord record, std::string encoded, std::vector<GenerationRecord> generations, AdapterSet adapters,
      ProgressRecord progress, const IndexLimits& index_limits, std::function<bool()> given_up = {});
  ~Collection() override;  // removes the files of a dropped collection

  uint32_t number() const { return number_; }
  Store* store() const { return store_; }
  std::shared_ptr<const CollectionState> state() const;
  std::string name() const { return state()->record.name; }

  // Serialises the operator's calls on this collection (register, activate, rebuild, alias). Taken before every other
  // lock here.
  absl::Mutex& operator_mutex() ABSL_LOCK_RETURNED(operator_mu_) { return operator_mu_; }
  // Makes new records visible to calls that start from now on. The store must hold them already.
  // `record`: nullopt where the collection's own one was not written. REQUIRES: the caller holds operator_mutex().
  void Publish(std::optional<CollectionRecord> record, std::vector<GenerationRecord> generations, AdapterSet adapters);

  // Index. The writer calls Apply; AddGeneration and Reconfigure keep it out meanwhile.
  absl::Status Apply(uint64_t sequence, std::span<const RowChange> changes);
  // Before Apply of new rows: CollectionIndex::AwaitRoom, whose errors then name the collection.
  absl::StatusOr<bool> AwaitRoom(absl::Time deadline);
  absl::Status AddGeneration(uint32_t generation, const Space& space);
  // Its rows leave the index for good; older rows of its items are seen again. OK where there is none. Writes go on
  // meanwhile. What takes time is PrepareDrop, beside which operators' calls go on; one at a time, both.
  absl::Status PrepareDrop(uint32_t generation, const std::function<bool()>& cancelled);
  // REQUIRES: the caller holds operator_mutex().
  absl::Status DropGeneration(uint32_t generation);
  // A closed generation takes no more writes: one that is about to be retired. In memory only.
  void SetClosed(uint32_t generation, bool closed);
  bool closed(uint32_t generation) const;
  absl::Status Reconfigure(const IndexSettings& settings);
  absl::Status Flush(const CallContext& context);
  IndexStats Stats() const { return index_->Stats(); }

  PinnedView Pin();
  uint64_t published_sequence() const;
  // Until `sequence` is visible. DEADLINE_EXCEEDED names both sequences; OUT_OF_RANGE when nobody has written so far
  // and the call has no deadline.
  absl::Status WaitVisible(uint64_t sequence, const CallContext& context);
  // After Apply: new views contain everything up to `sequence`.
  void SetPublished(uint64_t sequence, ProgressRecord progress);
  ProgressRecord progress() const;

  // Before a write that replaces these goes to the store.
  void Retire(std::vector<RetiredItem> items);
  // What rows of a pinned view stand for, in order; not found: damaged or long gone. DATA_LOSS from the store.
  absl::StatusOr<std::vector<ResolvedRow>> ResolveRows(std::span<const uint64_t> internal_ids, bool with_record) const;
  // The same of the store as it is now: a row whose item was deleted, or has newer content, is not found.
  absl::StatusOr<std::vector<ResolvedRow>> CurrentRows(std::span<const uint64_t> internal_ids) const;
  // Every embedding that the store holds of a generation, superseded ones too. Ends with the first error of `row`.
  absl::Status ForEachEmbedding(uint32_t generation,
                                const std::function<absl::Status(uint64_t internal_id, std::span<const float> z,
                                                                 float uncertainty)>& row) override;

  // Bitmaps over payloads; the writer adds to them before it calls Apply.
  PayloadIndex& payloads() const { return *payloads_; }

  Expiry& expiry() const { return expiry_; }

  // Removes changes that the index has in files. Cheap when there is little to remove. One thread at a time.
  absl::Status TrimChanges();
  // Carries galleries that the active generation reaches by item adapters, so that searches find them carried. One
  // thread at a time. Cheap when that is done. CANCELLED soon after `cancelled` says so, the collection is dropped, or
  // the adapter that carries is no longer in use.
  absl::Status AdaptGalleries(const std::function<bool()>& cancelled);

  // After this, the destructor removes the index folder and all keys.
  void MarkDropped();
  bool dropped() const;

 private:
  friend class PinnedView;
  friend class StoredPayloads;
  Collection(uint32_t number, Store* store, const ForwardClock* clock, std::string index_folder);

  void SetState(CollectionRecord record, std::string encoded, std::vector<GenerationRecord> generations,
                AdapterSet adapters);
  absl::Status Replay(uint64_t last_sequence);
  absl::Status ReplayOne(uint64_t sequence, const ChangeRecord& record);
  void Unpin(uint64_t sequence);
  void PruneRetired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(view_mu_);

  // RowSource, with ForEachEmbedding.
  absl::StatusOr<std::vector<uint32_t>> GenerationsOf(uint64_t internal_id) override;

  const uint32_t number_;
  Store* const store_;
  const std::string index_folder_;

  OpeningCaller opening_;

  absl::Mutex operator_mu_;
  absl::Mutex index_mu_ ABSL_ACQUIRED_AFTER(operator_mu_);  // held by whoever is the index's one writer
  std::unique_ptr<CollectionIndex> index_;                  // set once in Open
  uint64_t trimmed_sequence_ = 0;                           // TrimChanges only

  const std::unique_ptr<PayloadSource> payload_source_;
  std::unique_ptr<PayloadIndex> payloads_;  // set once; ends first

  mutable IdCache id_cache_;
  mutable Expiry expiry_;

  mutable absl::Mutex state_mu_;
  std::shared_ptr<const CollectionState> state_ ABSL_GUARDED_BY(state_mu_);
  bool dropped_ ABSL_GUARDED_BY(state_mu_) = false;
  std::set<uint32_t> closed_ ABSL_GUARDED_BY(state_mu_);

  mutable absl::Mutex view_mu_;
  std::multiset<uint64_t> pins_ ABSL_GUARDED_BY(view_mu_);  // sequences of the views in use
  uint64_t published_ ABSL_GUARDED_BY(view_mu_) = 0;
  ProgressRecord progress_ ABSL_GUARDED_BY(view_mu_);  // progress as of `published_`
  absl::flat_hash_map<uint64_t, RetiredItem> retired_ ABSL_GUARDED_BY(view_mu_);
  std::multimap<uint64_t, uint64_t> retired_by_sequence_ ABSL_GUARDED_BY(view_mu_);
};

}  // namespace lightcone::server

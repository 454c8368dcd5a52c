// The use cases. Everything that a user can do to Lightcone is a method here, free of wire formats.
// Threads: every method is safe to call concurrently. A call honours its deadline and cancellation.
// Errors: canonical codes; the message names the field, its value and what is allowed; unknown names list what there is
// ("no collection 'foo'; there are: bar, baz").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/types.h"

namespace lightcone::server {

class Engine {
 public:
  // Opens or creates the data folder, loads every collection's segments and replays what they lack. Errors as
  // OpenStore.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineOptions& options);
  virtual ~Engine() = default;

  // Collections. A name is 1 .. 128 of [A-Za-z0-9._-]; wherever a collection is named, an alias does too (not in Drop).
  // Calls with a request_id are idempotent: the same id with the same content again gives the first answer;
  // with another content ALREADY_EXISTS.
  virtual absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) = 0;
  virtual absl::StatusOr<std::vector<CollectionStatus>> ListCollections() = 0;
  virtual absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) = 0;
  virtual absl::Status DropCollection(const std::string& name, const std::string& request_id) = 0;
  // An empty `collection` removes the alias (NOT_FOUND when there is none).
  virtual absl::Status SetAlias(const std::string& alias, const std::string& collection,
                                const std::string& request_id) = 0;
  // What `index` leaves open stays as it is. With `wait`, DEADLINE_EXCEEDED and CANCELLED mean that the caller gave up:
  // the rebuilding goes on.
  virtual absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                                   const std::string& request_id, const CallContext& context) = 0;
  // Fields are indexed in the background while everything serves. What is there already is no change. ALREADY_EXISTS for
  // a path that has an index of another type; NOT_FOUND for one to drop that has none lists those there are. `wait` as
  // in Rebuild.
  virtual absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context) = 0;

  // Generations.
  virtual absl::StatusOr<GenerationStatus> RegisterGeneration(const RegisterCall& call) = 0;
  virtual absl::StatusOr<std::vector<GenerationStatus>> ListGenerations(const std::string& collection) = 0;
  virtual absl::StatusOr<GenerationStatus> GetGeneration(const std::string& collection, uint32_t generation) = 0;
  // FAILED_PRECONDITION when visible items would be out of its reach and `force` is not set (says how many).
  virtual absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall& call) = 0;
  // Back to the generation that served before the active one, and with every further call to the one before that: O(1)
  // in the gallery. FAILED_PRECONDITION when none served before, and as ActivateGeneration.
  virtual absl::StatusOr<ActivateAnswer> RollbackGeneration(const SwitchCall& call) = 0;
  // Activations and rollbacks of a collection, newest first, at most `limit`, 1 .. 10,000 (0: 100).
  virtual absl::StatusOr<std::vector<AuditEntry>> ListAudit(const std::string& collection, uint32_t limit) = 0;

  // Adapters: one a pair of generations. Put replaces the pair's; searches that run keep the one they began with.
  // INVALID_ARGUMENT for a damaged file and for one that fits the pair in none of direction, dimension and space.
  virtual absl::StatusOr<AdapterStatus> PutAdapter(const PutAdapterCall& call) = 0;
  // NOT_FOUND lists the adapters there are. FAILED_PRECONDITION when items would get out of the active generation's
  // reach and `force` is not set (says how many).
  virtual absl::Status DropAdapter(const DropAdapterCall& call) = 0;
  virtual absl::StatusOr<std::vector<AdapterStatus>> ListAdapters(const std::string& collection) = 0;

  // Lazy backfill by the active generation, worst items first. Start orders the items in the background, anew if there
  // is an order already, and ends a pause. FAILED_PRECONDITION without an active generation; INVALID_ARGUMENT for a
  // damaged head, and one of another dimension than its generation. Start and Pause answer with the state they led to.
  virtual absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall& call) = 0;
  virtual absl::StatusOr<BackfillStatus> PauseBackfill(const std::string& collection,
                                                       const std::string& request_id) = 0;
  virtual absl::StatusOr<BackfillStatus> GetBackfill(const std::string& collection) = 0;
  // The worst items that nobody has leased, oldest generations first. Leases live in memory: after a restart all items
  // are free, and what a worker still writes is checked by expected_sequence. FAILED_PRECONDITION before a start.
  virtual absl::StatusOr<LeaseAnswer> LeaseBackfill(const LeaseCall& call) = 0;

  // Retrieval.
  virtual absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) = 0;
  virtual absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                             Durability durability, const CallContext& context) = 0;
  virtual absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids,
                                        uint32_t generation, bool with_vector, const CallContext& context) = 0;
  virtual absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) = 0;
  // One page; `page_size` 0: 1,000. Pages of one token chain see each item that stays put exactly once.
  virtual absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                            int64_t page_size, const std::string& token, bool with_vector,
                                            const CallContext& context) = 0;
  virtual absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                            const CallContext& context) = 0;

  // Seen from outside.
  virtual StoreStats StoreStatistics() = 0;
  virtual const EngineOptions& options() const = 0;
};

}  // namespace lightcone::server

// The use cases. Everything that a user can do to Lightcone is a method here, free of wire formats.
// Threads: every method is safe to call concurrently. A call honours its deadline and cancellation.
// Errors: canonical codes; the message names the field, its value and what is allowed; unknown names list what there is
// ("no generation 7 in collection 'c'; there are: 1, 2"). Only collections are not listed: who may use one need not
// know the others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/options.h"
#include "server/engine/api/rollout_engine.h"
#include "server/engine/api/snapshots.h"
#include "server/engine/api/types.h"
#include "server/engine/api/verb_types.h"

namespace lightcone::server {

inline constexpr int64_t kFacetLimitMax = 65'536;   // most values that one Facet answers
inline constexpr size_t kFacetValuesMax = 100'000;  // most different values that one Facet counts

class Engine : public RolloutEngine {
 public:
  // Opens or creates the data folder, loads every collection's segments and replays what they lack. Errors as
  // OpenStore.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineOptions& options);

  // Collections. A name is 1 .. 128 of [A-Za-z0-9._-]; wherever a collection is named, an alias does too (not in Drop).
  // Calls with a request_id are idempotent: the same id with the same content again gives the first answer;
  // with another content ALREADY_EXISTS.
  virtual absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) = 0;
  virtual absl::StatusOr<std::vector<CollectionStatus>> ListCollections() = 0;
  // Those that are in the store and were refused at the start, by name, and why. Every call about them gets that
  // answer.
  virtual std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const { return {}; }
  virtual absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) = 0;
  // The collection that a name or an alias stands for; nullopt: none. A collection that the start refused has its name.
  virtual std::optional<std::string> ResolveName(const std::string& name) const { return name; }
  virtual absl::Status DropCollection(const std::string& name, const std::string& request_id) = 0;
  // An empty `collection` removes the alias (NOT_FOUND when there is none).
  virtual absl::Status SetAlias(const std::string& alias, const std::string& collection,
                                const std::string& request_id) = 0;
  // Takes effect for upserts that begin after it.
  virtual absl::StatusOr<CollectionStatus> UpdateCollection(const UpdateCollectionCall& call) = 0;
  // What `index` leaves open stays as it is. With `wait`, DEADLINE_EXCEEDED and CANCELLED mean that the caller gave up:
  // the rebuilding goes on.
  virtual absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                                   const std::string& request_id, const CallContext& context) = 0;
  // Fields are indexed in the background while everything serves. What is there already is no change. ALREADY_EXISTS
  // for a path that has an index of another type; NOT_FOUND for one to drop that has none lists those there are. `wait`
  // as in Rebuild.
  virtual absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context) = 0;

  // Retrieval.
  virtual absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) = 0;
  virtual absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                             Durability durability, const CallContext& context) = 0;
  // One batch, which is deleted as a whole or not at all. Items that are written after they were read stay, and a later
  // call of the chain does not come back to them. A chain of calls deletes every item that passes and that nobody
  // writes meanwhile.
  virtual absl::StatusOr<DeleteByFilterAnswer> DeleteByFilter(const DeleteByFilterCall& call,
                                                              const CallContext& context) = 0;
  // Changes payloads, and nothing else of the items: vectors, embeddings, inputs and rows of indexes stay. One batch,
  // which happens as a whole or not at all, even if the process is killed. The change is made on the payload that the
  // item has when it is written, so that no concurrent change is lost, and a changed item gets the batch's sequence.
  // With a filter, an item that is written meanwhile is changed if it passes then; where the filter asks for
  // $uncertainty, it is left as it is. Chains of calls as those of DeleteByFilter.
  virtual absl::StatusOr<ChangePayloadAnswer> ChangePayload(const ChangePayloadCall& call,
                                                            const CallContext& context) = 0;
  virtual absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids,
                                        uint32_t generation, const ItemParts& parts, const CallContext& context) = 0;
  // The raw input of an item. NOT_FOUND without the item, FAILED_PRECONDITION when its input was not kept.
  virtual absl::StatusOr<RawInput> GetInput(const std::string& collection, const ItemId& id) = 0;
  virtual absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) = 0;
  // One page; `page_size` 0: 1,000 or limits.page_items_max. Pages of a chain see each item that stays put just once.
  // Under an alias, a token goes on in the collection that it is of, wherever the alias points now.
  virtual absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                            int64_t page_size, const std::string& token, const ItemParts& parts,
                                            const CallContext& context) = 0;
  // One page in the order of a payload field, by a payload index of it: FAILED_PRECONDITION names a field that has none
  // of texts, numbers or times, UNAVAILABLE one whose index is being built. Items of one value come in the order in
  // which they were written. An item with several values stands at the first of them in the order. Values that the
  // index cannot hold are left out. `page_size`, tokens and aliases as in Scroll.
  virtual absl::StatusOr<ScrollPage> ScrollOrdered(const std::string& collection, const OrderBy& order,
                                                   const std::optional<FilterNode>& filter, int64_t page_size,
                                                   const std::string& token, const ItemParts& parts,
                                                   const CallContext& context) = 0;
  // The token with which Scroll begins at an item, itself included, whether there is such an item or not.
  virtual absl::StatusOr<std::string> ScrollTokenAt(const std::string& /*collection*/, const ItemId& /*id*/) {
    return std::string();
  }
  virtual absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                            const CallContext& context) = 0;
  // Exact counts of the items by the values of a field. Numbers count as equal where filters call them equal; integers
  // beyond 2^63 - 1 count as doubles. RESOURCE_EXHAUSTED above kFacetValuesMax different values.
  virtual absl::StatusOr<FacetAnswer> Facet(const FacetCall& call, const CallContext& context) = 0;

  // Seen from outside.
  // A share of the live searches, as EngineOptions::live_recall says, is repeated exactly in the background.
  virtual absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string& collection) = 0;
  virtual LiveSamplerStatus LiveSampling() = 0;
  // Copies of everything, for as long as the engine lives.
  virtual Snapshots& snapshots() = 0;
  // Ends every process that embeds for a call. Those calls answer UNAVAILABLE, and so do all later ones.
  virtual void StopEncoders() {}
  virtual StoreStats StoreStatistics() = 0;
  virtual const EngineOptions& options() const = 0;
};

}  // namespace lightcone::server

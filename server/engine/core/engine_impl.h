// The engine over one data folder: a facade that forwards each call to its use case, and the owner of all of them.
// Threads: as Engine.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/api/engine.h"
#include "server/engine/backfill/embed_backfills.h"
#include "server/engine/core/collection_calls.h"
#include "server/engine/core/maintenance.h"
#include "server/engine/core/rollout_facade.h"
#include "server/engine/core/snapshot_calls.h"
#include "server/engine/search/facet_calls.h"
#include "server/engine/search/filter_deletes.h"
#include "server/engine/search/live_recall.h"
#include "server/engine/search/ordered_scroll.h"
#include "server/engine/search/payload_calls.h"
#include "server/engine/search/read_calls.h"
#include "server/engine/search/search_calls.h"
#include "server/engine/services/context.h"
#include "server/engine/write/expiry_sweeps.h"
#include "server/engine/write/write_calls.h"

namespace lightcone::server {

class EngineImpl final : public RolloutFacade {
 public:
  EngineImpl(const EngineOptions& options, std::shared_ptr<Store> store);
  ~EngineImpl() override;

  // Reads the catalog, ends what a crash interrupted, opens the collections side by side.
  absl::Status Load();

  absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall& call) override {
    return collections_.Create(call);
  }
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override { return collections_.List(); }
  std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const override {
    return context_.catalog.Refused();
  }
  absl::StatusOr<CollectionStatus> GetCollection(const std::string& name) override { return collections_.Get(name); }
  std::optional<std::string> ResolveName(const std::string& name) const override {
    return context_.catalog.ResolveName(name);
  }
  absl::Status DropCollection(const std::string& name, const std::string& request_id) override {
    return collections_.Drop(name, request_id);
  }
  absl::Status SetAlias(const std::string& alias, const std::string& collection,
                        const std::string& request_id) override {
    return collections_.SetAlias(alias, collection, request_id);
  }
  absl::StatusOr<CollectionStatus> UpdateCollection(const UpdateCollectionCall& call) override {
    return collections_.Update(call);
  }
  absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                           const std::string& request_id, const CallContext& context) override {
    return collections_.Rebuild(collection, index, wait, request_id, context);
  }
  absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context) override {
    return collections_.IndexPayload(call, context);
  }

  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context) override {
    return writes_.Upsert(std::move(batch), context);
  }
  absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                     Durability durability, const CallContext& context) override {
    return writes_.Delete(collection, ids, durability, context);
  }
  absl::StatusOr<DeleteByFilterAnswer> DeleteByFilter(const DeleteByFilterCall& call,
                                                      const CallContext& context) override {
    return filter_deletes_.DeleteByFilter(call, context);
  }
  absl::StatusOr<ChangePayloadAnswer> ChangePayload(const ChangePayloadCall& call,
                                                    const CallContext& context) override {
    return payload_changes_.ChangePayload(call, context);
  }
  absl::StatusOr<GetAnswer> Get(const std::string& collection, const std::vector<ItemId>& ids, uint32_t generation,
                                const ItemParts& parts, const CallContext& context) override {
    return reads_.Get(collection, ids, generation, parts, context);
  }
  absl::StatusOr<RawInput> GetInput(const std::string& collection, const ItemId& id) override {
    return reads_.GetInput(collection, id);
  }
  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context) override {
    return searches_.Search(call, context);
  }
  absl::StatusOr<std::string> ScrollTokenAt(const std::string& collection, const ItemId& id) override {
    return reads_.ScrollTokenAt(collection, id);
  }
  absl::StatusOr<ScrollPage> Scroll(const std::string& collection, const std::optional<FilterNode>& filter,
                                    int64_t page_size, const std::string& token, const ItemParts& parts,
                                    const CallContext& context) override {
    return reads_.Scroll(collection, filter, page_size, token, parts, context);
  }
  absl::StatusOr<ScrollPage> ScrollOrdered(const std::string& collection, const OrderBy& order,
                                           const std::optional<FilterNode>& filter, int64_t page_size,
                                           const std::string& token, const ItemParts& parts,
                                           const CallContext& context) override {
    return ordered_scrolls_.ScrollOrdered(collection, order, filter, page_size, token, parts, context);
  }
  absl::StatusOr<FacetAnswer> Facet(const FacetCall& call, const CallContext& context) override {
    return facets_.Facet(call, context);
  }
  absl::StatusOr<CountAnswer> Count(const std::string& collection, const std::optional<FilterNode>& filter,
                                    const CallContext& context) override {
    return reads_.Count(collection, filter, context);
  }

  absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string& collection) override {
    return live_recall_.Get(collection);
  }
  LiveSamplerStatus LiveSampling() override { return live_recall_.sampler().Status(); }
  Snapshots& snapshots() override { return snapshots_; }
  void StopEncoders() override;
  StoreStats StoreStatistics() override { return context_.store->Stats(); }
  const EngineOptions& options() const override { return context_.options; }

  LiveSampler& live_sampler() { return live_recall_.sampler(); }

 private:
  // The end comes in this order: the destructor halts the jobs, whose runners use everything else. Then the members end
  // from the last to the first, threads before what they use, the live sampler's thread the last of them. The base with
  // the context ends after all members.
  LiveRecallCalls live_recall_{context_};
  CollectionCalls collections_{context_};
  WriteCalls writes_{context_};
  FilterDeletes filter_deletes_{context_};
  PayloadCalls payload_changes_{context_};
  ReadCalls reads_{context_};
  OrderedScrolls ordered_scrolls_{context_};
  FacetCalls facets_{context_};
  SearchCalls searches_{context_, live_recall_, writes_};
  Maintenance maintenance_{context_};
  ExpirySweeps expiry_sweeps_{context_};
  EmbedBackfills embed_backfills_;
  SnapshotCalls snapshots_{context_, maintenance_, backfills_};
};

}  // namespace lightcone::server

// Search: binds the queries of a call to vectors, runs it, and lets a canary serve its share of the keys.
// Threads: every method is safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/search/live_recall.h"
#include "server/engine/search/refresh.h"
#include "server/engine/search/search.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class SearchCalls {
 public:
  // All must outlive it.
  SearchCalls(Context& context, LiveRecallCalls& live_recall, WriteCalls& writes)
      : context_(context), live_recall_(live_recall), refreshes_(context, writes) {}

  absl::StatusOr<SearchAnswer> Search(const SearchCall& call, const CallContext& context);

 private:
  absl::StatusOr<SearchAnswer> SearchServed(const ServedPtr& served, const SearchCall& call,
                                            const CallContext& context);
  // Embeds candidates of the call anew (SearchCall::refresh_top).
  absl::StatusOr<SearchRefresh> Refresh(const ServedPtr& served, const CollectionState& state,
                                        const GenerationRecord& generation, const SearchCall& call,
                                        const Filter* filter, const std::vector<BoundVector>& queries,
                                        const CallContext& context);
  // By the active generation or the canary, as the call's key says.
  absl::StatusOr<SearchAnswer> SearchByKey(const ServedPtr& served, const SearchCall& call, const CallContext& context);

  Context& context_;
  LiveRecallCalls& live_recall_;
  RefreshCalls refreshes_;
};

}  // namespace lightcone::server

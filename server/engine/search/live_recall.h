// Live recall: one query of a sampled search is repeated on one view of the index, as it was asked and exactly.
// Threads: every method is safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/live/live_sampler.h"
#include "server/engine/search/search.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

class LiveRecallCalls {
 public:
  // May use a share of as many cores as the context has threads. `context` must outlive it.
  explicit LiveRecallCalls(Context& context)
      : context_(context), sampler_(context.options.live_recall, context.pool.threads()) {}

  // Has a query of an answered search repeated, now and then. The search must not be exact, which finds everything, nor
  // be an evaluation.
  void Sample(const ServedPtr& served, const SearchCall& call, const std::vector<BoundVector>& queries,
              const SearchAnswer& answer);
  absl::StatusOr<LiveRecallStatus> Get(const std::string& collection) const;
  LiveSampler& sampler() { return sampler_; }

 private:
  void Repeat(const Served& served, const SearchCall& call, const BoundVector& query, const CallContext& context);

  Context& context_;
  LiveSampler sampler_;
};

}  // namespace lightcone::server

// Searches that embed their first candidates anew (SearchCall::refresh_top): what older generations embedded gets an
// embedding by the query's generation before it is ranked, and keeps it. The lazy backfill begins where searches look.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/backfill/pace.h"
#include "server/engine/services/context.h"
#include "server/engine/write/write_calls.h"

namespace lightcone::server {

// INVALID_ARGUMENT: `refresh_top` beyond its range, or beside what it cannot be beside. PERMISSION_DENIED: the caller
// may not write. FAILED_PRECONDITION: the generation has no encoder, or the server's budget is 0.
absl::Status CheckRefresh(const SearchCall& call, const std::string& collection, const GenerationRecord& generation,
                          const EngineOptions& options, const CallContext& context);

// The search whose hits are the candidates of `call`.
SearchCall CandidateSearch(const SearchCall& call);

class RefreshCalls {
 public:
  // Both must outlive it.
  RefreshCalls(Context& context, WriteCalls& writes) : context_(context), writes_(writes) {}

  // Embeds the hits of `found` that older generations embedded, best first over all queries, and waits until views show
  // them. `began`: when the search for `found` began, whose repetition the deadline has to leave time for. An encoder
  // that fails is no error. A few searches do so at once: the candidates of others are `over_budget`. Errors of the
  // store, and CANCELLED.
  absl::StatusOr<SearchRefresh> Refresh(const ServedPtr& served, const GenerationRecord& generation,
                                        const SearchAnswer& found, absl::Time began, const CallContext& context);

 private:
  // An item to embed.
  struct Due {
    ItemId id;
    uint64_t internal_id = 0;
    uint64_t sequence = 0;
  };
  // A stored input, and whose it is.
  struct Input {
    RawInput content;
    const Due* item = nullptr;
  };
  struct Run;

  // The candidates that can be embedded, in order. Counts all of them.
  absl::StatusOr<std::vector<Due>> FindDue(const Run& run, const SearchAnswer& found, SearchRefresh* refresh) const;
  // The inputs of the first of `due`, as many as their bytes allow; returns how many items that are. Counts those that
  // have none.
  absl::StatusOr<size_t> ReadInputs(const Run& run, std::span<const Due> due, std::vector<Input>* inputs,
                                    SearchRefresh* refresh) const;
  // Counts each input. An error when none of them got a vector, or of the write.
  absl::Status EmbedAndWrite(Run& run, std::span<const Input> inputs, SearchRefresh* refresh);
  // Embeds what is due, piece by piece, and counts what is left. CANCELLED; errors of the store.
  absl::Status EmbedDue(Run& run, std::span<const Due> due, const CallContext& context, SearchRefresh* refresh);
  // Items that are embedded in one go: as many as the time left allows, by the encoder's pace; 0: there is not time for
  // one.
  size_t NextPiece(const Run& run, size_t left, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  void NotePiece(const Run& run, size_t items, absl::Duration took, bool late) ABSL_LOCKS_EXCLUDED(mu_);
  int64_t TakeBudget(int64_t most);

  Context& context_;
  WriteCalls& writes_;
  absl::Mutex mu_;
  Pace pace_ ABSL_GUARDED_BY(mu_);
  // Seconds of the last piece for each of its items, by collection and generation.
  std::map<std::pair<uint32_t, uint32_t>, double> seconds_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> searches_{0};  // searches that embed now, or would
};

}  // namespace lightcone::server

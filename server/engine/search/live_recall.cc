#include "server/engine/search/live_recall.h"

#include <utility>

#include "base/exceptions.h"
#include "base/status.h"
#include "server/engine/live/live_figures.h"

namespace lightcone::server {
namespace {

constexpr double kNarrow = 0.1;  // share of items that pass a filter

}  // namespace

void LiveRecallCalls::Sample(const ServedPtr& served, const SearchCall& call, const std::vector<BoundVector>& queries,
                             const SearchAnswer& answer) {
  // One that was cut off by its deadline tells nothing about the others.
  if (answer.partial || !sampler_.Chosen()) return;
  size_t at = 0;
  while (at < answer.results.size() && !answer.results[at].status.ok()) ++at;
  if (at == answer.results.size()) return;
  SearchCall again = call;
  again.queries.clear();
  again.generation = answer.serving_generation;
  again.with_payload = again.with_vector = false;
  again.payload = {};
  again.k += std::exchange(again.offset, 0);
  // Not holding the collection: it may be dropped while this waits.
  sampler_.Offer([this, weak = std::weak_ptr<const Served>(served), again = std::move(again),
                  query = queries[at]](const CallContext& context) {
    const ServedPtr held = weak.lock();
    if (held == nullptr || held->collection->dropped()) return;
    try {
      Repeat(*held, again, query, context);
    } catch (...) {
      held->live->RecordFailure();
    }
  });
}

void LiveRecallCalls::Repeat(const Served& served, const SearchCall& call, const BoundVector& query,
                             const CallContext& context) {
  Collection& collection = *served.collection;
  const auto state = collection.state();
  std::optional<Filter> filter;
  if (call.filter) {
    absl::StatusOr<Filter> made = Filter::Make(*call.filter);
    if (!made.ok()) return served.live->RecordFailure();
    filter = *std::move(made);
  }
  // The live answer itself is not compared: what was written meanwhile would look like a loss.
  const PinnedView view = collection.Pin();
  std::vector<absl::StatusOr<SearchAnswer>> answers;
  for (const bool exact : {false, true}) {
    SearchCall asked = call;
    asked.exact = exact;
    if (exact) asked.ef = asked.nprobe = 0, asked.target_recall = 0;
    // One query runs in this thread alone, so that its cost is this thread's.
    SearchRun run(&collection, *state, call.generation, asked, filter ? &*filter : nullptr, &context_.pool, context,
                  view.Again());
    run.UseBreadths(&served.live->breadths());
    run.UseSamples(served.samples.get());
    run.CollectProfile();
    answers.push_back(run.Run({query}));
    if (answers.back().ok() && answers.back()->results[0].status.ok() && !answers.back()->partial) {
      const auto& legs = answers.back()->profile->legs;
      // An exact answer of these reads every row, which live searches would feel.
      if (std::any_of(legs.begin(), legs.end(), [](const auto& leg) { return leg.conditioned; })) return;
      continue;
    }
    // A bound that can no longer be told is no failure of a search.
    const bool refused = answers.back().ok() && absl::IsFailedPrecondition(answers.back()->results[0].status);
    if (!context_.ending.load() && !refused) served.live->RecordFailure();
    return;
  }
  const std::string filter_class = !filter ? "none" : answers[0]->filter_share < kNarrow ? "narrow" : "broad";
  const bool names_no_breadth = call.ef == 0 && call.nprobe == 0 && call.target_recall == 0;
  served.live->Record(call.generation, filter_class, answers[0]->results[0].hits, answers[1]->results[0].hits,
                      names_no_breadth);
}

absl::StatusOr<LiveRecallStatus> LiveRecallCalls::Get(const std::string& collection) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(collection));
  return served->live->Status();
}

}  // namespace lightcone::server

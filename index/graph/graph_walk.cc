#include "index/graph/graph_walk.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/prefetch.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
constexpr int64_t kEvaluationsBetweenChecks = 4096;
constexpr int kLinksAnEvaluation = 8;  // links whose filter tests cost as much as one score
// A share of a row's links, one in so many, with which the rows that pass are a graph of their own.
constexpr size_t kEnoughOfLinks = 4;

// Bytes of a row that are asked for as soon as it is known; of longer ones the kernel asks for the rest.
constexpr size_t kRowPrefetchMax = 512;

void PrefetchLinks(const Graph& graph, uint32_t row) {
  const std::span<const int32_t> links = graph.Links(row, 0);
  Prefetch(links.data(), links.size_bytes());
}

BeamRow EntryOf(ScoredRow row, bool accepted) {
  return {.score = row.score, .row = row.row, .accepted = accepted ? 1u : 0u, .expanded = 0};
}

class Walk {
 public:
  Walk(const Graph& graph, RowScorer score)
      : graph_(graph),
        score_(score),
        row_prefetch_(std::min(score.bytes.stride, kRowPrefetchMax)),
        ids_(static_cast<size_t>(2 * graph.width_max())),
        scores_(ids_.size()) {}

  // Greedy descent to the base layer, past `leave_out` unless the graph is entered there.
  ScoredRow Descend(int64_t leave_out = -1) {
    ids_[0] = graph_.entry();
    Score(1);
    ScoredRow nearest{scores_[0], graph_.entry()};
    for (int layer = graph_.layers() - 1; layer >= 1; --layer) {
      for (bool moved = true; moved;) {
        moved = false;
        size_t n = 0;
        for (const int32_t link : graph_.Links(nearest.row, layer)) {
          if (!graph_.IsRow(link)) break;
          if (link != leave_out) ids_[n++] = static_cast<uint32_t>(link);
        }
        Score(n);
        for (size_t i = 0; i < n; ++i) {
          if (scores_[i] > nearest.score) {
            nearest = {scores_[i], ids_[i]};
            moved = true;
          }
        }
      }
    }
    return nearest;
  }

  // Where a walk on the base layer begins: where the upper layers lead, and at the graph's entries.
  std::vector<ScoredRow> Starts(int64_t leave_out = -1) {
    std::vector<ScoredRow> starts = {Descend(leave_out)};
    std::vector<uint32_t> entries;
    for (const uint32_t entry : graph_.entries()) {
      if (entry != starts[0].row && int64_t{entry} != leave_out) entries.push_back(entry);
    }
    ScoreThese(entries, &starts);
    return starts;
  }

  // Collects the links of `row` on the base layer that were not visited, and scores them. Returns their number.
  // Links to copies are left to FollowCopies.
  template <typename Marks>
  size_t Expand(ScoredRow row, Marks& visited) {
    const size_t n = Collect(row, visited);
    Score(n);
    return n;
  }

  // Expand's first half, which asks for what the second reads: Score(n).
  template <typename Marks>
  size_t Collect(ScoredRow row, Marks& visited) {
    size_t n = 0;
    for (const int32_t link : graph_.Links(row.row, 0)) {
      if (!graph_.IsRow(link)) break;
      if (HasCopiesFrom(row, link)) break;
      ids_[n] = static_cast<uint32_t>(link);
      n += visited.TestAndSet(static_cast<uint32_t>(link)) ? 0 : 1;
    }
    AskForRows(n);
    return n;
  }

  // The same of the links that pass; where they are few, new ones or not, of links of those that do not.
  size_t ExpandPassing(ScoredRow row, Visited& visited, Visited& failed, absl::FunctionRef<bool(uint32_t)> pass) {
    const size_t enough = static_cast<size_t>(graph_.base_width());
    work_ += graph_.base_width() / kLinksAnEvaluation;
    size_t n = 0, passing = 0;
    bridges_.clear();
    for (const int32_t link : graph_.Links(row.row, 0)) {
      if (!graph_.IsRow(link)) break;
      if (HasCopiesFrom(row, link)) break;
      const uint32_t to = static_cast<uint32_t>(link);
      if (Passing(to, visited, failed, pass)) ids_[n++] = to;
      if (!failed.Test(to)) {
        ++passing;
      } else if (!visited.Test(to)) {
        bridges_.push_back(to);
      }
    }
    if (passing * kEnoughOfLinks >= enough) bridges_.clear();
    for (const uint32_t bridge : bridges_) PrefetchLinks(graph_, bridge);
    for (size_t i = 0; i < bridges_.size() && n < enough; ++i) {
      visited.TestAndSet(bridges_[i]);
      work_ += graph_.base_width() / kLinksAnEvaluation;
      for (const int32_t link : graph_.Links(bridges_[i], 0)) {
        if (!graph_.IsRow(link)) break;
        const uint32_t to = static_cast<uint32_t>(link);
        if (Passing(to, visited, failed, pass)) ids_[n++] = to;
      }
    }
    AskForRows(n);
    Score(n);
    return n;
  }

  // Copies of rows that were expanded, nearest first: in the beam they would leave no room for rows that lead on.
  //   wanted(score)  whether a row of that score is one of the best as yet; the first that is not ends it
  //   visit(scored)  a copy that was not visited
  //   stop()         asked after every row that has copies
  template <typename Marks, typename Wanted, typename Visit, typename Stop>
  void FollowCopies(Marks& visited, const Wanted& wanted, const Visit& visit, const Stop& stop) {
    if (with_copies_.empty()) return;
    absl::flat_hash_set<uint32_t> met;
    for (const ScoredRow& row : with_copies_) met.insert(row.row);
    std::make_heap(with_copies_.begin(), with_copies_.end(), Worse);
    while (!with_copies_.empty() && wanted(with_copies_.front().score)) {
      const int32_t row = static_cast<int32_t>(with_copies_.front().row);
      std::pop_heap(with_copies_.begin(), with_copies_.end(), Worse);
      with_copies_.pop_back();
      const std::span<const int32_t> links = graph_.Links(static_cast<uint32_t>(row), 0);
      size_t n = 0;
      for (auto link = std::find(links.begin(), links.end(), row); link != links.end() && graph_.IsRow(*link); ++link) {
        if (met.insert(static_cast<uint32_t>(*link)).second) ids_[n++] = static_cast<uint32_t>(*link);
      }
      Score(n);
      for (size_t i = 0; i < n; ++i) {
        with_copies_.push_back({scores_[i], ids_[i]});
        std::push_heap(with_copies_.begin(), with_copies_.end(), Worse);
        if (!visited.TestAndSet(ids_[i])) visit(ScoredRow{scores_[i], ids_[i]});
      }
      if (stop()) return;
    }
  }

  // Rows given: up to as many as two rows have links.
  void ScoreThese(std::span<const uint32_t> rows, std::vector<ScoredRow>* scored) {
    for (size_t begin = 0; begin < rows.size(); begin += ids_.size()) {
      const size_t n = std::min(ids_.size(), rows.size() - begin);
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(begin), n, ids_.begin());
      Score(n);
      for (size_t i = 0; i < n; ++i) scored->push_back({scores_[i], ids_[i]});
    }
  }

  // The rows collected.
  void Score(size_t n) {
    evaluations_ += static_cast<int64_t>(n);
    work_ += static_cast<int64_t>(n);
    score_.score(ids_.data(), n, scores_.data());
    // What damaged codes may give compares with nothing.
    for (size_t i = 0; i < n; ++i) scores_[i] = std::isnan(scores_[i]) ? kNoScore : scores_[i];
  }

  uint32_t id(size_t i) const { return ids_[i]; }
  float score(size_t i) const { return scores_[i]; }
  int64_t evaluations() const { return evaluations_; }
  int64_t work() const { return work_; }  // evaluations, and links that were only looked at

 private:
  void AskForRows(size_t n) const {
    const char* const rows = static_cast<const char*>(score_.bytes.first);
    for (size_t i = 0; i < n; ++i) Prefetch(rows + ids_[i] * score_.bytes.stride, row_prefetch_);
  }

  // Whether `link` of `row` leads to itself: behind it come its copies (graph.h).
  bool HasCopiesFrom(ScoredRow row, int32_t link) {
    if (static_cast<uint32_t>(link) != row.row) return false;
    with_copies_.push_back(row);
    return true;
  }

  // Whether a row passes and is new; it is visited then. No row is asked about twice.
  static bool Passing(uint32_t row, Visited& visited, Visited& failed, absl::FunctionRef<bool(uint32_t)> pass) {
    if (visited.Test(row) || failed.Test(row)) return false;
    (pass(row) ? visited : failed).TestAndSet(row);
    return visited.Test(row);
  }

  const Graph& graph_;
  const RowScorer score_;
  const size_t row_prefetch_;  // bytes
  std::vector<uint32_t> ids_;
  std::vector<float> scores_;
  std::vector<uint32_t> bridges_;
  std::vector<ScoredRow> with_copies_;  // expanded rows that have copies
  int64_t evaluations_ = 0, work_ = 0;
};

// No walk begins before another one of its thread ends.
Visited& MarksOfThread() {
  thread_local Visited marks;
  return marks;
}

size_t BreadthOf(const WalkLimits& limits) { return static_cast<size_t>(std::max(1, limits.ef)); }

// Runs a beam search that `expand`s rows, then goes to their copies, and tells the caller's two limits from its end.
template <typename Beam, typename Accept, typename Expand>
absl::StatusOr<WalkResult> Run(const Graph& graph, Walk& walk, const WalkLimits& limits,
                               std::span<const ScoredRow> starts, Visited& visited, const Accept& accept,
                               absl::FunctionRef<bool(uint32_t)> accept_copy,
                               absl::FunctionRef<absl::Status()> interrupted, const Expand& expand) {
  WalkResult result;
  absl::Status status;
  int64_t check_at = kEvaluationsBetweenChecks;
  const auto stop = [&] {
    result.gave_up = walk.work() > limits.evaluations_max;
    if (result.gave_up || walk.work() < check_at) return result.gave_up;
    check_at += kEvaluationsBetweenChecks;
    status = interrupted();
    return !status.ok();
  };
  Beam beam(BreadthOf(limits));
  const auto visit = [&](ScoredRow row) {
    if (beam.Wants(row.score) && beam.Add(EntryOf(row, accept(row.row)))) PrefetchLinks(graph, row.row);
  };
  for (const ScoredRow& start : starts) visit(start);
  bool stopped = false;
  for (BeamRow next; !stopped && beam.Next(&next);) {
    BeamRow after;
    if (beam.Peek(&after)) PrefetchLinks(graph, after.row);
    const size_t n = expand(ScoredRow{next.score, next.row});
    for (size_t i = 0; i < n; ++i) visit({walk.score(i), walk.id(i)});
    stopped = stop();
  }
  if (!stopped) {
    walk.FollowCopies(
        visited, [&](float score) { return beam.Wants(score); },
        [&](ScoredRow row) {
          if (beam.Wants(row.score) && accept_copy(row.row)) beam.Add(EntryOf(row, true));
        },
        stop);
  }
  LC_RETURN_IF_ERROR(status);
  result.rows.reserve(std::min(BreadthOf(limits), kNarrowBeam));
  beam.ForEach([&](const BeamRow& entry) {
    if (entry.accepted != 0) result.rows.push_back({entry.score, entry.row});
  });
  result.evaluations = walk.evaluations();
  return result;
}

// Breadth with which a walk finds its way among rows that may all turn out too far: narrower ones end in a place that
// has nothing nearer beside it more often than the rows' own neighbours are missed.
constexpr size_t kLeadMin = 10;
// The same for inner products, unless a search is narrower: rows of the greatest products lie apart from the query and
// from one another, and with 10 a collection of many segments lost .012 of recall to one of three
// (docs/benchmarks/search.md).
constexpr size_t kLeadMinOfProducts = 40;
constexpr int64_t kSharedMarksMax = 16 << 20;  // rows: a byte each, in every thread that searches

// Visited rows of one of several walks: its part of marks that all of them share, or a set, where the graphs are so
// large together that marks for all of their rows would take too much memory in every thread.
class SharedMarks {
 public:
  SharedMarks() = default;  // a set of its own
  SharedMarks(Visited* all, uint32_t begin) : all_(all), begin_(begin) {}
  bool TestAndSet(uint32_t row) { return all_ != nullptr ? all_->TestAndSet(begin_ + row) : !rows_.insert(row).second; }

 private:
  Visited* all_ = nullptr;
  uint32_t begin_ = 0;
  absl::flat_hash_set<uint32_t> rows_;
};

// One of the walks. Beam: of GraphRow.
template <typename Beam>
class SharedWalk {
 public:
  // It begins to find its way, with a breadth of `lead`.
  SharedWalk(const WalkTask& task, uint32_t number, size_t lead, SharedMarks visited,
             int64_t evaluations_between_checks)
      : task_(task),
        number_(number),
        visited_(std::move(visited)),
        walk_(*task.graph, task_.score),
        evaluations_between_checks_(evaluations_between_checks),
        beam_(lead) {
    for (const ScoredRow& start : walk_.Starts()) {
      if (!visited_.TestAndSet(start.row)) Meet(start);
    }
  }

  // A step on the way, in two halves, so that what one walk waits for comes while others take theirs. False: it has
  // found its way, the nearest row that is not expanded is none of the best, or it has given up.
  bool BeginStep() {
    GraphRow next, after;
    if (gave_up_ || !beam_.Next(&next)) return false;
    if (beam_.Peek(&after)) PrefetchLinksOf(after.row);
    collected_ = walk_.Collect({next.score, next.row}, visited_);
    return true;
  }
  absl::Status EndStep(absl::FunctionRef<absl::Status()> interrupted) {
    walk_.Score(collected_);
    for (size_t i = 0; i < collected_; ++i) Meet({walk_.score(i), walk_.id(i)});
    return Look(interrupted);
  }

  // What led it on its way, to the beam that all walks share from then on.
  void OfferMet(Beam& beam) const {
    if (gave_up_) return;
    const auto offer = [&beam](const GraphRow& entry) {
      if (beam.Wants(entry.score)) beam.Add(entry);
    };
    beam_.ForEach(offer);
    std::for_each(left_.begin(), left_.end(), offer);
  }
  // And what else it met: after what led all of them, for hardly any of it is wanted then.
  void OfferSpare(Beam& beam) const {
    if (gave_up_) return;
    for (const ScoredRow& row : spare_) Offer(row, beam);
  }

  // Expands an entry of that beam that belongs to its graph.
  absl::Status GoOn(const GraphRow& entry, Beam& beam, absl::FunctionRef<absl::Status()> interrupted) {
    if (gave_up_) return absl::OkStatus();
    const size_t n = walk_.Expand({entry.score, entry.row}, visited_);
    for (size_t i = 0; i < n; ++i) Offer({walk_.score(i), walk_.id(i)}, beam);
    return Look(interrupted);
  }

  absl::Status FollowCopies(Beam& beam, absl::FunctionRef<absl::Status()> interrupted) {
    absl::Status status;
    if (gave_up_) return status;
    walk_.FollowCopies(
        visited_, [&](float score) { return beam.Wants(score); },
        [&](ScoredRow row) {
          if (beam.Wants(row.score) && Accepts(row.row)) beam.Add(GraphRow{EntryOf(row, true), number_});
        },
        [&] {
          status = Look(interrupted);
          return gave_up_ || !status.ok();
        });
    return status;
  }

  void PrefetchLinksOf(uint32_t row) const { PrefetchLinks(*task_.graph, row); }

  bool gave_up() const { return gave_up_; }
  int64_t evaluations() const { return walk_.evaluations(); }

 private:
  bool Accepts(uint32_t row) const { return !task_.accept || task_.accept(row); }

  void Offer(ScoredRow row, Beam& beam) const {
    if (beam.Wants(row.score) && beam.Add(GraphRow{EntryOf(row, Accepts(row.row)), number_})) PrefetchLinksOf(row.row);
  }

  // On its way.
  void Meet(ScoredRow row) {
    if (!beam_.Wants(row.score)) {
      spare_.push_back(row);
    } else if (beam_.Add(GraphRow{EntryOf(row, Accepts(row.row)), number_},
                         [this](const GraphRow& out) { left_.push_back(out); })) {
      PrefetchLinksOf(row.row);
    }
  }

  // At the walk's limits.
  absl::Status Look(absl::FunctionRef<absl::Status()> interrupted) {
    gave_up_ = walk_.evaluations() > task_.limits.evaluations_max;
    if (walk_.evaluations() < check_at_) return absl::OkStatus();
    check_at_ += evaluations_between_checks_;
    return interrupted();
  }

  const WalkTask& task_;
  const uint32_t number_;
  SharedMarks visited_;
  Walk walk_;
  bool gave_up_ = false;
  const int64_t evaluations_between_checks_;
  int64_t check_at_ = evaluations_between_checks_;
  Beam beam_;                     // queue of the way to the query
  size_t collected_ = 0;          // rows that the current step collected
  std::vector<GraphRow> left_;    // rows that left beam_
  std::vector<ScoredRow> spare_;  // rows that beam_ did not want: neither expanded nor asked about
};

template <typename Accept>
absl::StatusOr<WalkResult> WalkFrom(const Graph& graph, RowScorer score, const WalkLimits& limits, const Accept& accept,
                                    absl::FunctionRef<absl::Status()> interrupted) {
  Visited& visited = MarksOfThread();
  visited.Begin(static_cast<size_t>(graph.rows()));
  Walk walk(graph, score);
  const std::vector<ScoredRow> starts = walk.Starts(limits.leave_out);
  for (const ScoredRow& start : starts) visited.TestAndSet(start.row);
  if (limits.leave_out >= 0) visited.TestAndSet(static_cast<uint32_t>(limits.leave_out));
  const auto expand = [&](ScoredRow row) { return walk.Expand(row, visited); };
  return BreadthOf(limits) <= kNarrowBeam
             ? Run<ListBeam<>>(graph, walk, limits, starts, visited, accept, accept, interrupted, expand)
             : Run<HeapBeam<>>(graph, walk, limits, starts, visited, accept, accept, interrupted, expand);
}

// Two walks or more, with the beam that they share.
template <typename Beam>
absl::StatusOr<std::vector<WalkResult>> ShareBeam(std::span<const WalkTask> tasks, size_t breadth,
                                                  absl::FunctionRef<absl::Status()> interrupted) {
  std::vector<WalkResult> results;
  double weight = 0;
  for (const WalkTask& task : tasks) weight += task.weight;
  Visited& visited = MarksOfThread();
  std::vector<SharedMarks> marks;
  uint32_t marked = 0;
  for (const WalkTask& task : tasks) {
    const bool fits = task.graph->rows() <= kSharedMarksMax - marked;
    marks.push_back(fits ? SharedMarks(&visited, marked) : SharedMarks());
    if (fits) marked += static_cast<uint32_t>(task.graph->rows());
  }
  visited.Begin(marked);
  const int64_t between_checks = std::max<int64_t>(1, kEvaluationsBetweenChecks / static_cast<int64_t>(tasks.size()));
  std::deque<SharedWalk<Beam>> walks;
  Beam beam(breadth);
  const Metric metric = tasks[0].score.query.item_space().metric;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const double share = weight > 0 ? tasks[i].weight / weight : 1;
    const size_t lead_min = metric == Metric::kInnerProduct
                                ? std::clamp(BreadthOf(tasks[i].limits), kLeadMin, kLeadMinOfProducts)
                                : kLeadMin;
    const size_t lead = std::max(lead_min, static_cast<size_t>(std::ceil(share * static_cast<double>(breadth))));
    walks.emplace_back(tasks[i], static_cast<uint32_t>(i), lead, std::move(marks[i]), between_checks);
  }
  std::vector<SharedWalk<Beam>*> on_their_way;
  do {
    on_their_way.clear();
    for (SharedWalk<Beam>& walk : walks) {
      if (walk.BeginStep()) on_their_way.push_back(&walk);
    }
    for (SharedWalk<Beam>* const walk : on_their_way) LC_RETURN_IF_ERROR(walk->EndStep(interrupted));
  } while (!on_their_way.empty());
  for (const SharedWalk<Beam>& walk : walks) walk.OfferMet(beam);
  for (const SharedWalk<Beam>& walk : walks) walk.OfferSpare(beam);
  for (GraphRow next; beam.Next(&next);) {
    GraphRow after;
    if (beam.Peek(&after)) walks[after.graph].PrefetchLinksOf(after.row);
    LC_RETURN_IF_ERROR(walks[next.graph].GoOn(next, beam, interrupted));
  }
  for (SharedWalk<Beam>& walk : walks) {
    LC_RETURN_IF_ERROR(walk.FollowCopies(beam, interrupted));
    results.push_back({{}, walk.evaluations(), walk.gave_up()});
  }
  beam.ForEach([&](const GraphRow& entry) {
    // Of a walk that gave up, too: they tell how near what others found has to be.
    if (entry.accepted != 0) results[entry.graph].rows.push_back({entry.score, entry.row});
  });
  return results;
}

}  // namespace

absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                     absl::FunctionRef<bool(uint32_t)> accept,
                                     absl::FunctionRef<absl::Status()> interrupted) {
  return WalkFrom(graph, score, limits, accept, interrupted);
}

absl::StatusOr<WalkResult> WalkGraph(const Graph& graph, RowScorer score, const WalkLimits& limits, EveryRow all,
                                     absl::FunctionRef<absl::Status()> interrupted) {
  return WalkFrom(graph, score, limits, all, interrupted);
}

absl::StatusOr<WalkResult> WalkPassing(const Graph& graph, RowScorer score, const WalkLimits& limits,
                                       std::span<const uint32_t> seeds, absl::FunctionRef<bool(uint32_t)> pass,
                                       absl::FunctionRef<bool(uint32_t)> accept,
                                       absl::FunctionRef<absl::Status()> interrupted) {
  thread_local Visited failed;
  Visited& visited = MarksOfThread();
  visited.Begin(static_cast<size_t>(graph.rows()));
  failed.Begin(static_cast<size_t>(graph.rows()));
  Walk walk(graph, score);
  const ScoredRow nearest = walk.Descend();
  const bool nearest_passes = pass(nearest.row);
  std::vector<ScoredRow> starts = {nearest};
  visited.TestAndSet(nearest.row);
  std::vector<uint32_t> others;
  for (const uint32_t seed : seeds) {
    if (!visited.TestAndSet(seed)) others.push_back(seed);
  }
  for (const uint32_t entry : graph.entries()) {
    if (pass(entry) && !visited.TestAndSet(entry)) others.push_back(entry);
  }
  walk.ScoreThese(others, &starts);
  const auto take = [&](uint32_t row) { return (row != nearest.row || nearest_passes) && accept(row); };
  const auto take_copy = [&](uint32_t row) { return pass(row) && accept(row); };
  const auto expand = [&](ScoredRow row) { return walk.ExpandPassing(row, visited, failed, pass); };
  return BreadthOf(limits) <= kNarrowBeam
             ? Run<ListBeam<>>(graph, walk, limits, starts, visited, take, take_copy, interrupted, expand)
             : Run<HeapBeam<>>(graph, walk, limits, starts, visited, take, take_copy, interrupted, expand);
}

absl::StatusOr<std::vector<WalkResult>> WalkTogether(std::span<const WalkTask> tasks,
                                                     absl::FunctionRef<absl::Status()> interrupted) {
  std::vector<WalkResult> results;
  if (tasks.empty()) return results;
  if (tasks.size() == 1) {
    const auto& [graph, score, accept, limits, weight] = tasks[0];
    LC_ASSIGN_OR_RETURN(WalkResult alone, accept ? WalkGraph(*graph, score, limits, accept, interrupted)
                                                 : WalkGraph(*graph, score, limits, EveryRow(), interrupted));
    results.push_back(std::move(alone));
    return results;
  }
  size_t breadth = 0;
  for (const WalkTask& task : tasks) breadth = std::max(breadth, BreadthOf(task.limits));
  return breadth <= kNarrowBeam ? ShareBeam<ListBeam<GraphRow>>(tasks, breadth, interrupted)
                                : ShareBeam<HeapBeam<GraphRow>>(tasks, breadth, interrupted);
}

}  // namespace lightcone

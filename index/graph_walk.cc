#include "index/graph_walk.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/prefetch.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kEvaluationsBetweenChecks = 4096;
constexpr int kLinksAnEvaluation = 8;  // that are asked whether they pass, at about the cost of one score
// A share of a row's links, one in so many, with which the rows that pass are a graph of their own.
constexpr size_t kEnoughOfLinks = 4;

// Bytes of a row that are asked for as soon as it is known; of longer ones the kernel asks for the rest.
constexpr size_t kRowPrefetchMax = 512;

void PrefetchLinks(const Graph& graph, uint32_t row) {
  const std::span<const int32_t> links = graph.Links(row, 0);
  Prefetch(links.data(), links.size_bytes());
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

  // Collects the links of `row` on the base layer that were not visited, and scores them. Returns their number.
  // Links to copies are left to FollowCopies.
  template <typename Marks>
  size_t Expand(ScoredRow row, Marks& visited) {
    size_t n = 0;
    for (const int32_t link : graph_.Links(row.row, 0)) {
      if (!graph_.IsRow(link)) break;
      if (HasCopiesFrom(row, link)) break;
      ids_[n] = static_cast<uint32_t>(link);
      n += visited.TestAndSet(static_cast<uint32_t>(link)) ? 0 : 1;
    }
    const char* const rows = static_cast<const char*>(score_.bytes.first);
    for (size_t i = 0; i < n; ++i) Prefetch(rows + ids_[i] * score_.bytes.stride, row_prefetch_);
    Score(n);
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

  uint32_t id(size_t i) const { return ids_[i]; }
  float score(size_t i) const { return scores_[i]; }
  int64_t evaluations() const { return evaluations_; }
  int64_t work() const { return work_; }  // the same, and links that were only looked at

 private:
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

  void Score(size_t n) {
    evaluations_ += static_cast<int64_t>(n);
    work_ += static_cast<int64_t>(n);
    score_.score(ids_.data(), n, scores_.data());
  }

  const Graph& graph_;
  const RowScorer score_;
  const size_t row_prefetch_;  // bytes
  std::vector<uint32_t> ids_;
  std::vector<float> scores_;
  std::vector<uint32_t> bridges_;
  std::vector<ScoredRow> with_copies_;  // that were expanded
  int64_t evaluations_ = 0, work_ = 0;
};

// Runs a beam search that `expand`s rows, then goes to their copies, and tells the caller's two limits from its end.
template <typename Accept, typename Expand>
absl::StatusOr<WalkResult> Run(const Graph& graph, Walk& walk, const WalkLimits& limits,
                               std::span<const ScoredRow> starts, Visited& visited, const Accept& accept,
                               absl::FunctionRef<bool(uint32_t)> accept_copy,
                               absl::FunctionRef<absl::Status()> interrupted, const Expand& expand) {
  WalkResult result;
  result.rows.reserve(static_cast<size_t>(limits.ef) + 1);
  absl::Status status;
  int64_t check_at = kEvaluationsBetweenChecks;
  const auto stop = [&] {
    result.gave_up = walk.work() > limits.evaluations_max;
    if (result.gave_up || walk.work() < check_at) return result.gave_up;
    check_at += kEvaluationsBetweenChecks;
    status = interrupted();
    return !status.ok();
  };
  const size_t ef = static_cast<size_t>(limits.ef);
  std::vector<ScoredRow>& found = result.rows;
  const auto expand_and_visit = [&](ScoredRow row, const auto& visit) {
    const size_t n = expand(row);
    for (size_t i = 0; i < n; ++i) visit({walk.score(i), walk.id(i)});
  };
  const auto prefetch = [&](uint32_t row) { PrefetchLinks(graph, row); };
  if constexpr (std::is_same_v<Accept, EveryRow>) {
    BeamSearchOfAll(starts, ef, found, expand_and_visit, prefetch, stop);
    std::reverse(found.begin(), found.end());  // to the heap that the other one leaves
  } else {
    std::vector<ScoredRow> frontier;
    BeamSearch(starts, ef, frontier, found, expand_and_visit, prefetch, accept, stop);
  }
  if (status.ok() && !result.gave_up) {
    const auto wanted = [&](float score) { return found.size() < ef || score > found.front().score; };
    const auto visit = [&](ScoredRow row) {
      if (!wanted(row.score) || !accept_copy(row.row)) return;
      found.push_back(row);
      std::push_heap(found.begin(), found.end(), Better);
      if (found.size() <= ef) return;
      std::pop_heap(found.begin(), found.end(), Better);
      found.pop_back();
    };
    walk.FollowCopies(visited, wanted, visit, stop);
  }
  LC_RETURN_IF_ERROR(status);
  result.evaluations = walk.evaluations();
  return result;
}

// Breadth with which a walk finds its way among rows that may all turn out too far: narrower ones end in a place that
// has nothing nearer beside it more often than the rows' own neighbours are missed.
constexpr size_t kLeadMin = 10;
constexpr int64_t kSharedMarksMax = 16 << 20;  // rows: two bytes each, in every thread that searches

// The scores of the best rows of all walks.
class BestScores {
 public:
  explicit BestScores(size_t count) : count_(count) {}
  // A row below it is not one of the best; -inf until there are enough.
  float least() const { return scores_.size() < count_ ? -std::numeric_limits<float>::infinity() : scores_.front(); }
  void Add(float score) {
    if (score < least()) return;
    scores_.push_back(score);
    std::push_heap(scores_.begin(), scores_.end(), std::greater<>());
    if (scores_.size() <= count_) return;
    std::pop_heap(scores_.begin(), scores_.end(), std::greater<>());
    scores_.pop_back();
  }

 private:
  const size_t count_;
  std::vector<float> scores_;  // min-heap
};

// Visited rows of one of several walks: its part of marks that all of them share, or a set, where the graphs are so large
// together that marks for all of their rows would take too much memory in every thread.
class SharedMarks {
 public:
  SharedMarks() = default;  // a set
  SharedMarks(Visited* all, uint32_t begin) : all_(all), begin_(begin) {}
  bool TestAndSet(uint32_t row) {
    return all_ != nullptr ? all_->TestAndSet(begin_ + row) : !rows_.insert(row).second;
  }

 private:
  Visited* all_ = nullptr;
  uint32_t begin_ = 0;
  absl::flat_hash_set<uint32_t> rows_;
};

// One of the walks.
class SharedWalk {
 public:
  SharedWalk(const WalkTask& task, size_t lead, SharedMarks visited)
      : task_(task), lead_(lead), visited_(std::move(visited)), walk_(*task.graph, task_.score) {}

  // Until the nearest row that is not expanded is none of the `lead` best.
  absl::Status FindWay(absl::FunctionRef<absl::Status()> interrupted) {
    const ScoredRow start = walk_.Descend();
    visited_.TestAndSet(start.row);
    std::vector<float> leading;  // min-heap of the best scores accepted
    const auto visit = [&](ScoredRow row) {
      if (leading.size() >= lead_ && row.score <= leading.front()) {
        spare_.push_back(row);
        return;
      }
      Push(row);
      if (!Accepts(row.row)) return;
      found_.push_back(row);
      leading.push_back(row.score);
      std::push_heap(leading.begin(), leading.end(), std::greater<>());
      if (leading.size() <= lead_) return;
      std::pop_heap(leading.begin(), leading.end(), std::greater<>());
      leading.pop_back();
    };
    visit(start);
    while (!frontier_.empty()) {
      if (leading.size() >= lead_ && frontier_.front().score < leading.front()) return absl::OkStatus();
      LC_RETURN_IF_ERROR(ExpandNext(visit, interrupted));
      if (gave_up_) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  void OfferFound(BestScores& best) const {
    for (const ScoredRow& row : found_) best.Add(row.score);
  }

  // On from there, as long as a row that is not expanded is one of the best.
  absl::Status GoOn(BestScores& best, absl::FunctionRef<absl::Status()> interrupted) {
    const auto visit = [&](ScoredRow row) {
      if (row.score < best.least()) return;
      Push(row);
      if (!Accepts(row.row)) return;
      found_.push_back(row);
      best.Add(row.score);
    };
    for (const ScoredRow& row : spare_) visit(row);
    while (!frontier_.empty() && frontier_.front().score >= best.least()) {
      LC_RETURN_IF_ERROR(ExpandNext(visit, interrupted));
      if (gave_up_) return absl::OkStatus();
    }
    absl::Status status;
    walk_.FollowCopies(
        visited_, [&](float score) { return score > best.least(); },
        [&](ScoredRow row) {
          if (row.score <= best.least() || !Accepts(row.row)) return;
          found_.push_back(row);
          best.Add(row.score);
        },
        [&] {
          status = Look(interrupted);
          return gave_up_ || !status.ok();
        });
    return status;
  }

  bool gave_up() const { return gave_up_; }

  WalkResult Take(float least) {
    WalkResult result;
    result.evaluations = walk_.evaluations();
    result.gave_up = gave_up_;
    if (gave_up_) return result;
    std::erase_if(found_, [least](const ScoredRow& row) { return row.score < least; });
    result.rows = std::move(found_);
    return result;
  }

 private:
  bool Accepts(uint32_t row) const { return !task_.accept || task_.accept(row); }

  void Push(ScoredRow row) {
    frontier_.push_back(row);
    std::push_heap(frontier_.begin(), frontier_.end(), Worse);
  }

  template <typename Visit>
  absl::Status ExpandNext(const Visit& visit, absl::FunctionRef<absl::Status()> interrupted) {
    const ScoredRow row = frontier_.front();
    std::pop_heap(frontier_.begin(), frontier_.end(), Worse);
    frontier_.pop_back();
    if (!frontier_.empty()) PrefetchLinks(*task_.graph, frontier_.front().row);
    const size_t n = walk_.Expand(row, visited_);
    for (size_t i = 0; i < n; ++i) visit(ScoredRow{walk_.score(i), walk_.id(i)});
    return Look(interrupted);
  }

  // At the walk's limits.
  absl::Status Look(absl::FunctionRef<absl::Status()> interrupted) {
    gave_up_ = walk_.evaluations() > task_.limits.evaluations_max;
    if (walk_.evaluations() < check_at_) return absl::OkStatus();
    check_at_ += kEvaluationsBetweenChecks;
    return interrupted();
  }

  const WalkTask& task_;
  const size_t lead_;
  SharedMarks visited_;
  Walk walk_;
  bool gave_up_ = false;
  int64_t check_at_ = kEvaluationsBetweenChecks;
  std::vector<ScoredRow> frontier_;  // max-heap of rows that are not expanded
  std::vector<ScoredRow> spare_;     // neither expanded nor accepted yet, for they were none of the lead
  std::vector<ScoredRow> found_;     // accepted
};

template <typename Accept>
absl::StatusOr<WalkResult> WalkFrom(const Graph& graph, RowScorer score, const WalkLimits& limits, const Accept& accept,
                                    absl::FunctionRef<absl::Status()> interrupted) {
  thread_local Visited marks;
  Visited& visited = marks;
  visited.Begin(static_cast<size_t>(graph.rows()));
  Walk walk(graph, score);
  const ScoredRow start = walk.Descend(limits.leave_out);
  visited.TestAndSet(start.row);
  if (limits.leave_out >= 0) visited.TestAndSet(static_cast<uint32_t>(limits.leave_out));
  return Run(graph, walk, limits, {&start, 1}, visited, accept, accept, interrupted,
             [&](ScoredRow row) { return walk.Expand(row, visited); });
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
  thread_local Visited visited, failed;
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
  walk.ScoreThese(others, &starts);
  return Run(
      graph, walk, limits, starts, visited,
      [&](uint32_t row) { return (row != nearest.row || nearest_passes) && accept(row); },
      [&](uint32_t row) { return pass(row) && accept(row); }, interrupted,
      [&](ScoredRow row) { return walk.ExpandPassing(row, visited, failed, pass); });
}

absl::StatusOr<std::vector<WalkResult>> WalkTogether(std::span<const WalkTask> tasks,
                                                     absl::FunctionRef<absl::Status()> interrupted) {
  std::vector<WalkResult> results;
  if (tasks.size() == 1) {
    const auto& [graph, score, accept, limits, weight] = tasks[0];
    LC_ASSIGN_OR_RETURN(WalkResult alone, accept ? WalkGraph(*graph, score, limits, accept, interrupted)
                                                 : WalkGraph(*graph, score, limits, EveryRow(), interrupted));
    results.push_back(std::move(alone));
    return results;
  }
  int breadth = 0;
  double weight = 0;
  for (const WalkTask& task : tasks) {
    breadth = std::max(breadth, task.limits.ef);
    weight += task.weight;
  }
  thread_local Visited visited;
  std::vector<SharedMarks> marks;
  uint32_t marked = 0;
  for (const WalkTask& task : tasks) {
    const bool fits = task.graph->rows() <= kSharedMarksMax - marked;
    marks.push_back(fits ? SharedMarks(&visited, marked) : SharedMarks());
    if (fits) marked += static_cast<uint32_t>(task.graph->rows());
  }
  visited.Begin(marked);
  std::deque<SharedWalk> walks;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const double share = weight > 0 ? tasks[i].weight / weight : 1;
    const size_t lead = std::max(kLeadMin, static_cast<size_t>(std::ceil(share * breadth)));
    walks.emplace_back(tasks[i], lead, std::move(marks[i]));
    LC_RETURN_IF_ERROR(walks.back().FindWay(interrupted));
  }
  BestScores best(static_cast<size_t>(breadth));
  for (const SharedWalk& walk : walks) {
    if (!walk.gave_up()) walk.OfferFound(best);
  }
  for (SharedWalk& walk : walks) {
    if (!walk.gave_up()) LC_RETURN_IF_ERROR(walk.GoOn(best, interrupted));
  }
  for (SharedWalk& walk : walks) results.push_back(walk.Take(best.least()));
  return results;
}

}  // namespace lightcone

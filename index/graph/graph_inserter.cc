#include "index/graph/graph_inserter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <random>
#include <thread>
#include <tuple>

#include "base/dcheck.h"
#include "base/prefetch.h"
#include "index/graph/graph.h"

namespace lightcone {
namespace {

constexpr uint64_t kSeed = 0x9a0e;
constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
constexpr int kLayersMax = 32;
constexpr size_t kRowsBetweenChecks = 256;
constexpr size_t kLinksACopyLink = 8;  // links of a row for each link to one of its copies
constexpr size_t kWaysIn = 8;          // rows of a group of copies that other rows link to
constexpr size_t kChosenAtOnce = 8;    // rows scored together: most candidates fail at one of the first

// Lists are read while other threads write them: a reader sees old links and new ones, each of them a row, and of a row
// that it meets the lists that its insertion wrote.
int32_t Load(int32_t& link) { return std::atomic_ref<int32_t>(link).load(std::memory_order_acquire); }
void Store(int32_t& link, int32_t value) { std::atomic_ref<int32_t>(link).store(value, std::memory_order_release); }

class RowLock {
 public:
  explicit RowLock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  RowLock(const RowLock&) = delete;
  RowLock& operator=(const RowLock&) = delete;
  ~RowLock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

}  // namespace

GraphInserter::GraphInserter(int64_t rows, int m, int breadth, PairScorer score, CopyTest is_copy)
    : score_(score), is_copy_(is_copy), breadth_(static_cast<size_t>(breadth)) {
  LC_DCHECK(rows >= 1 && rows <= int64_t{Graph::kRowsMax} && m >= 2);
  const size_t n = static_cast<size_t>(rows);
  std::mt19937_64 random(kSeed);
  std::vector<uint32_t> upper_first(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    const double drawn = 1 - static_cast<double>(random() >> 11) * 0x1p-53;  // number in (0, 1]
    const double layer = std::min(std::floor(-std::log(drawn) / std::log(double(m))), double(kLayersMax - 1));
    upper_first[i + 1] = upper_first[i] + static_cast<uint32_t>(layer);
  }
  order_.resize(n);
  for (size_t i = 0; i < n; ++i) order_[i] = static_cast<uint32_t>(i);
  copy_of_ = order_;
  std::shuffle(order_.begin(), order_.end(), random);
  const auto top = [&](uint32_t row) { return upper_first[row + 1] - upper_first[row]; };
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t x, uint32_t y) { return top(x) > top(y); });

  Graph::Header header;
  header.rows = static_cast<uint32_t>(n);
  header.base_width = static_cast<uint32_t>(2 * m);
  header.upper_width = static_cast<uint32_t>(m);
  header.entry = order_[0];
  header.layers = 1 + top(order_[0]);
  header.upper_lists = upper_first.back();
  base_width_ = header.base_width;
  upper_width_ = header.upper_width;
  const size_t base_links = n * base_width_, upper_links = header.upper_lists * upper_width_;
  bytes_.resize(sizeof(header) + (base_links + n + 1 + upper_links) * sizeof(int32_t));
  std::memcpy(bytes_.data(), &header, sizeof(header));
  base_ = reinterpret_cast<int32_t*>(bytes_.data() + sizeof(header));
  upper_first_ = reinterpret_cast<uint32_t*>(base_ + base_links);
  upper_ = reinterpret_cast<int32_t*>(upper_first_ + n + 1);
  std::fill_n(base_, base_links, -1);
  std::copy(upper_first.begin(), upper_first.end(), upper_first_);
  std::fill_n(upper_, upper_links, -1);
  base_scores_.resize(base_links);
  upper_scores_.resize(upper_links);
  locks_ = std::make_unique<std::atomic_flag[]>(n);
}

bool GraphInserter::InsertAll(int threads, absl::FunctionRef<bool()> stop) {
  std::atomic<size_t> next = 1;
  std::atomic<bool> stopped = false;
  std::vector<std::exception_ptr> failures(static_cast<size_t>(threads));
  const auto work = [&](int thread) {
    try {
      Scratch scratch;
      for (size_t done = 0; !stopped; ++done) {
        if (thread == 0 && done % kRowsBetweenChecks == 0 && stop()) stopped = true;
        const size_t i = next++;
        if (i >= order_.size()) return;
        Insert(order_[i], scratch);
      }
    } catch (...) {  // The calling thread throws it.
      failures[static_cast<size_t>(thread)] = std::current_exception();
      stopped = true;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    } catch (...) {
      stopped = true;
      throw;
    }
    work(0);
  }  // joined
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  if (!stopped) AttachCopies();
  return !stopped;
}

GraphInserter::List GraphInserter::ListOf(uint32_t row, int layer) {
  if (layer == 0) {
    const size_t begin = row * base_width_;
    return {base_ + begin, base_scores_.data() + begin, base_width_};
  }
  const size_t begin = (size_t{upper_first_[row]} + static_cast<size_t>(layer - 1)) * upper_width_;
  return {upper_ + begin, upper_scores_.data() + begin, upper_width_};
}

size_t GraphInserter::Expand(uint32_t x, uint32_t row, int layer, Scratch& scratch) {
  const List list = ListOf(row, layer);
  scratch.ids.clear();
  for (size_t i = 0; i < list.width; ++i) {
    const int32_t link = Load(list.links[i]);
    if (link < 0) break;
    if (!scratch.visited.TestAndSet(static_cast<uint32_t>(link))) scratch.ids.push_back(static_cast<uint32_t>(link));
  }
  scratch.scores.resize(list.width);
  score_(x, scratch.ids.data(), scratch.ids.size(), scratch.scores.data());
  return scratch.ids.size();
}

ScoredRow GraphInserter::Descend(uint32_t x, int to_layer, Scratch& scratch) {
  ScoredRow nearest{0, order_[0]};
  score_(x, &nearest.row, 1, &nearest.score);
  for (int layer = TopOf(order_[0]); layer > to_layer; --layer) {
    scratch.visited.Begin(order_.size());
    for (bool moved = true; moved;) {
      moved = false;
      const size_t n = Expand(x, nearest.row, layer, scratch);
      for (size_t i = 0; i < n; ++i) {
        if (scratch.scores[i] <= nearest.score) continue;
        nearest = {scratch.scores[i], scratch.ids[i]};
        moved = true;
      }
    }
  }
  return nearest;
}

void GraphInserter::FindNearest(uint32_t x, ScoredRow start, int layer, Scratch& scratch) {
  scratch.visited.Begin(order_.size());
  scratch.visited.TestAndSet(start.row);
  const auto prefetch = [&](uint32_t row) {
    const List list = ListOf(row, layer);
    Prefetch(list.links, list.width * sizeof(int32_t));
  };
  ListBeam<>& beam = scratch.beam;
  beam.Begin(breadth_);
  const auto visit = [&](ScoredRow row) {
    if (beam.Wants(row.score) && beam.Add({.score = row.score, .row = row.row, .accepted = 1, .expanded = 0}))
      prefetch(row.row);
  };
  visit(start);
  for (BeamRow next; beam.Next(&next);) {
    BeamRow after;
    if (beam.Peek(&after)) prefetch(after.row);
    const size_t n = Expand(x, next.row, layer, scratch);
    for (size_t i = 0; i < n; ++i) visit({scratch.scores[i], scratch.ids[i]});
  }
  scratch.found.clear();
  beam.ForEach([&](const BeamRow& entry) { scratch.found.push_back({entry.score, entry.row}); });
}

void GraphInserter::Insert(uint32_t x, Scratch& scratch) {
  const int top = TopOf(x);
  scratch.links.resize(std::max(scratch.links.size(), static_cast<size_t>(top) + 1));
  ScoredRow nearest = Descend(x, top, scratch);
  // No other thread meets x before all of its lists stand: it would find a way in and none on.
  for (int layer = top; layer >= 0; --layer) {
    FindNearest(x, nearest, layer, scratch);
    nearest = scratch.found[0];
    if (is_copy_(x, nearest.row, nearest.score)) return NoteCopy(x, nearest.row, layer);
    const List list = ListOf(x, layer);
    Choose(scratch.found, list.width, scratch);
    std::swap(scratch.kept, scratch.links[static_cast<size_t>(layer)]);
    Write(list, scratch.links[static_cast<size_t>(layer)]);
  }
  for (int layer = top; layer >= 0; --layer) {
    for (const ScoredRow& link : scratch.links[static_cast<size_t>(layer)]) {
      Connect(link.row, x, link.score, layer, scratch);
    }
  }
}

void GraphInserter::NoteCopy(uint32_t x, uint32_t of, int layer) {
  for (int written = TopOf(x); written > layer; --written) Write(ListOf(x, written), {});
  copy_of_[x] = of;
}

void GraphInserter::AttachCopies() {
  std::vector<uint32_t> rows;  // row, its copies; the next row that has some, its copies
  for (uint32_t row = 0; row < copy_of_.size(); ++row) {
    if (copy_of_[row] != row) rows.push_back(row);
  }
  if (rows.empty()) return;
  LinkLost();
  for (size_t i = 0, copies = rows.size(); i < copies; ++i) rows.push_back(copy_of_[rows[i]]);
  std::sort(rows.begin(), rows.end(), [this](uint32_t x, uint32_t y) {
    const auto place = [this](uint32_t row) { return std::tuple(copy_of_[row], copy_of_[row] != row, row); };
    return place(x) < place(y);
  });
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<std::span<const uint32_t>> groups;
  std::vector<uint32_t> group_of(copy_of_.size(), 0);  // group of a row with copies, counted from 1
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && copy_of_[rows[end]] == rows[begin];) ++end;
    groups.push_back(std::span(rows).subspan(begin, end - begin));
    group_of[rows[begin]] = static_cast<uint32_t>(groups.size());
    LinkGroup(groups.back());
  }
  // Rows around them lead to some of them, so that there is a way in whichever of them a filter lets through.
  for (uint32_t row = 0; row < copy_of_.size(); ++row) {
    const List list = ListOf(row, 0);
    for (size_t i = 0; i < list.width && list.links[i] >= 0; ++i) {
      const uint32_t link = static_cast<uint32_t>(list.links[i]);
      if (group_of[link] == 0 || copy_of_[row] == link) continue;
      const std::span<const uint32_t> group = groups[group_of[link] - 1];
      list.links[i] = static_cast<int32_t>(group[((row * kSpread) >> 32) % std::min(group.size(), kWaysIn)]);
    }
  }
}

void GraphInserter::LinkLost() {
  std::vector<bool> met(copy_of_.size(), false), copied(copy_of_.size(), false);
  for (uint32_t row = 0; row < copy_of_.size(); ++row) {
    if (copy_of_[row] != row) copied[copy_of_[row]] = true;
  }
  for (size_t i = 0; i < copy_of_.size() * base_width_; ++i) {
    if (base_[i] >= 0) met[static_cast<size_t>(base_[i])] = true;
  }
  Scratch scratch;
  for (const uint32_t row : order_) {
    if (met[row] || copy_of_[row] != row || row == order_[0]) continue;
    FindNearest(row, Descend(row, 0, scratch), 0, scratch);
    const auto has_room = [&](const ScoredRow& near) {
      const List list = ListOf(near.row, 0);
      return near.row != row && list.links[list.width - 1] < 0;
    };
    // Rows that have copies give up links for them (LinkGroup), the last ones first.
    const auto keeps_it = [&](const ScoredRow& near) { return has_room(near) && !copied[near.row]; };
    auto near = std::find_if(scratch.found.begin(), scratch.found.end(), keeps_it);
    if (near == scratch.found.end()) near = std::find_if(scratch.found.begin(), scratch.found.end(), has_room);
    if (near != scratch.found.end()) Connect(near->row, row, near->score, 0, scratch);
  }
}

void GraphInserter::LinkGroup(std::span<const uint32_t> group) {
  const List first = ListOf(group[0], 0);
  const std::vector<int32_t> out(first.links, std::find(first.links, first.links + first.width, -1));
  // Each links to those so many places behind it, in a ring: from any to all, in few steps, and past some that a filter
  // leaves out.
  const size_t others = group.size() - 1;
  std::vector<size_t> steps(std::min(others, std::max<size_t>(1, first.width / kLinksACopyLink)), 1);
  for (size_t i = 1; i < steps.size(); ++i) {
    const double geometric = std::pow(static_cast<double>(others), static_cast<double>(i) / double(steps.size()));
    steps[i] = std::max(steps[i - 1] + 1, static_cast<size_t>(geometric));
  }
  // Where not all links that lead out have room, each leaves out others of them.
  const size_t kept = std::min(out.size(), first.width - 1 - steps.size()), left_out = out.size() - kept;
  for (size_t row = 0; row < group.size(); ++row) {
    int32_t* link = ListOf(group[row], 0).links;
    std::fill_n(link, first.width, -1);
    const size_t gap = row % 2 == 0 ? kept : kept - left_out;
    for (size_t i = 0; i < kept; ++i) *link++ = out[i < gap ? i : i + left_out];
    *link++ = static_cast<int32_t>(group[row]);
    for (const size_t step : steps) *link++ = static_cast<int32_t>(group[(row + step) % group.size()]);
  }
}

void GraphInserter::Choose(std::span<const ScoredRow> candidates, size_t width, Scratch& scratch) const {
  std::vector<ScoredRow>& kept = scratch.kept;
  kept.clear();
  std::array<uint32_t, kChosenAtOnce> ids;
  std::array<float, kChosenAtOnce> scores;
  for (const ScoredRow& candidate : candidates) {
    bool good = true;
    for (size_t begin = 0; good && begin < kept.size(); begin += kChosenAtOnce) {
      const size_t n = std::min(kChosenAtOnce, kept.size() - begin);
      for (size_t i = 0; i < n; ++i) ids[i] = kept[begin + i].row;
      score_(candidate.row, ids.data(), n, scores.data());
      for (size_t i = 0; i < n; ++i) good = good && scores[i] <= candidate.score;
    }
    if (!good) continue;
    kept.push_back(candidate);
    if (kept.size() == width) return;
  }
}

void GraphInserter::Write(const List& list, std::span<const ScoredRow> links) {
  for (size_t i = 0; i < list.width; ++i) {
    Store(list.links[i], i < links.size() ? static_cast<int32_t>(links[i].row) : -1);
    if (i < links.size()) list.scores[i] = links[i].score;
  }
}

void GraphInserter::Connect(uint32_t from, uint32_t to, float score, int layer, Scratch& scratch) {
  const List list = ListOf(from, layer);
  const RowLock lock(locks_[from]);
  std::vector<ScoredRow>& links = scratch.found;
  links.clear();
  for (size_t i = 0; i < list.width; ++i) {
    const int32_t link = Load(list.links[i]);
    if (link < 0) {
      list.scores[i] = score;
      Store(list.links[i], static_cast<int32_t>(to));
      return;
    }
    links.push_back({list.scores[i], static_cast<uint32_t>(link)});
  }
  links.push_back({score, to});
  std::sort(links.begin(), links.end(), Better);
  Choose(links, list.width, scratch);
  Write(list, scratch.kept);
}

}  // namespace lightcone

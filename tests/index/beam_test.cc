// Both beams against the two heaps of HNSW's algorithm 2, on graphs of random links.
#include "index/graph/beam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>
#include <set>
#include <vector>

namespace lightcone {
namespace {

BeamRow Entry(float score, uint32_t row, bool accepted) {
  return {.score = score, .row = row, .accepted = accepted ? 1u : 0u, .expanded = 0};
}

struct World {
  std::vector<float> scores;
  std::vector<bool> accepted;
  std::vector<std::vector<uint32_t>> links;
};

World RandomWorld(uint32_t seed, double share) {
  std::mt19937 random(seed);
  World world;
  const uint32_t rows = 300;
  for (uint32_t i = 0; i < rows; ++i) world.scores.push_back(static_cast<float>(i));
  std::shuffle(world.scores.begin(), world.scores.end(), random);
  std::bernoulli_distribution accept(share);
  for (uint32_t i = 0; i < rows; ++i) {
    world.accepted.push_back(accept(random));
    std::vector<uint32_t>& links = world.links.emplace_back();
    for (int k = 0; k < 6; ++k) links.push_back(static_cast<uint32_t>(random() % rows));
  }
  return world;
}

struct Searched {
  std::vector<uint32_t> expanded;  // in this order
  std::set<uint32_t> found;
};

Searched ByHeaps(const World& world, size_t breadth) {
  Searched searched;
  std::priority_queue<std::pair<float, uint32_t>> frontier;
  std::priority_queue<std::pair<float, uint32_t>, std::vector<std::pair<float, uint32_t>>, std::greater<>> found;
  std::set<uint32_t> visited = {0};
  const auto visit = [&](uint32_t row) {
    const float score = world.scores[row];
    if (found.size() >= breadth && score <= found.top().first) return;
    frontier.emplace(score, row);
    if (!world.accepted[row]) return;
    found.emplace(score, row);
    if (found.size() > breadth) found.pop();
  };
  visit(0);
  while (!frontier.empty()) {
    const auto [score, row] = frontier.top();
    if (found.size() >= breadth && score < found.top().first) break;
    frontier.pop();
    searched.expanded.push_back(row);
    for (const uint32_t to : world.links[row]) {
      if (visited.insert(to).second) visit(to);
    }
  }
  for (; !found.empty(); found.pop()) searched.found.insert(found.top().second);
  return searched;
}

template <typename Beam>
Searched ByBeam(const World& world, size_t breadth) {
  Searched searched;
  Beam beam(breadth);
  std::set<uint32_t> visited = {0};
  const auto visit = [&](uint32_t row) {
    if (!beam.Wants(world.scores[row])) return;
    const bool first = beam.Add(Entry(world.scores[row], row, world.accepted[row]));
    BeamRow next;
    EXPECT_EQ(first, beam.Peek(&next) && next.row == row);
  };
  visit(0);
  for (BeamRow next; beam.Next(&next);) {
    searched.expanded.push_back(next.row);
    for (const uint32_t to : world.links[next.row]) {
      if (visited.insert(to).second) visit(to);
    }
  }
  beam.ForEach([&](const BeamRow& entry) {
    if (entry.accepted != 0) searched.found.insert(entry.row);
  });
  return searched;
}

template <typename Beam>
class BeamTest : public testing::Test {};
using Beams = testing::Types<ListBeam<>, HeapBeam<>>;
TYPED_TEST_SUITE(BeamTest, Beams);

TYPED_TEST(BeamTest, ExpandsAndFindsWhatTwoHeapsWould) {
  int64_t beyond = 0;  // searches that left rows unexpanded
  for (uint32_t seed = 0; seed < 200; ++seed) {
    for (const double share : {1.0, 0.5, 0.1, 0.0}) {
      const World world = RandomWorld(seed, share);
      for (const size_t breadth : {1u, 2u, 7u, 40u, 400u}) {
        const Searched heaps = ByHeaps(world, breadth), beam = ByBeam<TypeParam>(world, breadth);
        ASSERT_EQ(beam.expanded, heaps.expanded) << seed << " " << share << " " << breadth;
        ASSERT_EQ(beam.found, heaps.found) << seed << " " << share << " " << breadth;
        beyond += heaps.expanded.size() < 250 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(beyond, 1000);
}

TYPED_TEST(BeamTest, GivesAwayWhatFallsOffItsEndAndKeepsWhatIsToBeExpanded) {
  TypeParam beam(2);
  std::vector<uint32_t> left;
  const auto add = [&](const BeamRow& entry) {
    ASSERT_TRUE(beam.Wants(entry.score));
    beam.Add(entry, [&](const BeamRow& out) { left.push_back(out.row); });
  };
  add(Entry(1, 1, true));
  add(Entry(2, 2, false));
  add(Entry(0, 3, false));
  add(Entry(3, 4, true));
  EXPECT_TRUE(left.empty());
  EXPECT_FALSE(beam.Wants(1));
  add(Entry(4, 5, true));
  EXPECT_EQ(left, std::vector<uint32_t>{1});
  BeamRow next;
  for (const uint32_t row : {5u, 4u}) {
    ASSERT_TRUE(beam.Next(&next));
    EXPECT_EQ(next.row, row);
  }
  EXPECT_FALSE(beam.Next(&next)) << next.row;  // what is left is farther than the second best
  std::set<uint32_t> kept;
  beam.ForEach([&](const BeamRow& entry) { kept.insert(entry.row); });
  EXPECT_EQ(kept, (std::set<uint32_t>{2, 3, 4, 5}));
}

TYPED_TEST(BeamTest, TakesEntriesThatAreExpandedAlready) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    TypeParam beam(20);
    std::vector<BeamRow> best;
    for (uint32_t row = 0; row < 60; ++row) {
      BeamRow entry = Entry(static_cast<float>(random() % 10'000), row, true);
      entry.expanded = random() % 2;
      if (!beam.Wants(entry.score)) continue;
      beam.Add(entry);
      best.push_back(entry);
    }
    std::stable_sort(best.begin(), best.end(), [](const BeamRow& x, const BeamRow& y) { return x.score > y.score; });
    best.resize(20);
    for (const BeamRow& entry : best) {
      if (entry.expanded != 0) continue;
      BeamRow next;
      ASSERT_TRUE(beam.Next(&next));
      ASSERT_EQ(next.score, entry.score) << seed;
    }
    size_t kept = 0;
    beam.ForEach([&](const BeamRow& entry) { kept += entry.expanded; });
    EXPECT_EQ(kept, 20u);
  }
}

TEST(VisitedMarks, AreForgottenInEveryEpochHoweverManyThereWere) {
  std::mt19937 random(7);
  VisitedMarks<uint8_t> marks;
  size_t rows = 100;
  for (int epoch = 0; epoch < 3000; ++epoch) {
    if (epoch % 700 == 699) rows += 1000;
    marks.Begin(rows);
    std::set<uint32_t> marked;
    for (int i = 0; i < 30; ++i) {
      const uint32_t row = static_cast<uint32_t>(random() % rows);
      ASSERT_EQ(marks.Test(row), marked.contains(row)) << epoch;
      ASSERT_EQ(marks.TestAndSet(row), !marked.insert(row).second) << epoch;
    }
  }
}

}  // namespace
}  // namespace lightcone

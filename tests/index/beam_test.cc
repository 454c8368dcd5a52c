// The one sorted list against the two heaps of HNSW's algorithm 2, on graphs of random links.
#include "index/beam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>
#include <set>
#include <vector>

namespace lightcone {
namespace {

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

Searched ByBeam(const World& world, size_t breadth) {
  Searched searched;
  Beam<> beam(breadth);
  std::set<uint32_t> visited = {0};
  const auto visit = [&](uint32_t row) {
    if (!beam.Wants(world.scores[row])) return;
    const bool first =
        beam.Add({.score = world.scores[row], .row = row, .accepted = world.accepted[row] ? 1u : 0u, .expanded = 0});
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
  for (size_t i = 0; i < beam.list().size(); ++i) {
    EXPECT_GE(beam.list()[i == 0 ? 0 : i - 1].score, beam.list()[i].score);
    if (beam.list()[i].accepted != 0) searched.found.insert(beam.list()[i].row);
  }
  return searched;
}

TEST(Beam, ExpandsAndFindsWhatTwoHeapsWould) {
  int64_t beyond = 0;  // searches that left rows unexpanded
  for (uint32_t seed = 0; seed < 200; ++seed) {
    for (const double share : {1.0, 0.5, 0.1, 0.0}) {
      const World world = RandomWorld(seed, share);
      for (const size_t breadth : {1u, 2u, 7u, 40u, 400u}) {
        const Searched heaps = ByHeaps(world, breadth), beam = ByBeam(world, breadth);
        ASSERT_EQ(beam.expanded, heaps.expanded) << seed << " " << share << " " << breadth;
        ASSERT_EQ(beam.found, heaps.found) << seed << " " << share << " " << breadth;
        beyond += heaps.expanded.size() < 250 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(beyond, 1000);
}

TEST(Beam, GivesAwayWhatFallsOffItsEnd) {
  Beam<> beam(2);
  std::vector<uint32_t> left;
  const auto add = [&](float score, uint32_t row, bool accepted) {
    ASSERT_TRUE(beam.Wants(score));
    beam.Add({.score = score, .row = row, .accepted = accepted ? 1u : 0u, .expanded = 0},
             [&](const BeamRow& out) { left.push_back(out.row); });
  };
  add(1, 1, true);
  add(2, 2, false);
  add(0, 3, false);
  EXPECT_TRUE(left.empty());
  add(3, 4, true);  // two are accepted: what lies behind the last of them goes
  EXPECT_EQ(left, std::vector<uint32_t>{3});
  EXPECT_FALSE(beam.Wants(1));
  add(4, 5, true);
  EXPECT_EQ(left, (std::vector<uint32_t>{3, 1, 2}));
  ASSERT_EQ(beam.list().size(), 2u);
  EXPECT_EQ(beam.list()[0].row, 5u);
}

}  // namespace
}  // namespace lightcone

// The plan of the house: who may include whom, which third party lives in which room, and that includes go one way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace lightcone::tidy {
namespace {

using Graph = std::map<std::string, std::set<std::string>>;

TEST(House, RoomsIncludeOnlyWhatThePlanAllows) {
  const Graph allowed = {
      {"base", {}},
      {"geometry", {"base"}},
      {"stats", {"base", "geometry"}},
      {"models", {"base", "geometry", "stats"}},
      {"outbound", {"base"}},
      {"snapshot", {"base", "outbound"}},
      {"store", {"base", "geometry"}},
      {"index", {"base", "geometry"}},
      {"trainer", {"base", "geometry", "stats", "models"}},
      {"research", {"base", "geometry", "stats", "models", "trainer"}},
      {"server/engine", {"base", "geometry", "stats", "models", "outbound", "snapshot", "store", "index"}},
      {"server/embed_worker", {"base", "models", "server/engine"}},
      {"server/audit", {"base"}},
      {"server/auth", {"base"}},
      {"server/trace", {"base", "outbound"}},
      {"server/metrics",
       {"base", "server/audit", "server/auth", "server/trace", "server/engine", "geometry", "index", "store"}},
      {"server/rpc",
       {"base", "geometry", "stats", "index", "store", "server/auth", "server/trace", "server/engine",
        "server/metrics"}},
      {"server/http", {"base", "server/auth", "server/engine", "server/metrics"}},
      {"server/rest", {"base", "geometry", "index", "server/auth", "server/trace", "server/engine", "server/http"}},
      {"server/options", {"base", "server/trace", "server/engine", "index"}},
      {"server/app",
       {"base", "server/audit", "server/auth", "server/engine", "server/rpc", "server/http", "server/rest",
        "server/trace", "server/metrics", "server/options"}},
      {"client", {"base"}},
      {"cli",
       {"base", "geometry", "stats", "models", "trainer", "research", "client", "snapshot", "server/app", "server/auth",
        "server/options", "server/embed_worker"}},
  };
  for (const SourceFile& file : Sources()) {
    const auto rule = allowed.find(RoomOf(file.path));
    if (rule == allowed.end()) continue;
    for (const std::string& include : IncludesOf(file)) {
      const std::string target = RoomOf(include);
      if (!allowed.contains(target) || target == rule->first) continue;
      EXPECT_TRUE(rule->second.contains(target)) << file.path << " includes " << include;
    }
  }
}

// Folders of a room by floors: a folder includes its own floor's none but itself, and any floor below.
using Floors = std::vector<std::set<std::string>>;

const std::map<std::string, Floors>& FloorsOfRooms() {
  static const std::map<std::string, Floors> floors = {
      {"server/engine",
       {{"filter"},
        {"api"},
        {"collection", "live"},
        {"services"},
        {"embed", "jobs"},
        {"backfill", "validation"},
        {"write"},
        {"rollout"},
        {"search", "training"},
        {"core"}}},
      {"index", {{"api"}, {"rows"}, {"graph", "gpu", "ivf"}, {"search"}, {"build"}, {"adapted"}, {"life"}}},
      {"trainer", {{"data", "losses"}, {"adapt", "uncertainty"}, {"methods"}}},
      {"cli", {{"formats"}, {"json", "load"}, {"commands"}, {"served"}, {"model"}, {"demo", "research"}}},
  };
  return floors;
}

int FloorOf(const Floors& floors, const std::string& folder) {
  for (size_t i = 0; i < floors.size(); ++i) {
    if (floors[i].contains(folder)) return static_cast<int>(i);
  }
  return -1;
}

TEST(House, FoldersOfARoomIncludeOnlyFloorsBelowTheirs) {
  for (const SourceFile& file : Sources()) {
    const std::string room = RoomOf(file.path), folder = FolderOf(file.path);
    const auto rule = FloorsOfRooms().find(room);
    if (rule == FloorsOfRooms().end() || folder.empty()) continue;
    const int own = FloorOf(rule->second, folder);
    EXPECT_GE(own, 0) << file.path << ": the plan has no folder " << folder << " in " << room;
    for (const std::string& include : IncludesOf(file)) {
      const std::string target = FolderOf(include);
      if (RoomOf(include) != room || target == folder || target.empty()) continue;
      EXPECT_LT(FloorOf(rule->second, target), own) << file.path << " includes " << include;
    }
  }
}

// What a folder reaches, or the way back to itself.
bool Reaches(const Graph& graph, const std::string& from, const std::string& to, std::set<std::string>& seen) {
  const auto edges = graph.find(from);
  if (edges == graph.end()) return false;
  for (const std::string& next : edges->second) {
    if (next == to || (seen.insert(next).second && Reaches(graph, next, to, seen))) return true;
  }
  return false;
}

std::vector<std::string> Circles(const Graph& graph) {
  std::vector<std::string> found;
  for (const auto& [node, edges] : graph) {
    std::set<std::string> seen;
    if (Reaches(graph, node, node, seen)) found.push_back(node);
  }
  return found;
}

TEST(House, ACircleIsFound) {
  EXPECT_THAT(Circles({{"a", {"b"}}, {"b", {"c"}}, {"c", {"b"}}}), testing::ElementsAre("b", "c"));
  EXPECT_THAT(Circles({{"a", {"b", "c"}}, {"b", {"c"}}}), testing::IsEmpty());
}

Graph GraphOfFolders(const std::string& room) {
  Graph graph;
  for (const SourceFile& file : Sources()) {
    const std::string folder = FolderOf(file.path);
    if (RoomOf(file.path) != room || folder.empty()) continue;
    std::set<std::string>& edges = graph[folder];
    for (const std::string& include : IncludesOf(file)) {
      const std::string target = FolderOf(include);
      if (RoomOf(include) == room && target != folder && !target.empty()) edges.insert(target);
    }
  }
  return graph;
}

TEST(House, NoFolderOfARoomIsPartOfACircle) {
  for (const char* room : {"server/engine", "index", "cli", "trainer", "research"}) {
    EXPECT_THAT(Circles(GraphOfFolders(room)), testing::IsEmpty()) << room;
  }
  EXPECT_LE(GraphOfFolders("server/engine").size(), 14u);
  EXPECT_LE(GraphOfFolders("index").size(), 10u);
}

TEST(House, ThirdPartiesStayInTheirRooms) {
  const std::vector<std::pair<std::string, std::set<std::string>>> rules = {
      {"rocksdb/", {"store"}},
      {"faiss/", {"index"}},
      {"torch/", {"models", "trainer", "research"}},
      {"ATen/", {"models", "trainer", "research"}},
      {"grpcpp/", {"server/rpc", "client"}},
      {"lightcone/v1/", {"server/rpc", "client", "cli"}},
      {"prometheus/", {"server/metrics"}},
      {"boost/", {"server/http"}},
      {"httplib", {}},  // the client of tests
      {"hwy/", {"geometry", "index"}},
      {"roaring/", {"index"}},
      {"curl/", {"outbound", "server/engine", "server/trace"}},
      {"openssl/", {"server/auth", "server/http", "snapshot"}},
  };
  for (const SourceFile& file : Sources()) {
    if (!IsProduct(file)) continue;
    for (const std::string& include : IncludesOf(file)) {
      for (const auto& [prefix, rooms] : rules) {
        if (include.starts_with(prefix)) {
          EXPECT_TRUE(rooms.contains(RoomOf(file.path))) << file.path << " includes " << include;
        }
      }
    }
  }
}

TEST(House, TorchHeadersStayOutOfPublicHeaders) {
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".h") || file.path.ends_with("_torch.h")) continue;
    for (const std::string& include : IncludesOf(file)) {
      EXPECT_FALSE(include.starts_with("torch/")) << file.path << " includes " << include;
    }
  }
}

}  // namespace
}  // namespace lightcone::tidy

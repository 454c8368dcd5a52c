// The log of slow searches: what a line says, and which searches get one.
#include "server/engine/search/slow_search.h"

#include <sstream>

#include "engine_testing.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;

TEST(SlowSearch, ALineNamesThePlanAndTheFieldsButNoValues) {
  SearchCall call;
  call.collection = "photos";
  call.k = 7;
  FilterNode leaf;
  leaf.kind = FilterNode::Kind::kEquals;
  leaf.field = "co\nlour";
  leaf.values = {std::string("secret")};
  FilterNode root;
  root.children = {leaf};
  call.filter = root;
  SearchAnswer answer;
  answer.serving_generation = 3;
  answer.profile = SearchProfile();
  LegProfile leg;
  leg.generation = 2;
  leg.rows_scored = 40;
  leg.segments.resize(2);
  leg.segments[0].plan = SearchPlan::kWalk;
  answer.profile->legs = {leg, leg};
  const std::string line = SlowSearchLine(call, answer, absl::Milliseconds(120));
  EXPECT_EQ(line,
            "slow search of collection 'photos': 120 ms, 0 queries, k 7, serving generation 3; legs: generation 2 scan "
            "x 2 walk x 2; rows scored 80, refined 0, reranked 0; filter fields: co lour");
  EXPECT_EQ(SlowSearchLine(call, answer, absl::Milliseconds(120), {0, 10}),
            line + "; trace 0000000000000000000000000000000a");
  answer.profile.reset();
  EXPECT_THAT(SlowSearchLine(call, answer, absl::ZeroDuration()), HasSubstr("legs: none"));
}

using SlowSearches = EngineTest;

TEST_F(SlowSearches, OnlySearchesFromTheLimitOnAreLogged) {
  MakeCollection();
  std::mt19937 random(1);
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 1'000; ++i) items.push_back(ItemOf(Id(i), RandomVector(&random, kDimension)));
  Write(BatchOf(std::move(items)));
  // Many exact queries at once take more than a millisecond on any machine.
  SearchCall call = SearchFor(RandomVector(&random, kDimension), 100);
  call.exact = true;
  call.queries.resize(500, call.queries[0]);

  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  for (const int64_t limit : {0, 1, 3'600'000}) {
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.slow_search_ms = limit;
    engine_ = OpenEngine(options);
    lines.str("");
    const auto answer = engine_->Search(call, {});
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer.ok() && answer->profile.has_value()) << "the caller did not ask for it";
    EXPECT_EQ(lines.str().find("slow search of collection 'c'") != std::string::npos, limit == 1) << lines.str();
  }
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace lightcone::server

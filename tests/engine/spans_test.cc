// The spans that the engine adds to the trace of a call.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/trace.h"
#include "engine_testing.h"
#include "server/engine/core/engine_impl.h"
#include "server/engine/search/leg_spans.h"
#include "tests/engine/forwarding_store.h"

namespace lightcone::server {
namespace {

using testing::ElementsAre;

// Holds one write for as long as a test says so.
struct Gate {
  std::atomic<bool> closed{false};
  absl::Notification held, release;
};

class HeldStore final : public ForwardingStore {
 public:
  HeldStore(std::unique_ptr<Store> inner, Gate* gate) : ForwardingStore(std::move(inner)), gate_(gate) {}

  absl::Status Write(const WriteBatch& batch, Durability durability) override {
    if (gate_->closed.exchange(false)) {
      gate_->held.Notify();
      gate_->release.WaitForNotification();
    }
    return ForwardingStore::Write(batch, durability);
  }

 private:
  Gate* const gate_;
};

// A call that tells when it waits for the writer: only then does it look whether it is still wanted.
struct WaitingCall {
  WaitingCall() {
    context.trace = &trace;
    context.cancelled = [this] {
      if (trace.size() > 1 && !waits.HasBeenNotified()) waits.Notify();
      return false;
    };
  }

  const TraceId id{1, 2};
  Trace trace{"call", id, 0, 1};
  absl::Notification waits;
  CallContext context;
};

class Spans : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    MakeCollection();
    context_.trace = &trace_;
  }
  // Names of the spans, each behind that of its parent, in the order of their beginnings.
  std::vector<std::string> Names() { return Names(&trace_); }
  std::vector<std::string> Names(Trace* trace) {
    trace->End(Trace::kRoot);
    contents_ = trace->Take();
    std::vector<std::string> names;
    for (size_t i = 1; i < contents_.spans.size(); ++i) {
      const Trace::SpanRecord& span = contents_.spans[i];
      names.push_back(StrCat(contents_.spans[span.parent].name, "/", span.name));
      EXPECT_LE(span.began_ns, span.ended_ns) << names.back();
    }
    return names;
  }
  int64_t NumberOf(std::string_view span, std::string_view key) const {
    for (const Trace::Attribute& attribute : contents_.attributes) {
      if (contents_.spans[attribute.span].name == span && attribute.key == key) {
        return std::get<int64_t>(attribute.value);
      }
    }
    return -1;
  }

  Trace trace_{"call", {1, 2}, 0, 1};
  Trace::Contents contents_;
  CallContext context_;
};

TEST_F(Spans, ASearchTellsItsFilterItsIndexItsLegsAndTheStore) {
  Write(BatchOf({ItemOf(Id(1), {0.1f, 0, 0, 0}, R"({"a":1})"), ItemOf(Id(2), {0.2f, 0, 0, 0}, R"({"a":2})")}));
  SearchCall call = SearchFor({0, 0, 0, 0});
  call.queries.push_back(call.queries[0]);
  call.filter = Leaf(FilterNode::Kind::kEquals, "a", {int64_t{1}});
  const auto answer = engine_->Search(call, context_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->profile.has_value()) << "the caller did not ask for it";
  EXPECT_THAT(Names(), ElementsAre("call/filter", "call/index", "call/leg", "call/store"));
  EXPECT_EQ(NumberOf("index", "requests"), 2);
  EXPECT_EQ(NumberOf("leg", "generation"), 1);
  EXPECT_EQ(NumberOf("leg", "queries"), 2);
  EXPECT_GT(NumberOf("leg", "rows_scored") + NumberOf("leg", "rows_reranked"), 0);
}

TEST_F(Spans, AWriteTellsItsWaitTheStoreAndTheIndex) {
  ASSERT_TRUE(engine_->Upsert(BatchOf({ItemOf(Id(1), {0.1f, 0, 0, 0})}), context_).ok());
  EXPECT_THAT(Names(), ElementsAre("call/write", "write/queue", "write/store", "write/index"));
}

TEST_F(Spans, AWriteThatTheStoreRefusesHasNoSpansOfIt) {
  UpsertBatch batch = BatchOf({ItemOf(Id(1), {0.1f, 0, 0, 0})}, 1, /*same_content=*/true);
  EXPECT_EQ(engine_->Upsert(std::move(batch), context_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Names(), ElementsAre("call/write", "write/queue"));
}

TEST_F(Spans, AWriteThatIsRefusedHasNoPartInTheTimesOfItsGroup) {
  Gate gate;
  engine_.reset();
  const EngineOptions options = OptionsFor(folder_.path());
  auto store = OpenStore(options.data_folder + "/store", options.store);
  ASSERT_TRUE(store.ok()) << store.status();
  auto engine = std::make_unique<EngineImpl>(options, std::make_unique<HeldStore>(std::move(*store), &gate));
  ASSERT_TRUE(engine->Load().ok());
  engine_ = std::move(engine);
  WaitingCall good, bad;
  gate.closed = true;
  std::thread before([&] { Write(BatchOf({ItemOf(Id(1), {0.1f, 0, 0, 0})})); });
  gate.held.WaitForNotification();
  std::thread writes([&] {
    EXPECT_TRUE(engine_->Upsert(BatchOf({ItemOf(Id(2), {0.1f, 0, 0, 0})}), good.context).ok());
  });
  std::thread refused([&] {
    const auto written =
        engine_->Upsert(BatchOf({ItemOf(Id(3), {0.1f, 0, 0, 0})}, 1, /*same_content=*/true), bad.context);
    EXPECT_EQ(written.status().code(), absl::StatusCode::kNotFound);
  });
  good.waits.WaitForNotification();
  bad.waits.WaitForNotification();
  gate.release.Notify();
  for (std::thread* thread : {&before, &writes, &refused}) thread->join();
  EXPECT_THAT(Names(&good.trace), ElementsAre("call/write", "write/queue", "write/store", "write/index"));
  EXPECT_THAT(Names(&bad.trace), ElementsAre("call/write", "write/queue"));
}

TEST_F(Spans, ASearchOfManyQueriesHasRoomForItsLegsAndTheStore) {
  Write(BatchOf({ItemOf(Id(1), {0.1f, 0, 0, 0})}));
  SearchCall call = SearchFor({0, 0, 0, 0});
  call.queries.resize(1'000, call.queries[0]);  // 32 groups
  ASSERT_TRUE(engine_->Search(call, context_).ok());
  const std::vector<std::string> names = Names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "call/index"), 8);
  EXPECT_EQ(std::count(names.begin(), names.end(), "call/leg"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "call/store"), 1);
  EXPECT_EQ(contents_.dropped, 0u);
}

TEST_F(Spans, ASearchOfManyGenerationsTellsTheLegsOfTheNewest) {
  SearchProfile profile;
  for (uint32_t generation = 1; generation <= 40; ++generation) {
    LegProfile leg;
    leg.generation = generation;
    profile.legs.push_back(leg);
  }
  AddLegSpans(profile, SteadyNanos(), &trace_);
  EXPECT_EQ(Names().size(), 32u);
  EXPECT_EQ(NumberOf("leg", "generation"), 9) << "the oldest of them";
}

TEST_F(Spans, AReadTellsTheStore) {
  Write(BatchOf({ItemOf(Id(1), {0.1f, 0, 0, 0})}));
  ASSERT_TRUE(engine_->Get("c", {Id(1)}, 0, {}, context_).ok());
  EXPECT_THAT(Names(), ElementsAre("call/store"));
  EXPECT_EQ(NumberOf("store", "items"), 1);
}

}  // namespace
}  // namespace lightcone::server

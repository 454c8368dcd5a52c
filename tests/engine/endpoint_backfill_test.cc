// Backfills whose texts are embedded by an endpoint: several requests at once, one left for queries, failures on the
// way, and collections that refuse what another model made.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/priority.h"
#include "server/engine/embed/endpoint_encoder.h"
#include "server/engine/services/thread_starter.h"
#include "tests/engine/endpoint_world.h"
#include "tests/support/embedding_models.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::ElementsAre;

TEST(ThreadStarter, ItsThreadsDoNotStandBackWithTheThreadThatAsksForThem) {
  ThreadStarter starter;
  bool asking = false, own = false, started = true;
  std::thread([&] {
    StandBack(5);
    asking = ThreadStandsBack();
    std::thread([&] { own = ThreadStandsBack(); }).join();
    starter.Start([&] { started = ThreadStandsBack(); }).join();
  }).join();
  EXPECT_EQ(own, asking) << "unless the process stands back as far as it can";
  EXPECT_FALSE(started);
}

TEST(ThreadStarter, StartsThreadsOfManyCallersAtOnce) {
  ThreadStarter starter;
  std::atomic<int> ran{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) starter.Start([&] { ++ran; }).join();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ran, 160);
}

TEST_F(EndpointTest, StoredTextsAreEmbeddedAnewByTheNextGeneration) {
  AddAndActivate();
  Write(Texts({"cats", "dogs", "birds"}, /*keep=*/true));
  ASSERT_TRUE(Add(ManifestOf({{"document_prefix", "new: "}})).ok());
  ASSERT_NO_FATAL_FAILURE(BackFill(2));  // It does not serve yet.
  SearchCall call = SearchFor(StubEndpoint::VectorOf("new: dogs", kLength), 1, 2);
  EXPECT_THAT(HitNames(call), ElementsAre("1@2"));
}

// A call of an encoder, in a thread of its own.
class EncoderCall {
 public:
  EncoderCall(EndpointEncoder* encoder, std::vector<std::string> texts, EmbedRole role)
      : texts_(std::move(texts)), thread_([this, encoder, role] {
          CallContext context;
          context.cancelled = [this] { return ++looks_, false; };
          result_ = encoder->Embed(texts_, role, context);
        }) {}
  // Until the texts are in the encoder's queue: a call is looked at when it comes, then as it waits.
  void AwaitQueued() const {
    while (looks_ < 2) std::this_thread::yield();
  }
  absl::StatusOr<EmbeddedInputs> Result() {
    thread_.join();
    return std::move(result_);
  }

 private:
  const std::vector<std::string> texts_;
  std::atomic<int> looks_{0};
  absl::StatusOr<EmbeddedInputs> result_;
  std::jthread thread_;  // the last member: it uses the others
};

// While the only request is at the endpoint, two texts of a backfill come, then a document and a query.
TEST_F(EndpointTest, TextsOfABackfillWaitBehindAllOthersAndTakeNoPlaceInTheQueue) {
  std::mutex mu;
  std::condition_variable changed;
  bool held = false, go_on = false;
  stub_.Queue([&](const std::vector<std::string>& asked, httplib::Response& response) {
    std::unique_lock lock(mu);
    held = true;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return go_on; });
    response.set_content(StubEndpoint::BodyFor(asked, kLength).dump(), "application/json");
  });
  const auto endpoint = ReadEndpoint(ManifestOf({{"concurrency", 1}})["endpoint"]);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EndpointEncoderOptions options;
  options.endpoints = Options().endpoints;
  options.queue_max = 2;
  options.linger = absl::ZeroDuration();
  ThreadStarter starter;
  EndpointEncoder encoder(*endpoint, kLength, options, &starter);
  EncoderCall first(&encoder, {"first"}, EmbedRole::kBackfill);
  {
    std::unique_lock lock(mu);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return held; }));
  }
  EncoderCall backfill(&encoder, {"later 1", "later 2"}, EmbedRole::kBackfill);
  backfill.AwaitQueued();
  EncoderCall document(&encoder, {"a document"}, EmbedRole::kDocument);
  document.AwaitQueued();
  EncoderCall query(&encoder, {"a question"}, EmbedRole::kQuery);
  query.AwaitQueued();
  {
    const std::lock_guard lock(mu);
    go_on = true;
  }
  changed.notify_all();
  for (EncoderCall* const call : {&first, &backfill, &document, &query}) {
    const absl::StatusOr<EmbeddedInputs> result = call->Result();
    ASSERT_TRUE(result.ok()) << result.status();
    for (const auto& output : *result) EXPECT_TRUE(output.ok()) << output.status();
  }
  std::vector<std::vector<std::string>> asked;
  for (const auto& request : stub_.seen()) asked.push_back(request.texts);
  EXPECT_THAT(asked, ElementsAre(ElementsAre("first"), ElementsAre("a question", "a document"),
                                 ElementsAre("later 1", "later 2")));
}

TEST_F(EndpointTest, ABackfillGetsOnBesideWritersThatNeverPause) {
  AddAndActivate();
  Write(Texts({"one", "two", "three"}, /*keep=*/true));
  ASSERT_TRUE(Add(ManifestOf({{"document_prefix", "new: "}, {"batch_size", 2}, {"concurrency", 1}})).ok());
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      while (!stop) {
        UpsertBatch batch = Texts(std::vector<std::string>(20, "a text"));
        batch.generation = 2;
        for (size_t i = 0; i < batch.items.size(); ++i) batch.items[i].id = Id(1'000 * (writer + 1) + i);
        const auto written = engine_->Upsert(std::move(batch), {});
        EXPECT_TRUE(written.ok()) << written.status();
      }
    });
  }
  BackFill(2);
  stop = true;
  for (std::thread& writer : writers) writer.join();
  SearchCall call = SearchFor(StubEndpoint::VectorOf("new: two", kLength), 1, 2);
  EXPECT_THAT(HitNames(call), ElementsAre("1@2"));
}

// Three of four requests wait at the endpoint until a query was answered by the fourth.
TEST_F(EndpointTest, ABackfillAsksTheEndpointSeveralTimesAtOnceAndLeavesOneRequestForQueries) {
  AddAndActivate({{"concurrency", 4}});
  constexpr int kTexts = 300;
  std::vector<std::string> texts;
  for (int i = 0; i < kTexts; ++i) texts.push_back(StrCat("text ", i));
  Write(Texts(texts, /*keep=*/true));
  ASSERT_TRUE(Add(ManifestOf({{"document_prefix", "new: "}, {"batch_size", 10}, {"concurrency", 4}})).ok());
  std::mutex mu;
  std::condition_variable changed;
  int running = 0, most = 0;
  bool answered = false;
  const absl::Cleanup stop = [&] {
    {
      const std::lock_guard lock(mu);
      answered = true;
    }
    changed.notify_all();
    engine_.reset();  // before what the stub's answers refer to goes
  };
  for (int i = 0; i < kTexts / 10 + 1; ++i) {
    stub_.Queue([&](const std::vector<std::string>& asked, httplib::Response& response) {
      if (asked[0] != "a question") {
        std::unique_lock lock(mu);
        most = std::max(most, ++running);
        changed.notify_all();
        EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return answered; })) << "no query came";
        --running;
      }
      response.set_content(StubEndpoint::BodyFor(asked, kLength).dump(), "application/json");
    });
  }
  ASSERT_NO_FATAL_FAILURE(StartBackFill(2));
  {
    std::unique_lock lock(mu);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return running == 3; })) << "never three";
  }
  // Something for the query to find: what generation 1 embedded is out of its reach.
  Write(BatchOf({ItemOf(Id(uint64_t{1'000}), StubEndpoint::VectorOf("new", kLength))}, 2));
  SearchCall question = SearchText("a question");
  question.generation = 2;
  const absl::Status asked = SearchStatus(question, absl::Seconds(60));
  EXPECT_TRUE(asked.ok()) << asked;
  {
    const std::lock_guard lock(mu);
    answered = true;
  }
  changed.notify_all();
  ASSERT_NO_FATAL_FAILURE(AwaitBackFill());
  for (const int i : {0, 150, 299}) {
    SearchCall call = SearchFor(StubEndpoint::VectorOf(StrCat("new: text ", i), kLength), 1, 2);
    EXPECT_THAT(HitNames(call), ElementsAre(StrCat(i, "@2")));
  }
  const std::lock_guard lock(mu);
  EXPECT_EQ(most, 3);
}

TEST_F(EndpointTest, ABackfillGoesOnAfterFailuresOfItsEndpoint) {
  AddAndActivate();
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(StrCat("text ", i));
  Write(Texts(texts, /*keep=*/true));
  ASSERT_TRUE(Add(ManifestOf({{"document_prefix", "new: "}, {"batch_size", 8}})).ok());
  for (const int status : {503, 200, 503, 503}) stub_.QueueStatus(status);  // 200 without a body is no answer either
  ASSERT_NO_FATAL_FAILURE(BackFill(2));
  EXPECT_EQ(engine_->GetBackfill("c")->items_aside, 0u);
  for (const int i : {0, 64, 199}) {
    SearchCall call = SearchFor(StubEndpoint::VectorOf(StrCat("new: text ", i), kLength), 1, 2);
    EXPECT_THAT(HitNames(call), ElementsAre(StrCat(i, "@2")));
  }
}

// What the server embeds by itself is stored whatever the collection thinks of it: nobody is there to be told.
TEST_F(EndpointTest, WhatABackfillEmbedsIsNeverRefusedAsForeign) {
  constexpr int kLong = 48;
  constexpr uint64_t kEnough = 8'192, kTexts = 200;
  StubEndpoint other(kLong);
  EngineOptions options = Options();
  options.endpoints.hosts = {other.host()};
  engine_.reset();
  engine_ = OpenEngine(options);
  const absl::Cleanup stop = [this] { engine_.reset(); };  // Its connections end before the stub does.
  UpdateCollectionCall reject;
  reject.collection = "c";
  reject.foreign_vectors = ForeignVectors::kReject;
  ASSERT_TRUE(engine_->UpdateCollection(reject).ok());
  const auto add = [&](const std::string& model) {
    return Add(
        {{"dimension", kLong}, {"endpoint", {{"url", "http://" + other.host() + "/v1/embeddings"}, {"model", model}}}});
  };
  ASSERT_TRUE(add("first").ok());
  Activate(1, /*force=*/true);
  Write(Texts(std::vector<std::string>(kTexts, "a text"), /*keep=*/true));
  ASSERT_TRUE(add("second").ok());
  // The rows that generation 2 is learnt from are of a model that the endpoint is not.
  const EmbeddingModel right("right", kLong);
  const auto rows = [&](uint64_t first, uint64_t n) {
    std::vector<UpsertItem> items;
    for (uint64_t i = first; i < first + n; ++i) {
      items.push_back(
          ItemOf(Id(i), right.Embed(static_cast<int>(i % EmbeddingModel::kSubjects), static_cast<uint32_t>(i))));
    }
    return BatchOf(std::move(items), 2);
  };
  Write(rows(1'000, kEnough));
  const auto learnt = [this] {
    const auto collection = engine_->GetCollection("c");
    for (const ModelWatchStatus& watched : collection->model_watch) {
      if (watched.generation == 2) return watched.rows_learnt == static_cast<int64_t>(kEnough);
    }
    return false;
  };
  for (const absl::Time limit = absl::Now() + absl::Minutes(2); !learnt() && absl::Now() < limit;) {
    absl::SleepFor(absl::Milliseconds(5));  // What is waited for happens in a thread of the engine.
  }
  ASSERT_TRUE(learnt());
  std::vector<UpsertItem> foreign;
  for (uint64_t i = 0; i < 100; ++i) {
    foreign.push_back(ItemOf(Id(100'000 + i), StubEndpoint::VectorOf(StrCat("text ", i), kLong)));
  }
  EXPECT_TRUE(Fails(engine_->Upsert(BatchOf(foreign, 2), {}), Code::kFailedPrecondition, {"items", "'reject'"}));

  ASSERT_NO_FATAL_FAILURE(BackFill(2));
  EXPECT_EQ(engine_->GetBackfill("c")->items_aside, 0u);
  const auto count = engine_->Count("c", {}, {});
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->count, kEnough + kTexts);
  // Callers are judged as before.
  EXPECT_TRUE(engine_->Upsert(rows(50'000, 100), {}).ok());
  EXPECT_FALSE(engine_->Upsert(BatchOf(foreign, 2), {}).ok());
}

}  // namespace
}  // namespace lightcone::server

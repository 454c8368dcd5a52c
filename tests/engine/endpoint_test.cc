// Texts as raw inputs, and encoders that are endpoints: what is asked, what is refused, and that an endpoint in trouble
// hurts nobody else.
#include <condition_variable>
#include <fstream>

#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/endpoint_breaker.h"
#include "tests/engine/endpoint_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(EndpointBreaker, LetsOneTrialThroughWhateverEarlierRequestsSayMeanwhile) {
  using Entry = EndpointBreaker::Entry;
  using Outcome = EndpointBreaker::Outcome;
  EndpointBreaker breaker(2, absl::Seconds(10));
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*breaker.Admit(start), Entry::kUsual);
  breaker.Note(Entry::kUsual, Outcome::kFailed, start);
  breaker.Note(Entry::kUsual, Outcome::kFailed, start);
  EXPECT_TRUE(Fails(breaker.Admit(start + absl::Seconds(9)), absl::StatusCode::kUnavailable, {"2 times", "1s"}));
  const absl::Time rested = start + absl::Seconds(11);
  EXPECT_EQ(*breaker.Admit(rested), Entry::kTrial);
  // Two that were under way end only now.
  breaker.Note(Entry::kUsual, Outcome::kFailed, rested);
  breaker.Note(Entry::kUsual, Outcome::kUnknown, rested);
  EXPECT_FALSE(breaker.Admit(rested).ok()) << "the trial is still under way";
  breaker.Note(Entry::kTrial, Outcome::kUnknown, rested);
  EXPECT_EQ(*breaker.Admit(rested), Entry::kTrial) << "no longer rest than its own failures ask for";
  breaker.Note(Entry::kTrial, Outcome::kFailed, rested);
  EXPECT_FALSE(breaker.Admit(rested + absl::Seconds(9)).ok());
  EXPECT_EQ(*breaker.Admit(rested + absl::Seconds(11)), Entry::kTrial);
  breaker.Note(Entry::kTrial, Outcome::kWorks, rested + absl::Seconds(11));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*breaker.Admit(rested + absl::Seconds(11)), Entry::kUsual);
}

TEST_F(EndpointTest, TextsAreEmbeddedForItemsAndQueriesWithTheirPrefixes) {
  AddAndActivate({{"query_prefix", "query: "}, {"document_prefix", "passage: "}, {"batch_size", 2}});
  Write(Texts({"cats", "dogs", "birds"}));
  // The stub's vector of "query: ..." is another one than that of "passage: ...".
  SearchCall call = SearchFor(StubEndpoint::VectorOf("passage: dogs", kLength), 1);
  EXPECT_THAT(HitNames(call), ElementsAre("1@1"));
  EXPECT_TRUE(SearchStatus(SearchText("dogs")).ok());
  std::vector<std::string> asked;
  for (const auto& request : stub_.seen()) {
    EXPECT_EQ(request.path, "/v1/embeddings");
    EXPECT_LE(request.texts.size(), 2u);
    asked.insert(asked.end(), request.texts.begin(), request.texts.end());
  }
  EXPECT_THAT(asked, ::testing::UnorderedElementsAre("passage: light cone", "passage: cats", "passage: dogs",
                                                     "passage: birds", "query: dogs"));
}

TEST_F(EndpointTest, SeveralCollectionsUseOneEndpointAtOnce) {
  AddAndActivate();
  CreateCollectionCall create;
  create.name = "d";
  create.metric = Metric::kCosine;
  ASSERT_TRUE(engine_->CreateCollection(create).ok());
  ASSERT_TRUE(Add(ManifestOf(), "d").ok());
  ActivateCall activate;
  activate.collection = "d";
  activate.generation = 1;
  activate.force = true;
  activate.reason = "a test";
  ASSERT_TRUE(engine_->ActivateGeneration(activate).ok());
  std::vector<std::thread> threads;
  for (const char* const name : {"c", "d"}) {
    for (int writer = 0; writer < 4; ++writer) {
      threads.emplace_back([this, name] {
        UpsertBatch batch = Texts(std::vector<std::string>(100, "a text"));
        batch.collection = name;
        const auto written = engine_->Upsert(std::move(batch), {});
        EXPECT_TRUE(written.ok()) << written.status();
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* const name : {"c", "d"}) EXPECT_EQ(engine_->Count(name, std::nullopt, {})->count, 100u) << name;
}

TEST_F(EndpointTest, KeptTextsAreReadAgainAfterARestart) {
  AddAndActivate();
  Write(Texts({"grüße"}, /*keep=*/true));
  Open();
  const auto kept = engine_->GetInput("c", Id(uint64_t{0}));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(std::get<TextInput>(*kept).text, "grüße");
  EXPECT_TRUE(SearchStatus(SearchText("grüße")).ok());
}

TEST_F(EndpointTest, BadTextsAreNamed) {
  AddAndActivate();
  const auto fails = [&](const std::string& text, const std::string& says) {
    const auto written = engine_->Upsert(Texts({"good", text}), {});
    EXPECT_TRUE(Fails(written, Code::kInvalidArgument, {"items[1].input.text", says}));
    EXPECT_TRUE(Fails(SearchStatus(SearchText(text)), Code::kInvalidArgument, {"queries[0].input.text", says}));
  };
  fails("", "empty");
  fails("a\xff", "byte 1 is 0xff");
  fails(std::string((1 << 20) + 1, 'x'), "limits.text_bytes_max");
  UpsertBatch batch = Texts({"good"});
  batch.items[0].content = RawInput(std::string("a file"));
  EXPECT_TRUE(Fails(engine_->Upsert(batch, {}), Code::kInvalidArgument, {"items[0].input", "an image", "a text"}));
  EXPECT_TRUE(Fails(DecodeInput("X\xff"), Code::kDataLoss, {"raw input"}));
}

TEST_F(EndpointTest, AnEndpointThatIsBusyOrFailsIsAskedAgain) {
  AddAndActivate();
  stub_.QueueStatus(429, "1");
  stub_.QueueStatus(500);
  const absl::Time began = absl::Now();
  Write(Texts({"patience"}));
  EXPECT_GE(absl::Now() - began, absl::Seconds(1)) << "Retry-After was not waited for";
  EXPECT_EQ(stub_.seen().size(), 4u);
}

TEST_F(EndpointTest, APauseBeyondTheDeadlineIsNotWaitedFor) {
  AddAndActivate();
  stub_.QueueStatus(429, "20");
  const absl::Time began = absl::Now();
  EXPECT_TRUE(Fails(SearchStatus(SearchText("hurry"), absl::Seconds(10)), Code::kResourceExhausted,
                    {"queries[0].input", "HTTP status 429"}));
  EXPECT_LT(absl::Now() - began, absl::Seconds(9));
}

TEST_F(EndpointTest, AnEndpointThatIsGoneFailsFastAndLeavesSearchesByVectorAlone) {
  AddAndActivate();
  Write(Texts({"cats"}));
  stub_.Close();
  EXPECT_TRUE(Fails(SearchStatus(SearchText("cats")), Code::kUnavailable, {"queries[0].input"}));
  EXPECT_TRUE(Fails(SearchStatus(SearchText("cats")), Code::kUnavailable, {"5 times in a row"}));
  SearchCall both = SearchText("cats");
  both.queries.resize(2);
  both.queries[1].content = StubEndpoint::VectorOf("cats", kLength);
  const auto answer = engine_->Search(both, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kUnavailable, {"is called again in"}));
  EXPECT_TRUE(answer->results[1].status.ok());
  EXPECT_EQ(answer->results[1].hits.size(), 1u);
  EXPECT_TRUE(Fails(engine_->Upsert(Texts({"cats"}), {}), Code::kUnavailable, {"items[0].input"}));
}

TEST_F(EndpointTest, WrongAnswersAreErrorsOfTheTextsConcerned) {
  AddAndActivate();
  const auto answers = [&](const std::string& body) {
    stub_.Queue([body](const auto&, httplib::Response& response) { response.set_content(body, "application/json"); });
    return SearchStatus(SearchText("x"));
  };
  EXPECT_TRUE(Fails(answers(R"({"data":[{"index":0,"embedding":[1,2]}]})"), Code::kInternal, {"2 numbers", "4"}));
  EXPECT_TRUE(Fails(answers(R"({"data":[{"index":0,"embedding":[1,null,3,4]}]})"), Code::kInternal,
                    {"data[0].embedding[1]", "a finite number"}));
  EXPECT_TRUE(Fails(answers(R"({"data":[{"index":0,"embedding":[1,1e39,3,4]}]})"), Code::kInternal, {"finite"}));
  EXPECT_TRUE(Fails(answers(std::string(1 << 20, ' ')), Code::kInternal, {"more than"}));
  // One of two vectors is wrong: so is that text's query alone.
  stub_.Queue([](const auto& texts, httplib::Response& response) {
    nlohmann::json body = StubEndpoint::BodyFor(texts, kLength);
    body["data"][0]["embedding"] = {1, 2};
    response.set_content(body.dump(), "application/json");
  });
  SearchCall two = SearchText("a");
  two.queries.push_back(two.queries[0]);
  const auto answer = engine_->Search(two, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->results[0].status.ok());
  EXPECT_TRUE(Fails(answer->results[1].status, Code::kInternal, {"queries[1].input"}));
}

TEST_F(EndpointTest, AnAnswerThatIsWrongAsAWholeIsAskedForAgain) {
  AddAndActivate();
  const auto answers = [&](const std::string& body, int times) {
    for (int i = 0; i < times; ++i) {
      stub_.Queue([body](const auto&, httplib::Response& response) { response.set_content(body, "application/json"); });
    }
    return SearchStatus(SearchText("x"));
  };
  const std::pair<std::string, std::string> wrong[] = {
      {R"({"data":[]})", "'data' is 0 entries"},
      {"<html>", "no JSON"},
      {"[]", "data"},
      {R"({"data":[{"index":1,"embedding":[1,2,3,4]}]})", "data[0].index"},
      {R"({"data":[{"index":0,"embedding":[1,NaN,3,4]}]})", "no JSON"},
  };
  for (const auto& [body, why] : wrong) {
    EXPECT_TRUE(answers(body, 1).ok()) << "a gateway's page, once: " << why;
    EXPECT_TRUE(Fails(answers(body, engine_->options().endpoints.tries), Code::kUnavailable, {why}));
    EXPECT_TRUE(SearchStatus(SearchText("x")).ok());
  }
}

TEST_F(EndpointTest, ManyTextsThatTheEndpointRefusesCostTheOthersNothing) {
  AddAndActivate();
  std::vector<std::string> texts;
  for (int i = 0; i < 64; ++i) texts.push_back(i % 8 == 3 ? StrCat("too long ", i) : StrCat("good ", i));
  SearchCall call = SearchText(texts[0]);
  for (size_t i = 1; i < texts.size(); ++i) call.queries.push_back(SearchText(texts[i]).queries[0]);
  for (int i = 0; i < 400; ++i) {
    stub_.Queue([](const auto& asked, httplib::Response& response) {
      if (std::any_of(asked.begin(), asked.end(), [](const auto& text) { return text.starts_with("too long"); })) {
        response.status = 400;
        return;
      }
      response.set_content(StubEndpoint::BodyFor(asked, kLength).dump(), "application/json");
    });
  }
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(answer->results[i].status.ok(), i % 8 != 3) << i << ": " << answer->results[i].status;
  }
}

TEST_F(EndpointTest, ATextThatTheEndpointRefusesCostsTheOthersNothing) {
  AddAndActivate();
  const auto refuse = [](const auto& texts, httplib::Response& response) {
    if (std::count(texts.begin(), texts.end(), "too long") == 0) {
      return response.set_content(StubEndpoint::BodyFor(texts, kLength).dump(), "application/json");
    }
    response.status = 400;
    response.set_content(R"({"error":{"message":"8192 tokens at most"}})", "application/json");
  };
  for (int i = 0; i < 7; ++i) stub_.Queue(refuse);
  SearchCall call = SearchText("a");
  for (const char* const text : {"b", "too long", "d"}) call.queries.push_back(SearchText(text).queries[0]);
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (const size_t i : {0, 1, 3}) EXPECT_TRUE(answer->results[i].status.ok()) << i;
  EXPECT_TRUE(Fails(answer->results[2].status, Code::kInvalidArgument, {"queries[2].input", "8192 tokens at most"}));
}

TEST_F(EndpointTest, ASlowAnswerEndsWithTheCallOrWithTheTimeout) {
  AddAndActivate({{"timeout_s", 0.2}});
  std::mutex mu;
  std::condition_variable changed;
  bool ends = false;
  const auto wait = [&](const auto&, httplib::Response&) {
    std::unique_lock lock(mu);
    changed.wait(lock, [&] { return ends; });
  };
  for (int i = 0; i < 5; ++i) stub_.Queue(wait);
  const absl::Status late = SearchStatus(SearchText("slow"), absl::Milliseconds(50));
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late;
  EXPECT_TRUE(Fails(SearchStatus(SearchText("slow")), Code::kUnavailable, {"timeout_s"}));
  {
    const std::lock_guard lock(mu);
    ends = true;
  }
  changed.notify_all();
  stub_.Close();  // The answers use what stands here.
}

TEST_F(EndpointTest, TheKeyStandsInTheHeaderAndNowhereElse) {
  const std::string key = "sk-very-secret-0123456789";
  std::ofstream(folder_.path() + "/stub.key") << key << "\n";
  AddAndActivate({{"key_file", "stub.key"}});
  for (const auto& request : stub_.seen()) EXPECT_EQ(request.authorization, "Bearer " + key);
  const auto echo = [key](int status) {
    return [key, status](const auto&, httplib::Response& response) {
      response.status = status;
      response.set_content(R"({"error":{"message":")" + std::string(190, 'x') + key + R"("}})", "application/json");
    };
  };
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  std::string told;
  for (const int status : {400, 401, 403, 404, 422}) {
    stub_.Queue(echo(status));
    told += MessageOf(SearchStatus(SearchText("x")));
  }
  for (int i = 0; i < 4; ++i) stub_.Queue(echo(503));
  told += MessageOf(SearchStatus(SearchText("x")));
  told += engine_->GetGeneration("c", 1)->manifest_json;
  engine_.reset();
  told += ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("HTTP status 401"));
  EXPECT_THAT(told, Not(HasSubstr("sk-very")));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path() + "/data")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_EQ(bytes.find("sk-very"), std::string::npos) << entry.path();
  }
}

TEST_F(EndpointTest, AKeyThatIsMissingIsNamedByItsPlace) {
  std::ofstream(folder_.path() + "/stub.key") << "first\n";
  AddAndActivate({{"key_file", "stub.key"}});
  std::ofstream(folder_.path() + "/stub.key") << "second\n";
  EXPECT_TRUE(SearchStatus(SearchText("x")).ok());
  EXPECT_EQ(stub_.seen().back().authorization, "Bearer second");
  std::filesystem::remove(folder_.path() + "/stub.key");
  EXPECT_TRUE(Fails(SearchStatus(SearchText("x")), Code::kFailedPrecondition, {"'stub.key'", "encoder.endpoint_keys"}));
  ::setenv("LIGHTCONE_ENDPOINT_TEST", "from-the-environment", 1);
  ASSERT_TRUE(Add(ManifestOf({{"key_env", "LIGHTCONE_ENDPOINT_TEST"}})).ok());
  EXPECT_EQ(stub_.seen().back().authorization, "Bearer from-the-environment");
}

TEST_F(EndpointTest, ManifestsReachOnlyWhatTheOperatorAllows) {
  const auto fails = [&](const nlohmann::json& more, Code code, const std::vector<std::string>& says) {
    EXPECT_TRUE(Fails(Add(ManifestOf(more)), code, says)) << more;
  };
  fails({{"url", "http://127.0.0.1:1/v1"}}, Code::kFailedPrecondition, {"127.0.0.1:1", "encoder.endpoint_hosts"});
  fails({{"url", "http://" + stub_.host() + "@example.org/"}}, Code::kInvalidArgument, {"manifest.endpoint.url"});
  fails({{"url", "file:///etc/passwd"}}, Code::kInvalidArgument, {"manifest.endpoint.url"});
  fails({{"url", "ftp://" + stub_.host() + "/"}}, Code::kInvalidArgument, {"'ftp'", "http, https"});
  fails({{"url", "no url"}}, Code::kInvalidArgument, {"manifest.endpoint.url"});
  fails({{"key_file", "../store"}}, Code::kInvalidArgument, {"manifest.endpoint.key_file"});
  fails({{"key_file", "/etc/passwd"}}, Code::kInvalidArgument, {"manifest.endpoint.key_file"});
  fails({{"key_env", "HOME"}}, Code::kInvalidArgument, {"'HOME'", "LIGHTCONE_ENDPOINT_"});
  fails({{"api_key", "sk-1"}}, Code::kInvalidArgument, {"'api_key'", "key_file"});
  fails({{"model", ""}}, Code::kInvalidArgument, {"manifest.endpoint.model"});
  fails({{"batch_size", 0}}, Code::kInvalidArgument, {"manifest.endpoint.batch_size", "1 .. 2048"});
  EXPECT_TRUE(stub_.seen().empty());
  EngineOptions wrong = Options();
  wrong.endpoints.hosts = {"http://a"};
  EXPECT_TRUE(Fails(wrong.Validate(), Code::kInvalidArgument, {"encoder.endpoint_hosts", "http://a"}));
}

TEST_F(EndpointTest, ARedirectIsNotFollowed) {
  stub_.Queue([this](const auto&, httplib::Response& response) {
    response.status = 307;
    response.set_header("Location", "http://" + stub_.host() + "/elsewhere");
  });
  EXPECT_TRUE(Fails(Add(ManifestOf()), Code::kFailedPrecondition, {"manifest.endpoint", "307", "redirects"}));
  EXPECT_EQ(stub_.seen().size(), 1u);
}

TEST_F(EndpointTest, RegistrationTriesTheEndpoint) {
  nlohmann::json manifest = ManifestOf();
  manifest["dimension"] = 8;
  EXPECT_TRUE(Fails(Add(manifest), Code::kInvalidArgument, {"manifest.endpoint", "4 numbers", "8 numbers"}));
  manifest = ManifestOf();
  manifest["architecture"] = "external";
  EXPECT_TRUE(Fails(Add(manifest), Code::kInvalidArgument, {"manifest.endpoint"}));
  EXPECT_TRUE(engine_->ListGenerations("c")->empty());
  const auto made = Add(ManifestOf());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->has_encoder);
}

TEST_F(EndpointTest, VectorsOfAnotherModelAreRefused) {
  nlohmann::json manifest = ManifestOf();
  manifest["revision"] = "r2";
  ASSERT_TRUE(Add(manifest).ok());
  Activate(1, /*force=*/true);
  UpsertBatch batch = BatchOf({ItemOf(Id(uint64_t{1}), {1, 0, 0, 0})});
  batch.model = "other";
  EXPECT_TRUE(Fails(engine_->Upsert(batch, {}), Code::kFailedPrecondition, {"'other'", "'stub-1@r2'"}));
  for (const char* const model : {"stub-1", "stub-1@r2", ""}) {
    batch.model = model;
    EXPECT_TRUE(engine_->Upsert(batch, {}).ok()) << model;
  }
  SearchCall call = SearchFor({1, 0, 0, 0});
  call.model = "stub-1@r1";
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition, {"'stub-1@r1'", "'stub-1@r2'"}));
  call.model = "stub-1@r2";
  EXPECT_TRUE(engine_->Search(call, {}).ok());
  Open();
  call.model = "other";
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kFailedPrecondition, {"'other'"}));
}

TEST_F(EndpointTest, AnEstimateSaysWhatTheNextGenerationWouldCostAndEmbedsATrialAlone) {
  AddAndActivate();
  Write(Texts({"cats", "dogs", "b\u00e4r"}, /*keep=*/true));
  UpsertBatch vector = BatchOf({ItemOf(Id(9), StubEndpoint::VectorOf("fish", kLength))}, 1);
  Write(std::move(vector));
  ASSERT_TRUE(Add(ManifestOf({{"document_prefix", "new: "}})).ok());
  const size_t before = stub_.seen().size();
  const auto estimate = engine_->EstimateBackfill({"c", 2, 2}, {});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->generation, 2u);
  EXPECT_EQ(estimate->items, 4u);
  EXPECT_EQ(estimate->sampled, 4);
  EXPECT_EQ(estimate->with_input, 3);
  EXPECT_EQ(estimate->texts, 3);
  EXPECT_NEAR(estimate->characters_a_text, 11.0 / 3, 1e-9) << "characters, not bytes";
  EXPECT_EQ(estimate->trial_inputs, 2);
  EXPECT_GT(estimate->items_per_second, 0);
  EXPECT_TRUE(estimate->trial_error.ok()) << estimate->trial_error;
  std::vector<std::string> asked;
  const auto seen = stub_.seen();
  for (size_t i = before; i < seen.size(); ++i) asked.insert(asked.end(), seen[i].texts.begin(), seen[i].texts.end());
  EXPECT_EQ(asked.size(), 3u) << "one of them waits for the encoder first";
  EXPECT_THAT(asked, ::testing::Each(::testing::StartsWith("new: ")));
  EXPECT_EQ(engine_->Count("c", {}, {})->by_generation.size(), 1u) << "nothing of a trial is stored";

  EXPECT_EQ(engine_->EstimateBackfill({"c", 0, 0}, {})->items, 0u) << "the active generation embedded all";
  stub_.Close();
  const auto without = engine_->EstimateBackfill({"c", 2, 2}, {});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->items, 4u);
  EXPECT_FALSE(without->trial_error.ok());
  EXPECT_TRUE(Fails(engine_->EstimateBackfill({"c", 2, 257}, {}), Code::kInvalidArgument, {"trial_max", "257", "256"}));
  EXPECT_TRUE(Fails(engine_->EstimateBackfill({"c", 7, 0}, {}), Code::kNotFound, {"7"}));
  Activate(2, /*force=*/true);
  EXPECT_TRUE(Fails(engine_->EstimateBackfill({"c", 1, 0}, {}), Code::kInvalidArgument, {"generation", "1", "0 or 2"}));
}

}  // namespace
}  // namespace lightcone::server

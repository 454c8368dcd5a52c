// A server on the loopback that speaks OpenAI's /v1/embeddings, and a collection "c" whose generations use it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_testing.h"
#include "tests/support/loopback_server.h"

namespace lightcone::server {

// Answers each text with a vector of its own. Answers that a test queues go first.
class StubEndpoint {
 public:
  struct Seen {
    std::vector<std::string> texts;
    std::string authorization, path;
  };
  using Answer = std::function<void(const std::vector<std::string>& texts, httplib::Response& response)>;

  explicit StubEndpoint(int dimension) : dimension_(dimension) {
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    };
    server_.handlers().Post(".*", handle);
    server_.Start();
  }
  void Close() { server_.Close(); }

  std::string host() const { return StrCat("127.0.0.1:", server_.port()); }
  void Queue(Answer answer) {
    const std::lock_guard lock(mu_);
    queued_.push_back(std::move(answer));
  }
  void QueueStatus(int status, const std::string& retry_after = "") {
    Queue([=](const auto&, httplib::Response& response) {
      response.status = status;
      if (!retry_after.empty()) response.set_header("Retry-After", retry_after);
    });
  }
  std::vector<Seen> seen() {
    const std::lock_guard lock(mu_);
    return seen_;
  }

  static std::vector<float> VectorOf(const std::string& text, int dimension) {
    std::vector<float> vector(static_cast<size_t>(dimension));
    uint32_t state = 1;
    for (const char c : text) state = state * 31 + static_cast<uint8_t>(c);
    for (float& x : vector) {
      state = state * 1'664'525 + 1'013'904'223;
      x = static_cast<float>(state >> 8) / float{1 << 24} - 0.5f;
    }
    return vector;
  }
  // The last one first: places come from `index`.
  static nlohmann::json BodyFor(const std::vector<std::string>& texts, int dimension) {
    nlohmann::json data = nlohmann::json::array();
    for (size_t i = texts.size(); i-- > 0;) {
      data.push_back({{"index", i}, {"embedding", VectorOf(texts[i], dimension)}});
    }
    return {{"object", "list"}, {"data", data}};
  }

 private:
  void Handle(const httplib::Request& request, httplib::Response& response) {
    const auto json = nlohmann::json::parse(request.body);
    const auto texts = json["input"].get<std::vector<std::string>>();
    Answer answer;
    {
      const std::lock_guard lock(mu_);
      seen_.push_back({texts, request.get_header_value("Authorization"), request.path});
      if (!queued_.empty()) {
        answer = std::move(queued_.front());
        queued_.pop_front();
      }
    }
    if (answer) return answer(texts, response);
    response.set_content(BodyFor(texts, dimension_).dump(), "application/json");
  }

  const int dimension_;
  std::mutex mu_;
  std::vector<Seen> seen_;
  std::deque<Answer> queued_;
  LoopbackServer server_;  // the last member: its handlers use the others
};

class EndpointTest : public EngineTest {
 protected:
  static constexpr int kLength = 4;

  void SetUp() override {
    Open();
    CreateCollectionCall create;
    create.name = "c";
    create.metric = Metric::kCosine;
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
  }
  void TearDown() override { engine_.reset(); }  // Its connections end before the stub does.
  EngineOptions Options() {
    EngineOptions options = OptionsFor(folder_.path() + "/data");
    options.endpoints.hosts = {stub_.host()};
    options.endpoints.keys_folder = folder_.path();
    options.endpoints.pause = absl::Milliseconds(5);
    options.endpoints.rest = absl::Hours(1);
    options.encoder_linger = absl::ZeroDuration();
    return options;
  }
  void Open() {
    engine_.reset();
    engine_ = OpenEngine(Options());
    ASSERT_NE(engine_, nullptr);
  }
  nlohmann::json ManifestOf(const nlohmann::json& more = nlohmann::json::object()) {
    nlohmann::json endpoint = {{"url", "http://" + stub_.host() + "/v1/embeddings"}, {"model", "stub-1"}};
    endpoint.update(more);
    return {{"dimension", kLength}, {"endpoint", endpoint}};
  }
  absl::StatusOr<GenerationStatus> Add(const nlohmann::json& manifest, const std::string& collection = "c") {
    RegisterCall call;
    call.collection = collection;
    call.manifest_json = manifest.dump();
    return engine_->RegisterGeneration(call);
  }
  void AddAndActivate(const nlohmann::json& more = nlohmann::json::object()) {
    const auto made = Add(ManifestOf(more));
    ASSERT_TRUE(made.ok()) << made.status();
    Activate(made->generation, /*force=*/true);
  }
  // Embeds all of "c" by the generation, as fast as it goes.
  void BackFill(uint32_t generation) {
    ASSERT_NO_FATAL_FAILURE(StartBackFill(generation));
    AwaitBackFill();
  }
  void StartBackFill(uint32_t generation) {
    StartBackfillCall start;
    start.collection = "c";
    start.embed_rate = 1e6;
    start.generation = generation;
    ASSERT_TRUE(engine_->StartBackfill(start).ok());
  }
  void AwaitBackFill() {
    const auto done = [this] { return engine_->GetBackfill("c")->state == BackfillState::kDone; };
    const absl::Time limit = absl::Now() + absl::Minutes(2);
    // What is waited for happens in a thread of the engine.
    while (!done() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
    ASSERT_TRUE(done());
  }
  static UpsertBatch Texts(const std::vector<std::string>& texts, bool keep = false) {
    UpsertBatch batch;
    batch.collection = "c";
    batch.keep_input = keep;
    for (size_t i = 0; i < texts.size(); ++i) {
      UpsertItem& item = batch.items.emplace_back();
      item.id = Id(i);
      item.content = RawInput(TextInput{texts[i]});
    }
    return batch;
  }
  static SearchCall SearchText(const std::string& text) {
    SearchCall call = SearchFor({}, 3);
    call.queries[0].content = RawInput(TextInput{text});
    return call;
  }
  absl::Status SearchStatus(const SearchCall& call, absl::Duration limit = absl::InfiniteDuration()) {
    CallContext context;
    context.deadline = absl::Now() + limit;
    const auto answer = engine_->Search(call, context);
    return answer.ok() ? answer->results[0].status : answer.status();
  }

  StubEndpoint stub_{kLength};
};

}  // namespace lightcone::server

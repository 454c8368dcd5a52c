// Prometheus rules and Grafana dashboards, by the tools and the server that they are for: promtool, and a Prometheus
// that scrapes a Lightcone.
#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <regex>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "server/app/serve.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const char kDeploy[] = LIGHTCONE_SOURCE_DIR "/deploy/";
constexpr int kDimension = 48;

std::string Text(const std::string& path) {
  const auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

// Every expression of every panel, as Grafana would send it.
std::vector<std::string> QueriesOf(const json& dashboard) {
  std::vector<std::string> queries;
  for (const json& panel : dashboard["panels"]) {
    for (const json& target : panel.value("targets", json::array())) {
      queries.push_back(absl::StrReplaceAll(target["expr"].get<std::string>(),
                                            {{"$__rate_interval", "30s"}, {"$instance", ".*"}, {"$collection", ".*"}}));
    }
  }
  return queries;
}

TEST(PrometheusRules, EachAlertIsTestedAndDescribed) {
  const std::string rules = Text(std::string(kDeploy) + "prometheus/rules.yml");
  const std::string tests = Text(std::string(kDeploy) + "prometheus/rules_test.yml");
  const std::string page = Text(LIGHTCONE_SOURCE_DIR "/docs/operate/monitoring.md");
  static const std::regex alert("- alert: (\\w+)");
  int alerts = 0;
  for (std::sregex_iterator it(rules.begin(), rules.end(), alert), end; it != end; ++it, ++alerts) {
    EXPECT_THAT(tests, HasSubstr("alertname: " + (*it)[1].str()));
    EXPECT_THAT(page, HasSubstr("`" + (*it)[1].str() + "`"));
  }
  EXPECT_GE(alerts, 10);
}

// A port that nobody had a moment ago.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  socklen_t length = sizeof(name);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length), 0);
  close(fd);
  return ntohs(name.sin_port);
}

// A Prometheus with the repository's rules, scraping one server twice a second.
class Prometheus {
 public:
  Prometheus(const TemporaryFolder& folder, const std::string& target) : port_(FreePort()) {
    const std::string config = absl::StrReplaceAll(Text(std::string(kDeploy) + "prometheus/prometheus.yml"),
                                                   {{"127.0.0.1:7701", target}, {"15s", "500ms"}});
    EXPECT_TRUE(WriteFileAtomically(folder / "prometheus.yml", config).ok());
    std::filesystem::copy_file(std::string(kDeploy) + "prometheus/rules.yml", folder / "rules.yml");
    std::vector<std::string> words = {"prometheus", "--config.file=" + (folder / "prometheus.yml"),
                                      "--storage.tsdb.path=" + (folder / "series"),
                                      StrCat("--web.listen-address=127.0.0.1:", port_), "--log.level=error"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawnp(&pid_, "prometheus", nullptr, nullptr, arguments.data(), environ), 0);
  }
  ~Prometheus() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  // The result of an instant query; an error as a string, and "" while nobody answers.
  json Query(const std::string& expression) const {
    httplib::Client client("127.0.0.1", port_);
    const auto result = client.Post("/api/v1/query", httplib::Params{{"query", expression}});
    if (!result) return "";
    const json answer = json::parse(result->body, nullptr, false);
    if (!answer.is_object()) return "";  // it starts: "Service Unavailable"
    if (answer.value("status", "") != "success") return result->body;
    return answer["data"]["result"];
  }

 private:
  const int port_;
  pid_t pid_ = -1;
};

// A server with two generations in one gallery and a backfill that goes on.
class Monitoring : public testing::Test {
 protected:
  void SetUp() override {
    ServerConfig config;
    config.listen = config.http_listen = "127.0.0.1:0";
    config.engine.data_folder = folder_ / "data";
    config.engine.store.memory_bytes = 32 << 20;
    config.engine.live_recall = {.sample_share = 1, .capacity_share_max = 1, .queue_max = 1'000};
    auto server = RunningServer::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = client::Client::Connect({.address = server_->bound().grpc});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    FillGallery();
  }

  void FillGallery() {
    Engine& engine = server_->engine();
    CreateCollectionCall create;
    create.name = "photos";
    ASSERT_TRUE(engine.CreateCollection(create).ok());
    for (uint32_t parent = 0; parent < 2; ++parent) {
      RegisterCall call;
      call.collection = "photos";
      call.parent = parent;
      call.manifest_json = StrCat("{\"dimension\":", kDimension, ",\"curvature\":1,\"clip_radius\":2}");
      ASSERT_TRUE(engine.RegisterGeneration(call).ok());
    }
    Activate(1);
    for (uint64_t i = 0; i < 3'000; i += 500) Upsert(i, i + 500, false);
    ASSERT_TRUE(engine.Rebuild("photos", {}, true, "", {}).ok());
    for (int i = 0; i < 50; ++i) Search();
    Activate(2);
    StartBackfillCall start;
    start.collection = "photos";
    ASSERT_TRUE(engine.StartBackfill(start).ok());
  }
  void Activate(uint32_t generation) {
    ActivateCall call;
    call.collection = "photos";
    call.generation = generation;
    ASSERT_TRUE(server_->engine().ActivateGeneration(call).ok());
  }
  std::vector<float> RandomVector() {
    std::normal_distribution<float> normal;
    std::vector<float> out(kDimension);
    for (float& x : out) x = normal(random_);
    return out;
  }
  void Upsert(uint64_t begin, uint64_t end, bool same_content) {
    v1::UpsertRequest request;
    request.set_collection("photos");
    request.set_same_content(same_content);
    for (uint64_t i = begin; i < end; ++i) {
      v1::Item& item = *request.add_items();
      item.mutable_id()->set_number(i);
      for (const float x : RandomVector()) item.mutable_vector()->mutable_floats()->add_values(x);
    }
    const auto written = client_->Upsert(request);
    ASSERT_TRUE(written.ok()) << written.status();
  }
  void Search() {
    v1::SearchRequest request;
    request.set_collection("photos");
    request.set_k(10);
    request.set_ef(ef_);
    v1::Vector& vector = *request.add_queries()->mutable_vector();
    for (const float x : RandomVector()) vector.mutable_floats()->add_values(x);
    const auto answer = client_->Search(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }

  TemporaryFolder folder_;
  std::mt19937 random_{5};
  uint32_t ef_ = 0;  // breadth of Search
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(Monitoring, EachDashboardQueryReturnsData) {
  TemporaryFolder folder;
  const Prometheus prometheus(folder, server_->bound().http);
  std::vector<std::string> waiting;
  for (const char* name : {"serving", "rollout"}) {
    const json dashboard = json::parse(Text(StrCat(kDeploy, "grafana/", name, ".json")));
    const std::vector<std::string> queries = QueriesOf(dashboard);
    EXPECT_GE(queries.size(), 10u) << name;
    waiting.insert(waiting.end(), queries.begin(), queries.end());
  }
  // Lives on while Prometheus looks: rates need change between two scrapes.
  const absl::Time end = absl::Now() + absl::Minutes(2);
  uint64_t next = 0;
  while (!waiting.empty() && absl::Now() < end) {
    for (int i = 0; i < 10; ++i) Search();
    // A backfill goes on for a while, then items are replaced; most stay as the older generation embedded them.
    Upsert(next, next + 10, /*same_content=*/next < 1'000);
    next = std::min<uint64_t>(next + 10, 1'000);
    std::erase_if(waiting, [&](const std::string& query) {
      const json result = prometheus.Query(query);
      EXPECT_TRUE(result.is_array() || result == "") << query << "\n" << result;
      return result.is_array() && !result.empty();
    });
  }
  EXPECT_THAT(waiting, testing::IsEmpty()) << "no data for these";
}

TEST_F(Monitoring, SearchesThatFindTooLittleShowInTheMetricAndRaiseTheAlert) {
  TemporaryFolder folder;
  const Prometheus prometheus(folder, server_->bound().http);
  const std::string lately =
      "sum(rate(lightcone_live_recall_found_total[5s])) / sum(rate(lightcone_live_recall_expected_total[5s]))";
  const std::string alert = "ALERTS{alertname=\"LightconeRecallLow\", alertstate=\"firing\"}";
  // Searches until the query has a result. The end is for a test that hangs, and decides nothing else.
  const auto searched_until = [&](const std::string& query) {
    const absl::Time end = absl::Now() + absl::Minutes(2);
    while (absl::Now() < end) {
      for (int i = 0; i < 10; ++i) Search();
      const json result = prometheus.Query(query);
      if (result.is_array() && !result.empty()) return true;
    }
    return false;
  };
  ASSERT_TRUE(searched_until(lately + " > 0.95")) << "sound at first";
  EXPECT_TRUE(prometheus.Query(alert).empty());

  ef_ = 1;  // as narrow as a walk can be
  const absl::Time damaged = absl::Now();
  ASSERT_TRUE(searched_until(lately + " < 0.9"));
  const absl::Duration shown = absl::Now() - damaged;
  ASSERT_TRUE(searched_until(alert));
  std::printf("shown in the metric after %.1f s, the alert raised after %.1f s\n", absl::ToDoubleSeconds(shown),
              absl::ToDoubleSeconds(absl::Now() - damaged));
}

}  // namespace
}  // namespace lightcone::server

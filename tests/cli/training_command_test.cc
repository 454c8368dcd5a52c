// A new model in an afternoon, trained where it will serve: from stored inputs to a draft, through a server that is
// killed on the way, past the gate and a canary into service, the gallery behind it, and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/cli/run_program.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;

constexpr int kTrainedClasses = 8, kOfAClass = 12;
const std::vector<std::string> kSmall = {"--set", "encoder.architecture=mlp", "--set", "encoder.dimension=8"};

class TrainingCommand : public testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start() {
    auto server = ChildServer::Start(Binary(), folder_ / "data", {"--helper-niceness", "0"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  Outcome Run(std::vector<std::string> words, const std::vector<std::string>& more = {}) {
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--server", server_->address()});
    return RunHere(folder_, words);
  }
  void Must(std::vector<std::string> words, const std::vector<std::string>& more = {}) {
    const std::string line = StrCat(words[0], " ", words[1], " ", words[2]);
    const Outcome outcome = Run(std::move(words), more);
    ASSERT_EQ(outcome.exit_code, 0) << line << ": " << outcome.err << outcome.out;
  }
  nlohmann::json Json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Outcome outcome = Run(std::move(words));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  }
  std::unique_ptr<client::Client> Connect() const {
    client::ClientOptions options;
    options.address = server_->address();
    return client::Client::Connect(options).value();
  }

  // Letters of a few classes, kept as pictures, and probes: other pictures of the same letters.
  void FillShop() {
    const auto glyphs = OpenDataset("glyphs", 1);
    ASSERT_TRUE(glyphs.ok()) << glyphs.status();
    std::vector<int> of_class(static_cast<size_t>(glyphs->classes()));
    v1::UpsertRequest request;
    request.set_collection("shop");
    request.set_keep_input(true);
    std::string probes;
    for (int64_t i = 0; i < glyphs->train.size(); ++i) {
      const int label = glyphs->train.labels[static_cast<size_t>(i)];
      if (label >= kTrainedClasses) continue;
      const int at = of_class[static_cast<size_t>(label)]++;
      const std::string png = *EncodePng(glyphs->train, i);
      if (at >= kOfAClass) {
        if (at >= 2 * kOfAClass) continue;
        const std::string path = folder_ / StrCat("probe-", i, ".png");
        ASSERT_TRUE(WriteFileAtomically(path, png).ok());
        probes += StrCat("{\"label\":\"", label, "\",\"image\":\"", path, "\"}\n");
        probe_ = path;
        continue;
      }
      v1::Item* item = request.add_items();
      item->mutable_id()->set_number(static_cast<uint64_t>(i));
      item->mutable_input()->set_image(png);
      item->set_payload_json(StrCat("{\"class\":\"", label, "\"}"));
    }
    const auto written = Connect()->Upsert(request);
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_TRUE(WriteFileAtomically(folder_ / "probes.jsonl", probes).ok());
    Must({"generation", "probes", "put", "shop", "daily", folder_ / "probes.jsonl", "--label-field", "class"});
  }

  // Kills the server when a training has come to a step, and starts it again.
  void KillAt(const std::string& id, uint64_t wanted) {
    std::atomic<uint64_t> step{0};
    std::thread watcher([&, client = Connect()] {
      const auto see = [&](const v1::TrainingJob& training) {
        step = training.job().progress_json().empty() ? 0 : training.job().done();
      };
      (void)client->WatchTraining(id, see, {.timeout = absl::Minutes(5), .retries_max = 0});
    });
    while (step < wanted) absl::SleepFor(absl::Milliseconds(20));  // a program elsewhere: nothing to be woken by
    server_->Kill();
    watcher.join();
    Start();
  }

  TemporaryFolder folder_;
  std::unique_ptr<ChildServer> server_;
  std::string probe_;  // a picture
};

TEST_F(TrainingCommand, AModelIsTrainedWhereItServesAndRolledOutAndBack) {
  Must({"collection", "create", "shop"});
  // The first model, from a data set on the server's disk.
  Must({"training", "start", "shop", "--method", "independent", "--data", "glyphs", "--classes",
        StrCat(kTrainedClasses), "--set", "epochs=1", "--wait"},
       kSmall);
  EXPECT_EQ(Json({"generation", "get", "shop", "1"})["state"], "draft");
  EXPECT_EQ(Run({"generation", "activate", "shop", "1"}).exit_code, 5);
  Must({"rollout", "shop", "--generation", "1", "--yes"});
  EXPECT_EQ(Json({"generation", "get", "shop", "1"})["state"], "active");
  FillShop();

  // The second one, from what the shop holds, compatible with the first. The server dies in the middle.
  Must({"training", "start", "shop", "--method", "hbct", "--parent", "1", "--label-field", "class", "--set",
        "epochs=60", "--set", "batch=16", "--set", "checkpoint_seconds=0"},
       kSmall);
  ASSERT_NO_FATAL_FAILURE(KillAt("2", 40));
  const Outcome watched = Run({"training", "watch", "2"});
  ASSERT_EQ(watched.exit_code, 0) << watched.err << watched.out;
  const auto trained = Json({"training", "get", "2"});
  EXPECT_EQ(trained["generation"], 2);
  EXPECT_EQ(trained["attempts"], 2);
  EXPECT_EQ(trained["result"]["images"], kTrainedClasses * kOfAClass);
  EXPECT_GE(trained["result"]["curve"].size(), 45u);  // a kill loses what was not written yet
  EXPECT_EQ(Json({"training", "list"}).size(), 2u);
  EXPECT_EQ(Run({"training", "get", "77"}).exit_code, 3);

  // Rolled out, past a canary that users meet meanwhile.
  std::atomic<bool> done{false};
  std::atomic<int> by_canary{0}, failed{0};
  std::thread users([&, client = Connect(), png = ReadFile(probe_).value()] {
    for (int i = 0; !done; ++i) {
      v1::SearchRequest request;
      request.set_collection("shop");
      request.set_k(1);
      request.set_canary_key(StrCat("user-", i % 100));
      request.add_queries()->mutable_input()->set_image(png);
      const auto answer = client->Search(request);
      failed += !answer.ok() || answer->results(0).has_error();
      if (answer.ok()) by_canary += answer->canary();
    }
  });
  const Outcome rollout = Run({"rollout", "shop", "--generation", "2", "--tolerance", "0.3", "--canary-share", "0.5",
                               "--canary-searches", "20", "--embed-rate", "500", "--yes"});
  done = true;
  users.join();
  ASSERT_EQ(rollout.exit_code, 0) << rollout.err << rollout.out;
  for (const char* step_told : {"== take up the draft", "== validate", "== canary", "serves 50 % of the searches",
                                "== activate", "== backfill"}) {
    EXPECT_THAT(rollout.out, HasSubstr(step_told));
  }
  EXPECT_EQ(failed, 0);
  EXPECT_GE(by_canary, 20);
  const auto backfill =
      Connect()->WatchBackfill("shop", [](const v1::StatusResponse&) {}, {.timeout = absl::Minutes(2)});
  ASSERT_TRUE(backfill.ok()) << backfill.status();
  EXPECT_EQ(backfill->state(), v1::BACKFILL_STATE_DONE);
  EXPECT_EQ(backfill->items_done(), kTrainedClasses * kOfAClass);
  EXPECT_EQ(Json({"collection", "get", "shop"})["generations"].size(), 1u) << "every item is generation 2's";
  EXPECT_FALSE(Json({"collection", "get", "shop"}).contains("canary"));
  Must({"generation", "rollback", "shop"});
  EXPECT_EQ(Json({"collection", "get", "shop"})["active_generation"], 1);
  const auto audit = Json({"generation", "audit", "shop"});
  EXPECT_EQ(audit[0]["action"], "rollback");
  EXPECT_EQ(audit[2]["action"], "canary");
  EXPECT_EQ(audit[2]["share"], 0.5);
}

TEST_F(TrainingCommand, WhatMakesNoSenseIsSaidAndACancelledTrainingIsGone) {
  Must({"collection", "create", "shop"});
  EXPECT_THAT(Run({"training", "start", "shop"}).err, HasSubstr("--method"));
  EXPECT_EQ(Run({"training", "start", "shop", "--method", "x", "--recipe-file", "y"}).exit_code, 2);
  EXPECT_EQ(Run({"training", "start", "shop", "--method", "hbct", "--set", "epochs"}).exit_code, 2);
  EXPECT_EQ(Run({"training", "start", "nobody", "--method", "hbct", "--label-field", "a"}).exit_code, 3);
  EXPECT_EQ(Run({"training", "start", "shop", "--method", "magic", "--data", "glyphs", "--wait"}).exit_code, 2);
  EXPECT_EQ(Run({"rollout", "shop", "--generation", "1", "--canary-share", "2", "--yes"}).exit_code, 2);
  EXPECT_THAT(Run({"rollout", "shop", "--generation", "1", "--p99-ms", "-1", "--yes"}).err, HasSubstr("--p99-ms"));
  EXPECT_THAT(Run({"rollout", "shop", "--generation", "1", "--embed-rate", "nan", "--yes"}).err,
              HasSubstr("--embed-rate"));
  EXPECT_EQ(Run({"generation", "canary", "shop", "1", "--end"}).exit_code, 2);
  EXPECT_EQ(Run({"generation", "canary", "shop", "--share", "0.5"}).exit_code, 2) << "shows, and would change nothing";
  EXPECT_EQ(Run({"generation", "canary", "shop", "0", "--reason", "x"}).exit_code, 2);
  EXPECT_EQ(Run({"training", "start", "shop", "--recipe-file", "y", "--set", "epochs=1"}).exit_code, 2);
  EXPECT_EQ(Json({"generation", "canary", "shop"})["generation"], 0);
  Must({"training", "start", "shop", "--method", "independent", "--data", "glyphs", "--set", "epochs=1000"}, kSmall);
  Must({"training", "cancel", "2"});
  EXPECT_EQ(Run({"training", "watch", "2"}).exit_code, 130);
  EXPECT_EQ(Json({"training", "get", "2"})["state"], "cancelled");
  EXPECT_EQ(Json({"generation", "list", "shop"}).size(), 0u);
}

}  // namespace
}  // namespace lightcone::cli

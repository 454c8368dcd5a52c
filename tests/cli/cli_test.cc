// Every subcommand that speaks to a server, against a real server in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>

#include "base/npy.h"
#include "cli/child_server.h"
#include "models/adapter_file.h"
#include "tests/cli/served_test.h"

namespace lightcone::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Cli : public ServedTest {
 protected:
  Outcome RunJson(std::vector<std::string> words) {
    words.push_back("--json");
    return Run(words);
  }
  // A Euclidean collection of this test with an active generation of dimension 3.
  std::string MakeCollection(const std::string& name) {
    EXPECT_EQ(Run({"collection", "create", name, "--geometry", "euclidean"}).exit_code, 0);
    EXPECT_EQ(Run({"generation", "register", name, "--dimension", "3", "--activate"}).exit_code, 0);
    return name;
  }
};

TEST_F(Cli, CollectionsAreCreatedListedShownAliasedRebuiltAndDropped) {
  Outcome made = RunJson({"collection", "create", "films", "--geometry", "lorentz", "--curvature", "0.5", "--index",
                          "hnsw", "--growing-rows-max", "100"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.json()["name"], "films");
  EXPECT_EQ(made.json()["geometry"], "lorentz");
  EXPECT_EQ(made.json()["curvature"], 0.5);
  EXPECT_EQ(made.json()["index"]["growing_rows_max"], 100);
  EXPECT_THAT(Run({"collection", "list"}).out, HasSubstr("films"));
  EXPECT_EQ(Run({"collection", "alias", "movies", "films"}).exit_code, 0);
  EXPECT_EQ(RunJson({"collection", "get", "movies"}).json()["name"], "films");
  EXPECT_EQ(Run({"collection", "alias", "movies"}).exit_code, 2) << "neither a target nor --remove";
  EXPECT_EQ(Run({"collection", "alias", "movies", "--remove"}).exit_code, 0);
  EXPECT_EQ(Run({"collection", "rebuild", "films", "--index", "flat", "--wait"}).exit_code, 0);
  EXPECT_EQ(RunJson({"collection", "get", "films"}).json()["index"]["kind"], "flat");
  const Outcome kept = Run({"collection", "drop", "films"});
  EXPECT_EQ(kept.exit_code, 2);
  EXPECT_THAT(kept.err, HasSubstr("--yes"));
  EXPECT_EQ(Run({"collection", "drop", "films", "--yes"}).exit_code, 0);
  EXPECT_EQ(Run({"collection", "get", "films"}).exit_code, 3);
}

TEST_F(Cli, PayloadIndexesAreDeclaredShownAndDropped) {
  Outcome made =
      RunJson({"collection", "create", "shop", "--geometry", "euclidean", "--payload-index", "kind=keyword"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.json()["payload_indexes"][0]["path"], "kind");
  made = RunJson({"collection", "index-payload", "shop", "--add", "a=b=integer", "--add", "sold=time", "--drop", "kind",
                  "--wait"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ASSERT_THAT(made.json()["payload_indexes"], SizeIs(2));
  EXPECT_EQ(made.json()["payload_indexes"][0]["path"], "a=b");
  EXPECT_EQ(made.json()["payload_indexes"][0]["type"], "integer");
  EXPECT_EQ(made.json()["payload_indexes"][1]["ready"], true);
  EXPECT_THAT(Run({"collection", "get", "shop"}).out, HasSubstr("ready"));
  EXPECT_EQ(Run({"collection", "index-payload", "shop", "--drop", "kind"}).exit_code, 3);
  EXPECT_EQ(Run({"collection", "index-payload", "shop", "--add", "sold=keyword"}).exit_code, 5);
  const Outcome wrong = Run({"collection", "index-payload", "shop", "--add", "sold=date"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("sold=date"));
}

TEST_F(Cli, AnUnknownCollectionIsAnsweredWithThoseThereAre) {
  MakeCollection("known");
  const Outcome outcome = Run({"count", "unknown"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("no collection 'unknown'"));
  EXPECT_THAT(outcome.err, HasSubstr("known"));
}

TEST_F(Cli, CreatingACollectionTwiceIsRefused) {
  MakeCollection("twice");
  EXPECT_EQ(Run({"collection", "create", "twice"}).exit_code, 5);
}

TEST_F(Cli, ProbesAreThePriceOfAnActivationAndAnOldGenerationRetires) {
  const std::string name = "guarded";
  ASSERT_EQ(Run({"collection", "create", name, "--geometry", "euclidean"}).exit_code, 0);
  ASSERT_EQ(Run({"generation", "register", name, "--dimension", "2", "--activate"}).exit_code, 0);
  ASSERT_EQ(Run({"generation", "register", name, "--dimension", "2", "--parent", "1"}).exit_code, 0);
  for (int i = 0; i < 20; ++i) {
    const std::string at = std::to_string(i);
    ASSERT_EQ(Run({"upsert", name, at, "--vector", at + ",0", "--payload", "{\"n\":" + at + "}"}).exit_code, 0);
  }
  std::string probes;
  for (int i = 0; i < 200; ++i) {
    const std::string z = "[" + std::to_string(i % 20) + ".1,0]";
    probes += "{\"label\":" + std::to_string(i % 20) + ",\"vectors\":{\"1\":" + z + ",\"2\":" + z + "}}\n";
  }
  const std::string file = Put("probes.jsonl", probes);
  EXPECT_EQ(Run({"generation", "probes", "put", name, "daily", file}).exit_code, 2) << "no --label-field";
  const Outcome put = RunJson({"generation", "probes", "put", name, "daily", file, "--label-field", "n"});
  ASSERT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(put.json()["probes"], 200);
  EXPECT_THAT(RunJson({"generation", "probes", "list", name}).json(), SizeIs(1));
  const Outcome refused = Run({"generation", "activate", name, "2"});
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_THAT(refused.err, HasSubstr("has not been validated"));
  const Outcome passed = RunJson({"generation", "validate", name, "2", "--wait"});
  ASSERT_EQ(passed.exit_code, 0) << passed.err;
  EXPECT_EQ(passed.json()["state"], "validated");
  EXPECT_EQ(passed.json()["validation"]["pairs"][0]["old_self"]["cmc1"]["value"], 1.0);
  EXPECT_THAT(Run({"generation", "get", name, "2"}).out, HasSubstr("passed, chosen"));
  EXPECT_EQ(RunJson({"job", "list", "--collection", name}).json()[0]["state"], "succeeded");
  EXPECT_EQ(Run({"job", "get", "999"}).exit_code, 3);
  EXPECT_EQ(Run({"generation", "activate", name, "2"}).exit_code, 0);
  const Outcome kept = Run({"generation", "retire", name, "1"});
  EXPECT_EQ(kept.exit_code, 5);
  EXPECT_THAT(kept.err, HasSubstr("20 items"));
  for (int i = 0; i < 20; ++i) {
    const std::string at = std::to_string(i);
    ASSERT_EQ(Run({"upsert", name, at, "--vector", at + ",0", "--same-content"}).exit_code, 0);
  }
  const Outcome retired = RunJson({"generation", "retire", name, "1", "--wait", "--reason", "done"});
  ASSERT_EQ(retired.exit_code, 0) << retired.err;
  EXPECT_EQ(retired.json()["state"], "succeeded");
  EXPECT_EQ(RunJson({"generation", "get", name, "1"}).json()["state"], "retired");
  EXPECT_EQ(RunJson({"generation", "audit", name}).json()[0]["action"], "retire");
  EXPECT_EQ(Run({"generation", "probes", "drop", name, "daily"}).exit_code, 0);
}

TEST_F(Cli, GenerationsAreRegisteredListedShownAndActivated) {
  ASSERT_EQ(Run({"collection", "create", "line", "--geometry", "cosine"}).exit_code, 0);
  const Outcome first = RunJson({"generation", "register", "line", "--dimension", "4", "--method", "mine"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.json()["generation"], 1);
  EXPECT_EQ(first.json()["method"], "mine");
  EXPECT_EQ(Run({"generation", "activate", "line", "1"}).exit_code, 0);
  EXPECT_EQ(RunJson({"generation", "register", "line", "--dimension", "4", "--parent", "1"}).json()["parent"], 1);
  EXPECT_THAT(RunJson({"generation", "list", "line"}).json(), SizeIs(2));
  EXPECT_EQ(RunJson({"generation", "get", "line", "2"}).json()["reach"], nlohmann::json({1, 2}));
  EXPECT_EQ(Run({"generation", "get", "line", "9"}).exit_code, 3);
  EXPECT_EQ(Run({"generation", "activate", "line", "2", "--expect-active", "7"}).exit_code, 5);
  const Outcome activated = RunJson({"generation", "activate", "line", "2", "--expect-active", "1"});
  EXPECT_EQ(activated.exit_code, 0) << activated.err;
  EXPECT_EQ(activated.json()["previous_generation"], 1);
  const Outcome back = RunJson({"generation", "rollback", "line", "--reason", "a test", "--expect-active", "2"});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(back.json()["generation"], 1);
  EXPECT_EQ(back.json()["previous_generation"], 2);
  EXPECT_EQ(Run({"generation", "rollback", "line"}).exit_code, 5) << "nothing served before 1";
  EXPECT_THAT(Run({"generation", "audit", "line"}).out, HasSubstr("rollback"));
  const Outcome log = RunJson({"generation", "audit", "line", "--limit", "2"});
  EXPECT_THAT(log.json(), SizeIs(2));
  EXPECT_EQ(log.json()[0]["action"], "rollback");
  EXPECT_EQ(log.json()[0]["reason"], "a test");
  EXPECT_EQ(Run({"generation", "audit", "line", "--limit", "20000"}).exit_code, 2);
  EXPECT_EQ(Run({"generation", "register", "line"}).exit_code, 2);
  EXPECT_EQ(Run({"generation", "register", "line", "--manifest", scratch_ / "none.json"}).exit_code, 3);
  const Outcome other = Run({"generation", "register", "line", "--dimension", "5", "--parent", "2"});
  EXPECT_NE(other.exit_code, 0) << "a child of another dimension";
  EXPECT_THAT(other.err, HasSubstr("dimension"));
}

TEST_F(Cli, AnAdapterIsFittedAndPutIntoACollectionByOneCommand) {
  const std::string name = "fitted";
  ASSERT_EQ(Run({"collection", "create", name, "--geometry", "cosine"}).exit_code, 0);
  ASSERT_EQ(Run({"generation", "register", name, "--dimension", "4", "--activate"}).exit_code, 0);
  ASSERT_EQ(Run({"generation", "register", name, "--dimension", "5", "--expects-adapter"}).exit_code, 0);
  const auto embeddings = [&](const std::string& file, int64_t dimension, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values;
    for (int64_t i = 0; i < 100 * dimension; ++i) values.push_back(normal(random));
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return Put(file, EncodeNpy(NpyType::kFloat32, {100, dimension}, bytes));
  };
  const std::vector<std::string> fit = {"adapt",
                                        "--old-embeddings",
                                        embeddings("old.npy", 4, 1),
                                        "--new-embeddings",
                                        embeddings("new.npy", 5, 2),
                                        "--metric",
                                        "cosine",
                                        "--map",
                                        "affine",
                                        "--steps",
                                        "5",
                                        "--out",
                                        scratch_ / "fitted.adapter"};
  const auto run = [&](const std::vector<std::string>& where) {
    std::vector<std::string> words = fit;
    words.insert(words.end(), where.begin(), where.end());
    return Run(words);
  };
  EXPECT_THAT(run({"--from", "1", "--to", "2"}).err, HasSubstr("'--collection' is absent"));
  EXPECT_THAT(run({"--collection", name, "--to", "2"}).err, HasSubstr("'--from' is absent"));
  EXPECT_THAT(run({"--collection", name, "--from", "2", "--to", "1"}).err, HasSubstr("a generation above 2"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "fitted.adapter")) << "nothing is fitted in vain";
  const Outcome missing = run({"--collection", "nowhere", "--from", "1", "--to", "2"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("is fitted; to put it into 'nowhere'"));
  const Outcome put = run({"--collection", name, "--from", "1", "--to", "2"});
  ASSERT_EQ(put.exit_code, 0) << put.err;
  EXPECT_THAT(put.out, HasSubstr("put into collection 'fitted', generation 1 to 2"));
  EXPECT_THAT(Run({"generation", "adapter", "list", name}).out, HasSubstr("affine"));
}

TEST_F(Cli, AdaptersArePutListedSearchedThroughAndDropped) {
  const std::string name = MakeCollection("adapted");
  ASSERT_EQ(Run({"upsert", name, "near", "--vector", "1,0,0"}).exit_code, 0);
  ASSERT_EQ(Run({"upsert", name, "far", "--vector", "0,5,0"}).exit_code, 0);
  EXPECT_THAT(Run({"generation", "register", name, "--dimension", "2"}).err, HasSubstr("expects_adapter"));
  const Outcome second = RunJson({"generation", "register", name, "--dimension", "2", "--expects-adapter"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  AdapterFile file;
  file.spec.direction = AdapterDirection::kItem;
  file.spec.kind = AdapterKind::kAffine;
  file.spec.input_dimension = 3;
  file.spec.target = Space{Metric::kEuclidean, 2, 1, 1};
  file.spec.linear = {1, 0, 0, 0, 1, 0};
  file.spec.offset = {0, 1};
  file.fit.loss = "reg";
  ASSERT_TRUE(WriteAdapter(scratch_ / "old-to-new.adapter", file).ok());

  EXPECT_EQ(Run({"search", name, "--vector", "1,1", "--generation", "2"}).exit_code, 5) << "out of reach";
  const Outcome put = RunJson({"generation", "adapter", "put", name, "1", "2", scratch_ / "old-to-new.adapter"});
  ASSERT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(put.json()["direction"], "item");
  EXPECT_EQ(put.json()["version"], 1);
  EXPECT_THAT(Run({"generation", "adapter", "list", name}).out, HasSubstr("affine"));
  EXPECT_THAT(RunJson({"generation", "adapter", "list", name}).json(), SizeIs(1));
  const auto hits = RunJson({"search", name, "--vector", "1,1", "--generation", "2"}).json()["results"][0]["hits"];
  ASSERT_THAT(hits, SizeIs(2));
  EXPECT_EQ(hits[0]["id"], "near");
  EXPECT_EQ(hits[0]["distance"], 0);
  EXPECT_EQ(Run({"search", name, "--vector", "1,1", "--generation", "2", "--adapter-mode", "none"}).exit_code, 5);
  EXPECT_EQ(Run({"search", name, "--vector", "1,1", "--generation", "2", "--adapter-mode", "query"}).exit_code, 5);
  EXPECT_EQ(Run({"search", name, "--vector", "1,1", "--generation", "2", "--adapter-mode", "item"}).exit_code, 0);
  const Outcome wrong = Run({"search", name, "--vector", "1,1", "--generation", "2", "--adapter-mode", "both"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("all, none, query, item"));
  EXPECT_EQ(Run({"generation", "adapter", "put", name, "2", "1", scratch_ / "old-to-new.adapter"}).exit_code, 2);
  EXPECT_EQ(Run({"generation", "adapter", "put", name, "1", "2", scratch_ / "none.adapter"}).exit_code, 3);
  EXPECT_EQ(Run({"generation", "activate", name, "2"}).exit_code, 0);
  EXPECT_EQ(Run({"generation", "adapter", "drop", name, "1", "2"}).exit_code, 5);
  EXPECT_EQ(Run({"generation", "adapter", "drop", name, "1", "2", "--force"}).exit_code, 0);
  EXPECT_EQ(Run({"generation", "adapter", "drop", name, "1", "2"}).exit_code, 3);
  const Outcome longer =
      RunJson({"generation", "register", name, "--dimension", "5", "--compatible-prefix", "3", "--parent", "1"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(longer.json()["compatible_prefix"], 3);
  EXPECT_EQ(longer.json()["reach"], nlohmann::json({1, 3}));
}

TEST_F(Cli, ItemsAreWrittenFoundReadScrolledCountedAndDeleted) {
  const std::string name = MakeCollection("items");
  ASSERT_EQ(Run({"upsert", name, "cat", "--vector", "1,0,0", "--payload", R"({"kind":"animal","age":3})"}).exit_code,
            0);
  const Outcome second = RunJson({"upsert", name, "42", "--vector", "[0, 1, 0]", "--durability", "process"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.json()["durability"], "process");
  const std::string sequence = second.json()["sequence"].dump();

  const auto hits =
      RunJson({"search", name, "--vector", "0.9,0,0", "-k", "1", "--payload", "--wait-for", sequence}).json();
  EXPECT_EQ(hits["results"][0]["hits"][0]["id"], "cat");
  EXPECT_EQ(hits["results"][0]["hits"][0]["payload"]["age"], 3);
  EXPECT_THAT(Run({"search", name, "--vector", "0,1,0", "--exact"}).out, HasSubstr("42"));
  const auto like = RunJson({"search", name, "--item", "cat"}).json();
  EXPECT_EQ(like["results"][0]["hits"][0]["id"], 42) << "the item itself is left out";
  EXPECT_THAT(
      RunJson({"search", name, "--vector", "0,1,0", "--filter", "kind = \"animal\""}).json()["results"][0]["hits"],
      SizeIs(1));

  EXPECT_THAT(Run({"search", name, "--vector", "0,1,0", "--filter", "kind = \"animal\"", "--profile"}).out,
              HasSubstr("no payload index, or none that is ready: kind"));

  const Outcome got = RunJson({"get", name, "42", "cat", "--with-vector"});
  EXPECT_EQ(got.json()["items"][0]["vector"], nlohmann::json({0, 1, 0}));
  EXPECT_EQ(got.json()["items"][1]["payload"]["kind"], "animal");
  const Outcome missing = Run({"get", name, "cat", "dog"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("no item dog"));
  EXPECT_THAT(missing.out, HasSubstr("cat")) << "what is there is shown";

  EXPECT_THAT(Run({"scroll", name}).out, HasSubstr("42"));
  const Outcome page = Run({"scroll", name, "--limit", "1"});
  EXPECT_THAT(page.out, HasSubstr("more: --token "));
  EXPECT_EQ(RunJson({"count", name}).json()["count"], 2);
  EXPECT_EQ(RunJson({"count", name, "--filter", "age >= 3 and $generation = 1"}).json()["count"], 1);
  EXPECT_EQ(RunJson({"delete", name, "cat", "dog"}).json()["deleted"], 1);
  EXPECT_EQ(RunJson({"count", name}).json()["count"], 1);
  const auto status = RunJson({"status"}).json();
  EXPECT_TRUE(status["serving"]);
  EXPECT_THAT(Run({"status"}).out, HasSubstr("items"));
  EXPECT_THAT(Run({"status"}).out,
              HasSubstr(StrCat("exact scans by ", status["exact_scans"].get<std::string>(), "\n")));
}

TEST_F(Cli, ItemsExpireByTheirOwnTimeOrTheCollections) {
  const std::string name = MakeCollection("expiring");
  EXPECT_EQ(RunJson({"collection", "update", name, "--default-ttl", "3600"}).json()["default_ttl_ms"], 3'600'000);
  EXPECT_THAT(Run({"collection", "get", name}).out, HasSubstr("items expire after 3600 s"));
  EXPECT_EQ(RunJson({"collection", "update", name, "--foreign-vectors", "reject"}).json()["foreign_vectors"], "reject");
  EXPECT_THAT(Run({"collection", "update", name, "--foreign-vectors", "no"}).err, HasSubstr("warn, reject, ignore"));
  ASSERT_EQ(Run({"upsert", name, "a", "--vector", "1,0,0"}).exit_code, 0);
  ASSERT_EQ(Run({"upsert", name, "b", "--vector", "0,1,0", "--ttl", "0"}).exit_code, 0);
  ASSERT_EQ(Run({"upsert", name, "c", "--vector", "0,0,1", "--ttl", "0.001"}).exit_code, 0);
  const auto items = RunJson({"get", name, "a", "b", "c"}).json()["items"];
  ASSERT_EQ(items.size(), 2u) << items;
  EXPECT_TRUE(items[0].contains("expires"));
  EXPECT_FALSE(items[1].contains("expires"));
  EXPECT_THAT(Run({"get", name, "a"}).out, HasSubstr("expires"));
  const Outcome wrong = Run({"upsert", name, "d", "--vector", "1,0,0", "--ttl", "-1"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--ttl"));
  EXPECT_THAT(Run({"collection", "update", name}).err, HasSubstr("at least one setting"));
}

TEST_F(Cli, UpsertsMayDependOnTheSequenceOfTheItem) {
  const std::string name = MakeCollection("sequences");
  const std::vector<std::string> words = {"upsert", name, "cat", "--vector", "1,0,0", "--expected-sequence"};
  const auto upsert = [&](const std::string& sequence) {
    std::vector<std::string> all = words;
    all.push_back(sequence);
    return RunJson(all);
  };
  const Outcome made = upsert("0");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome again = upsert("0");
  EXPECT_EQ(again.exit_code, 5) << "it exists";
  EXPECT_THAT(again.err, HasSubstr("cat was not written"));
  const std::string sequence = RunJson({"get", name, "cat"}).json()["items"][0]["sequence"].dump();
  EXPECT_EQ(upsert(sequence).exit_code, 0);
  EXPECT_EQ(upsert(sequence).exit_code, 5) << "it was written since";
  EXPECT_EQ(upsert("-1").exit_code, 2);
}

TEST_F(Cli, ABackfillIsStartedLeasedFromPausedAndEnded) {
  const std::string name = MakeCollection("lazy");
  EXPECT_THAT(Run({"backfill", "status", name}).out, HasSubstr("not started"));
  const Outcome early = Run({"backfill", "lease", name});
  EXPECT_EQ(early.exit_code, 5) << early.out;
  for (const char* id : {"cat", "dog", "42"}) {
    ASSERT_EQ(Run({"upsert", name, id, "--vector", "1,0,0"}).exit_code, 0);
  }
  ASSERT_EQ(Run({"generation", "register", name, "--dimension", "3", "--parent", "1", "--activate"}).exit_code, 0);

  const Outcome started = RunJson({"backfill", "start", name, "--wait"});
  ASSERT_EQ(started.exit_code, 0) << started.err;
  EXPECT_EQ(started.json()["state"], "running");
  EXPECT_EQ(started.json()["generation"], 2);
  EXPECT_EQ(started.json()["items_total"], 3);
  EXPECT_EQ(Run({"backfill", "start", name, "--failure-head", scratch_ / "none.head"}).exit_code, 3);
  const Outcome damaged = Run({"backfill", "start", name, "--failure-head", Put("damaged.head", "not a head")});
  EXPECT_EQ(damaged.exit_code, 2);
  EXPECT_THAT(damaged.err, HasSubstr("failure_head"));

  const auto lease = RunJson({"backfill", "lease", name, "--items", "2", "--lease-seconds", "0.5e2"}).json();
  ASSERT_THAT(lease["items"], SizeIs(2));
  EXPECT_EQ(lease["generation"], 2);
  EXPECT_EQ(RunJson({"backfill", "status", name}).json()["items_leased"], 2);
  const auto& first = lease["items"][0];
  const std::string id = first["id"].is_number() ? first["id"].dump() : first["id"].get<std::string>();
  EXPECT_EQ(
      Run({"upsert", name, id, "--vector", "0,1,0", "--same-content", "--expected-sequence", first["sequence"].dump()})
          .exit_code,
      0);
  EXPECT_EQ(RunJson({"backfill", "status", name}).json()["items_done"], 1);
  for (const char* seconds : {"0", "-1", "86401"}) {
    const Outcome wrong = Run({"backfill", "lease", name, "--lease-seconds", seconds});
    EXPECT_EQ(wrong.exit_code, 2) << seconds;
    EXPECT_THAT(wrong.err, HasSubstr("86400"));
  }
  EXPECT_EQ(Run({"backfill", "lease", name, "--items", "0"}).exit_code, 2);

  EXPECT_THAT(Run({"backfill", "pause", name}).out, HasSubstr("paused"));
  EXPECT_THAT(Run({"backfill", "lease", name}).out, HasSubstr("no items; the backfill is paused"));
  EXPECT_EQ(RunJson({"backfill", "start", name, "--wait"}).json()["state"], "running");
  const auto rest = RunJson({"backfill", "lease", name, "--finished", lease["token"].get<std::string>()}).json();
  EXPECT_THAT(rest["items"], SizeIs(2)) << "what the worker gave back, and what nobody had";
  EXPECT_EQ(Run({"backfill", "status", "nowhere"}).exit_code, 3);
}

TEST_F(Cli, WrongValuesAreUsageErrorsThatNameTheField) {
  const std::string name = MakeCollection("wrong");
  const auto error = [&](std::vector<std::string> words) {
    const Outcome outcome = Run(std::move(words));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"upsert", name, "a", "--vector", "1,2"}), HasSubstr("allowed"));
  EXPECT_THAT(error({"upsert", name, "a", "--vector", "1,x,3"}), HasSubstr("vector[1]"));
  EXPECT_THAT(error({"upsert", name, "a", "--vector", "1,nan,3"}), HasSubstr("vector[1]"));
  EXPECT_THAT(error({"upsert", name, "a", "--vector", "1,2,3", "--payload", "{"}), HasSubstr("payload"));
  EXPECT_THAT(error({"upsert", name, "a", "--vector", "1,2,3", "--durability", "never"}),
              HasSubstr("durable, process"));
  EXPECT_THAT(error({"upsert", name, "a"}), HasSubstr("--vector"));
  EXPECT_THAT(error({"search", name, "--vector", "1,2,3", "-k", "0"}), HasSubstr("'k' is 0; allowed: 1 .. 10000"));
  EXPECT_THAT(error({"search", name}), HasSubstr("--vector"));
  EXPECT_THAT(error({"count", name, "--filter", "a = 0x10"}), HasSubstr("hexadecimal"));
  EXPECT_THAT(error({"count", name, "--filter", "a = foo"}), HasSubstr("  a = foo\n      ^"));
  EXPECT_THAT(error({"scroll", name, "--token", "junk"}), HasSubstr("token"));
  EXPECT_THAT(error({"collection", "create", "x y"}), HasSubstr("name"));
  EXPECT_THAT(error({"collection", "create", "g", "--geometry", "flat"}), HasSubstr("lorentz, cosine"));
  EXPECT_THAT(error({"collection", "create", "g", "--index", "tree"}), HasSubstr("flat, hnsw"));
  EXPECT_THAT(error({"count", name, "--timeout", "0"}), HasSubstr("--timeout"));
  EXPECT_THAT(error({"count"}), HasSubstr("collection"));
  EXPECT_THAT(error({"count", name, "--no-such-flag"}), HasSubstr("no-such-flag"));
  EXPECT_THAT(error({"no-such-command"}), HasSubstr("no subcommand 'no-such-command'; there are: serve"));
  EXPECT_THAT(error({"collection", "lst"}), HasSubstr("no subcommand 'lst'; there are: create, list"));
}

TEST_F(Cli, AnArgumentThatIsNoUtf8IsNamedWithItsByte) {
  const std::string name = MakeCollection("bytes"), bad = "caf\xe9";
  const auto expect = [&](const std::string& argument, std::vector<std::string> words) {
    const Outcome outcome = Run(std::move(words));
    EXPECT_EQ(outcome.exit_code, 2) << argument;
    EXPECT_THAT(outcome.err, HasSubstr("field '" + argument + "' is 'caf?', whose byte 3 is 0xe9; allowed: UTF-8"));
  };
  expect("collection", {"upsert", bad, "a", "--vector", "1,2,3"});
  expect("id", {"upsert", name, bad, "--vector", "1,2,3"});
  expect("--payload", {"upsert", name, "a", "--vector", "1,2,3", "--payload", bad});
  expect("ids", {"get", name, "a", bad});
  expect("ids", {"delete", name, bad});
  expect("--item", {"search", name, "--item", bad});
  expect("--filter", {"count", name, "--filter", bad});
  expect("name", {"collection", "create", bad});
  expect("--reason", {"generation", "activate", name, "1", "--reason", bad});
  expect("--operator", {"count", name, "--operator", bad});
  EXPECT_EQ(Run({"get", name, "caf\xc3\xa9"}).exit_code, 3) << "UTF-8, and not there";
  // A file of this machine may have any name. A name in it may not.
  const std::string rows = Put("caf\xe9.jsonl", "{\"vector\":[1,2,3]}\n{\"vector\":[1,2,4]}\n");
  EXPECT_EQ(Run({"import", name, rows, "--ids", Put("caf\xe9.txt", "a\nb\n")}).exit_code, 0);
  const Outcome named = Run({"import", name, rows, "--ids", Put("ids.txt", "a\n" + bad + "\n")});
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_THAT(named.err, HasSubstr("line 2: field 'id' is 'caf?', whose byte 3 is 0xe9"));
}

TEST_F(Cli, ErrorsAreJsonForPrograms) {
  const Outcome outcome = RunJson({"search", MakeCollection("jsonerr"), "--vector", "1,2,3", "-k", "0"});
  const auto error = nlohmann::json::parse(outcome.err, nullptr, false);
  ASSERT_TRUE(error.is_object()) << outcome.err;
  EXPECT_EQ(error["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(error["error"]["field"], "k");
  EXPECT_EQ(error["error"]["value"], "0");
}

TEST_F(Cli, ImportAndExportRoundTripInEveryFormat) {
  std::string lines;
  for (int i = 0; i < 250; ++i) {
    lines += StrCat("{\"id\":", i % 2 == 0 ? StrCat(i) : StrCat("\"n", i, "\""), ",\"vector\":[", i % 256, ",", i % 7,
                    ",", 200 - i % 200, "],\"payload\":{\"i\":", i, "}}\n");
  }
  const std::string source = MakeCollection("source");
  const Outcome first = RunJson({"import", source, Put("in.jsonl", lines), "--batch", "20"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.json()["rows"], 250);
  const auto scroll = [&](const std::string& name) {
    std::string items;
    std::istringstream all(Run({"scroll", name, "--limit", "0", "--with-vector", "--json"}).out);
    for (std::string line; std::getline(all, line);) {
      const auto item = nlohmann::json::parse(line);
      items += item["id"].dump() + item["vector"].dump() + item["payload"].dump() + "\n";
    }
    return items;
  };
  const std::string expected = scroll(source);
  for (const std::string format : {"npy", "fvecs", "bvecs", "jsonl"}) {
    const std::string file = scratch_ / ("out." + format);
    const Outcome exported = RunJson({"export", source, file, "--page-size", "30"});
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
    EXPECT_EQ(exported.json()["rows"], 250);
    const std::string target = MakeCollection("target-" + format);
    std::vector<std::string> words = {"import", target, file};
    if (format != "jsonl") words.insert(words.end(), {"--ids", scratch_ / "out.ids.jsonl"});
    const Outcome imported = Run(words);
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
    EXPECT_EQ(imported.err, "") << "no progress bar without a terminal";
    EXPECT_EQ(scroll(target), expected) << format;
  }
}

TEST_F(Cli, ImportNumbersRowsWithoutIdsAndFiltersExport) {
  const std::string name = MakeCollection("numbered");
  std::string data(3 * 4 * 5, '\0');
  const std::string npy = Put("v.npy", EncodeNpy(NpyType::kFloat32, {5, 3}, data));
  ASSERT_EQ(Run({"import", name, npy, "--durability", "process"}).exit_code, 0);
  EXPECT_EQ(RunJson({"get", name, "0", "4"}).exit_code, 0);
  const Outcome exported = RunJson({"export", name, scratch_ / "e.npy", "--limit", "2"});
  EXPECT_EQ(exported.json()["rows"], 2);
}

TEST_F(Cli, ImportNamesTheBadRowAndResumesBehindWhatIsWritten) {
  const std::string name = MakeCollection("resume");
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    lines += StrCat("{\"id\":", i, ",\"vector\":[1,2", i == 17 ? "" : ",3", "]}\n");
  }
  const std::string state = scratch_ / "state.json";
  const Outcome refused =
      Run({"import", name, Put("bad.jsonl", lines), "--batch", "5", "--in-flight", "1", "--state", state});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("row 17: "));
  EXPECT_THAT(refused.err, HasSubstr("go on with --start 15"));
  // The batch of the bad row is not written; the one that was under way behind it may be.
  EXPECT_THAT(RunJson({"count", name}).json()["count"], testing::AnyOf(15, 20));
  EXPECT_EQ(Run({"get", name, "16"}).exit_code, 3);
  lines.replace(lines.find("[1,2]"), 5, "[1,2,3]");
  const Outcome resumed = RunJson({"import", name, Put("bad.jsonl", lines), "--batch", "5", "--state", state});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(resumed.json()["rows"], 15) << "the state file says where to go on";
  EXPECT_EQ(RunJson({"count", name}).json()["count"], 30);
  const Outcome damaged =
      Run({"import", name, Put("bad.jsonl", lines), "--state", Put("damaged.json", "{\"next_row\":-1}")});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("damaged.json: next_row' is -1; allowed: a whole number, 0 .. "));
}

TEST_F(Cli, ImportRefusesWhatItCannotRead) {
  const std::string name = MakeCollection("broken");
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"import", name});
    return Run(words);
  };
  EXPECT_EQ(run({scratch_ / "none.npy"}).exit_code, 3);
  const Outcome truncated =
      run({Put("t.npy", EncodeNpy(NpyType::kFloat32, {2, 3}, std::string(24, '\0')).substr(0, 140))});
  EXPECT_EQ(truncated.exit_code, 1);
  EXPECT_THAT(truncated.err, HasSubstr("truncated"));
  const Outcome no_id = run({Put("noid.jsonl", "{\"vector\":[1,2,3]}\n")});
  EXPECT_EQ(no_id.exit_code, 2);
  EXPECT_THAT(no_id.err, HasSubstr("--number-rows"));
  EXPECT_EQ(run({Put("noid.jsonl", "{\"vector\":[1,2,3]}\n"), "--number-rows"}).exit_code, 0);
  const Outcome ids = run({Put("v.jsonl", "{\"vector\":[1,2,3]}\n{\"vector\":[1,2,3]}\n"), "--ids", Put("ids", "a\n")});
  EXPECT_EQ(ids.exit_code, 2);
  EXPECT_THAT(ids.err, HasSubstr("fewer rows"));
  EXPECT_EQ(run({Put("x.csv", "1")}).exit_code, 2);
  EXPECT_EQ(run({Put("v.jsonl", ""), "--batch", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"import", "nowhere", Put("v.jsonl", "{\"id\":1,\"vector\":[1,2,3]}\n")}).exit_code, 3);
}

TEST_F(Cli, SearchTakesQueriesFromAFile) {
  const std::string name = MakeCollection("queries");
  ASSERT_EQ(
      Run({"import", name, Put("v.jsonl", "{\"id\":1,\"vector\":[1,0,0]}\n{\"id\":2,\"vector\":[0,1,0]}\n")}).exit_code,
      0);
  const std::string file = Put("q.jsonl", "{\"vector\":[0,1,0]}\n{\"vector\":[1,0,0]}\n{\"vector\":[1,0]}\n");
  const auto answer = RunJson({"search", name, "--vectors", file, "-k", "1"});
  EXPECT_EQ(answer.exit_code, 0) << "one bad query does not lose the others: " << answer.err;
  EXPECT_EQ(answer.json()["results"][0]["hits"][0]["id"], 2);
  EXPECT_EQ(answer.json()["results"][1]["hits"][0]["id"], 1);
  EXPECT_EQ(answer.json()["results"][2]["error"]["code"], "INVALID_ARGUMENT");
}

TEST_F(Cli, SearchTakesTheVectorsOfAnOlderGenerationFromAFile) {
  const std::string name = MakeCollection("older");
  const std::string items = Put("v.jsonl", "{\"id\":1,\"vector\":[1,0,0]}\n{\"id\":2,\"vector\":[0,1,0]}\n");
  ASSERT_EQ(Run({"import", name, items}).exit_code, 0);
  ASSERT_EQ(Run({"generation", "register", name, "--dimension", "2", "--expects-adapter"}).exit_code, 0);
  const auto search = [&](const std::string& older) {
    const std::string file = Put("q.jsonl", "{\"vector\":[0,1]}\n{\"vector\":[1,0]}\n");
    return RunJson({"search", name, "--vectors", file, "-k", "1", "--generation", "2", "--older-vectors", older});
  };
  const auto answer = search("1:" + Put("old.jsonl", "{\"vector\":[0,1,0]}\n{\"vector\":[1,0,0]}\n"));
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(answer.json()["results"][0]["hits"][0]["id"], 2);
  EXPECT_EQ(answer.json()["results"][1]["hits"][0]["id"], 1);
  for (const std::string& wrong : {Put("few.jsonl", "{\"vector\":[0,1,0]}\n"), std::string("nothing.npy")}) {
    EXPECT_NE(search("1:" + wrong).exit_code, 0);
    EXPECT_EQ(search(wrong).exit_code, 2) << "no generation";
  }
}

TEST_F(Cli, TheServerMayComeFromTheEnvironment) {
  EXPECT_EQ(RunBinary(scratch_, {"status"}, {"LIGHTCONE_SERVER=" + server_->address()}).exit_code, 0);
}

TEST_F(Cli, APortOrADataFolderInUseEndsServeWithItsName) {
  const auto serve = [&](const std::string& data, const std::string& listen, const std::string& http) {
    Outcome outcome = RunBinary(scratch_, {"serve", "--data", data, "--listen", listen, "--http-listen", http});
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    EXPECT_EQ(outcome.out, "") << "never ready";
    EXPECT_THAT(outcome.err, AnyOf(HasSubstr("is another server running?"), HasSubstr("is in use")));
    return outcome.err;
  };
  const std::string any = "127.0.0.1:0";
  EXPECT_THAT(serve(scratch_ / "other", server_->address(), any), HasSubstr(server_->address()));
  EXPECT_THAT(serve(scratch_ / "other", any, server_->http_address()), HasSubstr(server_->http_address()));
  EXPECT_THAT(serve(*folder_ / "data", any, any), HasSubstr("'" + (*folder_ / "data")));
}

}  // namespace
}  // namespace lightcone::cli

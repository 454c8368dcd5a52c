// A generation that the gate lets through only once a share of the gallery is embedded anew: what `rollout` then says,
// and that doing so leads through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/npy.h"
#include "base/rng.h"
#include "base/strings.h"
#include "tests/cli/served_test.h"

namespace lightcone::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kWide = 12, kShareClasses = 60, kShareItems = 1'500, kShareProbes = 400;

class RolloutShare : public ServedTest {
 protected:
  using Vector = std::vector<float>;

  // The new model sees what the old one sees, with less noise. Its queries are off by a constant, so that they find old
  // items worse than the old model does, and its own items better.
  void SetUp() override {
    std::vector<Vector> classes;
    for (size_t label = 0; label < kShareClasses; ++label) classes.push_back(Noisy(Vector(kWide, 0), 1));
    std::string rows, labels;
    for (size_t i = 0; i < kShareItems; ++i) {
      const Vector drawn = Noisy(classes[i % kShareClasses], 0.55);
      rows += StrCat("{\"id\":", i, ",\"vector\":", TextOf(Noisy(drawn, 0.45)),
                     ",\"payload\":{\"class\":", i % kShareClasses, "}}\n");
      new_rows_.push_back(StrCat("{\"id\":", i, ",\"vector\":", TextOf(NewModel(drawn)), "}\n"));
    }
    Vector old_queries, new_queries;
    for (size_t i = 0; i < kShareProbes; ++i) {
      const Vector drawn = Noisy(classes[i % kShareClasses], 0.55), by_old = Noisy(drawn, 0.45),
                   by_new = NewModel(drawn);
      old_queries.insert(old_queries.end(), by_old.begin(), by_old.end());
      new_queries.insert(new_queries.end(), by_new.begin(), by_new.end());
      labels += StrCat("{\"label\":", i % kShareClasses, "}\n");
    }
    Must({"collection", "create", "shop", "--geometry", "euclidean"});
    Must({"generation", "register", "shop", "--dimension", StrCat(kWide), "--activate"});
    Must({"import", "shop", Put("gallery.jsonl", rows)});
    Must({"generation", "register", "shop", "--dimension", StrCat(kWide), "--parent", "1"});
    Must({"generation", "probes", "put", "shop", "daily", Put("probes.jsonl", labels), "--label-field", "class",
          "--vectors", "1=" + PutNpy("old.npy", old_queries), "--vectors", "2=" + PutNpy("new.npy", new_queries)});
  }

  void Must(std::vector<std::string> words) {
    const std::string line = StrCat(words[0], " ", words[1], " ", words[2]);
    const Outcome outcome = Run(std::move(words));
    ASSERT_EQ(outcome.exit_code, 0) << line << ": " << outcome.err;
  }
  Vector Noisy(Vector v, double noise) {
    for (float& x : v) x += static_cast<float>(noise * random_.Normal());
    return v;
  }
  Vector NewModel(const Vector& drawn) {
    Vector v = Noisy(drawn, 0.1);
    for (float& x : v) x += 0.65f;
    return v;
  }
  static std::string TextOf(const Vector& v) {
    std::string text;
    for (const float x : v) text += StrCat(text.empty() ? "[" : ",", x);
    return text + "]";
  }
  std::string PutNpy(const std::string& name, const Vector& queries) {
    const std::string_view bytes(reinterpret_cast<const char*>(queries.data()), queries.size() * sizeof(float));
    return Put(name,
               EncodeNpy(NpyType::kFloat32, {static_cast<int64_t>(kShareProbes), static_cast<int64_t>(kWide)}, bytes));
  }
  // What workers write: items as the new model embeds them.
  void Embed(size_t begin, size_t end) {
    std::string rows;
    for (size_t i = begin; i < end; ++i) rows += new_rows_[i];
    Must({"import", "shop", Put("anew.jsonl", rows), "--generation", "2", "--same-content"});
  }
  nlohmann::json Validation() {
    return Run({"generation", "get", "shop", "2", "--json"}).json().value("validation", nlohmann::json());
  }

  Rng random_{11};
  std::vector<std::string> new_rows_;  // lines of an import, by item
};

TEST_F(RolloutShare, TheShareThatARefusedRolloutNamesLetsItThroughOnceTheBackfillIsThere) {
  const std::vector<std::string> rollout = {"rollout", "shop", "--generation", "2", "--yes", "--no-calibration"};
  Embed(0, kShareItems / 5);
  const Outcome refused = Run(rollout);
  ASSERT_EQ(refused.exit_code, 5) << refused.err << refused.out;
  const nlohmann::json before = Validation();
  ASSERT_TRUE(before.contains("passes_from_share")) << before;
  const double from = before["passes_from_share"];
  ASSERT_TRUE(from > 0.2 && from < 0.8) << before;
  EXPECT_EQ(before["pairs"][0]["judged_share"], 0.2) << before;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("did not pass its validation"), HasSubstr("The gate would pass with "),
                                 HasSubstr(" of the items of generation 1 embedded anew: "),
                                 HasSubstr("`lightcone backfill start shop --generation 2`, and let workers embed")));
  EXPECT_EQ(Run({"collection", "get", "shop", "--json"}).json()["active_generation"], 1);

  Must({"backfill", "start", "shop", "--generation", "2"});
  const auto enough = static_cast<size_t>((from + 0.1) * static_cast<double>(kShareItems));
  Embed(kShareItems / 5, enough);
  const nlohmann::json status = Run({"backfill", "status", "shop", "--json"}).json();
  EXPECT_EQ(status["generation"], 2) << status;
  EXPECT_EQ(status["items_done"], enough) << status;
  EXPECT_THAT(Run({"backfill", "status", "shop"}).out, HasSubstr("ahead: generation 2 does not serve yet"));
  const Outcome done = Run(rollout);
  ASSERT_EQ(done.exit_code, 0) << done.err << done.out;
  EXPECT_THAT(done.out, AllOf(HasSubstr("== validate"), HasSubstr("validation passed"), HasSubstr("is rolled out"),
                              Not(HasSubstr("== validate: not needed"))));
  const nlohmann::json after = Validation();
  EXPECT_EQ(after["passed"], true) << after;
  EXPECT_NEAR(after["pairs"][0]["judged_share"].get<double>(), static_cast<double>(enough) / kShareItems, 1e-9);
  EXPECT_EQ(Run({"collection", "get", "shop", "--json"}).json()["active_generation"], 2);
  EXPECT_THAT(Run({"backfill", "status", "shop"}).out, Not(HasSubstr("ahead")));
  const nlohmann::json audit = Run({"generation", "audit", "shop", "--json"}).json();
  EXPECT_EQ(audit[0]["validated"], true) << audit;
  EXPECT_EQ(audit[0]["forced"], false) << audit;
}

}  // namespace
}  // namespace lightcone::cli

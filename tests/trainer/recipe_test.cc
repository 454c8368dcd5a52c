// Recipes: what they hold, what is refused with file and line, and those that the program contains.
#include "research/experiment/recipe.h"

#include "research/experiment/steps.h"
#include "tests/trainer/experiment_testing.h"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string ErrorOf(const std::string& text) {
  const absl::Status status = ParseRecipe(text, "dir/mine.toml").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return MessageOf(status);
}

std::string Tiny(const std::string& more) { return StrCat(kTinyHead, "[row.a]\nmethod = \"hbct\"\n", more); }

TEST(Recipe, HoldsWhatTheFileSays) {
  const absl::StatusOr<Recipe> parsed = ParseRecipe(
      StrCat("seeds = \"3, 1\"\nsource = \"a paper\"\n", kTinyHead,
             "[old]\nepochs = 1\n[new]\nbatch = 4\n[space.x]\ncurvature = 0.5\npaper.old.self.map = 0.25\n",
             "[row.b]\ntitle = \"B\"\nmethod = \"hbct\"\nhbct.tau = 1\nadapter.pairs = 64\npaper.cross.cmc5 = 1e-1\n"),
      "dir/mine.toml");
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
  EXPECT_EQ(parsed->name, "mine");
  EXPECT_EQ(parsed->seeds, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(parsed->spaces.at(0).paper_old.at("self.map"), 0.25);
  ASSERT_EQ(parsed->rows.size(), 1u);
  const RecipeRow& row = parsed->rows[0];
  EXPECT_EQ(row.space, "x") << "the only one";
  EXPECT_EQ(row.reference, "x");
  EXPECT_EQ(row.adapter->pairs, 64);
  EXPECT_EQ(row.paper.at("cross.cmc5"), 0.1);
  const Dataset data = TinyDataset();
  const TrainConfig old = RecipeConfig(*parsed, data, parsed->spaces[0], 0, nullptr, 7).value();
  const TrainConfig fresh = RecipeConfig(*parsed, data, parsed->spaces[0], 1, &row, 7).value();
  EXPECT_EQ(old.epochs, 1);
  EXPECT_EQ(old.batch, 8);
  EXPECT_EQ(old.curvature, 0.5);
  EXPECT_EQ(old.method, "independent");
  EXPECT_EQ(fresh.epochs, 2);
  EXPECT_EQ(fresh.batch, 4);
  EXPECT_EQ(fresh.hbct.tau, 1);
  EXPECT_EQ(fresh.method, "hbct");
  EXPECT_EQ(fresh.seed, 7u);
  EXPECT_EQ(fresh.encoder.height, data.train.height);
}

TEST(Recipe, WhatIsNotKnownIsToldWithFileLineAndWhatThereIs) {
  const int line = 17;  // of the first line of `more`
  const std::string where = StrCat("dir/mine.toml:", line, ": ");
  EXPECT_THAT(ErrorOf(Tiny("hbct.lambada = 1\n")),
              AllOf(HasSubstr(where), HasSubstr("hbct.lambada"), HasSubstr("hbct.lambda")));
  EXPECT_THAT(ErrorOf(Tiny("hbct.tau = -1\n")), AllOf(HasSubstr(where), HasSubstr("-1")));
  EXPECT_THAT(ErrorOf(Tiny("hbct.contrast = rince\n")), AllOf(HasSubstr(where), HasSubstr("quotes")));
  EXPECT_THAT(ErrorOf(Tiny("seed = 3\n")), AllOf(HasSubstr(where), HasSubstr("'seed'")));
  EXPECT_THAT(ErrorOf(Tiny("adapter.size = 3\n")), AllOf(HasSubstr(where), HasSubstr("adapter.direction")));
  EXPECT_THAT(ErrorOf(Tiny("adapter.map = \"mlp\"\n")), AllOf(HasSubstr(where), HasSubstr("residual-mlp")));
  EXPECT_THAT(ErrorOf(Tiny("adapter.loss = \"sub\"\n")), AllOf(HasSubstr(where), HasSubstr("sup")));
  EXPECT_THAT(ErrorOf(Tiny("adapter.map = \"kernel\"\nadapter.loss = \"reg\"\n")), HasSubstr("adapter.loss"));
  EXPECT_THAT(ErrorOf(Tiny("adapter.map = \"affine\"\nadapter.width = 64\n")), HasSubstr("residual-mlp and kernel"));
  EXPECT_THAT(ErrorOf(Tiny("adapter.rank = 8\n")), HasSubstr("low-rank-affine"));
  EXPECT_THAT(ErrorOf(Tiny("adapter.pairs = 1.5\n")), AllOf(HasSubstr(where), HasSubstr("1.5")));
  EXPECT_THAT(ErrorOf(Tiny("paper.self.map5 = 1\n")), AllOf(HasSubstr(where), HasSubstr("self.map, ")));
  EXPECT_THAT(ErrorOf(Tiny("paper.self.map = \"1\"\n")), HasSubstr(where));
  EXPECT_THAT(ErrorOf(Tiny("[rows.a]\n method = \"hbct\"\n")),
              AllOf(HasSubstr("rows.a.method"), HasSubstr("row.NAME")));
  EXPECT_THAT(ErrorOf(Tiny("[row.b]\nmethod = \"hbcd\"\n")),
              AllOf(HasSubstr("'hbcd'"), HasSubstr("independent, hbct")));
  EXPECT_THAT(ErrorOf(Tiny("[row.b]\ntitle = \"no method\"\n")), HasSubstr("row.b.method"));
  EXPECT_THAT(ErrorOf(Tiny("[row.b]\nmethod = \"hbct\"\nspace = \"there\"\n")), HasSubstr("'there'"));
  EXPECT_THAT(ErrorOf(Tiny("[step.2]\nepochs = 3\n")), AllOf(HasSubstr("step.2"), HasSubstr("0 .. 1")));
  EXPECT_THAT(ErrorOf(Tiny("[step.x]\nepochs = 3\n")), HasSubstr("step.N.OPTION"));
  EXPECT_THAT(ErrorOf(Tiny("[scenario]\nold_shares = 3\n")), HasSubstr("old_share, class_order"));
  EXPECT_THAT(ErrorOf(Tiny("[scenario]\nold_share = 3\n")),
              AllOf(HasSubstr("dir/mine.toml:18"), HasSubstr("old_share")));
}

TEST(Recipe, AnOptionThatTheRowsMethodNeverReadsIsRefusedWithItsLineAndTheMethodsOwn) {
  EXPECT_THAT(ErrorOf(Tiny("hbct.tau = 1\nmixbct.alpha = 0.2\n")),
              AllOf(HasSubstr("dir/mine.toml:18: field 'key' is 'row.a.mixbct.alpha'"), HasSubstr("hbct.lambda, "),
                    HasSubstr("'hbct' does not read 'mixbct.alpha'"), Not(HasSubstr("old_model"))));
  EXPECT_THAT(ErrorOf(StrCat(kTinyHead, "[row.a]\nhbct.lambda = 0.5\nmethod = \"independent\"\n")),
              HasSubstr("dir/mine.toml:16: "))
      << "wherever the method stands";
  EXPECT_TRUE(ParseRecipe(Tiny("epochs = 3\nthreads = 2\nclip_radius = 1.1\n"), "dir/mine.toml").ok());
  // What all rows share may name options of some of them.
  EXPECT_TRUE(ParseRecipe(StrCat(kTinyHead, "mixbct.alpha = 0.2\n[new]\nbct.lambda = 1\n[space.x]\nbct.lambda = 1\n",
                                 "[row.a]\nmethod = \"hbct\"\n"),
                          "dir/mine.toml")
                  .ok());
}

std::string OfScenario(const std::string& name, const std::string& options) {
  return StrCat("title = \"t\"\ndata = \"idx\"\n[scenario]\nname = \"", name, "\"\n", options,
                "[row.a]\nmethod = \"independent\"\n");
}

TEST(Recipe, AnOptionThatTheScenarioDoesNotReadIsRefusedWithItsLine) {
  EXPECT_THAT(ErrorOf(OfScenario("ext-class", "old_share = 0.5\nchain_change = 1\n")),
              AllOf(HasSubstr("dir/mine.toml:6: "), HasSubstr("'scenario.chain_change'"),
                    HasSubstr("scenario.name, old_share, class_order: scenario 'ext-class' reads no other")));
  EXPECT_THAT(ErrorOf(OfScenario("sequential", "old_share = 0.5\n")), HasSubstr("dir/mine.toml:5: "));
  EXPECT_THAT(ErrorOf(OfScenario("new-arch", "old_share = 0.5\n")), HasSubstr("dir/mine.toml:5: "));
  EXPECT_THAT(ErrorOf(OfScenario("alone", "class_order = \"lexicographic\"\n")), HasSubstr("dir/mine.toml:5: "));
}

TEST(Recipe, AChainsOptionsMayStandInAnyOrder) {
  for (const char* options :
       {"chain_shares = \"0.5, 1\"\nchain_change = 1\n", "chain_change = 1\nchain_shares = \"0.5, 1\"\n"}) {
    const absl::StatusOr<Recipe> recipe = ParseRecipe(OfScenario("sequential", options), "dir/mine.toml");
    ASSERT_TRUE(recipe.ok()) << MessageOf(recipe.status());
    EXPECT_EQ(CountSteps(*recipe).value(), 2);
  }
  EXPECT_THAT(ErrorOf(OfScenario("sequential", "chain_change = 1\nchain_shares = \"0.5, 0.4\"\n")),
              AllOf(HasSubstr("dir/mine.toml:6: "), HasSubstr("'chain_shares[1]'")));
  EXPECT_THAT(ErrorOf(OfScenario("sequential", "chain_shares = \"0.5, 1\"\n")),
              AllOf(HasSubstr("dir/mine.toml:5: "), HasSubstr("field 'chain_change' is 2; allowed: 0 .. 1")));
}

TEST(Recipe, TheTopOfTheFileIsCheckedToo) {
  const std::string row = "[row.a]\nmethod = \"hbct\"\n";
  EXPECT_THAT(ErrorOf(StrCat("colour = 1\n", kTinyHead, row)),
              AllOf(HasSubstr("dir/mine.toml:1: "), HasSubstr("colour")));
  EXPECT_THAT(ErrorOf(StrCat("seeds = \"1,1\"\n", kTinyHead, row)), HasSubstr("seeds"));
  EXPECT_THAT(ErrorOf(StrCat("preset = \"slow\"\n", kTinyHead, row)), HasSubstr("quick, paper"));
  EXPECT_THAT(ErrorOf(StrCat("far = 1\n", kTinyHead, row)), HasSubstr("far"));
  EXPECT_THAT(ErrorOf(StrCat("validation = 0.7\n", kTinyHead, row)), HasSubstr("0 .. 0.5"));
  EXPECT_THAT(ErrorOf("title = \"t\"\n" + row), HasSubstr("field 'data'"));
  EXPECT_THAT(ErrorOf(kTinyHead), HasSubstr("[row.NAME]"));
  EXPECT_THAT(ErrorOf("title = \"t\"\ndata = \"glyphs\"\n[scenario]\nname = \"sideways\"\n" + row),
              AllOf(HasSubstr("'sideways'"), HasSubstr("ext-class"), HasSubstr("alone")));
}

TEST(Recipe, AnUncertaintyIsStudiedOnARowWhoseQueriesSearchItsOldGalleryAsTheyAre) {
  const auto with = [](const std::string& row, const std::string& more = "") {
    return StrCat("uncertainty = \"", row, "\"\n", kTinyHead, more, "[row.a]\nmethod = \"hbct\"\n",
                  "[row.c]\nmethod = \"independent\"\nadapter.map = \"affine\"\n",
                  "[row.d]\nmethod = \"independent\"\n[row.e]\nmethod = \"hbct\"\nlearn_curvature = true\n");
  };
  EXPECT_EQ(ParseRecipe(with("a"), "dir/mine.toml")->uncertainty, "a");
  EXPECT_THAT(ErrorOf(with("b")), HasSubstr("field 'uncertainty' is 'b'; allowed: a, c, d, e"));
  EXPECT_THAT(ErrorOf(with("c")), HasSubstr("field 'uncertainty' is 'c', with an adapter; allowed: a row without one"));
  EXPECT_THAT(ErrorOf(with("d")),
              HasSubstr("'d', of method independent; allowed: a row whose method asks an old model"));
  EXPECT_THAT(ErrorOf(with("e")), HasSubstr("'e', whose models have curvatures of their own"));
  EXPECT_THAT(ErrorOf("title = \"t\"\ndata = \"idx\"\nuncertainty = \"a\"\n[scenario]\nname = \"alone\"\n"
                      "[row.a]\nmethod = \"independent\"\n"),
              HasSubstr("field 'uncertainty' is set; allowed: nothing: scenario 'alone' has no older model"));
  EXPECT_THAT(ErrorOf(StrCat("uncertainty = \"a\"\n", kTinyHead, "[space.x]\nmetric = \"cosine\"\n",
                             "[row.a]\nmethod = \"l2\"\n")),
              HasSubstr("'a', of metric cosine; allowed: a row of metric lorentz"));
}

TEST(Recipe, OptionsThatDoNotGoTogetherAreToldWithTheRow) {
  EXPECT_THAT(ErrorOf(Tiny("metric = \"cosine\"\n")), AllOf(HasSubstr("row 'a', generation 1"), HasSubstr("metric")));
  EXPECT_THAT(ErrorOf(Tiny("[row.b]\nmethod = \"l2\"\n")),
              HasSubstr("row 'b', generation 1: field 'metric' is lorentz; allowed: cosine (method 'l2' needs it)"))
      << "the space says which, for the old model, too";
}

TEST(Recipe, AnUnknownNameListsTheShippedOnes) {
  const absl::Status status = OpenRecipe("omniglot").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("omniglot-cpu"), HasSubstr("hbct-table-3")));
  EXPECT_EQ(OpenRecipe("none/omniglot.toml").status().code(), absl::StatusCode::kNotFound);
}

TEST(Recipe, ADataSetWhoseFolderIsOpenMustBeGiven) {
  ExperimentOptions options;
  options.recipe = "cifar100-cpu";
  const absl::Status status = RunExperiment(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("--data"), HasSubstr("cifar100:DIR")));
}

TEST(ShippedRecipes, AllParseAndResolveAndSayWhereTheyComeFrom) {
  ASSERT_GE(ShippedRecipes().size(), 30u);
  for (const ShippedRecipe& shipped : ShippedRecipes()) {
    const absl::StatusOr<Recipe> recipe = OpenRecipe(shipped.name);  // resolves every option of every model, too
    ASSERT_TRUE(recipe.ok()) << shipped.name << ": " << MessageOf(recipe.status());
    EXPECT_EQ(recipe->name, shipped.name);
    EXPECT_FALSE(recipe->source.empty()) << shipped.name;
    EXPECT_FALSE(recipe->settings.empty()) << shipped.name;
    EXPECT_TRUE(CountSteps(*recipe).ok()) << shipped.name;
    EXPECT_EQ(recipe->text.front(), '#') << shipped.name << " begins with a comment";
  }
}

TEST(ShippedRecipes, EveryTableAndEverySmallOneIsThere) {
  std::vector<std::string> wanted = {"omniglot-cpu", "cifar100-cpu", "glyphs-cpu", "hbct-fig-5", "hypmix-table-2"};
  for (const char* data : {"cifar100", "tinyimagenet"}) {
    for (const char* scenario : {"ext-data", "ext-class", "new-arch", "both"}) {
      wanted.push_back(StrCat("hbct-table-1-", data, "-", scenario));
    }
  }
  for (const char* data : {"cub", "cars", "sop"}) wanted.push_back(StrCat("hypmix-table-1-", data));
  for (int table = 2; table <= 6; ++table) wanted.push_back(StrCat("hbct-table-", table));
  for (int table = 2; table <= 8; ++table) wanted.push_back(StrCat("mixbct-table-", table));
  for (int table = 1; table <= 7; ++table) wanted.push_back(StrCat("bt2-table-", table));
  std::vector<std::string> names;
  for (const ShippedRecipe& shipped : ShippedRecipes()) names.emplace_back(shipped.name);
  EXPECT_THAT(names, testing::IsSupersetOf(wanted));
}

TEST(ShippedRecipes, TheSmallOnesTrainEveryMethod) {
  for (const char* name : {"omniglot-cpu", "cifar100-cpu", "glyphs-cpu"}) {
    const Recipe recipe = OpenRecipe(name).value();
    for (const MethodInfo& method : TrainingMethods()) {
      bool found = false;
      for (const RecipeRow& row : recipe.rows) found = found || row.method == method.name;
      EXPECT_TRUE(found) << name << " has no row of " << method.name;
    }
  }
}

// Dividing by sqrt(d) is a step towards the hyperboloid (docs/internals/training-methods.md, From an image to a point).
TEST(ShippedRecipes, RescaleNoEmbeddingsButThoseOfLorentzSpaces) {
  for (const ShippedRecipe& shipped : ShippedRecipes()) {
    const Recipe recipe = OpenRecipe(shipped.name).value();
    Dataset data = TinyDataset();
    data.train.height = data.train.width = 224;  // large enough for any encoder
    for (const RecipeSpace& space : recipe.spaces) {
      const TrainConfig config = RecipeConfig(recipe, data, space, 0, nullptr, 1).value();
      if (config.metric == "lorentz") continue;
      EXPECT_EQ(config.encoder.rescale, "none") << shipped.name << ", " << space.name;
    }
  }
}

TEST(ShippedRecipes, AblationsShareTheirModelsWithTheRecipeOfAllMethods) {
  for (const char* data : {"omniglot", "cifar100"}) {
    const auto configs = [](const std::string& name) {
      const Recipe recipe = OpenRecipe(name).value();
      const RecipeSpace& space = *recipe.Space("lorentz");
      const RecipeRow& hbct = recipe.rows[recipe.RowIndex("hbct").value()];
      std::string texts;
      for (TrainConfig config : {RecipeConfig(recipe, TinyDataset(), space, 0, nullptr, 1).value(),
                                 RecipeConfig(recipe, TinyDataset(), space, 1, nullptr, 1).value(),
                                 RecipeConfig(recipe, TinyDataset(), space, 1, &hbct, 1).value()}) {
        config.recipe = "one";  // a name for people, which no key holds
        texts += ToJson(config);
      }
      return texts;
    };
    EXPECT_EQ(configs(StrCat(data, "-ablations-cpu")), configs(StrCat(data, "-cpu"))) << data;
  }
}

TEST(Seeds, AreDifferentWholeNumbers) {
  EXPECT_EQ(ParseSeeds(" 1, 2,30", "--seeds").value(), (std::vector<uint64_t>{1, 2, 30}));
  for (const char* text : {"", "1,", "1,1", "-1", "1;2", "1.5", "one"}) {
    const absl::Status status = ParseSeeds(text, "--seeds").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(MessageOf(status), HasSubstr("field '--seeds'"));
  }
}

}  // namespace
}  // namespace lightcone

// `lightcone eval --faces`: the protocols of IJB-C between two models, on a small set in its layout.
#include "cli/model/eval_faces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/encoders/encoder.h"
#include "tests/cli/run_program.h"
#include "tests/trainer/paper_files.h"
#include "trainer/data/face_lists.h"
#include "trainer/evaluate.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;
using testing_data::ColourPng;

class EvalFaces : public testing::Test {
 protected:
  Outcome Run(const std::vector<std::string>& words) { return RunHere(scratch_, words); }

  // A perceptron for plain colours, of 4 classes.
  std::string Model(const std::string& name, const std::string& dimension, const std::string& seed = "1") {
    for (int i = 0; i < 16; ++i)
      classes_.Write(StrCat("class", i % 4, "/", i, ".png"),
                     ColourPng(16, 16, 60 * (i % 4), 5 * i, 200 - 60 * (i % 4)));
    const Outcome trained =
        Run({"train", "--data", "folder:" + classes_.path(), "--out", scratch_ / name, "--set",
             "encoder.architecture=mlp", "--set", "encoder.width=0.25", "--set", "encoder.dimension=" + dimension,
             "--set", "metric=cosine", "--set", "epochs=1", "--set", "batch=8", "--seed", seed});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    return scratch_ / name;
  }
  // Eight templates of one image, template i of subject i / 2, whose two images are the same. Subjects 0 and 1 are
  // enrolled in gallery 1, subject 2 in gallery 2, subject 3 in neither; the second template of each is searched.
  void WriteFaces() {
    std::string images, gallery_1 = "TEMPLATE_ID,SUBJECT_ID\n", gallery_2 = gallery_1, probes = gallery_1, pairs;
    for (int i = 0; i < 8; ++i) {
      const int subject = i / 2;
      faces_.Write(StrCat("loose_crop/", i, ".jpg"), ColourPng(112, 112, 70 * subject, 30, 220 - 70 * subject));
      images += StrCat(i, ".jpg ", i, " ", i, "\n");
      std::string& of = i % 2 == 1 ? probes : subject < 2 ? gallery_1 : gallery_2;
      if (i != 6) of += StrCat(i, ",", 100 + subject, "\n");
      for (int j = 0; j < i; ++j) pairs += StrCat(j, " ", i, " ", j / 2 == subject ? 1 : 0, "\n");
    }
    faces_.Write("meta/ijbc_face_tid_mid.txt", images);
    faces_.Write("meta/ijbc_template_pair_label.txt", pairs);
    faces_.Write("meta/ijbc_1N_gallery_G1.csv", gallery_1);
    faces_.Write("meta/ijbc_1N_gallery_G2.csv", gallery_2);
    faces_.Write("meta/ijbc_1N_probe_mixed.csv", probes);
  }

  TemporaryFolder scratch_;
  const testing_data::Folder classes_, faces_;
};

TEST_F(EvalFaces, VerifiesPairsAndSearchesBothGalleriesByTwoModels) {
  const std::string model = Model("model", "16");
  WriteFaces();
  const Outcome own = Run({"eval", "--query", model, "--faces", faces_.path(), "--json"});
  ASSERT_EQ(own.exit_code, 0) << own.err;
  const auto json = own.json();
  EXPECT_EQ(json["verification"]["genuine"], 4);
  EXPECT_EQ(json["verification"]["impostor"], 24);
  for (const auto& point : json["verification"]["points"]) {
    EXPECT_EQ(point["tar"], 1.0) << "the two images of a subject are the same: " << point;
    EXPECT_LE(point["far"], point["far_wanted"]);
  }
  ASSERT_EQ(json["identification"].size(), 3u);
  const auto &first = json["identification"][0], &both = json["identification"][2];
  EXPECT_EQ(first["mated"], 2);
  EXPECT_EQ(first["non_mated"], 2);
  EXPECT_EQ(both["non_mated"], 1) << "subject 3 is in neither gallery";
  EXPECT_EQ(both["impostors"], "probes not enrolled");
  for (const auto& search : json["identification"]) EXPECT_EQ(search["points"][0]["tpir"], 1.0) << search;

  const Outcome table = Run({"eval", "--query", model, "--gallery", model, "--faces", faces_.path()});
  EXPECT_THAT(table.out, HasSubstr("4 genuine and 24 impostor pairs"));
  EXPECT_THAT(table.out, HasSubstr("1e-06"));
  EXPECT_THAT(table.out, HasSubstr("1 and 2"));
}

TEST_F(EvalFaces, ATemplateIsTheMeanOfItsMediaByTheModelOfItsSide) {
  const std::string old_model = Model("old", "16"), new_model = Model("new", "24", "2");
  // Template 0: a video of three frames and a photo. Template 1: a photo. The one pair of each kind fixes both sides.
  const auto colour = [](int i) { return ColourPng(112, 112, 40 * i, 250 - 30 * i, 10 + 20 * i); };
  for (int i = 0; i < 6; ++i) faces_.Write(StrCat("loose_crop/", i, ".jpg"), colour(i));
  faces_.Write("meta/ijbc_face_tid_mid.txt", "0.jpg 0 1\n1.jpg 0 1\n2.jpg 0 1\n3.jpg 0 2\n4.jpg 1 3\n5.jpg 2 4\n");
  faces_.Write("meta/ijbc_template_pair_label.txt", "0 1 1\n0 2 0\n");
  faces_.Write("meta/ijbc_1N_gallery_G1.csv", "TEMPLATE_ID,SUBJECT_ID\n1,10\n");
  faces_.Write("meta/ijbc_1N_gallery_G2.csv", "TEMPLATE_ID,SUBJECT_ID\n2,11\n");
  faces_.Write("meta/ijbc_1N_probe_mixed.csv", "TEMPLATE_ID,SUBJECT_ID\n0,10\n2,11\n");
  const auto lists = OpenFaceLists(faces_.path());
  ASSERT_TRUE(lists.ok()) << lists.status();
  const auto query = *Encoder::LoadFolder(new_model), gallery = *Encoder::LoadFolder(old_model);
  const std::vector<float> new_z = *EmbedSplit(*query, lists->images), old_z = *EmbedSplit(*gallery, lists->images);
  const auto mean = [&](const std::vector<std::pair<int, double>>& images) {  // by the new model
    std::vector<double> z(16, 0);
    for (const auto& [image, weight] : images) {
      for (size_t j = 0; j < 16; ++j) z[j] += weight * new_z[static_cast<size_t>(image) * 24 + j];
    }
    return z;
  };
  const auto minus_distance = [&](const std::vector<double>& z, int image) {  // the image by the old model
    double product = 0, a = 0, b = 0;
    for (size_t j = 0; j < 16; ++j) {
      const double o = old_z[static_cast<size_t>(image) * 16 + j];
      product += z[j] * o, a += z[j] * z[j], b += o * o;
    }
    return product / std::sqrt(a * b) - 1;
  };
  const std::vector<double> z = mean({{0, 1.0 / 6}, {1, 1.0 / 6}, {2, 1.0 / 6}, {3, 0.5}});
  const FaceFigures figures = *MeasureFaces(*query, *gallery, *lists);
  // Of one impostor pair none may be accepted at these rates: the threshold is its score.
  EXPECT_NEAR(figures.verification.points[0].threshold, minus_distance(z, 5), 1e-5);
  EXPECT_EQ(figures.verification.points[0].tar, minus_distance(z, 4) > minus_distance(z, 5) ? 1.0 : 0.0);
}

TEST_F(EvalFaces, WhatDoesNotFitIsSaid) {
  const std::string model = Model("model", "16"), longer = Model("longer", "24");
  WriteFaces();
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", "--query", model, "--faces", faces_.path()});
    const Outcome outcome = Run(words);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.err;
  };
  EXPECT_THAT(error({"--data", "glyphs"}), HasSubstr("--data"));
  EXPECT_THAT(error({"--split", "train"}), HasSubstr("--split"));
  EXPECT_THAT(error({"--served"}), HasSubstr("field '--faces' is set; allowed: not with --served"));
  EXPECT_THAT(Run({"eval", "--query", model, "--served", "--device", "cpu"}).err, HasSubstr("field '--device' is set"));
  EXPECT_THAT(error({"--device", "abacus"}), HasSubstr("--device"));
  EXPECT_THAT(error({"--gallery", longer}), HasSubstr("cannot be compared"));
  faces_.Write("meta/ijbc_template_pair_label.txt", "0 1\n");
  EXPECT_THAT(error({}), HasSubstr("ijbc_template_pair_label.txt:1"));
  EXPECT_THAT(Run({"eval", "--query", model, "--faces", faces_.path() + "/none"}).err, HasSubstr("none"));
}

}  // namespace
}  // namespace lightcone::cli

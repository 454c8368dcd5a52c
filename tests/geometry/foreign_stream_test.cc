// Streams of embeddings that come from another model are noticed within 100 vectors, and right ones never are.
#include "stats/foreign_stream.h"

#include <map>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "stats/embedding_profile.h"
#include "tests/support/embedding_models.h"

namespace lightcone {
namespace {

constexpr int kDimension = 64;
constexpr uint32_t kASubject = 250;  // contents about a subject
constexpr size_t kContents = EmbeddingModel::kSubjects * kASubject;

using Vectors = std::vector<std::vector<float>>;

// Of all contents, those about one subject one after the other.
const Vectors& VectorsOf(const std::string& model) {
  static auto* const kept = new std::map<std::string, Vectors>;
  Vectors& vectors = (*kept)[model];
  if (!vectors.empty()) return vectors;
  const EmbeddingModel embeds(model, kDimension);
  for (uint32_t i = 0; i < kContents; ++i) vectors.push_back(embeds.Embed(static_cast<int>(i / kASubject), i));
  return vectors;
}

class Watch {
 public:
  explicit Watch(const EmbeddingProfile& profile) : profile_(profile) {}
  void Note(const std::vector<float>& z) {
    const auto look = profile_.At(z);
    if (!look) return;
    const std::string_view bytes(reinterpret_cast<const char*>(z.data()), z.size() * sizeof(float));
    stream_.Note(*look, profile_.axes(), std::hash<std::string_view>()(bytes));
  }
  const ForeignStream& stream() const { return stream_; }

 private:
  const EmbeddingProfile& profile_;
  ForeignStream stream_;
};

EmbeddingProfile ProfileOf(const std::string& model) {
  std::mt19937 random(3);
  Vectors sample;
  for (int i = 0; i < 2'048; ++i) sample.push_back(VectorsOf(model)[random() % kContents]);
  auto profile = EmbeddingProfile::Make(sample);
  EXPECT_TRUE(profile.has_value());
  return *std::move(profile);
}

TEST(ForeignStream, EveryOtherModelIsNoticedWithinAHundredVectors) {
  for (const std::string generation : kEmbeddingModels) {
    const EmbeddingProfile profile = ProfileOf(generation);
    EXPECT_TRUE(profile.tells_directions()) << generation;
    std::mt19937 random(4);
    Watch right(profile);
    for (int i = 0; i < 6'000; ++i) right.Note(VectorsOf(generation)[random() % kContents]);
    ASSERT_FALSE(right.stream().any_alarm()) << generation;
    for (const std::string source : kEmbeddingModels) {
      if (source == generation) continue;
      Watch watch = right;
      for (int i = 0; i < 100; ++i) watch.Note(VectorsOf(source)[random() % kContents]);
      EXPECT_TRUE(watch.stream().any_alarm()) << source << " in place of " << generation;
    }
  }
}

TEST(ForeignStream, OneOfTwentyOfAnotherModelIsNoticed) {
  const EmbeddingProfile profile = ProfileOf("right");
  for (const std::string source : {"rotated", "seed", "layer", "unnormalised"}) {
    std::mt19937 random(5);
    Watch watch(profile);
    for (int i = 0; i < 6'000; ++i) watch.Note(VectorsOf("right")[random() % kContents]);
    for (int i = 0; i < 100; ++i) watch.Note(VectorsOf(i % 20 == 7 ? source : "right")[random() % kContents]);
    EXPECT_TRUE(
        watch.stream().alarm(source == "unnormalised" ? ForeignReason::kLengths : ForeignReason::kSomeDirections))
        << source;
    EXPECT_FALSE(watch.stream().alarm(ForeignReason::kDirections)) << source;
  }
}

// A million of them: in any order, subject by subject, and with subjects that come and go.
TEST(ForeignStream, RightVectorsOfADriftingStreamRaiseNoAlarm) {
  constexpr int kEach = 56'000;
  for (const std::string model : kEmbeddingModels) {
    const EmbeddingProfile profile = ProfileOf(model);
    const Vectors& vectors = VectorsOf(model);
    for (const std::string order : {"any", "subjects", "drift"}) {
      std::mt19937 random(6);
      Watch watch(profile);
      int alarms = 0;
      for (int i = 0; i < kEach; ++i) {
        size_t content = random() % kContents;
        if (order == "subjects") content = static_cast<size_t>(i * 7) % kContents / 7 * 7 + random() % 7;
        // Over ten thousand vectors, interest moves from a few subjects to the next few.
        if (order == "drift" && random() % 2 == 0) content = (content / 10 + static_cast<size_t>(i)) % kContents;
        watch.Note(vectors[std::min(content, kContents - 1)]);
        alarms += watch.stream().any_alarm() ? 1 : 0;
      }
      EXPECT_EQ(alarms, 0) << model << ", order: " << order;
    }
  }
}

TEST(ForeignStream, AnOddVectorThatIsRepeatedProvesNothing) {
  const EmbeddingProfile profile = ProfileOf("right");
  Watch watch(profile);
  for (int i = 0; i < 1'000; ++i) watch.Note(VectorsOf("rotated")[7]);
  EXPECT_FALSE(watch.stream().any_alarm());
  EXPECT_EQ(watch.stream().noted(), 1);
}

TEST(ForeignStream, AnAlarmEndsWithTheForeignVectorsAndANewPlaceBecomesTheStreamsOwn) {
  const EmbeddingProfile profile = ProfileOf("right");
  std::mt19937 random(7);
  Watch watch(profile);
  const auto note = [&](const std::string& model, int n) {
    for (int i = 0; i < n; ++i) watch.Note(VectorsOf(model)[random() % kContents]);
  };
  note("right", 6'000);
  note("rotated", 100);
  EXPECT_TRUE(watch.stream().alarm(ForeignReason::kDirections));
  note("right", 500);
  EXPECT_FALSE(watch.stream().any_alarm());
  // Another model's vectors are no part of what the right ones are compared with.
  note("rotated", 6'000);
  note("right", 500);
  EXPECT_FALSE(watch.stream().any_alarm());
  note("prefix", 100);
  EXPECT_TRUE(watch.stream().alarm(ForeignReason::kPlace));
  note("prefix", 5'000);
  EXPECT_TRUE(watch.stream().alarm(ForeignReason::kPlace));
  note("prefix", 20'000);
  EXPECT_FALSE(watch.stream().any_alarm());
}

TEST(EmbeddingProfile, NeedsRowsOfMoreThanOneDirection) {
  const Vectors few(VectorsOf("right").begin(), VectorsOf("right").begin() + EmbeddingProfile::kRowsMin - 1);
  EXPECT_FALSE(EmbeddingProfile::Make(few).has_value());
  EXPECT_FALSE(EmbeddingProfile::Make(Vectors(1'000, few[0])).has_value());
  EXPECT_FALSE(EmbeddingProfile::Make(Vectors(1'000, std::vector<float>(8))).has_value());
  EXPECT_FALSE(EmbeddingProfile::Make({}).has_value());
}

TEST(EmbeddingProfile, DirectionsOfNoModelAreNotToldApart) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  Vectors rows;
  for (int i = 0; i < 2'048; ++i) {
    std::vector<float>& row = rows.emplace_back();
    for (int d = 0; d < 32; ++d) row.push_back(normal(random));
  }
  const auto profile = EmbeddingProfile::Make(rows);
  ASSERT_TRUE(profile.has_value());
  EXPECT_FALSE(profile->tells_directions());
  EXPECT_EQ(profile->At(rows[0])->strangeness, 0);
  EXPECT_FALSE(profile->At(std::vector<float>(32)).has_value()) << "a zero vector";
}

TEST(EmbeddingProfile, TheScaleIsZeroForItsOwnVectorsAndOneForRandomDirections) {
  const EmbeddingProfile profile = ProfileOf("right");
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  double own = 0, other = 0;
  for (int i = 0; i < 500; ++i) {
    own += profile.At(VectorsOf("right")[random() % kContents])->strangeness / 500;
    std::vector<float> z(kDimension);
    for (float& x : z) x = normal(random);
    other += profile.At(z)->strangeness / 500;
  }
  EXPECT_NEAR(own, 0, 0.1);
  EXPECT_NEAR(other, 1, 0.1);
}

}  // namespace
}  // namespace lightcone

// Indexes of words and of places: what they answer is what reading every payload answers.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <set>

#include "nlohmann/json.hpp"
#include "server/engine/filter/payload_index.h"
#include "server/engine/filter/place_index.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/payload_truth.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;
using Kind = FilterNode::Kind;

class Places {
 public:
  explicit Places(uint32_t seed) : random_(seed) {}

  double Between(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random_); }
  int Pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  // Anywhere, about a town, at the poles, at the line of 180 degrees, or at the very edges of the map.
  GeoPoint Any() {
    switch (Pick(6)) {
      case 0:
        return {Between(13, 13.8), Between(52.3, 52.7)};
      case 1:
        return {Between(-180, 180), Pick(2) ? Between(89.9, 90) : Between(-90, -89.9)};
      case 2:
        return {Pick(2) ? Between(179.99, 180) : Between(-180, -179.99), Between(-90, 90)};
      case 3:
        return {Pick(3) * 180.0 - 180, Pick(3) * 90.0 - 90};
      default:
        return {Between(-180, 180), std::asin(Between(-1, 1)) * 180 / std::numbers::pi};
    }
  }
  // A triangle and up, of corners in any order around, so that edges may cross; half of them on a coarse grid, where
  // cells have edges too.
  GeoRing Ring() {
    const GeoPoint about = Any();
    const double wide = std::pow(10, Between(-3, 2.2));
    const bool coarse = Pick(2);
    GeoRing ring;
    for (int corners = 3 + Pick(6); corners > 0; --corners) {
      GeoPoint corner{std::clamp(about.lon + Between(-wide, wide), -180.0, 180.0),
                      std::clamp(about.lat + Between(-wide, wide), -90.0, 90.0)};
      if (coarse) corner = {std::round(corner.lon / 11.25) * 11.25, std::round(corner.lat / 5.625) * 5.625};
      ring.points.push_back(corner);
    }
    ring.points.push_back(ring.points.front());
    Prepare(&ring);
    return ring;
  }
  FilterNode Region(const std::string& field) {
    const int kind = Pick(3);
    if (kind == 2) {
      FilterNode polygon = Leaf(Kind::kGeoPolygon, field);
      for (int rings = 1 + Pick(3); rings > 0; --rings) polygon.rings.push_back(Ring());
      return polygon;
    }
    if (kind == 1) {
      FilterNode circle = Leaf(Kind::kGeoRadius, field);
      circle.center = Any();
      circle.radius = std::pow(10, Between(0, 7.31));  // up to all of the earth
      return circle;
    }
    FilterNode box = Leaf(Kind::kGeoBox, field);
    box.top_left = Any();
    box.bottom_right = Any();
    if (box.top_left.lat < box.bottom_right.lat) std::swap(box.top_left.lat, box.bottom_right.lat);
    return box;
  }

 private:
  std::mt19937 random_;
};

GeoRing RingOf(std::vector<GeoPoint> points) {
  GeoRing ring{.points = std::move(points)};
  Prepare(&ring);
  return ring;
}

TEST(GeoPolygons, HaveTheirEdgesAndCornersAndThoseOfTheirHoles) {
  const GeoRing outer = RingOf({{0, 0}, {10, 0}, {10, 10}, {0, 10}, {0, 0}});
  const GeoRing hole = RingOf({{4, 4}, {6, 4}, {5, 6}, {4, 4}});
  const std::vector<GeoRing> rings = {outer, hole};
  for (const GeoPoint& place : std::vector<GeoPoint>{
           {0, 0}, {10, 10}, {0, 5}, {10, 5}, {5, 0}, {5, 10}, {1, 1}, {4, 4}, {5, 4}, {5, 6}, {3.9, 4}, {5, 6.1}}) {
    EXPECT_TRUE(IsInPolygon(place, rings)) << place.lon << " " << place.lat;
  }
  for (const GeoPoint& place :
       std::vector<GeoPoint>{{-0.1, 5}, {10.1, 5}, {5, -0.1}, {5, 10.1}, {20, 4}, {5, 5}, {4.5, 4.1}}) {
    EXPECT_FALSE(IsInPolygon(place, rings)) << place.lon << " " << place.lat;
  }
}

// A line through a corner crosses one of its two edges, or both, or none.
TEST(GeoPolygons, TellPlacesBesideCorners) {
  const std::vector<GeoRing> saw = {
      RingOf({{0, 0}, {2, 4}, {4, 0}, {6, 4}, {8, 0}, {8, -4}, {4, -1}, {0, -4}, {0, 0}})};
  const std::vector<std::pair<GeoPoint, bool>> cases = {
      {{-1, 0}, false}, {{-1, 4}, false}, {{3, 0}, true},     {{5, 0}, true},    {{4, 0}, true},   {{4, 0.1}, false},
      {{4, 4}, false},  {{4, -1}, true},  {{4, -1.1}, false}, {{-1, -4}, false}, {{4, -4}, false}, {{9, 0}, false}};
  for (const auto& [place, lies] : cases) EXPECT_EQ(IsInPolygon(place, saw), lies) << place.lon << " " << place.lat;
}

// The oracle: a polygon whose corners turn once around a place is its triangles from there.
TEST(GeoPolygons, AreTheTrianglesThatTheyAreMadeOf) {
  Places places(11);
  int in = 0, out = 0;
  for (int round = 0; round < 2'000; ++round) {
    const GeoPoint centre{places.Between(-20, 20), places.Between(-20, 20)};
    std::vector<double> angles;
    for (int corners = 5 + places.Pick(20); corners > 0; --corners) angles.push_back(places.Between(0, 1));
    std::sort(angles.begin(), angles.end());
    std::vector<GeoPoint> points;
    for (const double angle : angles) {
      const double turn = angle * 2 * std::numbers::pi, far = places.Between(1, 20);
      points.push_back({centre.lon + far * std::cos(turn), centre.lat + far * std::sin(turn)});
    }
    bool around = true;  // else two corners are half a turn apart, and the centre may lie outside
    for (size_t i = 0; i < angles.size(); ++i) {
      const double next = i + 1 < angles.size() ? angles[i + 1] : angles[0] + 1;
      around = around && next - angles[i] < 0.49;
    }
    if (!around) continue;
    points.push_back(points.front());
    const std::vector<GeoRing> rings = {RingOf(points)};
    for (int i = 0; i < 20; ++i) {
      const GeoPoint place{centre.lon + places.Between(-20, 20), centre.lat + places.Between(-20, 20)};
      const auto turn = [](const GeoPoint& a, const GeoPoint& b, const GeoPoint& c) {
        return (b.lon - a.lon) * (c.lat - a.lat) - (b.lat - a.lat) * (c.lon - a.lon);
      };
      bool lies = false;
      for (size_t j = 0; j + 1 < points.size(); ++j) {
        const GeoPoint &a = points[j], &b = points[j + 1];
        lies = lies || (turn(centre, a, place) >= 0 && turn(a, b, place) >= 0 && turn(b, centre, place) >= 0);
      }
      ASSERT_EQ(IsInPolygon(place, rings), lies) << place.lon << " " << place.lat;
      (lies ? in : out) += 1;
    }
  }
  EXPECT_GT(in, 5'000);
  EXPECT_GT(out, 5'000);
}

bool Lies(const GeoPoint& place, const FilterNode& region) {
  if (region.kind == Kind::kGeoPolygon) return IsInPolygon(place, region.rings);
  return region.kind == Kind::kGeoBox ? IsInBox(place, region.top_left, region.bottom_right)
                                      : GeoDistance(place, region.center) <= region.radius;
}

GeoOverlap OverlapWith(const GeoRect& rect, const FilterNode& region) {
  if (region.kind == Kind::kGeoPolygon) return OverlapWithPolygon(rect, region.rings);
  return region.kind == Kind::kGeoBox ? OverlapWithBox(rect, region.top_left, region.bottom_right)
                                      : OverlapWithCircle(rect, region.center, region.radius);
}

TEST(GeoOverlaps, SayAllOrNoneOnlyWhereItHoldsForEveryPlace) {
  Places places(3);
  int all = 0, none = 0, part = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int level = places.Pick(12);
    const double cells = std::pow(2, level), column = places.Pick(1 << level), row = places.Pick(1 << level);
    const GeoRect rect{-180 + 360 / cells * column, -90 + 180 / cells * row, -180 + 360 / cells * (column + 1),
                       -90 + 180 / cells * (row + 1)};
    const FilterNode region = places.Region("at");
    const GeoOverlap overlap = OverlapWith(rect, region);
    (overlap == GeoOverlap::kAll ? all : overlap == GeoOverlap::kNone ? none : part) += 1;
    if (overlap == GeoOverlap::kPart) continue;
    for (int j = 0; j < 20; ++j) {
      const double x = j < 4 ? j & 1 : places.Between(0, 1), y = j < 4 ? j >> 1 : places.Between(0, 1);
      const GeoPoint place{rect.west + x * (rect.east - rect.west), rect.south + y * (rect.north - rect.south)};
      ASSERT_EQ(Lies(place, region), overlap == GeoOverlap::kAll)
          << place.lon << " " << place.lat << ", " << region.center.lon << " " << region.center.lat << " "
          << region.radius;
    }
  }
  EXPECT_GT(all, 500);
  EXPECT_GT(none, 500);
  EXPECT_GT(part, 500);
}

TEST(GeoOverlaps, SeeTheEdgesOfAFlatRing) {
  constexpr double kHeight = 1e-300;  // A place is more of these heights away than any integer counts.
  std::vector<GeoRing> rings(1);
  rings[0].points = {{-10, 0}, {-5, 0},       {-5, kHeight},  {5, kHeight}, {5, 0},
                     {10, 0},  {10, kHeight}, {-10, kHeight}, {-10, 0}};
  Prepare(&rings[0]);
  EXPECT_EQ(OverlapWithPolygon({-1, -1, 1, 1}, rings), GeoOverlap::kPart);
  EXPECT_EQ(OverlapWithPolygon({-1, 1, 1, 2}, rings), GeoOverlap::kNone);
}

TEST(GeoPolygons, TellPlacesInRingsWhoseAreaIsBelowTheLeastDouble) {
  constexpr double kHeight = 1e-320;
  std::vector<GeoRing> rings(1);
  rings[0].points = {{0, 0}, {1e-9, 0}, {1e-9, kHeight}, {0, kHeight}, {0, 0}};
  Prepare(&rings[0]);
  EXPECT_TRUE(IsInPolygon({5e-10, kHeight / 2}, rings));
}

// What the index is sure of lies in the region, and what it leaves out does not. `unsure`: ids that it leaves open.
void ExpectFound(const PlaceIndex& index, const std::map<uint64_t, GeoPoint>& truth, const FilterNode& region,
                 std::vector<uint64_t>* unsure) {
  IdPieces all;
  std::vector<uint64_t> part;
  index.Collect([&](const GeoRect& rect) { return OverlapWith(rect, region); }, &all, &part);
  const IdSet sure = all.Union();
  const std::set<uint64_t> open(part.begin(), part.end());
  for (const auto& [id, place] : truth) {
    const bool lies = Lies(place, region);
    ASSERT_TRUE(sure.Contains(id) ? lies : !lies || open.contains(id))
        << place.lon << " " << place.lat << ", " << region.center.lon << " " << region.center.lat << " "
        << region.radius;
  }
  for (const uint64_t id : part) ASSERT_TRUE(truth.contains(id));
  if (unsure != nullptr) *unsure = std::move(part);
}

// Beside the antipode of a near place the haversine formula keeps half of the digits.
TEST(PlaceIndexes, TellPlacesOfCentimetresApartOrLeaveThemOpen) {
  Places places(8);
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    FilterNode circle = Leaf(Kind::kGeoRadius, "at");
    circle.center = round % 4 == 0 ? GeoPoint{0, 0} : places.Any();
    circle.radius = std::pow(10, places.Between(-2, 1.7));
    PlaceIndex index;
    std::map<uint64_t, GeoPoint> truth;
    const double reach = 2 * circle.radius / kEarthRadius * 180 / std::numbers::pi;
    for (uint64_t id = 0; id < 40; ++id) {
      const double wide = reach / std::max(0.01, std::cos(circle.center.lat * std::numbers::pi / 180));
      truth[id] = {std::clamp(circle.center.lon + places.Between(-wide, wide), -180.0, 180.0),
                   std::clamp(circle.center.lat + places.Between(-reach, reach), -90.0, 90.0)};
      index.Add(truth[id], id);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectFound(index, truth, circle, nullptr));
    for (const auto& [id, place] : truth) found += Lies(place, circle);
  }
  EXPECT_GT(found, 2'000);
}

TEST(PlaceIndexes, FindWhatLookingAtEveryPlaceFinds) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Places places(seed);
    PlaceIndex index;
    std::map<uint64_t, GeoPoint> truth;
    for (uint64_t id = 0; id < 3'000; ++id) {
      truth[id] = id % 7 == 3 ? truth[id - 1] : places.Any();
      index.Add(truth[id], id);
      index.Add(truth[id], id);
    }
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 60; ++i) {
        const FilterNode region = places.Region("at");
        std::vector<uint64_t> part;
        ASSERT_NO_FATAL_FAILURE(ExpectFound(index, truth, region, &part));
        // Places on an edge: those of whole degrees, and circles about a place's own antipode.
        EXPECT_LE(part.size(), truth.size() / 4);
      }
      for (uint64_t id = 0; id < 3'000; id += 2) {
        index.Remove(truth[id], id);
        truth.erase(id);
        index.Remove({1, 1}, id);
      }
      if (round == 1) continue;
      for (uint64_t id = 3'000; id < 3'100; ++id) index.Add(truth[id] = {13.4, 52.5}, id);
    }
  }
}

TEST(PlaceIndexes, LookAtFewPlacesOfMany) {
  PlaceIndex index;
  Places places(1);
  for (uint64_t id = 0; id < 100'000; ++id) index.Add({places.Between(5, 15), places.Between(45, 55)}, id);
  size_t looks = 0;
  IdPieces all;
  std::vector<uint64_t> part;
  const auto overlap = [&looks](const GeoRect& rect) {
    ++looks;
    return OverlapWithCircle(rect, {10, 50}, 200'000);
  };
  index.Collect(overlap, &all, &part);
  EXPECT_TRUE(part.empty());
  EXPECT_GT(all.Union().Count(), 15'000u);
  EXPECT_LT(looks, 8'000u);
}

class WordsAndPlaces : public testing::Test {
 protected:
  WordsAndPlaces() {
    index_.Declare(std::vector<PayloadField>{{"at", PayloadType::kGeo}, {"text", PayloadType::kText}});
  }

  std::string Text() {
    static const char* const kWords[] = {"red", "Green", "BLUE", "Straße", "東京", "x1"};
    std::string text;
    for (int i = places_.Pick(5); i > 0; --i)
      text += std::string(kWords[places_.Pick(6)]) + (places_.Pick(3) ? " " : ", ");
    if (places_.Pick(20) == 0) text += std::string(80, 'w');
    return text;
  }
  Json Place() {
    const GeoPoint place = places_.Any();
    return places_.Pick(8) ? Json{{"lon", place.lon}, {"lat", place.lat}} : Json{{"lon", place.lon}, {"lat", 91}};
  }
  // One value, several in an array, one of another kind, or none.
  template <typename Make>
  Json Some(const Make& make) {
    switch (places_.Pick(6)) {
      case 0:
        return Json::array({make(), Json::array({make()}), nullptr});
      case 1:
        return places_.Pick(100) * 0.5;
      case 2:
        return nullptr;
      default:
        return make();
    }
  }
  std::string Payload() {
    return Json{{"at", Some([&] { return Place(); })}, {"text", Some([&] { return Json(Text()); })}}.dump();
  }
  FilterNode Condition() {
    if (places_.Pick(2)) return places_.Region("at");
    FilterNode leaf = Leaf(Kind::kText, "text");
    leaf.match = static_cast<FilterNode::TextMatch>(places_.Pick(4));
    do {
      leaf.text = Text();
    } while (leaf.text.empty());
    return leaf;
  }

  void ExpectRight(FilterNode node) {
    if (places_.Pick(3) == 0) {
      FilterNode no = Branch(Kind::kNot);
      no.children.push_back(std::move(node));
      node = std::move(no);
    }
    const auto filter = Filter::Make(node);
    ASSERT_TRUE(filter.ok()) << filter.status();
    const CompiledFilter compiled = index_.Compile(filter->root(), 1, /*may_test=*/true);
    EXPECT_TRUE(compiled.unindexed.empty());
    exact_ += compiled.exact();
    for (const auto& [id, json] : held_.payloads) {
      const bool passes = filter->Matches({&json, 1, 0});
      met_ += passes;
      ASSERT_LE(compiled.bounds.must.Contains(id), passes) << json;
      ASSERT_LE(passes, compiled.bounds.upper().Contains(id)) << json;
      if (compiled.exact()) {
        ASSERT_EQ(compiled.bounds.must.Contains(id), passes) << json;
      }
    }
  }

  Places places_{5};
  PayloadTruth held_;
  PayloadIndex index_{&held_};
  int exact_ = 0, met_ = 0;
};

TEST_F(WordsAndPlaces, EncloseWhatPassesWhilePayloadsComeAndGo) {
  ASSERT_TRUE(index_.WaitReady({}));
  uint64_t next = 1;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::pair<uint64_t, std::string>> fresh;
    for (int i = 0; i < 30; ++i) fresh.emplace_back(next++, Payload());
    held_.payloads.insert(fresh.begin(), fresh.end());
    index_.Add(std::vector<PayloadIndex::Entry>(fresh.begin(), fresh.end()));
    for (int i = 0; i < 10; ++i) {
      const auto any = std::next(held_.payloads.begin(), places_.Pick(static_cast<int>(held_.payloads.size())));
      if (i % 2) {
        PayloadIndex::Replacement replacement{any->first, any->second, Payload()};
        any->second = replacement.after;
        index_.Replace({&replacement, 1});
      } else {
        index_.Discard(any->first, any->second);
        held_.payloads.erase(any);
      }
    }
    ASSERT_TRUE(index_.Sweep().ok());
    for (int i = 0; i < 30; ++i) ASSERT_NO_FATAL_FAILURE(ExpectRight(Condition()));
  }
  EXPECT_GT(exact_, 400);
  EXPECT_GT(met_, 10'000);
  EXPECT_GT(index_.bytes(), 0u);
}

TEST_F(WordsAndPlaces, AConditionHasSoManyWordsAtMost) {
  FilterNode many = Leaf(Kind::kText, "text");
  many.match = FilterNode::TextMatch::kAnyWord;
  for (int i = 0; i < 1'025; ++i) many.text += "a ";
  EXPECT_THAT(MessageOf(Filter::Make(many).status()), testing::HasSubstr("1025 words; allowed: at most 1024"));
  many.text = "b a b a";
  EXPECT_THAT(Filter::Make(many)->root().words, testing::ElementsAre("a", "b"));
}

TEST_F(WordsAndPlaces, AnswerAloneForSingleValues) {
  held_.payloads = {{1, R"({"text": "the red fox", "at": {"lon": 13.4, "lat": 52.5}})"},
                    {2, R"({"text": "a green fox", "at": {"lon": 2.35, "lat": 48.86}})"},
                    {3, R"({"text": "fox red", "at": "Berlin"})"}};
  index_.Add(std::vector<PayloadIndex::Entry>(held_.payloads.begin(), held_.payloads.end()));
  ASSERT_TRUE(index_.WaitReady({}));
  FilterNode words = Leaf(Kind::kText, "text");
  words.text = "RED fox";
  FilterNode any = words, phrase = words, circle = Leaf(Kind::kGeoRadius, "at");
  any.match = FilterNode::TextMatch::kAnyWord;
  phrase.match = FilterNode::TextMatch::kPhrase;
  circle.center = {13.4, 52.5};
  circle.radius = 1'000;
  const auto compiled = [&](const FilterNode& node) {
    return index_.Compile(Filter::Make(node)->root(), 1, /*may_test=*/false);
  };
  EXPECT_TRUE(compiled(words).exact());
  EXPECT_TRUE(compiled(any).exact());
  EXPECT_FALSE(compiled(phrase).exact()) << "words are in the index, their order is not";
  EXPECT_EQ(compiled(phrase).bounds.upper().ids.Count(), 2u);
  EXPECT_TRUE(compiled(circle).exact());
  EXPECT_TRUE(compiled(circle).bounds.must.Contains(1));
  EXPECT_EQ(compiled(circle).bounds.must.ids.Count(), 1u);
}

}  // namespace
}  // namespace lightcone::server

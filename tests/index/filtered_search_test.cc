// Searches of which not every row can be a hit: by ids, by a filter, by what the view serves.
#include <random>
#include <set>

#include "geometry/kernels.h"
#include "gtest/gtest.h"
#include "index/rows/id_set.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

std::vector<float> RandomVector(int dimension, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(dimension)));
  std::vector<float> z(static_cast<size_t>(dimension));
  for (float& x : z) x = normal(random);
  return z;
}

std::vector<uint64_t> Members(const IdSet& set, uint64_t first = 0, uint64_t last = UINT64_MAX) {
  std::vector<uint64_t> all;
  set.ForEachIn(first, last, [&](std::span<const uint64_t> ids) {
    all.insert(all.end(), ids.begin(), ids.end());
    return true;
  });
  return all;
}

TEST(IdSet, HoldsWhatASetOfNumbersHoldsOnBothSidesOfTheFourBillionthId) {
  std::mt19937_64 random(1);
  const uint64_t border = uint64_t{1} << 32;
  const auto any = [&] { return border - 3'000 + random() % 6'000; };
  IdSet sets[2];
  std::set<uint64_t> truths[2];
  for (int step = 0; step < 20'000; ++step) {
    const size_t which = random() % 2;
    const uint64_t id = any();
    if (random() % 3 == 0) {
      EXPECT_EQ(sets[which].Remove(id), truths[which].erase(id) == 1);
    } else {
      EXPECT_EQ(sets[which].Add(id), truths[which].insert(id).second);
    }
  }
  const auto expect = [&](const IdSet& set, const std::set<uint64_t>& truth) {
    EXPECT_EQ(Members(set), std::vector<uint64_t>(truth.begin(), truth.end()));
    EXPECT_EQ(set.Count(), truth.size());
    EXPECT_EQ(set.empty(), truth.empty());
    for (int i = 0; i < 200; ++i) {
      const uint64_t first = any(), last = any();
      const auto begin = truth.lower_bound(first), end = truth.upper_bound(last);
      const auto inside = first <= last ? static_cast<uint64_t>(std::distance(begin, end)) : 0;
      EXPECT_EQ(set.CountIn(first, last), inside) << first << " .. " << last;
      EXPECT_EQ(Members(set, first, last).size(), inside);
      EXPECT_EQ(set.Contains(first), truth.contains(first));
    }
  };
  expect(sets[0], truths[0]);
  std::set<uint64_t> both, either = truths[0], rest;
  either.insert(truths[1].begin(), truths[1].end());
  for (const uint64_t id : truths[0]) (truths[1].contains(id) ? both : rest).insert(id);
  IdSet set = sets[0];
  expect(set &= sets[1], both);
  set = sets[0];
  expect(set |= sets[1], either);
  set = sets[0];
  expect(set -= sets[1], rest);
  const IdSet* const all[] = {&sets[0], &sets[1], &set};
  expect(IdSet::Union(all), either);
  set -= set;
  expect(set, {});
  set.AddMany(std::vector<uint64_t>(truths[1].rbegin(), truths[1].rend()));
  expect(set, truths[1]);
}

// An index of sealed and growing segments with rows of two generations, some deleted and some superseded.
class FilteredSearch : public testing::TestWithParam<RowCodes> {
 protected:
  static constexpr int kDimension = 24;

  void Open(int64_t growing_rows_max) {
    IndexSettings settings;
    settings.codes = GetParam();
    settings.growing_rows_max = growing_rows_max;
    settings.merge_rows_max = growing_rows_max;
    auto index = CollectionIndex::Open(folder_.path(), settings, {{1, space_}, {2, space_}}, &oracle_);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
  }

  void Write(std::vector<Oracle::Change> changes) {
    for (size_t begin = 0; begin < changes.size(); begin += 500) {
      const auto end = changes.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 500, changes.size()));
      ASSERT_TRUE(oracle_.Write(index_.get(), {changes.begin() + static_cast<std::ptrdiff_t>(begin), end}).ok());
    }
  }

  // Ids are `step` apart.
  void Fill(int64_t rows, uint64_t step = 3) {
    std::vector<Oracle::Change> changes;
    for (int64_t i = 0; i < rows; ++i) {
      changes.push_back(Oracle::Add(static_cast<uint64_t>(i) * step + 1, 1, RandomVector(kDimension, random_)));
    }
    Write(std::move(changes));
  }

  absl::StatusOr<SearchResult> Search(const std::vector<float>& z, const IdFilter* ids, bool exact,
                                      const std::function<bool(uint64_t, float)>& keep = {}, double keep_share = 1,
                                      uint32_t view = 1) {
    const BoundQuery query = Bind(space_, z);
    SearchRequest request;
    request.query = &query;
    request.generation = 1;
    request.view_generation = view;
    request.ids = ids;
    request.exact = exact;
    request.keep = keep;
    request.keep_share = keep_share;
    request.profile = true;
    request.ef = 64;
    return index_->View()->Search(request);
  }

  // A share of the rows: any, the nearest (1) or the farthest (-1).
  IdSet Leaning(const std::vector<float>& z, int64_t rows, double share, int lean) {
    auto hits = oracle_.BruteForce(Bind(space_, z), 1, 1, rows);
    if (lean == 0) std::shuffle(hits.begin(), hits.end(), random_);
    if (lean < 0) std::reverse(hits.begin(), hits.end());
    IdSet ids;
    for (size_t i = 0; i < static_cast<size_t>(share * static_cast<double>(rows)); ++i) ids.Add(hits[i].internal_id);
    return ids;
  }

  void FindWithTests(uint64_t step);

  const Space space_{Metric::kLorentz, kDimension, 1.0, 1.2};
  std::mt19937_64 random_{7};
  TemporaryFolder folder_;
  Oracle oracle_;
  std::unique_ptr<CollectionIndex> index_;
};

TEST_P(FilteredSearch, IsExactForAnyIdsFiltersDeletionsAndGenerations) {
  Open(700);
  Fill(2'000);
  ASSERT_TRUE(index_->Flush().ok());
  std::vector<Oracle::Change> changes;
  for (int i = 0; i < 300; ++i) changes.push_back(Oracle::Delete(random_() % 6'000));
  for (int i = 0; i < 900; ++i) {
    const uint64_t id = random_() % 2'000 * 3 + 1;
    if (oracle_.items().contains(id)) changes.push_back(Oracle::Add(id, 2, RandomVector(kDimension, random_)));
  }
  for (uint64_t i = 0; i < 300; ++i) changes.push_back(Oracle::Add(10'000 + i, 1, RandomVector(kDimension, random_)));
  std::erase_if(changes, [&](const Oracle::Change& c) {  // not of an id that another change deletes
    return c.generation == 2 && std::any_of(changes.begin(), changes.end(), [&](const Oracle::Change& d) {
             return d.kind == RowChange::Kind::kDelete && d.internal_id == c.internal_id;
           });
  });
  Write(std::move(changes));
  for (const double share : {0.0, 0.001, 0.02, 0.3, 0.9, 1.0}) {
    for (const bool others : {false, true}) {
      IdFilter filter;
      filter.others = others;
      for (uint64_t id = 0; id < 10'400; ++id) {
        if (static_cast<double>(random_() % 10'000) < 10'000 * share) filter.ids.Add(id);
      }
      for (const uint32_t view : {1u, 2u}) {
        for (const int modulus : {1, 2}) {
          const auto z = RandomVector(kDimension, random_);
          const auto passes = [&](uint64_t id, float) {
            return filter.Contains(id) && id % static_cast<uint64_t>(modulus) == 0;
          };
          std::function<bool(uint64_t, float)> keep;
          if (modulus > 1) keep = [&](uint64_t id, float) { return id % static_cast<uint64_t>(modulus) == 0; };
          const std::string what = StrCat("share ", share, ", others ", others, ", view ", view, ", modulo ", modulus);
          const auto expected = oracle_.BruteForce(Bind(space_, z), 1, view, 10, passes);
          const auto exact = Search(z, &filter, /*exact=*/true, keep, 1.0 / modulus, view);
          ASSERT_TRUE(exact.ok()) << exact.status();
          ExpectSameHits(exact->hits, expected, what);
          const auto walked = Search(z, &filter, /*exact=*/false, keep, 1.0 / modulus, view);
          ASSERT_TRUE(walked.ok()) << walked.status();
          ASSERT_EQ(walked->hits.size(), expected.size()) << what;  // never fewer than there are
          for (const SearchHit& hit : walked->hits) ASSERT_TRUE(passes(hit.internal_id, 0)) << what;
        }
      }
    }
  }
}

// Ids that are asked one by one, those of a list of them or any.
class Among final : public IdTest {
 public:
  Among(const IdSet& ids, double share) : ids_(ids), share_(share) {}
  bool Holds(uint64_t id) const override {
    ++asked;
    return ids_.Contains(id);
  }
  bool MayHold(uint64_t first, uint64_t last) const override { return ids_.CountIn(first, last) > 0; }
  uint64_t Count() const override { return ids_.Count(); }
  double Share() const override { return share_; }

  mutable int64_t asked = 0;

 private:
  const IdSet ids_;
  const double share_;
};

void FilteredSearch::FindWithTests(uint64_t step) {
  constexpr int64_t kRows = 12'000;
  Open(kRows);
  Fill(kRows, step);
  ASSERT_TRUE(index_->Flush().ok());
  for (const double share : {1.0, 0.5, 0.1, 0.01}) {
    for (const int lean : {0, 1, -1}) {
      for (const bool listed : {false, true}) {
        SCOPED_TRACE(StrCat("share ", share, ", lean ", lean, ", listed ", listed));
        int64_t found = 0, wanted = 0;
        for (int q = 0; q < 6; ++q) {
          const auto z = RandomVector(kDimension, random_);
          const IdSet set = Leaning(z, kRows, share, lean);
          IdFilter filter{{}, true, {std::make_shared<Among>(set, share)}};
          if (listed) {  // three of four; the test has to be asked as well
            filter.others = false;
            for (int64_t i = 0; i < kRows; ++i) {
              if (i % 4 != 0) filter.ids.Add(static_cast<uint64_t>(i) * step + 1);
            }
          }
          const auto passes = [&](uint64_t id, float) { return filter.Contains(id); };
          const auto expected = oracle_.BruteForce(Bind(space_, z), 1, 1, 10, passes);
          const auto exact = Search(z, &filter, /*exact=*/true);
          const auto walked = Search(z, &filter, /*exact=*/false);
          ASSERT_TRUE(exact.ok() && walked.ok());
          ExpectSameHits(exact->hits, expected, "exact");
          ASSERT_EQ(walked->hits.size(), expected.size());
          std::set<uint64_t> ids;
          for (const SearchHit& hit : expected) ids.insert(hit.internal_id);
          wanted += static_cast<int64_t>(ids.size());
          for (const SearchHit& hit : walked->hits) {
            ASSERT_TRUE(passes(hit.internal_id, 0));
            found += ids.contains(hit.internal_id);
          }
        }
        EXPECT_GE(static_cast<double>(found) / static_cast<double>(wanted), 0.95);
      }
    }
  }
}

TEST_P(FilteredSearch, FindsWithTestsWhatItFindsWithTheirSet) { FindWithTests(/*step=*/1); }
TEST_P(FilteredSearch, FindsWithTestsWhatItFindsWithTheirSetWhereIdsHaveGaps) { FindWithTests(/*step=*/3); }

TEST_P(FilteredSearch, FindsTheNearestWhateverTheFilterHasToDoWithTheQuery) {
  constexpr int64_t kRows = 12'000;
  Open(kRows);
  Fill(kRows, /*step=*/1);
  ASSERT_TRUE(index_->Flush().ok());
  for (const double share : {0.5, 0.25, 0.1, 0.01, 0.001}) {
    for (const int lean : {0, 1, -1}) {  // passing rows are any, the nearest, the farthest
      int64_t found = 0, wanted = 0;
      for (int q = 0; q < 12; ++q) {
        const auto z = RandomVector(kDimension, random_);
        const IdFilter filter{Leaning(z, kRows, share, lean), false, {}};
        const auto walked = Search(z, &filter, /*exact=*/false);
        const auto exact = Search(z, &filter, /*exact=*/true);
        ASSERT_TRUE(walked.ok() && exact.ok());
        const SearchPlan plan = walked->segments.at(0).plan;
        if (share > 0.4 && lean >= 0) {
          EXPECT_EQ(plan, SearchPlan::kPostFilter);
        }
        if (share < 0.2 || lean < 0) {  // what lies away from the query is scanned
          EXPECT_EQ(plan, SearchPlan::kPassingScan) << share;
        }
        EXPECT_EQ(exact->segments.at(0).plan, SearchPlan::kPassingScan);
        EXPECT_EQ(exact->rows_scored, static_cast<int64_t>(share * kRows));
        std::set<uint64_t> ids;
        for (const SearchHit& hit : exact->hits) ids.insert(hit.internal_id);
        wanted += static_cast<int64_t>(ids.size());
        for (const SearchHit& hit : walked->hits) found += ids.contains(hit.internal_id);
      }
      EXPECT_GE(static_cast<double>(found) / static_cast<double>(wanted), 0.95)
          << "share " << share << ", lean " << lean;
    }
  }
}

// As of items of one day among those of years.
TEST_P(FilteredSearch, GoesPastRowsOfWhichNoneMeetsATest) {
  Open(8'000);
  Fill(24'000, /*step=*/1);
  ASSERT_TRUE(index_->Flush().ok());
  IdSet late;
  for (uint64_t id = 20'000; id <= 24'000; ++id) late.Add(id);
  IdSet even;
  for (uint64_t id = 2; id <= 24'000; id += 2) even.Add(id);
  for (const bool listed : {false, true}) {
    for (const bool exact : {false, true}) {
      const auto test = std::make_shared<Among>(late, 1.0 / 6);
      const IdFilter filter{listed ? even : IdSet(), !listed, {test}};
      const auto z = RandomVector(kDimension, random_);
      const auto result = Search(z, &filter, exact);
      ASSERT_TRUE(result.ok()) << result.status();
      const auto passes = [&](uint64_t id, float) { return late.Contains(id) && (!listed || id % 2 == 0); };
      ExpectSameHits(result->hits, oracle_.BruteForce(Bind(space_, z), 1, 1, 10, passes), "late");
      EXPECT_LT(test->asked, 3 * 4'096) << "not the rows of two segments and a half";
    }
  }
}

// Segments walk together; about a query whose whole neighbourhood fails each looks for itself, by a list, a test and a
// filter that is expensive to ask.
TEST_P(FilteredSearch, WalksSegmentsTogetherAndEachAloneWhereTooFewOfTheNearestPass) {
  constexpr int64_t kRows = 24'000, kRowsASegment = 6'000;
  Open(kRowsASegment);
  Fill(kRows, /*step=*/1);
  ASSERT_TRUE(index_->Flush().ok());
  int64_t together = 0, alone = 0;
  for (const bool near_fail : {false, true}) {
    int64_t found = 0, wanted = 0, found_of_all = 0;
    for (int q = 0; q < 12; ++q) {
      const auto z = RandomVector(kDimension, random_);
      const auto hits = oracle_.BruteForce(Bind(space_, z), 1, 1, kRows);
      std::set<uint64_t> nearest;
      for (size_t i = 0; i < 10; ++i) nearest.insert(hits[i].internal_id);
      const auto of_all = Search(z, nullptr, /*exact=*/false);
      ASSERT_TRUE(of_all.ok()) << of_all.status();
      for (const SearchHit& hit : of_all->hits)
        found_of_all += 3 * static_cast<int64_t>(nearest.count(hit.internal_id));
      const size_t away = near_fail ? 90 : 0;  // more than the 64 that walks meet between them
      IdSet set;
      for (size_t i = away; i < hits.size(); ++i) {
        if (i % 4 != 0) set.Add(hits[i].internal_id);
      }
      const auto passes = [&](uint64_t id, float) { return set.Contains(id); };
      const auto expected = oracle_.BruteForce(Bind(space_, z), 1, 1, 10, passes);
      std::set<uint64_t> ids;
      for (const SearchHit& hit : expected) ids.insert(hit.internal_id);
      const IdFilter listed{set, false, {}}, tested{{}, true, {std::make_shared<Among>(set, 0.75)}};
      for (int way = 0; way < 3; ++way) {
        const auto walked = way == 2 ? Search(z, nullptr, /*exact=*/false, passes, 0.75)
                                     : Search(z, way == 0 ? &listed : &tested, /*exact=*/false);
        ASSERT_TRUE(walked.ok()) << walked.status();
        ASSERT_EQ(walked->segments.size(), static_cast<size_t>(kRows / kRowsASegment));
        ASSERT_EQ(walked->hits.size(), expected.size());
        std::set<uint64_t> once;
        for (const SearchHit& hit : walked->hits) {
          ASSERT_TRUE(passes(hit.internal_id, 0));
          ASSERT_TRUE(once.insert(hit.internal_id).second);
          found += ids.contains(hit.internal_id);
        }
        wanted += static_cast<int64_t>(ids.size());
        for (const SegmentProfile& segment : walked->segments) {
          EXPECT_EQ(segment.plan, near_fail && way < 2 ? SearchPlan::kWalk : SearchPlan::kPostFilter) << "way " << way;
          EXPECT_FALSE(segment.fell_back);
          EXPECT_NEAR(segment.passing_share, 0.75, 0.2);
        }
        (near_fail ? alone : together) += walked->rows_scored;
      }
    }
    // About as well as without a filter; better where each looks for itself.
    const auto share = [&](int64_t n) { return static_cast<double>(n) / static_cast<double>(wanted); };
    EXPECT_GE(share(found), near_fail ? 0.95 : share(found_of_all) - 0.03) << near_fail;
    EXPECT_GE(share(found), 0.9);
  }
  EXPECT_LT(together * 2, alone) << "one beam for all, and where that met too little one for each";
}

TEST_P(FilteredSearch, GoesOnToThoseThatPassWhereTooFewOfTheNearestDo) {
  constexpr int64_t kRows = 12'000;
  Open(kRows);
  Fill(kRows);
  ASSERT_TRUE(index_->Flush().ok());
  int64_t found = 0, wanted = 0;
  for (int q = 0; q < 12; ++q) {
    const auto z = RandomVector(kDimension, random_);
    const auto hits = oracle_.BruteForce(Bind(space_, z), 1, 1, kRows);
    const size_t away = q % 2 == 0 ? 120 : kRows / 20;
    IdFilter filter;  // two of three, and none of the nearest
    for (size_t i = away; i < hits.size(); ++i) {
      if (i % 3 != 0) filter.ids.Add(hits[i].internal_id);
    }
    const auto walked = Search(z, &filter, /*exact=*/false);
    const auto exact = Search(z, &filter, /*exact=*/true);
    ASSERT_TRUE(walked.ok() && exact.ok());
    // By all rows as far as the first that pass; where that is most of the way to everything, everything is scanned.
    EXPECT_EQ(walked->segments.at(0).plan, SearchPlan::kWalk);
    EXPECT_EQ(walked->segments.at(0).fell_back, q % 2 == 1);
    std::set<uint64_t> ids;
    for (const SearchHit& hit : exact->hits) ids.insert(hit.internal_id);
    wanted += static_cast<int64_t>(ids.size());
    for (const SearchHit& hit : walked->hits) found += ids.contains(hit.internal_id);
  }
  EXPECT_GE(static_cast<double>(found) / static_cast<double>(wanted), 0.95);
}

TEST_P(FilteredSearch, RanksByTheirVectorsWhatCodesCannotTellApart) {
  Open(4'000);
  Fill(3'000);
  const auto track = RandomVector(kDimension, random_);
  std::vector<Oracle::Change> frames;
  IdFilter filter;
  std::normal_distribution<float> noise(0, 1e-4f);
  for (uint64_t id = 20'000; id < 20'400; ++id) {
    auto frame = track;
    for (float& x : frame) x += noise(random_);
    frames.push_back(Oracle::Add(id, 1, std::move(frame)));
    filter.ids.Add(id);
  }
  Write(std::move(frames));
  ASSERT_TRUE(index_->Flush().ok());
  const auto found = Search(track, &filter, /*exact=*/false);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->segments.at(0).plan, SearchPlan::kPassingScan);
  const auto passes = [&](uint64_t id, float) { return filter.Contains(id); };
  ExpectSameHits(found->hits, oracle_.BruteForce(Bind(space_, track), 1, 1, 10, passes), "frames");
}

TEST_P(FilteredSearch, AsksAnExpensiveFilterAboutTheNearestOfAList) {
  Open(6'000);
  Fill(6'000);
  ASSERT_TRUE(index_->Flush().ok());
  IdFilter listed;
  for (uint64_t i = 0; i < 600; ++i) listed.ids.Add(i * 30 + 1);
  int64_t asked = 0;
  const auto keep = [&asked](uint64_t id, float) {
    ++asked;
    return id % 4 == 1;  // every other one of the list
  };
  const auto result = Search(RandomVector(kDimension, random_), &listed, /*exact=*/false, keep, 0.5);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->segments.at(0).plan, SearchPlan::kPassingScan);
  EXPECT_EQ(result->hits.size(), 10u);
  EXPECT_LE(asked, 200);
}

TEST_P(FilteredSearch, AsksAnExpensiveFilterAboutFewRows) {
  Open(6'000);
  Fill(6'000);
  ASSERT_TRUE(index_->Flush().ok());
  int64_t asked = 0;
  const auto keep = [&asked](uint64_t id, float) {
    ++asked;
    return id % 2 == 0;
  };
  const auto result = Search(RandomVector(kDimension, random_), nullptr, /*exact=*/false, keep, 0.5);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->segments.at(0).plan, SearchPlan::kPostFilter);
  EXPECT_EQ(result->hits.size(), 10u);
  EXPECT_LE(asked, 64);
}

TEST_P(FilteredSearch, ScansWhereAnExpensiveFilterKeepsBarelyEnoughOfTheNearest) {
  constexpr int64_t kRows = 12'000;
  Open(kRows);
  Fill(kRows);
  ASSERT_TRUE(index_->Flush().ok());
  size_t found = 0, wanted = 0;
  int fell_back = 0;
  for (int q = 0; q < 40; ++q) {
    const auto z = RandomVector(kDimension, random_);
    const auto hits = oracle_.BruteForce(Bind(space_, z), 1, 1, kRows);
    std::set<uint64_t> kept;  // half of all, but of the 64 that a walk finds about 12, at its edge
    for (size_t i = 40; i < hits.size(); ++i) {
      if (random_() % 2 == 0) kept.insert(hits[i].internal_id);
    }
    const auto keep = [&](uint64_t id, float) { return kept.contains(id); };
    const auto walked = Search(z, nullptr, /*exact=*/false, keep, 0.5);
    const auto exact = Search(z, nullptr, /*exact=*/true, keep, 0.5);
    ASSERT_TRUE(walked.ok() && exact.ok());
    EXPECT_EQ(walked->segments.at(0).plan, SearchPlan::kPostFilter);
    fell_back += walked->segments.at(0).fell_back;
    std::set<uint64_t> ids;
    for (const SearchHit& hit : exact->hits) ids.insert(hit.internal_id);
    wanted += ids.size();
    for (const SearchHit& hit : walked->hits) found += ids.contains(hit.internal_id);
  }
  EXPECT_GE(fell_back, 24);
  EXPECT_GE(static_cast<double>(found) / static_cast<double>(wanted), 0.95);
}

TEST_P(FilteredSearch, LooksAtTheDeadlineWhereNoRowPasses) {
  Open(30'000);
  Fill(20'000);
  IdFilter filter;
  filter.others = true;
  for (uint64_t id = 0; id <= 60'000; ++id) filter.ids.Add(id);
  const BoundQuery query = Bind(space_, RandomVector(kDimension, random_));
  int64_t asked = 0;
  const std::function<bool()> cancelled = [&asked] { return ++asked == 4; };
  SearchRequest request;
  request.query = &query;
  request.generation = request.view_generation = 1;
  request.ids = &filter;
  request.cancelled = &cancelled;
  const auto result = index_->View()->Search(request);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
  EXPECT_EQ(asked, 4);
}

TEST_P(FilteredSearch, SamplesTheRowsThatAViewServes) {
  Open(700);
  Fill(2'000);
  ASSERT_TRUE(index_->Flush().ok());
  std::vector<Oracle::Change> changes;
  for (uint64_t i = 0; i < 500; ++i) {
    changes.push_back(Oracle::Add(i * 3 + 1, 2, RandomVector(kDimension, random_), 0.25f));
  }
  for (uint64_t i = 1'000; i < 1'500; ++i) changes.push_back(Oracle::Delete(i * 3 + 1));
  Write(std::move(changes));
  const std::vector<uint32_t> both = {1, 2};
  const auto view = index_->View();
  for (const int64_t asked : {int64_t{1}, int64_t{250}, int64_t{1'000'000}}) {
    const auto sample = view->SampleRows(both, 2, asked);
    std::set<uint64_t> ids;
    for (const SampledRow& row : sample) {
      ASSERT_TRUE(oracle_.items().contains(row.internal_id));
      const auto& newest = *oracle_.items().at(row.internal_id).rbegin();
      EXPECT_EQ(row.generation, newest.first);
      EXPECT_EQ(row.uncertainty, newest.second.uncertainty);
      EXPECT_TRUE(ids.insert(row.internal_id).second);
    }
    EXPECT_LE(static_cast<int64_t>(sample.size()), asked);
    if (asked == 250) {
      EXPECT_NEAR(static_cast<double>(sample.size()), 250 * 0.6, 5) << "1,500 of 2,500 rows";
    }
    if (asked > 2'500) {
      EXPECT_EQ(sample.size(), oracle_.items().size());
    }
  }
  EXPECT_TRUE(view->SampleRows({}, 2, 100).empty());
  EXPECT_EQ(view->SampleRows(std::span(both).first(1), 1, 1'000'000).size(), 1'500u);
}

INSTANTIATE_TEST_SUITE_P(Codes, FilteredSearch, testing::Values(RowCodes::kFloat32, RowCodes::kInt8),
                         [](const auto& info) { return info.param == RowCodes::kInt8 ? "Int8" : "Float32"; });

}  // namespace
}  // namespace lightcone

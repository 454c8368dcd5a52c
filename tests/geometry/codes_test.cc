// int8 and half codes: what a kernel says of a row, and how far off it may be, against float64; on every instruction
// set.
#include "geometry/codes.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/code_kernels_vnni.h"
#include "geometry/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/random_rows.h"

namespace lightcone {
namespace {

using test::RandomNorm;
using test::RandomVector;
using test::SpacesOf;

constexpr CodeKind kCodeKinds[] = {CodeKind::kInt8, CodeKind::kHalf};
constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

// Rows of a space around `offset` in every coordinate, and their codes around the origin or around their mean, in an
// allocation that ends with the last row.
struct CodedRows {
  CodedRows(CodeKind kind, std::mt19937_64& random, const Space& space, std::size_t count, bool centred = false,
            float offset = 0) {
    const std::size_t d = static_cast<std::size_t>(space.dimension);
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back(RandomVector(random, space.dimension, RandomNorm(random)));
      for (float& x : rows.back()) x += offset;
      if (i == 0 && space.metric != Metric::kCosine) rows[0].assign(rows[0].size(), 0.0f);
      factors.push_back(FactorsOf(space, rows.back()));
    }
    centre.resize(d, 0.0f);
    for (std::size_t j = 0; centred && j < d; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += double{factors[i].scale} * double{rows[i][j]};
      centre[j] = static_cast<float>(sum / static_cast<double>(count));
    }
    Encode(kind, space);
  }
  CodedRows(CodeKind kind, const Space& space, std::vector<std::vector<float>> given) : rows(std::move(given)) {
    for (const auto& row : rows) factors.push_back(FactorsOf(space, row));
    centre.resize(static_cast<std::size_t>(space.dimension), 0.0f);
    Encode(kind, space);
  }

  std::vector<std::uint8_t> codes;
  std::vector<std::vector<float>> rows;
  std::vector<RowFactors> factors;
  std::vector<float> centre;
  CodeBlock block;

 private:
  void Encode(CodeKind kind, const Space& space) {
    block.kind = kind;
    block.stride = CodeStride(kind, space.dimension);
    block.centre = centre.data();
    codes.resize(rows.size() * block.stride);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EncodeRow(space.metric, factors[i], rows[i], codes.data() + i * block.stride, &block);
    }
    block.rows = codes.data();
  }
};

double ExactScore(const BoundQuery& query, const std::vector<float>& row) {
  return query.ScoreOfDistance(query.Distance(row));
}

class CodesOnEveryTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { ForceKernelTarget(GetParam()); }
  void TearDown() override { ForceKernelTarget(0); }
};

// Every row's score lies as near to the exact one as its error says, by scans and by gathered rows.
void ExpectTrueBounds(const Space& space, const CodedRows& coded, const std::vector<float>& z,
                      const std::string& what) {
  const BoundQuery query = BoundQuery::Make(space, space, z).value();
  CodeQuery code_query(query);
  code_query.Bind(coded.block);
  std::vector<CodeHit> hits(coded.rows.size());
  ASSERT_EQ(ScanCodes(code_query, coded.codes.data(), coded.block.stride, hits.size(), kNoFloor, hits.data()),
            hits.size());
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < hits.size(); ++i) ids.push_back(static_cast<std::uint32_t>(i * 7 % hits.size()));
  std::vector<float> scores(ids.size());
  ScoreCodesGathered(code_query, coded.codes.data(), coded.block.stride, ids.data(), ids.size(), scores.data());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    const double truth = ExactScore(query, coded.rows[i]);
    ASSERT_EQ(hits[i].row, i);
    ASSERT_NEAR(hits[i].score, truth, hits[i].error + 1e-12 * std::abs(truth) + 1e-15)
        << what << " " << MetricName(space.metric) << " K " << space.curvature << " d " << z.size() << " row " << i;
    ASSERT_LE(hits[i].error, code_query.ErrorOf(hits[i].score, coded.block.error_max) * (1 + 1e-4));
    ASSERT_NEAR(scores[i], hits[ids[i]].score, code_query.slack()) << what;
  }
}

TEST_P(CodesOnEveryTarget, ScoresAreAsNearToTheExactOnesAsTheirBoundSays) {
  std::mt19937_64 random(21);
  for (const int d : {1, 2, 3, 15, 16, 17, 25, 48, 63, 64, 65, 96, 127, 128, 130, 200, 513, 768}) {
    for (const Space& space : SpacesOf(d)) {
      for (const bool centred : {false, true}) {
        for (const float offset : {0.0f, 20.0f}) {
          std::vector<float> z = RandomVector(random, d, RandomNorm(random));
          for (float& x : z) x += offset;
          for (const CodeKind kind : kCodeKinds) {
            const CodedRows coded(kind, random, space, 11, centred, offset);
            const std::string what = StrCat(kind == CodeKind::kHalf ? "half " : "", centred ? "centred " : "", offset);
            ExpectTrueBounds(space, coded, z, what);
          }
        }
      }
    }
  }
}

TEST_P(CodesOnEveryTarget, ARowsErrorIsThatOfTheNearestCodes) {
  std::mt19937_64 random(27);
  for (int d = 1; d <= 70; ++d) {
    for (const bool centred : {false, true}) {
      const CodedRows coded(CodeKind::kInt8, random, {Metric::kInnerProduct, d}, 11, centred, centred ? 20 : 0);
      for (std::size_t i = 0; i < coded.rows.size(); ++i) {
        const std::uint8_t* const row = coded.codes.data() + i * coded.block.stride;
        CodeFactors factors;
        std::memcpy(&factors, row + CodeFactorsAt(CodeKind::kInt8, d), sizeof(factors));
        double lost = 0, largest = 0;
        for (std::size_t j = 0; j < static_cast<std::size_t>(d); ++j) {
          const double r = double{coded.factors[i].scale} * double{coded.rows[i][j]} - double{coded.centre[j]};
          const double gone = r - double{factors.step} * (int{row[j]} - 128);
          // A step that was rounded down makes the largest code a little too small.
          ASSERT_LE(std::abs(gone), double{factors.step} * (0.5 + 1e-5)) << "d " << d << ", number " << j;
          lost += gone * gone;
          largest = std::max(largest, std::abs(r));
        }
        ASSERT_NEAR(factors.step, largest / kInt8CodeMax, 1e-7 * largest);
        ASSERT_GE(factors.error, std::sqrt(lost));
        ASSERT_LE(factors.error, std::sqrt(lost) * (1 + 2e-6) + 1e-37);
        for (std::size_t j = static_cast<std::size_t>(d); j < CodeFactorsAt(CodeKind::kInt8, d); ++j) {
          ASSERT_EQ(row[j], 128) << "padding";
        }
      }
    }
  }
}

TEST_P(CodesOnEveryTarget, NothingIsLostWhereTheQueryAloneIsRounded) {
  std::mt19937_64 random(26);
  for (const int d : {3, 64, 100, 768}) {
    const Space space{Metric::kInnerProduct, d};
    std::vector<std::vector<float>> rows(9, std::vector<float>(static_cast<std::size_t>(d)));
    for (auto& row : rows) {
      for (float& x : row) x = static_cast<float>(static_cast<int>(random() % 255) - 127);
      row[0] = 127;
    }
    for (const CodeKind kind : kCodeKinds) {
      const CodedRows coded(kind, space, rows);
      ASSERT_LT(coded.block.error_max, 1e-30);
      for (int i = 0; i < 20; ++i) ExpectTrueBounds(space, coded, RandomVector(random, d, 1.0), "integers");
    }
  }
}

TEST_P(CodesOnEveryTarget, SumsOfTheGreatestDimensionDoNotWrap) {
  for (const int d : {768, 4096, 65536}) {
    const Space space{Metric::kInnerProduct, d};
    const std::size_t n = static_cast<std::size_t>(d);
    for (const CodeKind kind : kCodeKinds) {
      const CodedRows coded(kind, space,
                            {std::vector<float>(n, 1), std::vector<float>(n, -1), std::vector<float>(n, 0.5f)});
      for (const float x : {1.0f, -1.0f}) ExpectTrueBounds(space, coded, std::vector<float>(n, x), "constant");
    }
  }
}

TEST_P(CodesOnEveryTarget, ProductsThatUnderflowAreWithinTheBound) {
  const int d = 1024;
  const Space space{Metric::kInnerProduct, d};
  std::vector<std::vector<float>> rows(2, std::vector<float>(static_cast<std::size_t>(d), 0x1p43f));
  for (auto& row : rows) row[0] = 0x1.8p59f;  // the step: 2^45, so that the others are coded as 2^-2
  const std::vector<float> tiny(static_cast<std::size_t>(d), 0x3p-149f);
  const BoundQuery query = BoundQuery::Make(space, space, tiny).value();
  for (const CodeKind kind : kCodeKinds) {
    const CodedRows coded(kind, space, rows);
    CodeQuery code_query(query);
    code_query.Bind(coded.block);
    std::vector<CodeHit> hits(rows.size());
    ScanCodes(code_query, coded.codes.data(), coded.block.stride, hits.size(), kNoFloor, hits.data());
    for (const CodeHit& hit : hits) EXPECT_NEAR(hit.score, ExactScore(query, rows[hit.row]), hit.error);
  }
}

TEST_P(CodesOnEveryTarget, AScanKeepsTheRowsThatReachTheFloorAndNoOther) {
  std::mt19937_64 random(22);
  for (const int d : {3, 64, 100, 128}) {
    for (const Space& space : SpacesOf(d)) {
      const CodedRows coded(kCodeKinds[random() % 2], random, space, 203);
      const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, d, 1.0)).value();
      CodeQuery code_query(query);
      code_query.Bind(coded.block);
      std::vector<CodeHit> all(coded.rows.size()), kept(coded.rows.size());
      ScanCodes(code_query, coded.codes.data(), coded.block.stride, all.size(), kNoFloor, all.data());
      for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{7}, all.size()}) {
        const float floor = all[n / 2].score + all[n / 2].error;
        const std::size_t found = ScanCodes(code_query, coded.codes.data(), coded.block.stride, n, floor, kept.data());
        std::size_t expected = 0;
        for (std::size_t i = 0; i < n; ++i) {
          if (all[i].score + all[i].error < floor) continue;
          ASSERT_LT(expected, found);
          ASSERT_EQ(kept[expected].row, i);
          ++expected;
        }
        ASSERT_EQ(found, expected);
      }
    }
  }
}

TEST_P(CodesOnEveryTarget, AScanForManyQueriesFindsWhatOneForEachOfThemFinds) {
  std::mt19937_64 random(28);
  for (const int d : {1, 3, 16, 25, 64, 100, 128, 200}) {
    for (const Space& space : SpacesOf(d)) {
      const CodedRows coded(kCodeKinds[random() % 4 == 0], random, space, 45, /*centred=*/true, 3);
      std::vector<BoundQuery> bound;
      for (int q = 0; q < 35; ++q) {
        bound.push_back(BoundQuery::Make(space, space, RandomVector(random, d, RandomNorm(random))).value());
      }
      std::vector<CodeQuery> queries(bound.begin(), bound.end());
      for (CodeQuery& query : queries) query.Bind(coded.block);
      for (const std::size_t count : {1, 2, 3, 15, 16, 18, 19, 32, 35}) {
        std::vector<const CodeQuery*> pointers;
        for (std::size_t q = 0; q < count; ++q) pointers.push_back(&queries[q]);
        const CodeQueryBatch batch(pointers);
        for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{8}, coded.rows.size()}) {
          std::vector<CodeHit> alone(n), hits(count * n);
          std::vector<float> floors(count);
          std::vector<std::size_t> found(count, 99);
          for (std::size_t q = 0; q < count; ++q) {  // all of them; those above one of them; none
            ScanCodes(queries[q], coded.codes.data(), coded.block.stride, n, kNoFloor, alone.data());
            floors[q] = q % 5 == 0 ? kNoFloor : q % 5 == 1 ? 1e30f : alone[q % n].score + alone[q % n].error;
          }
          ScanCodesBatch(batch, coded.codes.data(), coded.block.stride, n, floors.data(), hits.data(), found.data());
          for (std::size_t q = 0; q < count; ++q) {
            ScanCodes(queries[q], coded.codes.data(), coded.block.stride, n, kNoFloor, alone.data());
            std::size_t next = 0;
            for (std::size_t i = 0; i < n; ++i) {
              const CodeHit& hit = hits[q * n + next];
              const bool hit_it = next < found[q] && hit.row == i;
              // Sums are the same integers; what follows may be rounded otherwise.
              const double upper = double{alone[i].score} + alone[i].error, noise = queries[q].slack();
              ASSERT_TRUE(hit_it || upper < floors[q] + noise) << d << " query " << q << " row " << i;
              if (!hit_it) continue;
              ASSERT_GE(upper, floors[q] - noise);
              ASSERT_NEAR(hit.score, alone[i].score, noise);
              ASSERT_NEAR(hit.error, alone[i].error, 1e-5 * alone[i].error + noise);
              ++next;
            }
            ASSERT_EQ(next, found[q]) << "rows in order, none twice";
          }
        }
      }
    }
  }
}

TEST_P(CodesOnEveryTarget, DotProductsOfRowsAreThoseOfWhatTheirCodesMean) {
  std::mt19937_64 random(24);
  for (const int d : {1, 5, 16, 63, 64, 100, 128, 130, 513}) {
    const Space space{Metric::kLorentz, d, 1.0, 1.2};
    for (const CodeKind kind : kCodeKinds) {
      const CodedRows coded(kind, random, space, 11);
      const auto row = [&](std::size_t i) { return coded.codes.data() + i * coded.block.stride; };
      std::vector<std::vector<float>> meant(coded.rows.size(), std::vector<float>(static_cast<std::size_t>(d)));
      for (std::size_t i = 0; i < meant.size(); ++i) DecodeRow(kind, d, row(i), meant[i].data());
      const std::vector<std::uint32_t> ids = {10, 3, 3, 0, 7, 5, 1, 2, 4, 6, 9};
      for (std::size_t i = 0; i < coded.rows.size(); ++i) {
        for (std::size_t n = 0; n <= ids.size(); ++n) {
          std::vector<float> dots(n);
          DotCodesGathered(kind, row(i), coded.codes.data(), coded.block.stride, d, ids.data(), n, dots.data());
          for (std::size_t j = 0; j < n; ++j) {
            double expected = 0, size = 0;
            for (std::size_t h = 0; h < static_cast<std::size_t>(d); ++h) {
              const double product = double{meant[i][h]} * double{meant[ids[j]][h]};
              expected += product;
              size += std::abs(product);
            }
            ASSERT_NEAR(dots[j], expected, 2e-6 * size + 1e-30) << d;
          }
        }
      }
    }
  }
}

TEST_P(CodesOnEveryTarget, TheBoundIsTightEnoughToBeOfUse) {
  std::mt19937_64 random(23);
  const Space space{Metric::kLorentz, 128, 1.0, 1.2};
  const CodedRows coded(CodeKind::kInt8, random, space, 100);
  const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, 128, 1.2)).value();
  CodeQuery code_query(query);
  code_query.Bind(coded.block);
  // |a| = sinh(1.2) = 1.5; a row of that length loses about .6 % of it.
  EXPECT_LT(code_query.ErrorOf(0, coded.block.error_max), 0.03);
  EXPECT_LT(code_query.slack(), 3e-4);

  // Far from the origin it is as tight as around it, once rows are centred.
  const Space euclid{Metric::kEuclidean, 128};
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 100; ++i) {
    rows.push_back(RandomVector(random, 128, std::sqrt(128.0)));
    for (float& x : rows.back()) x += 100;
  }
  CodedRows far(CodeKind::kInt8, euclid, rows);
  EXPECT_GT(far.block.error_max, 2);
  for (float& x : far.centre) x = 100;
  far.block = CodeBlock{.stride = far.block.stride, .centre = far.centre.data()};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EncodeRow(euclid.metric, far.factors[i], rows[i], far.codes.data() + i * far.block.stride, &far.block);
  }
  EXPECT_LT(far.block.error_max, 0.15);
  const BoundQuery near = BoundQuery::Make(euclid, euclid, rows[0]).value();
  CodeQuery near_query(near);
  near_query.Bind(far.block);
  EXPECT_LT(near_query.ErrorOf(-256, far.block.error_max), 5) << "of a squared distance of 256";

  // Half precision loses a sixteenth of that at most: 11 bits of each number instead of 7 of the largest.
  const CodedRows half(CodeKind::kHalf, space, coded.rows);
  EXPECT_LT(half.block.error_max, coded.block.error_max / 16);
}

TEST_P(CodesOnEveryTarget, AroundTheirCentreRowsFarFromTheOriginKeepTheirDigits) {
  std::mt19937_64 random(31);
  for (const int d : {1, 16, 17, 48, 130}) {
    const Space euclid{Metric::kEuclidean, d};
    const auto far_away = [&] {
      std::vector<float> z = RandomVector(random, d, std::sqrt(static_cast<double>(d)));
      for (float& x : z) x += 1e6f;
      return z;
    };
    std::vector<std::vector<float>> rows;
    for (int i = 0; i < 50; ++i) rows.push_back(far_away());
    for (const CodeKind kind : kCodeKinds) {
      CodedRows coded(kind, euclid, rows);
      for (float& x : coded.centre) x = 1e6f;
      coded.block = CodeBlock{.kind = kind,
                              .rows = coded.codes.data(),
                              .stride = coded.block.stride,
                              .centre = coded.centre.data(),
                              .around_centre = true};
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EncodeRow(euclid.metric, coded.factors[i], rows[i], coded.codes.data() + i * coded.block.stride, &coded.block);
      }
      const std::vector<float> z = far_away();
      ExpectTrueBounds(euclid, coded, z, "around the centre");
      const BoundQuery query = BoundQuery::Make(euclid, euclid, z).value();
      CodeQuery code_query(query);
      code_query.Bind(coded.block);
      EXPECT_LT(code_query.slack(), 0.01 * d) << "of squared distances of about " << 2 * d;
      // Bound to other rows, it is what it was.
      code_query.Bind(CodeBlock{.kind = kind, .stride = coded.block.stride});
      EXPECT_EQ(code_query.a(), query.a());
    }
  }
}

TEST_P(CodesOnEveryTarget, KernelsOnDotProductsOfBytesAreUsedWhereTheProcessorHasThem) {
  const bool avx3 = std::string_view(KernelTargetName(GetParam())).starts_with("AVX3");
  EXPECT_EQ(CodeKernelName(), avx3 && HaveVnni() ? "vnni" : "int16");
}

INSTANTIATE_TEST_SUITE_P(All, CodesOnEveryTarget, ::testing::ValuesIn(KernelTargets()),
                         [](const auto& info) { return std::string(KernelTargetName(info.param)); });

TEST(Codes, AreTheNumbersThemselvesWhereTheyFit) {
  const Space space{Metric::kInnerProduct, 5};
  const std::vector<float> z = {127, -127, 64, 0, -1};
  std::vector<std::uint8_t> codes(CodeStride(CodeKind::kInt8, 5));
  CodeBlock block;
  EncodeRow(space.metric, FactorsOf(space, z), z, codes.data(), &block);
  EXPECT_EQ(std::vector<int>(codes.begin(), codes.begin() + 6), (std::vector<int>{255, 1, 192, 128, 127, 128}));
  EXPECT_LT(block.error_max, 1e-30);
  EXPECT_NEAR(block.norm_max, std::sqrt(2 * 127.0 * 127 + 64 * 64 + 1), 1e-3);
}

TEST(Codes, OfHalfPrecisionAreThoseOfTheStandard) {
  // In steps of 2^-14, so that the largest number is 2^14.
  const std::vector<float> z = {1.0f, -0.5f, 0.0f, std::ldexp(1.0f, -28), std::ldexp(1.0f, -38), 1.0f / 3, -0.9998f};
  CodeBlock block;
  block.kind = CodeKind::kHalf;
  std::vector<std::uint8_t> codes(CodeStride(block.kind, 7));
  EncodeRow(Metric::kInnerProduct, {1, 0}, z, codes.data(), &block);
  std::vector<std::uint16_t> bits(7);
  std::memcpy(bits.data(), codes.data(), bits.size() * sizeof(bits[0]));
  // 2^14, -2^13, 0, the least normal number, the least of all, 5461.33 as 1365 * 4, and what rounds up to -2^14.
  EXPECT_EQ(bits, (std::vector<std::uint16_t>{0x7400, 0xf000, 0, 0x0400, 0x0001, 0x6d55, 0xf400}));
  std::vector<float> back(7);
  DecodeRow(block.kind, 7, codes.data(), back.data());
  EXPECT_EQ(back,
            (std::vector<float>{1.0f, -0.5f, 0.0f, std::ldexp(1.0f, -28), std::ldexp(1.0f, -38), 0.33325195f, -1.0f}));
}

TEST(Codes, RowsAreCodedFromTheDimensionOnAtWhichThatIsShorter) {
  EXPECT_EQ(CodeDimensionMin(CodeKind::kInt8), 7);
  EXPECT_EQ(CodeDimensionMin(CodeKind::kHalf), 19);
}

}  // namespace
}  // namespace lightcone

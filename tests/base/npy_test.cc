#include "base/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/status.h"
#include "tests/base/float_to_half.h"

namespace lightcone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file with a header text of one's own; `major` is the format version.
std::string WithHeader(std::string_view dict, std::string_view data, int major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(dict.size() >> (8 * i));
  return bytes.append(dict).append(data);
}

void ExpectError(const std::string& bytes, absl::StatusCode code, std::string_view text) {
  const auto array = ParseNpy(bytes, "x.npy");
  ASSERT_FALSE(array.ok()) << text;
  EXPECT_EQ(array.status().code(), code) << MessageOf(array.status());
  EXPECT_THAT(MessageOf(array.status()), HasSubstr(std::string(text)));
  EXPECT_THAT(MessageOf(array.status()), HasSubstr("x.npy"));
}

TEST(Npy, WhatIsWrittenIsReadAgain) {
  const std::vector<float> values = {1.5f, -2.25f, 0.0f, 3e38f, -1e-40f, 7.0f};
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  const std::string bytes = EncodeNpy(NpyType::kFloat32, {3, 2}, data);
  EXPECT_EQ((bytes.size() - data.size()) % 64, 0);
  const auto array = ParseNpy(bytes, "x");
  ASSERT_TRUE(array.ok()) << MessageOf(array.status());
  EXPECT_THAT(array->shape, ElementsAre(3, 2));
  EXPECT_EQ(NpyFloats(*array, "x").value(), values);
}

TEST(Npy, ReadsEveryVersionAndAnySpacingOrderAndQuotes) {
  const std::string odd = "  {\"shape\":(2 ,3L,),\n 'fortran_order' :False ,'descr':'|u1'}  \n";
  for (const int major : {1, 2, 3}) {
    const auto array = ParseNpy(WithHeader(odd, "abcdef", major), "x");
    ASSERT_TRUE(array.ok()) << MessageOf(array.status());
    EXPECT_THAT(array->shape, ElementsAre(2, 3));
    EXPECT_EQ(array->type, NpyType::kUint8);
    EXPECT_EQ(array->data, "abcdef");
  }
}

TEST(Npy, BigEndianFilesBecomeLittleEndian) {
  const std::string dict = "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n";
  const auto array = ParseNpy(WithHeader(dict, std::string("\x01\x02\xff\xfe", 4)), "x");
  ASSERT_TRUE(array.ok());
  EXPECT_THAT(NpyIntegers(*array, "x").value(), ElementsAre(258, -2));
}

TEST(Npy, ScalarsAndEmptyArraysAreValid) {
  EXPECT_EQ(
      ParseNpy(WithHeader("{'descr':'<i8','fortran_order':False,'shape':()}", std::string(8, '\0')), "x")->elements(),
      1);
  EXPECT_EQ(ParseNpy(WithHeader("{'descr':'<f4','fortran_order':False,'shape':(0,128)}", ""), "x")->elements(), 0);
}

TEST(Npy, TruncatedOrCorruptFilesAreDataLossAndNameTheFile) {
  const std::string good = EncodeNpy(NpyType::kUint8, {4}, "abcd");
  for (size_t size = 0; size < good.size(); ++size) {
    const auto array = ParseNpy(good.substr(0, size), "x.npy");
    ASSERT_FALSE(array.ok()) << size;
    EXPECT_EQ(array.status().code(), absl::StatusCode::kDataLoss) << size;
  }
  ExpectError(good.substr(0, good.size() - 1), absl::StatusCode::kDataLoss,
              "truncated: has 3 bytes of data; shape (4,) of uint8 needs 4");
  ExpectError(good + "e", absl::StatusCode::kDataLoss, "corrupt: has 5 bytes");
  ExpectError("PK\x03\x04 not an array at all", absl::StatusCode::kDataLoss, "not an npy file");
  ExpectError(WithHeader("{'descr': '<f4', 'shape': (1,)}", "1234"), absl::StatusCode::kDataLoss,
              "expected the keys 'descr', 'fortran_order' and 'shape'");
  ExpectError(WithHeader("{'descr': '<f4', 'fortran_order': Maybe", ""), absl::StatusCode::kDataLoss, "True or False");
  ExpectError(WithHeader("{'descr':'<f8','fortran_order':False,'shape':(4611686018427387904,4)}", ""),
              absl::StatusCode::kDataLoss, "more than 2^63 bytes");
  ExpectError(WithHeader("{'descr':'<f8','fortran_order':False,'shape':(99999999999999999999,)}", ""),
              absl::StatusCode::kDataLoss, "'shape'");
}

TEST(Npy, WhatIsValidButNotSupportedSaysWhatToDo) {
  ExpectError(WithHeader("{'descr':'<f4','fortran_order':True,'shape':(1,1)}", "1234"),
              absl::StatusCode::kInvalidArgument,
              "fortran_order' is True; allowed: False (save numpy.ascontiguousarray");
  ExpectError(WithHeader("{'descr':'<c8','fortran_order':False,'shape':(1,)}", "12345678"),
              absl::StatusCode::kInvalidArgument, "'<c8'");
  ExpectError(WithHeader("{'descr':'|O','fortran_order':False,'shape':(1,)}", ""), absl::StatusCode::kInvalidArgument,
              "'|O'");
  ExpectError(WithHeader("{'descr':[('a','<f4')],'fortran_order':False,'shape':(1,)}", "1234"),
              absl::StatusCode::kInvalidArgument, "a structured type");
  ExpectError(WithHeader("{'descr':'|u1','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1)}", "1"),
              absl::StatusCode::kInvalidArgument, "at most 8 dimensions");
  ExpectError(WithHeader("{}", "", 4), absl::StatusCode::kInvalidArgument, "'x.npy: npy version' is 4.0");
}

TEST(Npy, ConversionsNameTheTypeTheyFound) {
  const auto floats = ParseNpy(EncodeNpy(NpyType::kFloat32, {1}, "1234"), "x");
  EXPECT_THAT(MessageOf(NpyIntegers(*floats, "y.npy").status()), HasSubstr("'y.npy: dtype' is float32"));
  const auto bytes = ParseNpy(EncodeNpy(NpyType::kUint8, {1}, "1"), "x");
  EXPECT_THAT(MessageOf(NpyFloats(*bytes, "y.npy").status()), HasSubstr("is uint8; allowed: float16"));
  const auto huge = ParseNpy(EncodeNpy(NpyType::kUint64, {1}, std::string(8, '\xff')), "x");
  EXPECT_THAT(MessageOf(NpyIntegers(*huge, "y.npy").status()), HasSubstr("18446744073709551615"));
}

TEST(Half, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      ASSERT_EQ(FloatToHalf(value), bits);
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = HalfToFloat(static_cast<uint16_t>(bits)), high = HalfToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(FloatToHalf(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, high)), bits + 1) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, low)), bits) << bits;
  }
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e9f), 0xfc00);
}

}  // namespace
}  // namespace lightcone

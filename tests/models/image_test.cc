#include "models/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

#include <cstdio>
#include <cstdlib>

#include "base/status.h"
#include "models/header_size.h"
#include "models/image_fit.h"

namespace lightcone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A smooth picture, so that lossy formats keep it close.
std::vector<uint8_t> Gradient(int height, int width, int channels) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) pixels.push_back(static_cast<uint8_t>(20 + 3 * x + 2 * y + 30 * c));
    }
  }
  return pixels;
}

std::string Png(const std::vector<uint8_t>& pixels, int height, int width, int format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = height;
  image.width = width;
  image.format = format;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr)) << image.message;
  bytes.resize(size);
  return bytes;
}

std::string Jpeg(const std::vector<uint8_t>& pixels, int height, int width, int channels) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(pixels.data()) + static_cast<size_t>(jpeg.next_scanline) * width * channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(out), size);
  std::free(out);
  return bytes;
}

std::string Webp(const std::vector<uint8_t>& pixels, int height, int width, int channels) {
  uint8_t* out = nullptr;
  const size_t size = channels == 4 ? WebPEncodeLosslessRGBA(pixels.data(), width, height, width * 4, &out)
                                    : WebPEncodeLosslessRGB(pixels.data(), width, height, width * 3, &out);
  std::string bytes(reinterpret_cast<char*>(out), size);
  WebPFree(out);
  return bytes;
}

void ExpectError(std::string_view bytes, absl::StatusCode code, std::string_view text, const ImageLimits& limits = {}) {
  const auto image = DecodeImage(bytes, limits);
  ASSERT_FALSE(image.ok()) << text;
  EXPECT_EQ(image.status().code(), code) << MessageOf(image.status());
  EXPECT_THAT(MessageOf(image.status()), HasSubstr(std::string(text)));
}

TEST(DecodeImage, PngGivesItsPixelsBackInGreyAndColour) {
  for (const int channels : {1, 3}) {
    const auto pixels = Gradient(7, 9, channels);
    const auto image = DecodeImage(Png(pixels, 7, 9, channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB));
    ASSERT_TRUE(image.ok()) << MessageOf(image.status());
    EXPECT_EQ(image->height, 7);
    EXPECT_EQ(image->width, 9);
    EXPECT_EQ(image->channels, channels);
    EXPECT_EQ(image->pixels, pixels);
  }
}

TEST(DecodeImage, AlphaIsComposedOnWhite) {
  const std::vector<uint8_t> rgba = {10, 20, 30, 255, 10, 20, 30, 0, 0, 0, 0, 128};
  const auto png = DecodeImage(Png(rgba, 1, 3, PNG_FORMAT_RGBA));
  ASSERT_TRUE(png.ok());
  EXPECT_THAT(png->pixels, ElementsAre(10, 20, 30, 255, 255, 255, 127, 127, 127));
  const auto webp = DecodeImage(Webp(rgba, 1, 3, 4));
  ASSERT_TRUE(webp.ok()) << MessageOf(webp.status());
  EXPECT_EQ(webp->pixels, png->pixels);
}

TEST(DecodeImage, JpegIsCloseAndGreyStaysGrey) {
  for (const int channels : {1, 3}) {
    const auto pixels = Gradient(24, 40, channels);
    const auto image = DecodeImage(Jpeg(pixels, 24, 40, channels));
    ASSERT_TRUE(image.ok()) << MessageOf(image.status());
    ASSERT_EQ(image->channels, channels);
    ASSERT_EQ(image->pixels.size(), pixels.size());
    for (size_t i = 0; i < pixels.size(); ++i) ASSERT_NEAR(image->pixels[i], pixels[i], 12);
  }
}

TEST(DecodeImage, CmykJpegBecomesRgb) {
  std::vector<uint8_t> cmyk;
  for (int i = 0; i < 16 * 16; ++i) cmyk.insert(cmyk.end(), {255, 0, 0, 255});  // inverted by Adobe's marker: no cyan
  const auto image = DecodeImage(Jpeg(cmyk, 16, 16, 4));
  ASSERT_TRUE(image.ok()) << MessageOf(image.status());
  EXPECT_EQ(image->channels, 3);
  EXPECT_NEAR(image->pixels[0], 255, 6);
  EXPECT_NEAR(image->pixels[1], 0, 6);
}

TEST(DecodeImage, WebpGivesItsPixelsBack) {
  const auto pixels = Gradient(8, 6, 3);
  const auto image = DecodeImage(Webp(pixels, 8, 6, 3));
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->pixels, pixels);
}

TEST(DecodeImage, AnythingElseIsRefused) {
  ExpectError("", absl::StatusCode::kInvalidArgument, "field 'image' is empty; allowed: a PNG, JPEG or WebP file");
  ExpectError("GIF89a....", absl::StatusCode::kInvalidArgument, "unknown format");
}

TEST(DecodeImage, ATruncatedFileIsRefusedWhereverItIsCut) {
  const auto pixels = Gradient(24, 24, 3);
  const std::string png = Png(pixels, 24, 24, PNG_FORMAT_RGB), jpeg = Jpeg(pixels, 24, 24, 3),
                    webp = Webp(pixels, 24, 24, 3);
  for (const std::string* file : {&png, &jpeg, &webp}) {
    for (size_t size = 0; size + 2 < file->size(); size += 3) {
      const auto image = DecodeImage(file->substr(0, size));
      ASSERT_FALSE(image.ok()) << size << " of " << file->size();
      EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  ExpectError(png.substr(0, png.size() / 2), absl::StatusCode::kInvalidArgument, "truncated PNG");
  ExpectError(jpeg.substr(0, jpeg.size() / 2), absl::StatusCode::kInvalidArgument, "corrupt or truncated JPEG");
  ExpectError(webp.substr(0, webp.size() / 2), absl::StatusCode::kInvalidArgument, "WebP");
}

TEST(DecodeImage, ACorruptPngIsRefused) {
  std::string png = Png(Gradient(24, 24, 3), 24, 24, PNG_FORMAT_RGB);
  png[png.size() - 30] ^= 0x55;  // in the pixels: behind them are 4 + 4 bytes of checksums and 12 of the chunk IEND
  ExpectError(png, absl::StatusCode::kInvalidArgument, "corrupt PNG: ");
}

TEST(DecodeImage, LimitsAreResourceExhaustedForEveryFormat) {
  const auto pixels = Gradient(20, 20, 3);
  const ImageLimits few_pixels{1 << 20, 399}, few_bytes{10, 1 << 20};
  for (const std::string& file :
       {Png(pixels, 20, 20, PNG_FORMAT_RGB), Jpeg(pixels, 20, 20, 3), Webp(pixels, 20, 20, 3)}) {
    ExpectError(file, absl::StatusCode::kResourceExhausted, "20 x 20 pixels; allowed: up to 399 pixels", few_pixels);
    ExpectError(file, absl::StatusCode::kResourceExhausted, "allowed: up to 10 bytes", few_bytes);
  }
}

TEST(DecodeImage, AJpegIsHalvedWhileItIsDecodedWhereItStaysTwiceAsLargeAsWanted) {
  std::vector<uint8_t> pixels;  // too large for Gradient, which would begin anew within it
  for (int i = 0; i < 80 * 64; ++i) {
    for (const int c : {0, 30, 60}) pixels.push_back(static_cast<uint8_t>(20 + c + i / 64 + i % 64));
  }
  const std::string file = Jpeg(pixels, 80, 64, 3);
  const auto whole = DecodeImage(file);
  ASSERT_TRUE(whole.ok());
  const std::pair<ImageFit, int> cases[] = {{{40, 32}, 80}, {{20, 16}, 40}, {{20, 17}, 80}, {{10, 8}, 20},
                                            {{5, 4}, 10},   {{1, 1}, 10},   {{0, 0}, 80}};
  for (const auto& [fit, height] : cases) {
    const auto image = DecodeImageFor(file, {}, fit);
    ASSERT_TRUE(image.ok());
    EXPECT_EQ(image->height, height) << fit.height << " x " << fit.width;
    EXPECT_EQ(image->width, height * 64 / 80);
    if (fit.height == 0) continue;
    const Image fast = ResizeImage(*image, fit.height, fit.width, 3),
                slow = ResizeImage(*whole, fit.height, fit.width, 3);
    for (size_t i = 0; i < slow.pixels.size(); ++i) ASSERT_NEAR(fast.pixels[i], slow.pixels[i], 6);
  }
  ExpectError(file, absl::StatusCode::kResourceExhausted, "64 x 80 pixels", {1 << 20, 64 * 80 - 1});
}

TEST(ReadImageSize, IsWhatTheDecoderFinds) {
  const auto pixels = Gradient(20, 30, 3);
  std::vector<uint8_t> with_alpha;
  for (size_t i = 0; i < 20 * 30; ++i) with_alpha.insert(with_alpha.end(), {1, 2, 3, static_cast<uint8_t>(i)});
  uint8_t* lossy = nullptr;
  const size_t lossy_bytes = WebPEncodeRGB(pixels.data(), 30, 20, 90, 80, &lossy);
  const std::string webp(reinterpret_cast<char*>(lossy), lossy_bytes);
  WebPFree(lossy);
  for (const std::string& file : {Png(pixels, 20, 30, PNG_FORMAT_RGB), Jpeg(pixels, 20, 30, 3), webp,
                                  Webp(pixels, 20, 30, 3), Webp(with_alpha, 20, 30, 4)}) {
    const auto size = ReadImageSize(file);
    ASSERT_TRUE(size.has_value()) << file.substr(0, 16);
    EXPECT_EQ(size->width, 30);
    EXPECT_EQ(size->height, 20);
    for (size_t bytes = 0; bytes < file.size();
         ++bytes) {  // no byte behind the end is read, and a size is right or none
      const std::string cut = file.substr(0, bytes);
      const auto of_cut = ReadImageSize(cut);
      EXPECT_TRUE(!of_cut || (of_cut->width == 30 && of_cut->height == 20)) << bytes;
    }
  }
  const std::string canvas("RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x3f\x1f\0\x7f\x3e\0", 30);
  const auto large = ReadImageSize(canvas);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(large->pixels(), 8'000 * 16'000);
  EXPECT_FALSE(ReadImageSize("").has_value());
  EXPECT_FALSE(ReadImageSize("GIF89a").has_value());
}

TEST(ResizeImage, ShrinkingAveragesTheFootprint) {
  const Image image{2, 4, 1, {0, 100, 200, 100, 100, 200, 0, 100}};
  EXPECT_THAT(ResizeImage(image, 1, 2, 1).pixels, ElementsAre(100, 100));
  const Image three{1, 3, 1, {0, 90, 255}};
  EXPECT_THAT(ResizeImage(three, 1, 2, 1).pixels, ElementsAre(30, 200));
}

TEST(ResizeImage, AnEvenImageStaysEvenAtAnySize) {
  const Image image{13, 7, 3, std::vector<uint8_t>(13 * 7 * 3, 77)};
  for (const auto& [height, width] : {std::pair{1, 1}, {5, 9}, {13, 7}, {40, 3}, {26, 14}}) {
    const Image out = ResizeImage(image, height, width, 3);
    EXPECT_EQ(out.pixels, std::vector<uint8_t>(static_cast<size_t>(height) * width * 3, 77));
  }
}

TEST(ResizeImage, EnlargingInterpolatesBetweenCentres) {
  const Image image{1, 2, 1, {0, 100}};
  EXPECT_THAT(ResizeImage(image, 1, 4, 1).pixels, ElementsAre(0, 25, 75, 100));
}

TEST(ResizeImage, ConvertsChannelsByLumaAndRepetition) {
  const Image colour{1, 3, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255}};
  EXPECT_THAT(ResizeImage(colour, 1, 3, 1).pixels, ElementsAre(76, 150, 29));
  const Image grey{1, 1, 1, {42}};
  EXPECT_THAT(ResizeImage(grey, 1, 1, 3).pixels, ElementsAre(42, 42, 42));
}

}  // namespace
}  // namespace lightcone

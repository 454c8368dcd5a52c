#include "models/image_jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE before it.
#include <jerror.h>
#include <jpeglib.h>

#include "base/status.h"

namespace lightcone::internal {
namespace {

constexpr int kScansMax = 200;  // a progressive file of a few bytes can ask for thousands of passes

// Everything that the libjpeg callbacks touch. The functions below that call setjmp own no object with a destructor,
// because longjmp would skip it.
struct Reader {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
  bool damaged;
};

void OnError(j_common_ptr jpeg) {
  auto* reader = static_cast<Reader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader->message);
  std::longjmp(reader->escape, 1);
}

// Negative levels are warnings: libjpeg invents pixels and goes on. Those that mean lost picture data are errors here.
void OnMessage(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  const int code = jpeg->err->msg_code;
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
                        code == JWRN_BOGUS_PROGRESSION;
  auto* reader = static_cast<Reader*>(jpeg->client_data);
  if (harmless || reader->damaged) return;
  reader->damaged = true;
  jpeg->err->format_message(jpeg, reader->message);
}

void OnProgress(j_common_ptr jpeg) {
  if (!jpeg->is_decompressor) return;
  auto* decompress = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (decompress->input_scan_number <= kScansMax) return;
  auto* reader = static_cast<Reader*>(jpeg->client_data);
  std::snprintf(reader->message, sizeof(reader->message), "more than %d scans", kScansMax);
  std::longjmp(reader->escape, 1);
}

// By how much each side is divided while it is decoded: libjpeg then leaves the finer frequencies out.
unsigned int DivisorFor(int64_t width, int64_t height, const ImageFit& fit) {
  unsigned int divisor = 1;
  if (fit.width <= 0 || fit.height <= 0) return divisor;
  while (divisor < 8 && width / (4 * divisor) >= fit.width && height / (4 * divisor) >= fit.height) divisor *= 2;
  return divisor;
}

bool Open(Reader* reader, const unsigned char* data, unsigned long size, const ImageFit& fit) {
  reader->jpeg.err = jpeg_std_error(&reader->errors);
  reader->errors.error_exit = OnError;
  reader->errors.emit_message = OnMessage;
  reader->jpeg.client_data = reader;
  if (setjmp(reader->escape)) return false;
  jpeg_create_decompress(&reader->jpeg);
  reader->progress.progress_monitor = OnProgress;
  reader->jpeg.progress = &reader->progress;
  jpeg_mem_src(&reader->jpeg, data, size);
  jpeg_read_header(&reader->jpeg, TRUE);
  if (reader->jpeg.jpeg_color_space == JCS_GRAYSCALE) {
    reader->jpeg.out_color_space = JCS_GRAYSCALE;
  } else if (reader->jpeg.num_components == 4) {
    reader->jpeg.out_color_space = JCS_CMYK;
  } else {
    reader->jpeg.out_color_space = JCS_RGB;
  }
  reader->jpeg.scale_num = 1;
  reader->jpeg.scale_denom = DivisorFor(reader->jpeg.image_width, reader->jpeg.image_height, fit);
  jpeg_calc_output_dimensions(&reader->jpeg);
  return true;
}

// Fills out[height x width x output_components].
bool Read(Reader* reader, unsigned char* out) {
  if (setjmp(reader->escape)) return false;
  jpeg_start_decompress(&reader->jpeg);
  const size_t stride = static_cast<size_t>(reader->jpeg.output_width) * reader->jpeg.output_components;
  while (reader->jpeg.output_scanline < reader->jpeg.output_height) {
    JSAMPROW row = out + stride * reader->jpeg.output_scanline;
    jpeg_read_scanlines(&reader->jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader->jpeg);
  return true;
}

// Frees what libjpeg holds, on every path out of DecodeJpeg.
struct Closer {
  Reader* reader;
  ~Closer() { jpeg_destroy_decompress(&reader->jpeg); }
};

// Adobe programs store CMYK inverted (255 is no ink) and say so with their marker.
std::vector<uint8_t> CmykToRgb(const std::vector<uint8_t>& cmyk, bool inverted) {
  std::vector<uint8_t> rgb(cmyk.size() / 4 * 3);
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const int black = inverted ? cmyk[4 * i + 3] : 255 - cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = inverted ? cmyk[4 * i + c] : 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
  }
  return rgb;
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(std::string_view bytes, const ImageLimits& limits, const ImageFit& fit) {
  Reader reader{};
  Closer closer{&reader};
  const auto corrupt = [&reader] { return InvalidArgument(StrCat("corrupt or truncated JPEG: ", reader.message)); };
  if (!Open(&reader, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), fit)) return corrupt();
  const int64_t width = reader.jpeg.output_width, height = reader.jpeg.output_height;
  const int64_t stored_width = reader.jpeg.image_width, stored_height = reader.jpeg.image_height;
  if (stored_width * stored_height > limits.pixels_max) {
    return FieldError(absl::StatusCode::kResourceExhausted, "JPEG size",
                      StrCat(stored_width, " x ", stored_height, " pixels"),
                      StrCat("up to ", limits.pixels_max, " pixels"));
  }
  const int components = reader.jpeg.out_color_space == JCS_GRAYSCALE ? 1 : reader.jpeg.num_components == 4 ? 4 : 3;
  Image image{static_cast<int>(height), static_cast<int>(width), components == 1 ? 1 : 3, {}};
  image.pixels.resize(static_cast<size_t>(width * height * components));
  if (!Read(&reader, image.pixels.data()) || reader.damaged) return corrupt();
  if (components == 4) image.pixels = CmykToRgb(image.pixels, reader.jpeg.saw_Adobe_marker);
  return image;
}

}  // namespace lightcone::internal

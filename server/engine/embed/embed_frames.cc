#include "server/engine/embed/embed_frames.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "base/utf8.h"

namespace lightcone::server {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little endian");

constexpr char kMagic[] = {'L', 'C', 'E', 'F'};
constexpr uint32_t kFramesVersion = 4;
constexpr size_t kMessageBytesMax = 1'000;  // of an error
constexpr size_t kPartBytesMax = 200;       // of each part of an error that names a field
constexpr uint64_t kOutputHeadBytes = 2 * sizeof(uint32_t) + 4 * sizeof(uint64_t) + 3 * kPartBytesMax;

// Of a frame; as it lies in memory it goes over the connection.
struct Head {
  char magic[4];
  uint32_t version, kind, crc32c;
  uint64_t bytes;
};
static_assert(sizeof(Head) == kFrameHeadBytes);

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void PutText(std::string_view text, std::string* out) {
  Put<uint64_t>(text.size(), out);
  out->append(text);
}

// Takes values from the front of a body; once one is not there, nothing is.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : left_(body) {}
  template <typename T>
  T Take() {
    T value{};
    const std::string_view bytes = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view TakeBytes(uint64_t bytes) {
    ok_ = ok_ && bytes <= left_.size();
    if (!ok_) return {};
    const std::string_view taken = left_.substr(0, static_cast<size_t>(bytes));
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view TakeText() { return TakeBytes(Take<uint64_t>()); }
  size_t left() const { return left_.size(); }
  bool ok() const { return ok_; }
  bool whole() const { return ok_ && left_.empty(); }  // all of it was there, and nothing else

 private:
  std::string_view left_;
  bool ok_ = true;
};

absl::Status Damaged(std::string_view what) { return DataLoss(StrCat("a frame for embedding: ", what)); }

void PutStatus(const absl::Status& status, std::string* out) {
  Put<uint32_t>(static_cast<uint32_t>(status.code()), out);
  const FieldErrorParts parts = PartsOf(status);
  const bool names_field = !parts.field.empty();
  Put<uint32_t>(names_field ? 1 : 0, out);
  // A long message is TorchScript's stack, which ends with what happened.
  const std::string message = MessageOf(status);
  PutText(std::string_view(message).substr(message.size() - std::min(message.size(), kMessageBytesMax)), out);
  if (!names_field) return;
  for (const std::string& part : {parts.field, parts.value, parts.allowed}) {
    PutText(std::string_view(part).substr(0, kPartBytesMax), out);
  }
}

// What an encoder throws is any bytes. A caller could not read an answer that holds them.
std::string TakeCleanText(BodyReader* reader) { return CleanUtf8(reader->TakeText().substr(0, kMessageBytesMax)); }

absl::StatusOr<absl::Status> TakeStatus(uint32_t code, BodyReader* reader) {
  const auto names_field = reader->Take<uint32_t>();
  const std::string message = TakeCleanText(reader);
  std::string field, value, allowed;
  if (names_field == 1) {
    field = TakeCleanText(reader);
    value = TakeCleanText(reader);
    allowed = TakeCleanText(reader);
  }
  if (!reader->ok() || code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated) || names_field > 1) {
    return Damaged(StrCat("an error of code ", code));
  }
  const auto said = static_cast<absl::StatusCode>(code);
  if (names_field == 0 || said == absl::StatusCode::kOk) return MakeStatus(said, message);
  // The message is that of the parts, behind the steps that it was annotated with.
  const absl::Status named = FieldError(said, field, value, allowed);
  const std::string tail = ": " + MessageOf(named);
  if (!message.ends_with(tail)) return named;
  return Annotate(named, message.substr(0, message.size() - tail.size()));
}

}  // namespace

std::string Frame(FrameKind kind, std::string_view body) {
  LC_DCHECK(body.size() <= kFrameBytesMax);
  Head head{{}, kFramesVersion, static_cast<uint32_t>(kind), Crc32c(body), body.size()};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  std::string out;
  out.reserve(sizeof(head) + body.size());
  Put(head, &out);
  out.append(body);
  return out;
}

absl::StatusOr<std::string> ReadFrame(const ReadBytes& read, FrameKind kind, uint64_t bytes_max) {
  Head head;
  LC_RETURN_IF_ERROR(read(reinterpret_cast<char*>(&head), sizeof(head)));
  if (std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0) return Damaged("it does not begin as one");
  if (head.version != kFramesVersion) return Damaged(StrCat("version ", head.version, "; known: ", kFramesVersion));
  if (head.kind != static_cast<uint32_t>(kind)) {
    return Damaged(StrCat("kind ", head.kind, "; expected: ", static_cast<uint32_t>(kind)));
  }
  if (head.bytes > bytes_max) return Damaged(StrCat(head.bytes, " bytes long; allowed: 0 .. ", bytes_max));
  std::string body(static_cast<size_t>(head.bytes), '\0');
  LC_RETURN_IF_ERROR(read(body.data(), body.size()));
  if (Crc32c(body) != head.crc32c)
    return Damaged(StrCat("CRC-32C of its body is ", Crc32c(body), ", its head says ", head.crc32c));
  return body;
}

std::string EncodeSetup(const EmbedSetup& setup) {
  std::string out;
  Put<uint32_t>(setup.generation, &out);
  Put<uint32_t>(static_cast<uint32_t>(setup.threads), &out);
  Put<uint32_t>(static_cast<uint32_t>(setup.decode_threads), &out);
  Put<uint32_t>(static_cast<uint32_t>(setup.batch_max), &out);
  Put<uint64_t>(static_cast<uint64_t>(setup.input_bytes_max), &out);
  Put<uint64_t>(static_cast<uint64_t>(setup.image_pixels_max), &out);
  PutText(setup.encoder_path, &out);
  PutText(setup.manifest_json, &out);
  return out;
}

absl::StatusOr<EmbedSetup> DecodeSetup(std::string_view body) {
  BodyReader reader(body);
  EmbedSetup setup;
  setup.generation = reader.Take<uint32_t>();
  const auto threads = reader.Take<uint32_t>(), decode_threads = reader.Take<uint32_t>();
  const auto batch_max = reader.Take<uint32_t>();
  const auto input_bytes_max = reader.Take<uint64_t>(), image_pixels_max = reader.Take<uint64_t>();
  setup.encoder_path = std::string(reader.TakeText());
  setup.manifest_json = std::string(reader.TakeText());
  const bool allowed = threads <= 256 && decode_threads >= 1 && decode_threads <= kDecodeThreadsMax && batch_max >= 1 &&
                       batch_max <= 65'536 && input_bytes_max <= kFrameBytesMax && image_pixels_max <= kImagePixelsMax;
  if (!reader.whole() || !allowed) return Damaged("no setup");
  setup.threads = static_cast<int>(threads);
  setup.decode_threads = static_cast<int>(decode_threads);
  setup.batch_max = static_cast<int>(batch_max);
  setup.input_bytes_max = static_cast<int64_t>(input_bytes_max);
  setup.image_pixels_max = static_cast<int64_t>(image_pixels_max);
  return setup;
}

std::string EncodeReady(const absl::Status& loaded) {
  std::string out;
  PutStatus(loaded, &out);
  return out;
}

absl::Status DecodeReady(std::string_view body) {
  BodyReader reader(body);
  const auto code = reader.Take<uint32_t>();
  LC_ASSIGN_OR_RETURN(const absl::Status said, TakeStatus(code, &reader));
  return reader.whole() ? said : Damaged("neither that the encoder is loaded nor why not");
}

std::string EncodeInputs(uint64_t number, std::span<const std::string> inputs) {
  size_t bytes = 2 * sizeof(uint64_t);
  for (const std::string& input : inputs) bytes += sizeof(uint64_t) + input.size();
  std::string out;
  out.reserve(bytes);
  Put<uint64_t>(number, &out);
  Put<uint64_t>(inputs.size(), &out);
  for (const std::string& input : inputs) PutText(input, &out);
  return out;
}

absl::StatusOr<EmbedInputs> DecodeInputs(std::string_view body) {
  BodyReader reader(body);
  EmbedInputs all;
  all.number = reader.Take<uint64_t>();
  const auto count = reader.Take<uint64_t>();
  // Each takes its length at least.
  if (!reader.ok() || count > reader.left() / sizeof(uint64_t)) return Damaged(StrCat(count, " inputs"));
  for (uint64_t i = 0; i < count; ++i) all.inputs.push_back(reader.TakeText());
  return reader.whole() ? absl::StatusOr<EmbedInputs>(std::move(all)) : Damaged("no inputs");
}

std::string EncodeVectors(uint64_t number, const EmbeddedInputs& outputs) {
  std::string out;
  Put<uint64_t>(number, &out);
  Put<uint64_t>(outputs.size(), &out);
  for (const auto& output : outputs) {
    if (!output.ok()) {
      PutStatus(output.status(), &out);
      continue;
    }
    Put<uint32_t>(0, &out);
    Put<uint32_t>(0, &out);
    PutText({reinterpret_cast<const char*>(output->data()), output->size() * sizeof(float)}, &out);
  }
  return out;
}

uint64_t VectorsBytesMax(size_t inputs, size_t dimension) {
  return 2 * sizeof(uint64_t) + inputs * (kOutputHeadBytes + kMessageBytesMax + dimension * sizeof(float));
}

absl::StatusOr<EmbeddedInputs> DecodeVectors(std::string_view body, uint64_t number, size_t inputs, size_t dimension) {
  BodyReader reader(body);
  const auto answered = reader.Take<uint64_t>(), count = reader.Take<uint64_t>();
  if (!reader.ok() || answered != number || count != inputs) {
    return Damaged(
        StrCat("an answer to ", answered, " for ", count, " inputs; expected: to ", number, " for ", inputs));
  }
  EmbeddedInputs outputs;
  for (size_t i = 0; i < inputs; ++i) {
    const auto code = reader.Take<uint32_t>();
    if (code != 0) {
      LC_ASSIGN_OR_RETURN(absl::Status said, TakeStatus(code, &reader));
      outputs.emplace_back(std::move(said));
      continue;
    }
    const auto names_field = reader.Take<uint32_t>();
    const std::string_view bytes = reader.TakeText();
    if (!reader.ok() || names_field != 0 || bytes.size() != dimension * sizeof(float)) {
      return Damaged(StrCat("a vector of ", bytes.size(), " bytes; expected: ", dimension * sizeof(float)));
    }
    std::vector<float> vector(dimension);
    std::memcpy(vector.data(), bytes.data(), bytes.size());
    outputs.emplace_back(std::move(vector));
  }
  if (!reader.whole()) return Damaged("more than was asked for");
  return outputs;
}

}  // namespace lightcone::server

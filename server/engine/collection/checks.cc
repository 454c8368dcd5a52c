#include "server/engine/collection/checks.h"

#include <algorithm>
#include <cctype>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/options.h"
#include "server/engine/collection/endpoint_manifest.h"

namespace lightcone::server {
namespace {

constexpr size_t kReasonBytesMax = 4096;
constexpr size_t kOperatorBytesMax = 128;

constexpr int kPayloadDepthMax = 64;
constexpr size_t kNameBytesMax = 128;

// Walks a JSON text without building it.
class PayloadWalker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Scalar(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(number_integer_t) override { return Scalar(); }
  bool number_unsigned(number_unsigned_t) override { return Scalar(); }
  bool number_float(number_float_t, const string_t&) override { return Scalar(); }
  bool string(string_t&) override { return Scalar(); }
  bool binary(binary_t&) override { return Scalar(); }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override {
    if (depth_ == 0) not_object_ = true;
    return !not_object_ && Open();
  }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_position_ = position;
    return false;
  }

  bool not_object() const { return not_object_; }
  bool too_deep() const { return too_deep_; }
  size_t error_position() const { return error_position_; }

 private:
  bool Scalar() {
    if (depth_ == 0) not_object_ = true;
    return !not_object_;
  }
  bool Open() {
    if (++depth_ > kPayloadDepthMax) too_deep_ = true;
    return !too_deep_;
  }
  bool Close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  bool not_object_ = false, too_deep_ = false;
  size_t error_position_ = 0;
};

std::string Shortened(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return text.size() > 40 ? out + "..." : out;
}

absl::Status CheckRange(int64_t value, int64_t low, int64_t high, std::string_view field) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, StrCat(value), StrCat(low, " .. ", high));
}

}  // namespace

absl::Status CheckItemId(const ItemId& id, int64_t bytes_max, std::string_view field) {
  const auto* text = std::get_if<std::string>(&id.value);
  if (text == nullptr) return absl::OkStatus();
  const std::string allowed = StrCat("1 .. ", bytes_max, " bytes of UTF-8");
  if (text->empty()) return InvalidField(field, "empty", allowed);
  if (static_cast<int64_t>(text->size()) > bytes_max) {
    return InvalidField(field, StrCat(text->size(), " bytes long"), allowed);
  }
  if (!IsUtf8(*text)) return InvalidField(field, "not UTF-8", allowed);
  return absl::OkStatus();
}

absl::Status CheckPayload(std::string_view json, int64_t bytes_max, std::string_view field) {
  if (static_cast<int64_t>(json.size()) > bytes_max) {
    return InvalidField(field, StrCat(json.size(), " bytes long"), StrCat("at most ", bytes_max));
  }
  // The JSON parser would pass over it, and an export would write it into the middle of a line.
  if (json.starts_with("\xef\xbb\xbf")) {
    return InvalidField(field, "a text that begins with U+FEFF, a byte order mark", "a JSON object alone");
  }
  PayloadWalker walker;
  if (nlohmann::json::sax_parse(json.begin(), json.end(), &walker)) return absl::OkStatus();
  if (walker.not_object()) return InvalidField(field, "not an object", "a JSON object");
  if (walker.too_deep()) {
    return InvalidField(field, "nested too deep", StrCat("a JSON object of at most ", kPayloadDepthMax, " levels"));
  }
  return InvalidField(field, StrCat("malformed JSON at byte ", walker.error_position()), "a JSON object");
}

absl::Status CheckName(std::string_view name, std::string_view field) {
  constexpr std::string_view kAllowed = "1 .. 128 letters, digits, '-', '_' and '.'";
  if (name.empty()) return InvalidField(field, "empty", kAllowed);
  if (name.size() > kNameBytesMax) return InvalidField(field, StrCat(name.size(), " bytes long"), kAllowed);
  const bool good = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '-' || c == '_' || c == '.');
  });
  return good ? absl::OkStatus() : InvalidField(field, StrCat("'", Shortened(name), "'"), kAllowed);
}

absl::Status CheckNewName(std::string_view name, std::string_view field) {
  LC_RETURN_IF_ERROR(CheckName(name, field));
  if (name[0] != '-' && name != "." && name != "..") return absl::OkStatus();
  return InvalidField(field, StrCat("'", Shortened(name), "'"),
                      "1 .. 128 letters, digits, '-', '_' and '.', without a '-' in front, and neither '.' nor '..'");
}

absl::Status CheckRequestId(std::string_view request_id) {
  if (request_id.size() > kNameBytesMax) {
    return InvalidField("request_id", StrCat(request_id.size(), " bytes long"), "at most 128 bytes");
  }
  return IsUtf8(request_id) ? absl::OkStatus() : InvalidField("request_id", "not UTF-8", "at most 128 bytes of UTF-8");
}

absl::Status CheckAlive(const CallContext& context, std::string_view step) {
  if (context.cancelled && context.cancelled()) {
    return MakeStatus(absl::StatusCode::kCancelled, StrCat(step, ": cancelled by the caller"));
  }
  if (absl::Now() >= context.deadline) return DeadlineExceeded(StrCat(step, ": the deadline is over"));
  return absl::OkStatus();
}

absl::Status CheckCount(size_t count, int64_t count_max, std::string_view field) {
  if (count == 0) return InvalidField(field, "empty", StrCat("1 .. ", count_max, " of them"));
  if (static_cast<int64_t>(count) > count_max) {
    return InvalidField(field, StrCat(count, " long"), StrCat("1 .. ", count_max, " of them"));
  }
  return absl::OkStatus();
}

std::string DigestOf(std::string_view content) {
  // FNV-1a of 64 bits (Fowler, Noll and Vo; RFC 9923) beside the checksum: two checksums of other seeds would be one,
  // for where the lengths are equal each follows from the other.
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : content) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return StrCat(content.size(), ":", Crc32c(content), ":", hash);
}

absl::Status CheckModel(const GenerationRecord& generation, const std::string& model) {
  if (model.empty() || generation.model.empty() || model == generation.model) return absl::OkStatus();
  const std::string whole =
      generation.revision.empty() ? generation.model : StrCat(generation.model, "@", generation.revision);
  if (model == whole) return absl::OkStatus();
  return FieldError(absl::StatusCode::kFailedPrecondition, "model", StrCat("'", CleanUtf8(model), "'"),
                    StrCat("'", whole, "', the model of generation ", generation.generation));
}

absl::Status Limits::Validate() const {
  constexpr int64_t kMillion = 1'000'000, kGiga = int64_t{1} << 30;
  LC_RETURN_IF_ERROR(CheckRange(k_max, 1, kMillion, "limits.k_max"));
  LC_RETURN_IF_ERROR(CheckRange(queries_max, 1, 100'000, "limits.queries_max"));
  LC_RETURN_IF_ERROR(CheckRange(batch_items_max, 1, kMillion, "limits.batch_items_max"));
  LC_RETURN_IF_ERROR(CheckRange(payload_bytes_max, 2, kGiga, "limits.payload_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(id_bytes_max, 1, 512, "limits.id_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(input_bytes_max, 1, kGiga, "limits.input_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(text_bytes_max, 1, 64 << 20, "limits.text_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(image_pixels_max, 1, int64_t{1} << 40, "limits.image_pixels_max"));
  LC_RETURN_IF_ERROR(CheckRange(ef_max, 1, 10 * kMillion, "limits.ef_max"));
  LC_RETURN_IF_ERROR(CheckRange(page_items_max, 1, kMillion, "limits.page_items_max"));
  LC_RETURN_IF_ERROR(CheckRange(collections_max, 1, 100'000, "limits.collections_max"));
  LC_RETURN_IF_ERROR(CheckRange(generations_max, 1, 100'000, "limits.generations_max"));
  LC_RETURN_IF_ERROR(CheckRange(manifest_bytes_max, 2, 16 << 20, "limits.manifest_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_bytes_max, 1, 2 * kGiga - 1, "limits.encoder_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(adapter_bytes_max, 1, kGiga, "limits.adapter_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(adapters_max, 1, 10'000, "limits.adapters_max"));
  LC_RETURN_IF_ERROR(CheckRange(probes_max, 1, 100'000, "limits.probes_max"));
  LC_RETURN_IF_ERROR(CheckRange(probe_set_bytes_max, 1, kGiga, "limits.probe_set_bytes_max"));
  return CheckRange(answer_bytes_max, 1, 2 * kGiga - 1, "limits.answer_bytes_max");
}

absl::Status EngineOptions::Validate() const {
  if (data_folder.empty()) return InvalidField("data_folder", "empty", "the path of a folder");
  LC_RETURN_IF_ERROR(store.Validate());
  LC_RETURN_IF_ERROR(limits.Validate());
  LC_RETURN_IF_ERROR(CheckRange(search_threads, 0, 1024, "search_threads"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_threads, 1, 256, "encoder_threads"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_pixels_max, 1, int64_t{1} << 50, "encoder_pixels_max"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_batch_max, 1, 65'536, "encoder_batch_max"));
  LC_RETURN_IF_ERROR(CheckRange(absl::ToInt64Microseconds(encoder_linger), 0, 10'000'000, "encoder_linger (us)"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_queue_max, 1, 10'000'000, "encoder_queue_max"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_processes_max, 1, 256, "encoder_processes_max"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_trials_max, 1, 256, "encoder_trials_max"));
  LC_RETURN_IF_ERROR(CheckRange(absl::ToInt64Seconds(encoder_run_time_max), 1, 86'400, "encoder_run_time_max (s)"));
  LC_RETURN_IF_ERROR(CheckRange(encoder_memory_bytes_max, 0, int64_t{1} << 50, "encoder_memory_bytes_max"));
  for (const std::string& host : endpoints.hosts) {
    LC_RETURN_IF_ERROR(CheckEndpointHost(host, "encoder.endpoint_hosts"));
  }
  LC_RETURN_IF_ERROR(CheckRange(helper_threads, 1, 256, "helper_threads"));
  LC_RETURN_IF_ERROR(CheckRange(helper_niceness, 0, 19, "helper_niceness"));
  LC_RETURN_IF_ERROR(CheckRange(helper_memory_bytes_max, 0, int64_t{1} << 50, "helper_memory_bytes_max"));
  LC_RETURN_IF_ERROR(
      CheckRange(absl::ToInt64Milliseconds(helper_embed_time_max), 1'000, 86'400'000, "helper_embed_time_max (ms)"));
  LC_RETURN_IF_ERROR(CheckRange(index_memory_bytes_max, 0, int64_t{1} << 50, "index_memory_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(index_unsealed_bytes_max, 0, int64_t{1} << 50, "index_unsealed_bytes_max"));
  LC_RETURN_IF_ERROR(
      CheckRange(index_build_bytes_per_second_max, 0, int64_t{1} << 50, "index_build_bytes_per_second_max"));
  LC_RETURN_IF_ERROR(CheckRange(adapted_rows_bytes_max, 0, int64_t{1} << 40, "adapted_rows_bytes_max"));
  LC_RETURN_IF_ERROR(CheckRange(carried_disk_bytes_max, 0, int64_t{1} << 50, "carried_disk_bytes_max"));
  const auto share = [](double value, const char* field) {
    return value >= 0 && value <= 1 ? absl::OkStatus() : InvalidField(field, StrCat(value), "0 .. 1");
  };
  LC_RETURN_IF_ERROR(share(live_recall.sample_share, "live_recall.sample_share"));
  LC_RETURN_IF_ERROR(share(live_recall.capacity_share_max, "live_recall.capacity_share_max"));
  LC_RETURN_IF_ERROR(CheckRange(live_recall.queue_max, 1, 1'000'000, "live_recall.queue_max"));
  return CheckRange(write_queue_max, 1, 1'000'000, "write_queue_max");
}

absl::Status CheckReason(bool force, const std::string& reason) {
  if (force && reason.empty()) return InvalidField("reason", "empty", "a text, with force");
  if (reason.size() > kReasonBytesMax || !IsUtf8(reason)) {
    return InvalidField("reason", "too long or not UTF-8", StrCat("at most ", kReasonBytesMax, " bytes of UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckOperatorName(const std::string& name) {
  if (name.size() <= kOperatorBytesMax && IsUtf8(name)) return absl::OkStatus();
  return InvalidField("operator_name", StrCat(name.size(), " bytes", IsUtf8(name) ? "" : ", not UTF-8"),
                      StrCat("at most ", kOperatorBytesMax, " bytes of UTF-8"));
}

absl::Status CheckTtl(int64_t ttl_ms, std::string_view field) {
  if (ttl_ms >= 0 && ttl_ms <= kTtlMaxMs) return absl::OkStatus();
  return InvalidField(field, StrCat(ttl_ms), StrCat("0 (items stay) .. ", kTtlMaxMs, " milliseconds"));
}

}  // namespace lightcone::server

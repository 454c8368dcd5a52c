#include "server/trace/otlp_json.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "base/number_text.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {
namespace {

constexpr size_t kMessageBytesMax = 256;
constexpr int kServerKind = 2, kInternalKind = 1;

void AppendText(std::string_view text, std::string* out) {
  *out += '"';
  for (const char c : CleanUtf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') *out += '\\';
    if (byte < 0x20) {
      absl::StrAppend(out, "\\u00", absl::Hex(byte, absl::kZeroPad2));
    } else {
      *out += c;
    }
  }
  *out += '"';
}

void AppendAttribute(std::string_view key, const Trace::Value& value, std::string* out) {
  absl::StrAppend(out, "{\"key\":\"", ToAbsl(key), "\",\"value\":{");
  if (const auto* flag = std::get_if<bool>(&value)) {
    absl::StrAppend(out, "\"boolValue\":", *flag ? "true" : "false");
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    absl::StrAppend(out, "\"intValue\":\"", *whole, "\"");
  } else if (const auto* number = std::get_if<double>(&value); number != nullptr && std::isfinite(*number)) {
    absl::StrAppend(out, "\"doubleValue\":", NumberText(*number));
  } else {
    *out += "\"stringValue\":";
    AppendText(number != nullptr ? NumberText(*number) : std::get<std::string>(value), out);
  }
  *out += "}}";
}

// What OpenTelemetry counts as errors of a server; the others are errors of callers.
bool IsFault(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kUnimplemented || code == absl::StatusCode::kInternal ||
         code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDataLoss;
}

}  // namespace

std::string OtlpHead(std::string_view version, std::string_view instance) {
  std::string head = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[";
  AppendAttribute("service.name", std::string("lightcone"), &head);
  head += ',';
  AppendAttribute("service.version", std::string(version), &head);
  head += ',';
  AppendAttribute("service.instance.id", std::string(instance), &head);
  head += "]},\"scopeSpans\":[{\"scope\":{\"name\":\"lightcone\"},\"spans\":[";
  return head;
}

SpanCounts AppendSpans(absl::StatusCode code, Trace* trace, std::string* out) {
  const Trace::Contents contents = trace->Take();
  const std::string id = HexOf(trace->id());
  for (size_t i = 0; i < contents.spans.size(); ++i) {
    const Trace::SpanRecord& span = contents.spans[i];
    const bool root = i == Trace::kRoot;
    const uint64_t parent = root ? trace->parent() : trace->SpanIdOf(span.parent);
    absl::StrAppend(out, i == 0 ? "" : ",", "{\"traceId\":\"", id, "\",\"spanId\":\"", HexOf(trace->SpanIdOf(i)), "\"");
    if (parent != 0) absl::StrAppend(out, ",\"parentSpanId\":\"", HexOf(parent), "\"");
    absl::StrAppend(out, ",\"name\":\"", ToAbsl(span.name), "\",\"kind\":", root ? kServerKind : kInternalKind);
    absl::StrAppend(out, ",\"startTimeUnixNano\":\"", trace->WallNanosOf(span.began_ns), "\",\"endTimeUnixNano\":\"",
                    trace->WallNanosOf(span.ended_ns), "\",\"attributes\":[");
    bool first = true;
    for (const Trace::Attribute& attribute : contents.attributes) {
      if (attribute.span != i) continue;
      if (!std::exchange(first, false)) *out += ',';
      AppendAttribute(attribute.key, attribute.value, out);
    }
    if (root) {
      if (!first) *out += ',';
      AppendAttribute("rpc.response.status_code", absl::StatusCodeToString(code), out);
    }
    *out += "],\"status\":{";
    if (root && IsFault(code)) *out += "\"code\":2";
    *out += "}}";
  }
  return {contents.spans.size(), contents.dropped};
}

PartialSuccess ReadReply(const std::string& body) {
  PartialSuccess out;
  const nlohmann::json reply = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return out;
  const auto partial = reply.find("partialSuccess");
  if (partial == reply.end() || !partial->is_object()) return out;
  // 64-bit numbers travel as text in JSON of protobuf, and collectors send either.
  const auto rejected = partial->find("rejectedSpans");
  if (rejected != partial->end() && rejected->is_number_unsigned()) out.rejected = rejected->get<uint64_t>();
  if (rejected != partial->end() && rejected->is_string() &&
      !absl::SimpleAtoi(rejected->get_ref<const std::string&>(), &out.rejected)) {
    out.rejected = 0;
  }
  const auto message = partial->find("errorMessage");
  if (message != partial->end() && message->is_string()) {
    out.message = CleanUtf8(message->get_ref<const std::string&>().substr(0, kMessageBytesMax));
  }
  for (char& c : out.message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = ' ';
  }
  return out;
}

}  // namespace lightcone::server

#include "base/trace.h"

#include <algorithm>
#include <chrono>

#include "base/dcheck.h"
#include "base/strings.h"

namespace lightcone {
namespace {

constexpr size_t kSpansExpected = 16, kAttributesExpected = 32;  // numbers of a search over a few generations
constexpr size_t kHeaderBytes = 55;                              // "00-", 32 digits, '-', 16 digits, '-', 2 digits

// The header takes no capital digits.
std::optional<uint64_t> ReadHex(std::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) {
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

int64_t WallNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string HexOf(uint64_t span_id) {
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; span_id >>= 4) text[i] = "0123456789abcdef"[span_id & 15];
  return text;
}

std::string HexOf(const TraceId& id) { return HexOf(id.high) + HexOf(id.low); }

std::optional<TraceParent> ParseTraceParent(std::string_view header) {
  if (header.size() < kHeaderBytes || header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  const auto version = ReadHex(header.substr(0, 2));
  const auto high = ReadHex(header.substr(3, 16)), low = ReadHex(header.substr(19, 16));
  const auto span = ReadHex(header.substr(36, 16)), flags = ReadHex(header.substr(53, 2));
  if (!version || !high || !low || !span || !flags || *version == 0xff) return std::nullopt;
  if (header.size() > kHeaderBytes && (*version == 0 || header[kHeaderBytes] != '-')) return std::nullopt;
  const TraceParent parent = {{*high, *low}, *span, (*flags & 1) != 0};
  if (parent.trace.empty() || parent.span == 0) return std::nullopt;
  return parent;
}

std::string FormatTraceParent(const TraceParent& parent) {
  return StrCat("00-", HexOf(parent.trace), "-", HexOf(parent.span), parent.sampled ? "-01" : "-00");
}

int64_t SteadyNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Trace::Trace(std::string_view name, const TraceId& id, uint64_t parent, uint64_t first_span, int64_t began_ns)
    : id_(id), parent_(parent), first_span_(first_span), steady_ns_(SteadyNanos()), wall_ns_(WallNanos()) {
  LC_DCHECK(!id.empty() && first_span != 0 && first_span <= INT64_MAX);
  LC_DCHECK(began_ns >= 0 && began_ns <= steady_ns_);
  contents_.spans.reserve(kSpansExpected);
  contents_.attributes.reserve(kAttributesExpected);
  const int64_t root_ns = began_ns == 0 ? steady_ns_ : began_ns;
  contents_.spans.push_back({.name = name, .parent = kRoot, .began_ns = root_ns, .ended_ns = 0});
}

size_t Trace::Add(std::string_view name, size_t parent, int64_t began_ns, int64_t ended_ns) {
  absl::MutexLock lock(&mutex_);
  if (contents_.spans.size() >= kSpansMax) {
    ++contents_.dropped;
    return kDropped;
  }
  contents_.spans.push_back(
      {.name = name, .parent = parent == kDropped ? kRoot : parent, .began_ns = began_ns, .ended_ns = ended_ns});
  return contents_.spans.size() - 1;
}

void Trace::End(size_t span) {
  if (span == kDropped) return;
  const int64_t now = SteadyNanos();
  absl::MutexLock lock(&mutex_);
  if (span < contents_.spans.size()) contents_.spans[span].ended_ns = now;
}

void Trace::Set(size_t span, std::string_view key, Value value) {
  if (span == kDropped) return;
  if (auto* text = std::get_if<std::string>(&value)) text->resize(std::min(text->size(), kTextBytesMax));
  absl::MutexLock lock(&mutex_);
  if (contents_.attributes.size() < kAttributesMax) contents_.attributes.push_back({span, key, std::move(value)});
}

Trace::Contents Trace::Take() {
  absl::MutexLock lock(&mutex_);
  Contents taken = std::exchange(contents_, {});
  const int64_t end = taken.spans.empty() ? 0 : taken.spans[kRoot].ended_ns;
  for (SpanRecord& span : taken.spans) {
    if (span.ended_ns == 0) span.ended_ns = std::max(span.began_ns, end);
  }
  return taken;
}

uint64_t Trace::size() const {
  absl::MutexLock lock(&mutex_);
  return contents_.spans.size() + contents_.dropped;
}

}  // namespace lightcone

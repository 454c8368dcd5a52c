// The spans of one call, as an exporter sends them, and the W3C header `traceparent`, which joins them to those of the
// caller (https://www.w3.org/TR/trace-context/). No I/O. Where a call is not traced, its trace is null and a span costs
// one branch.
// Threads: a Trace is safe from any thread; a Span belongs to one; the rest are values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lightcone {

// 128 bits, not all of them 0, but for the empty one.
struct TraceId {
  uint64_t high = 0, low = 0;

  bool empty() const { return high == 0 && low == 0; }
  friend bool operator==(const TraceId&, const TraceId&) = default;
};

// Digits of the ids, in lower case: 32 of a trace, 16 of a span.
std::string HexOf(const TraceId& id);
std::string HexOf(uint64_t span_id);

struct TraceParent {
  TraceId trace;
  uint64_t span = 0;
  bool sampled = false;
};

// Nothing where the header must be ignored: another form, version ff, an id of zeros. A version that is not known yet
// may have more behind its flags.
std::optional<TraceParent> ParseTraceParent(std::string_view header);
// Version 00.
std::string FormatTraceParent(const TraceParent& parent);

// Nanoseconds of the steady clock.
int64_t SteadyNanos();

class Trace {
 public:
  static constexpr size_t kSpansMax = 64, kAttributesMax = 512;
  static constexpr size_t kTextBytesMax = 256;  // A longer text is cut.
  static constexpr size_t kRoot = 0;            // place of the span of the whole call
  static constexpr size_t kDropped = SIZE_MAX;  // place of a span for which there is no room

  using Value = std::variant<bool, int64_t, double, std::string>;
  struct SpanRecord {
    std::string_view name;
    size_t parent = kRoot;
    int64_t began_ns = 0, ended_ns = 0;  // times of the steady clock; 0: the span has not ended
  };
  struct Attribute {
    size_t span = kRoot;
    std::string_view key;
    Value value;
  };

  // Begins the root span. Names and keys must be literals, here and below. `parent`: span of the caller; 0: none.
  // `first_span` becomes the root's id, and those of other spans follow it. `began_ns`: time of the steady clock at
  // which the call began; 0: now. REQUIRES: `id` is not empty, `first_span` is not 0 and at most INT64_MAX, `began_ns`
  // is 0 or has passed.
  Trace(std::string_view name, const TraceId& id, uint64_t parent, uint64_t first_span, int64_t began_ns = 0);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  const TraceId& id() const { return id_; }
  uint64_t parent() const { return parent_; }
  uint64_t SpanIdOf(size_t span) const { return first_span_ + span; }
  // Nanoseconds since 1970 of a time of the steady clock, by the wall clock as the trace was made.
  int64_t WallNanosOf(int64_t steady_ns) const { return wall_ns_ + (steady_ns - steady_ns_); }

  // The place of a new span; kDropped where there are kSpansMax already. Children of a dropped span go to the root.
  size_t Begin(std::string_view name, size_t parent = kRoot) { return Add(name, parent, SteadyNanos(), 0); }
  void End(size_t span);
  // A span that has ended, or, with 0, not yet.
  size_t Add(std::string_view name, size_t parent, int64_t began_ns, int64_t ended_ns);
  void Set(size_t span, std::string_view key, Value value);

  struct Contents {
    std::vector<SpanRecord> spans;
    std::vector<Attribute> attributes;
    uint64_t dropped = 0;  // number of spans for which there was no room
  };
  // Called once, after End(kRoot). A span that has not ended by then ends with the root.
  Contents Take();
  // Number of spans, with those that were dropped.
  uint64_t size() const;

 private:
  const TraceId id_;
  const uint64_t parent_, first_span_;
  const int64_t steady_ns_, wall_ns_;
  mutable absl::Mutex mutex_;
  Contents contents_ ABSL_GUARDED_BY(mutex_);
};

// A part of a call, from its construction to its end.
class Span {
 public:
  // `trace` may be null, and must outlive the span. Without `parent` the span is a child of the root.
  Span(Trace* trace, std::string_view name, const Span* parent = nullptr) : trace_(trace) {
    if (trace != nullptr) place_ = trace->Begin(name, parent == nullptr ? Trace::kRoot : parent->place_);
  }
  ~Span() {
    if (trace_ != nullptr) trace_->End(place_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  template <typename T>
  void Set(std::string_view key, const T& value) {
    if (trace_ == nullptr) return;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      trace_->Set(place_, key, static_cast<int64_t>(value));
    } else {
      trace_->Set(place_, key, value);
    }
  }
  // A child that has ended, by times of the steady clock.
  void Add(std::string_view name, int64_t began_ns, int64_t ended_ns) {
    if (trace_ != nullptr) trace_->Add(name, place_, began_ns, ended_ns);
  }

 private:
  Trace* const trace_;
  size_t place_ = Trace::kRoot;
};

}  // namespace lightcone

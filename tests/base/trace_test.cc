// The header `traceparent`, and the spans of one call.
#include "base/trace.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

using testing::ElementsAre;

constexpr TraceId kId = {0x4bf92f3577b34da6, 0xa3ce929d0e0e4736};

TEST(TraceParent, AHeaderIsReadAndWrittenAsTheStandardHasIt) {
  const std::string header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto parent = ParseTraceParent(header);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace, kId);
  EXPECT_EQ(parent->span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(parent->sampled);
  EXPECT_EQ(FormatTraceParent(*parent), header);
  EXPECT_FALSE(ParseTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02")->sampled)
      << "other flags say nothing of sampling";
}

TEST(TraceParent, LaterVersionsMayHaveMoreFields) {
  const std::string later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_TRUE(ParseTraceParent(later).has_value());
  EXPECT_TRUE(ParseTraceParent(later + "-what-the-future").has_value());
  EXPECT_FALSE(ParseTraceParent(later + ".what-the-future").has_value());
}

TEST(TraceParent, WhatIsNoHeaderIsIgnored) {
  for (const char* wrong : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
                            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
                            "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-zz",
                            "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
                            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"}) {
    EXPECT_FALSE(ParseTraceParent(wrong).has_value()) << wrong;
  }
}

TEST(Trace, SpansKnowTheirParentsAttributesAndTimes) {
  Trace trace("Retrieval/Search", kId, 7, 100);
  {
    Span outer(&trace, "write");
    outer.Set("items", size_t{3});
    outer.Set("durable", true);
    outer.Set("share", 0.5);
    outer.Set("name", std::string(1'000, 'x'));
    const Span inner(&trace, "store", &outer);
    outer.Add("queue", 1, 2);
  }
  trace.End(Trace::kRoot);
  const Trace::Contents contents = trace.Take();
  ASSERT_EQ(contents.spans.size(), 4u);
  EXPECT_EQ(contents.spans[0].name, "Retrieval/Search");
  EXPECT_EQ(contents.spans[1].parent, Trace::kRoot);
  EXPECT_EQ(contents.spans[2].parent, 1u);
  EXPECT_EQ(contents.spans[3].parent, 1u);
  EXPECT_EQ(contents.spans[3].ended_ns, 2);
  EXPECT_LE(contents.spans[1].began_ns, contents.spans[2].began_ns);
  EXPECT_LE(contents.spans[2].ended_ns, contents.spans[1].ended_ns);
  EXPECT_LE(contents.spans[1].ended_ns, contents.spans[0].ended_ns);
  EXPECT_EQ(trace.SpanIdOf(2), 102u);
  std::vector<Trace::Value> values;
  for (const Trace::Attribute& attribute : contents.attributes) values.push_back(attribute.value);
  EXPECT_THAT(values, ElementsAre(Trace::Value(int64_t{3}), Trace::Value(true), Trace::Value(0.5),
                                  Trace::Value(std::string(Trace::kTextBytesMax, 'x'))));
}

TEST(Trace, ACallMayHaveBegunBeforeItsTrace) {
  const int64_t began = SteadyNanos();
  Trace trace("call", kId, 0, 1, began);
  trace.Add("auth", Trace::kRoot, began, began + 1);
  trace.End(Trace::kRoot);
  const Trace::Contents contents = trace.Take();
  ASSERT_EQ(contents.spans.size(), 2u);
  EXPECT_EQ(contents.spans[0].began_ns, began);
  EXPECT_EQ(trace.WallNanosOf(contents.spans[1].ended_ns), trace.WallNanosOf(contents.spans[0].began_ns) + 1);
}

TEST(Trace, SpansBeyondTheBoundAreCountedAndTheirChildrenGoToTheRoot) {
  Trace trace("call", kId, 0, 1);
  for (size_t i = 1; i < Trace::kSpansMax; ++i) Span(&trace, "leg").Set("generation", i);
  {
    Span dropped(&trace, "store");
    dropped.Set("items", 1);
    dropped.Add("queue", 1, 2);
  }
  EXPECT_EQ(trace.Add("leg", Trace::kDropped, 1, 2), Trace::kDropped);
  for (size_t i = 0; i < 2 * Trace::kAttributesMax; ++i) trace.Set(Trace::kRoot, "key", int64_t{1});
  EXPECT_EQ(trace.size(), Trace::kSpansMax + 3);
  trace.End(Trace::kRoot);
  const Trace::Contents contents = trace.Take();
  EXPECT_EQ(contents.spans.size(), Trace::kSpansMax);
  EXPECT_EQ(contents.attributes.size(), Trace::kAttributesMax);
  EXPECT_EQ(contents.dropped, 3u);
}

TEST(Trace, ACallWithoutATraceMakesNoSpans) {
  Span span(nullptr, "leg");
  span.Set("generation", 2);
  span.Add("queue", 1, 2);
  const Span child(nullptr, "store", &span);
}

TEST(Trace, ThreadsOfOneCallAddSpansTogether) {
  Trace trace("call", kId, 0, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&trace, t] {
      for (int i = 0; i < 50; ++i) Span(&trace, "leg").Set("thread", t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  trace.End(Trace::kRoot);
  const Trace::Contents contents = trace.Take();
  EXPECT_EQ(contents.spans.size() + contents.dropped, 201u);
  EXPECT_EQ(contents.attributes.size(), Trace::kSpansMax - 1);
  for (const Trace::SpanRecord& span : contents.spans) EXPECT_LE(span.began_ns, span.ended_ns);
}

}  // namespace
}  // namespace lightcone

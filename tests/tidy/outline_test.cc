// What the rules rest on: the outline of a C++ file, and what counts as a fragment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tidy/cpp_outline.h"

namespace lightcone::tidy {
namespace {

TEST(Outline, FindsFunctionsWithWrappedSignaturesInitialisersAndBodiesInClasses) {
  const Outline outline = OutlineOf(R"(namespace a {
struct Settings {
  int ef = {128};
  std::function<void(int)> done;
  Settings(int a, int b)
      : one_{a},
        two_(b) {
    Use(a);
  }
  bool operator==(const Settings& other) const { return true; }
};
absl::StatusOr<int> Longest(const std::string& first,
                            const std::vector<std::pair<int, int>>& second) ABSL_LOCKS_EXCLUDED(mu_) {
  const auto add = [&](int x) { return x + '{'; };
  if (first == "}") return 1;
  return 2;
}
constexpr int kTable[] = {1, 2};
}  // namespace a
)");
  ASSERT_EQ(outline.functions.size(), 3u);
  EXPECT_EQ(outline.functions[0].first_line, 5u);
  EXPECT_EQ(outline.functions[0].last_line, 9u);
  EXPECT_EQ(outline.functions[1].Lines(), 1u);
  EXPECT_EQ(outline.functions[2].first_line, 12u);
  EXPECT_EQ(outline.functions[2].last_line, 17u);
}

TEST(Outline, CountsMethodsAndGuardedFieldsOfEachClass) {
  const Outline outline = OutlineOf(R"(class Outer final : public Base<int> {
 public:
  Outer();
  ~Outer() override = default;
  int size() const { return size_; }
  struct Inner {
    void Run();
  };
  void Wait(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  std::function<bool(int)> test_;
  std::map<int, std::vector<int>> rows_ ABSL_GUARDED_BY(mu_);
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  int size_ = Size(3);
};
)");
  ASSERT_EQ(outline.classes.size(), 2u);
  EXPECT_EQ(outline.classes[0].methods, 4u);
  EXPECT_EQ(outline.classes[0].guarded_fields, 2u);
  EXPECT_EQ(outline.classes[1].methods, 1u);
}

TEST(Outline, FindsCommentsBehindCodeAndNoOthers) {
  const Outline outline = OutlineOf(R"(// A whole line.
int a = 1;  // rows a segment
const char* b = "// no comment";
#include "a.h"  // none either
)");
  ASSERT_EQ(outline.comments.size(), 1u);
  EXPECT_EQ(outline.comments[0].text, "rows a segment");
  EXPECT_EQ(outline.comments[0].line, 2u);
}

TEST(Outline, TellsFragmentsFromNounPhrasesAndSentences) {
  for (const char* fragment : {"of it", "that was counted", "by name", "its own", "from 1", "the last of them",
                               "which an empty word is not", "without labels: no evaluation"}) {
    EXPECT_TRUE(IsFragment(fragment)) << fragment;
  }
  for (const char* whole : {"rows a segment", "0: no limit", "The builder has ended.", "key of the collection",
                            "bytes per second", "(rows, dimension)"}) {
    EXPECT_FALSE(IsFragment(whole)) << whole;
  }
}

}  // namespace
}  // namespace lightcone::tidy

// Secrets are taken out of texts of others.
#include "base/without_key.h"

#include <string>

#include "gtest/gtest.h"

namespace lightcone {
namespace {

TEST(WithoutKey, TakesKeysOutOfATextWhereverTheyStand) {
  EXPECT_EQ(WithoutKey("sk-1 is wrong: sk-1sk-1", "sk-1"), "[key] is wrong: [key][key]");
  EXPECT_EQ(WithoutKey("no key", "sk-1"), "no key");
  EXPECT_EQ(WithoutKey("no key", ""), "no key");
}

// Each key that is replaced in its place moves all that follows.
TEST(WithoutKey, TakesAMillionKeysOut) {
  std::string keys, marks;
  for (int i = 0; i < 1'000'000; ++i) keys += "k", marks += "[key]";
  EXPECT_EQ(WithoutKey(keys, "k"), marks);
}

}  // namespace
}  // namespace lightcone

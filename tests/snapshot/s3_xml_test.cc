// Elements and texts of the answers of S3 stores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "snapshot/s3/xml.h"

namespace lightcone {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(S3Xml, ElementsAreFoundByTheirWholeNameAndEntitiesAreDecoded) {
  const std::string xml =
      "<L xmlns=\"a\"><KeyCount>2</KeyCount><Key>a&amp;&#x2F;&lt;&unknown;</Key><Key/><Key >b</Key></L>";
  EXPECT_THAT(XmlElements(xml, "Key"), ElementsAre("a&amp;&#x2F;&lt;&unknown;", "", "b"));
  EXPECT_EQ(XmlText(xml, "Key"), "a&/<&unknown;");
  EXPECT_EQ(XmlText(xml, "Size"), "");
  for (size_t cut = 0; cut < xml.size(); ++cut) (void)XmlText(xml.substr(0, cut), "Key");
}

// A reader that looks ahead from each of them takes time with the square of their number.
TEST(S3Xml, MarksAndTagsWithoutAnEndTakeLinearTime) {
  constexpr size_t kCount = 2'000'000;
  std::string marks = "<Key>", longer, empty;
  marks.append(kCount, '&').append("</Key>");
  EXPECT_EQ(XmlText(marks, "Key").size(), kCount);
  for (size_t i = 0; i < kCount; ++i) longer += "<Keys", empty += "<Key ";
  EXPECT_THAT(XmlElements(longer + ">", "Key"), IsEmpty());
  EXPECT_THAT(XmlElements(empty + "/>", "Key"), ElementsAre(""));
}

}  // namespace
}  // namespace lightcone

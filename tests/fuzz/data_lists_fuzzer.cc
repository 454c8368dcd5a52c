// Arbitrary text as each of the lists of the papers' data sets. The first byte chooses one.
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "trainer/data/face_lists.h"
#include "trainer/data/paper_sets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0: {
      const std::map<std::string, int64_t> labels = {{"n01", 0}, {"n02", 1}};
      (void)lightcone::ParseTinyImageNetVal(text, "fuzz", labels);
      break;
    }
    case 1:
      (void)lightcone::ParseSop(text, "fuzz");
      break;
    case 2: {  // four lists, divided by zero bytes
      std::string_view parts[4], rest = text;
      for (std::string_view& part : parts) {
        const size_t end = rest.find('\0');
        part = rest.substr(0, end);
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      }
      const auto lists = lightcone::ParseCub200({parts[0], parts[1], parts[2], parts[3]}, "fuzz");
      if (!lists.ok()) break;
      if (lists->trains.size() != lists->images.size()) std::abort();
      for (const auto& image : lists->images) {
        if (!lists->class_names.contains(image.label) || image.path.find("/../") != std::string::npos) std::abort();
      }
      break;
    }
    case 3:
      (void)lightcone::ParseMarketName(text);
      break;
    case 4:
      (void)lightcone::ParseTemplateImages(text, "fuzz");
      break;
    case 5:
      (void)lightcone::ParseTemplatePairs(text, "fuzz");
      break;
    default:
      (void)lightcone::ParseTemplateSubjects(text, "fuzz");
  }
  return 0;
}

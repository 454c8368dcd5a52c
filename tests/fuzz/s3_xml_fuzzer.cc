// Any text as an answer of an S3 store: elements lie in the text, and none of them holds its own end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "snapshot/s3/xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view xml(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"Contents", "Key", "Error", "a"}) {
    const std::string close = "</" + std::string(name) + ">";
    for (const std::string_view element : lightcone::XmlElements(xml, name)) {
      if (element.empty()) continue;
      if (element.data() < xml.data() || element.data() + element.size() > xml.data() + xml.size()) std::abort();
      if (element.find(close) != std::string_view::npos) std::abort();
      if (lightcone::XmlText(element, "Key").size() > element.size()) std::abort();
    }
    if (lightcone::XmlText(xml, name).size() > size) std::abort();
  }
  return 0;
}

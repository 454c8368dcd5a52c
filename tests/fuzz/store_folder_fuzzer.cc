// Any bytes as the marker of a store's folder: ours and of this format, or refused; never rewritten.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "store/folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone;  // NOLINT: a file of one function
  static const auto scratch = ScratchFolder::Make("fuzz").value();
  const std::string path = scratch->path() + "/" + std::string(kMarkerName);
  const std::string content(reinterpret_cast<const char*>(data), size);
  std::ofstream(path, std::ios::binary) << content;
  const absl::Status status = PrepareStoreFolder(scratch->path());
  const std::string line = content.substr(0, content.find('\n'));  // its number may begin with zeros
  if (status.ok() && !(line.starts_with("lightcone store format ") && line.ends_with("1"))) std::abort();
  if (ReadFile(path).value() != content) std::abort();
  return 0;
}

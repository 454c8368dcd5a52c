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
  static const auto* const scratch = ScratchFolder::Make("fuzz").value().release();
  const std::string path = scratch->path() + "/" + std::string(kMarkerName);
  const std::string content(reinterpret_cast<const char*>(data), size);
  std::ofstream(path, std::ios::binary) << content;
  const absl::Status status = PrepareStoreFolder(scratch->path());
  if (status.ok() && !content.starts_with("lightcone store format 1")) std::abort();
  if (ReadFile(path).value() != content) std::abort();
  return 0;
}

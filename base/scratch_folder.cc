#include "base/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make(const std::string& purpose) {
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error) return ErrnoStatus(error.value(), "find", "a folder for temporary files (TMPDIR)");
  std::string path = (base / StrCat("lightcone-", purpose, "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "make", path);
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(path));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lightcone

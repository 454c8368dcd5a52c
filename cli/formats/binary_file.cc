#include "cli/formats/binary_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/status.h"

namespace lightcone::cli {

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return ErrnoStatus(errno, "open", path);
  struct stat info = {};
  if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
    std::fclose(file);
    return InvalidArgument(StrCat("'", path, "' is no regular file"));
  }
  return std::unique_ptr<InputFile>(new InputFile(path, file, info.st_size));
}

InputFile::InputFile(std::string path, std::FILE* file, int64_t bytes)
    : path_(std::move(path)), file_(file), bytes_(bytes) {
  std::setvbuf(file_, nullptr, _IOFBF, 1 << 20);
}

InputFile::~InputFile() { std::fclose(file_); }

absl::StatusOr<size_t> InputFile::Read(void* out, size_t count) {
  const size_t got = std::fread(out, 1, count, file_);
  if (got < count && std::ferror(file_) != 0) return ErrnoStatus(errno, "read", path_);
  bytes_read_ += static_cast<int64_t>(got);
  return got;
}

absl::StatusOr<bool> InputFile::ReadLine(std::string* line, size_t bytes_max) {
  line->clear();
  int c = 0;
  while ((c = getc_unlocked(file_)) != EOF && c != '\n') {
    if (line->size() == bytes_max) {
      return InvalidArgument(StrCat("'", path_, "' has a line of more than ", bytes_max, " bytes"));
    }
    line->push_back(static_cast<char>(c));
  }
  if (c == EOF && std::ferror(file_) != 0) return ErrnoStatus(errno, "read", path_);
  bytes_read_ += static_cast<int64_t>(line->size()) + (c == '\n' ? 1 : 0);
  if (c == EOF && line->empty()) return false;
  if (!line->empty() && line->back() == '\r') line->pop_back();
  return true;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wbe");
  if (file == nullptr) return ErrnoStatus(errno, "create", partial);
  return std::unique_ptr<OutputFile>(new OutputFile(path, partial, file));
}

OutputFile::OutputFile(std::string path, std::string partial, std::FILE* file)
    : path_(std::move(path)), partial_(std::move(partial)), file_(file) {
  std::setvbuf(file_, nullptr, _IOFBF, 1 << 20);
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  ::unlink(partial_.c_str());
}

absl::Status OutputFile::Write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return ErrnoStatus(errno, "write", partial_);
  return absl::OkStatus();
}

absl::Status OutputFile::Overwrite(std::string_view bytes) {
  if (std::fseek(file_, 0, SEEK_SET) != 0) return ErrnoStatus(errno, "seek", partial_);
  return Write(bytes);
}

absl::Status OutputFile::Commit() {
  if (std::fflush(file_) != 0 || ::fsync(fileno(file_)) != 0) return ErrnoStatus(errno, "write", partial_);
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return ErrnoStatus(errno, "close", partial_);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename", partial_);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

}  // namespace lightcone::cli

// Memory that segments live in: read-only file mappings and zeroed anonymous mappings.
// Threads: plain owners; the bytes of a FileMapping never change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/rows/fault_watch.h"

namespace lightcone {

// An mmap region, unmapped at the end. Move only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(file_, other.file_);
    std::swap(watch_, other.watch_);
    return *this;
  }
  ~Mapping();

  // The whole file, read only. NOT_FOUND or the errno's code; an empty file maps to zero bytes.
  // `damaged` is raised when bytes cannot be read any more (fault_watch.h): they are zeros then. It must outlive the
  // mapping.
  static absl::StatusOr<Mapping> OfFile(const std::string& path, std::atomic<bool>* damaged);

  // `bytes` zero bytes whose pages cost memory only once they are written, so that a segment can reserve its capacity
  // at a fixed address. RESOURCE_EXHAUSTED when the address space is refused.
  static absl::StatusOr<Mapping> Zeroed(size_t bytes);

  // Which file is mapped, whatever its path leads to now.
  struct File {
    uint64_t device = 0, inode = 0;
    bool operator==(const File&) const = default;
  };
  const File& file() const { return file_; }

  size_t bytes() const { return bytes_; }
  std::string_view view() const { return {static_cast<const char*>(data_), bytes_}; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Mapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  size_t bytes_ = 0;
  File file_;
  std::unique_ptr<FaultWatch> watch_;  // watch of a mapped file
};

}  // namespace lightcone

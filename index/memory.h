// Memory that segments live in: read-only file mappings and zeroed anonymous mappings.
// Threads: plain owners; the bytes of a FileMapping never change.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone {

// An mmap region, unmapped at the end. Move only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  // The whole file, read only. NOT_FOUND or the errno's code; an empty file maps to zero bytes.
  static absl::StatusOr<Mapping> OfFile(const std::string& path);

  // `bytes` zero bytes whose pages cost memory only once they are written, so that a segment can reserve its capacity
  // at a fixed address. RESOURCE_EXHAUSTED when the address space is refused.
  static absl::StatusOr<Mapping> Zeroed(size_t bytes);

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
};

}  // namespace lightcone

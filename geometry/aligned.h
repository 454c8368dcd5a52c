// A float buffer that starts on a 64-byte boundary, for kernels that load whole vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace lightcone {

inline constexpr std::size_t kVectorAlignment = 64;  // bytes; one AVX-512 register, one cache line

// Owns `size` floats, zeroed; the allocation is padded with zeros to a multiple of 64 bytes. Copies are deep.
class AlignedFloats {
 public:
  AlignedFloats() = default;
  explicit AlignedFloats(std::size_t size) : size_(size) {
    if (size_ == 0) return;
    data_ = static_cast<float*>(::operator new (PaddedBytes(size_), std::align_val_t{kVectorAlignment}));
    std::memset(data_, 0, PaddedBytes(size_));
  }
  AlignedFloats(const AlignedFloats& other) : AlignedFloats(other.size_) {
    std::copy(other.begin(), other.end(), begin());
  }
  AlignedFloats(AlignedFloats&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedFloats& operator=(AlignedFloats other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedFloats() { ::operator delete (data_, std::align_val_t{kVectorAlignment}); }

  float* data() { return data_; }
  const float* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  float* begin() { return data_; }
  float* end() { return data_ + size_; }
  const float* begin() const { return data_; }
  const float* end() const { return data_ + size_; }
  float& operator[](std::size_t i) { return data_[i]; }
  float operator[](std::size_t i) const { return data_[i]; }
  std::span<const float> span() const { return {data_, size_}; }
  operator std::span<const float>() const { return span(); }

 private:
  static std::size_t PaddedBytes(std::size_t size) {
    return (size * sizeof(float) + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
  }

  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lightcone

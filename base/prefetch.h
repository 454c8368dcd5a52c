// Prefetch of memory. GCC 12 takes a function that only prefetches for one without effect and drops its calls. The
// empty asm statement declares an effect, at no cost. Threads: pure functions; any address is safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lightcone {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kFirstLevel = 3, kSecondLevel = 2;  // cache levels, as the compiler numbers them

// Prefetches the cache lines of `bytes` bytes from `first` on.
template <int kLevel = kFirstLevel>
inline void Prefetch(const void* first, std::size_t bytes) {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(first);
  for (std::uintptr_t line = begin / kCacheLine * kCacheLine; line < begin + bytes; line += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), /*rw=*/0, kLevel);
    asm volatile("" : : "r"(line));
  }
}

}  // namespace lightcone

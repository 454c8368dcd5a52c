// Asking the processor for memory before it is read. GCC (12 at least) takes a function that does nothing else for one
// without effect and drops the calls of it, so that helpers around __builtin_prefetch silently do nothing; this one
// says that it has an effect, at no cost. Threads: pure functions; any address is safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lightcone {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kFirstLevel = 3, kSecondLevel = 2;  // of the caches, as the compiler numbers them

// All lines of `bytes` bytes from `first` on.
template <int kLevel = kFirstLevel>
inline void Prefetch(const void* first, std::size_t bytes) {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(first);
  for (std::uintptr_t line = begin / kCacheLine * kCacheLine; line < begin + bytes; line += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), /*rw=*/0, kLevel);
    asm volatile("" : : "r"(line));
  }
}

}  // namespace lightcone

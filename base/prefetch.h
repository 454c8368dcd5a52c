// Asking the processor for memory before it is read. GCC (12 at least) takes a function that does nothing else for one
// without effect and drops the calls of it, so that helpers around __builtin_prefetch silently do nothing; this one says
// that it has an effect, at no cost. Threads: pure functions; any address is safe.
#pragma once

#include <cstddef>

namespace lightcone {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kFirstLevel = 3, kSecondLevel = 2;  // of the caches, as the compiler numbers them

// The lines of `bytes` bytes from `first` on, a multiple of kCacheLine apart from it.
template <int kLevel = kFirstLevel>
inline void Prefetch(const void* first, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(first);
  for (std::size_t offset = 0; offset < bytes; offset += kCacheLine) {
    __builtin_prefetch(begin + offset, /*rw=*/0, kLevel);
    asm volatile("" : : "r"(begin));
  }
}

}  // namespace lightcone

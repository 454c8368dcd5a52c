#include "trainer/tensor_memory.h"

#include <limits>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace lightcone {

void KeepFreedMemory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);  // tensors get no mapping of their own, which would return when freed
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());  // the end of the heap stays
  mallopt(M_ARENA_MAX, 1);  // a single heap for all threads: others are returned whole
#endif
}

}  // namespace lightcone

#include "trainer/tensor_memory.h"

#include <limits>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace lightcone {

void KeepFreedMemory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);                                      // a tensor of its own mapping goes back when it is freed
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());  // and so does the end of the heap
  mallopt(M_ARENA_MAX, 1);                                     // heaps of other threads go back as a whole
#endif
}

}  // namespace lightcone

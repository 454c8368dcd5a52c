#include "base/dcheck.h"

#include <cstdio>
#include <cstdlib>

namespace lightcone {

void FailCheck(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: a caller broke the contract: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace lightcone

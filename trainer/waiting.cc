#include "trainer/waiting.h"

#include <unistd.h>

#include <cstdlib>

namespace lightcone {

void WaitPassively(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0) != 0) return;
  execv("/proc/self/exe", argv);
}

}  // namespace lightcone

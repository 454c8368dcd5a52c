#include "trainer/tensor_threads.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "base/cores.h"

extern "C" {
// Only where the BLAS is OpenBLAS.
void openblas_set_num_threads(int threads) __attribute__((weak));
int openblas_get_num_threads() __attribute__((weak));
}

namespace lightcone {
namespace {

bool MadeOfMatrixProducts(const std::string& architecture) {
  return architecture == "mlp" || architecture == "torchscript" || architecture.starts_with("vit-");
}

}  // namespace

int DefaultTensorThreads() {
  const int cores = AvailableCores();
  const char* const asked = std::getenv("OMP_NUM_THREADS");
  int threads = 0;
  if (asked == nullptr || !absl::SimpleAtoi(asked, &threads) || threads < 1) return cores;
  return std::min(threads, cores);
}

BlasThreads::BlasThreads(int threads) : before_(openblas_get_num_threads == nullptr ? 0 : openblas_get_num_threads()) {
  if (before_ > 0) openblas_set_num_threads(threads);
}

BlasThreads::~BlasThreads() {
  if (before_ > 0) openblas_set_num_threads(before_);
}

TensorThreads::TensorThreads(int threads, const std::string& architecture)
    : before_(at::get_num_threads()), blas_(MadeOfMatrixProducts(architecture) ? threads : 1) {
  at::set_num_threads(threads);
}

TensorThreads::~TensorThreads() { at::set_num_threads(before_); }

}  // namespace lightcone

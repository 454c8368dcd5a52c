#include "trainer/tensor_threads.h"

#include <torch/torch.h>

extern "C" {
// Only where the BLAS is OpenBLAS.
void openblas_set_num_threads(int threads) __attribute__((weak));
int openblas_get_num_threads() __attribute__((weak));
}

namespace lightcone {
namespace {

int BlasThreads() { return openblas_get_num_threads == nullptr ? 1 : openblas_get_num_threads(); }

void SetBlasThreads(int threads) {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
}

bool MadeOfMatrixProducts(const std::string& architecture) {
  return architecture == "mlp" || architecture == "torchscript" || architecture.starts_with("vit-");
}

}  // namespace

TensorThreads::TensorThreads(int threads, const std::string& architecture)
    : tensor_before_(at::get_num_threads()), blas_before_(BlasThreads()) {
  at::set_num_threads(threads);
  SetBlasThreads(MadeOfMatrixProducts(architecture) ? threads : 1);
}

TensorThreads::~TensorThreads() {
  at::set_num_threads(tensor_before_);
  SetBlasThreads(blas_before_);
}

}  // namespace lightcone

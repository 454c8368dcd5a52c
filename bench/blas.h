// The BLAS product that our kernels are measured against.
#pragma once

extern "C" {
void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc);
}

namespace lightcone::bench {

// out [n, columns] = beta out + x [n, inner] w^T, w [columns, inner]; all row major.
inline void BlasProduct(int n, int columns, int inner, const float* x, const float* w, float beta, float* out) {
  const float one = 1;
  sgemm_("T", "N", &columns, &n, &inner, &one, w, &inner, x, &inner, &beta, out, &columns);
}

}  // namespace lightcone::bench

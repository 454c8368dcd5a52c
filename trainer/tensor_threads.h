// The threads of the tensor library and its BLAS. Both are settings of the whole process.
#pragma once

#include <string>

namespace lightcone {

// The default number of threads of a training: OMP_NUM_THREADS where it is a number from 1 to AvailableCores(), else
// AvailableCores(). Threads: safe, while no thread changes the environment.
int DefaultTensorThreads();

// Sets the number of OpenBLAS threads (from 1) while it lives. Another BLAS is left alone. Threads: one at a time in a
// process.
class BlasThreads {
 public:
  explicit BlasThreads(int threads);
  ~BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;

 private:
  const int before_;  // number of threads before; 0: another BLAS
};

// Sets `threads` (from 1) for tensor operations while it lives. The BLAS gets as many for a network of matrix products,
// and one for a network of convolutions, which run on the tensor library's own threads. Two pools that spin while they
// wait take each other's cores: on two cores, steps of the small CNN take 65 ms with one BLAS thread and 57 .. 200 ms
// with two. An mlp needs both (18,000 against 12,000 images/s). Threads: one at a time in a process.
class TensorThreads {
 public:
  TensorThreads(int threads, const std::string& architecture);
  ~TensorThreads();
  TensorThreads(const TensorThreads&) = delete;
  TensorThreads& operator=(const TensorThreads&) = delete;

 private:
  const int before_;
  const BlasThreads blas_;
};

}  // namespace lightcone

// How many threads the tensor library and the BLAS under it work with. Both are settings of the whole process.
#pragma once

#include <string>

namespace lightcone {

// What a training that was told nothing works with: OMP_NUM_THREADS, which the tensor library's users know, where it is
// a number from 1 to AvailableCores(), else all of these. Threads: safe, while nobody changes the environment.
int DefaultTensorThreads();

// While it lives, the BLAS works with so many threads (from 1), where it is OpenBLAS. Threads: one at a time in a
// process.
class BlasThreads {
 public:
  explicit BlasThreads(int threads);
  ~BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;

 private:
  const int before_;  // 0: another BLAS
};

// While it lives: `threads` (from 1) for tensor operations, and for the BLAS as many where the network of
// `architecture` is made of matrix products, but one where it is made of convolutions. Those run on the tensor
// library's own threads, and two pools that wait for work by spinning take each other's cores: steps of the small CNN
// take 65 ms with one BLAS thread, 57 .. 200 ms with two (two cores), while an mlp needs both (18,000 against 12,000
// images/s). Threads: one at a time in a process.
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

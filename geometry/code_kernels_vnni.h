// The code kernels on AVX-512 VNNI, whose dot products of bytes Highway 1.0.3 does not offer: chosen beside its
// AVX-512.
#pragma once

#include "geometry/code_kernels.h"

namespace lightcone {

// Whether this program holds these kernels and this processor runs them.
bool HaveVnni();

// The functions of code_kernels.h, for machines where HaveVnni() is true.
std::size_t ScanCodesVnni(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride, std::size_t n,
                          float floor, CodeHit* hits);
// Scans for the queries in groups alone.
void ScanCodesBatchVnni(const CodeQueryBatch& queries, const std::uint8_t* rows, std::size_t stride, std::size_t n,
                        const float* floors, CodeHit* hits, std::size_t* found);
void ScoreCodesGatheredVnni(const CodeQuery& query, const std::uint8_t* rows, std::size_t stride,
                            const std::uint32_t* ids, std::size_t n, float* scores);
void DotCodesGatheredVnni(const std::uint8_t* x, const std::uint8_t* rows, std::size_t stride, int dimension,
                          const std::uint32_t* ids, std::size_t n, float* dots);

}  // namespace lightcone

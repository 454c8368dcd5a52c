// The kernels of exact scans. Compiled by nvcc (scan_kernels.cu), and by the tests as plain C++ in which a fiber plays
// each thread of a device: whatever is used here of CUDA has to be in tests/gpu/emulated_cuda.h. Include nowhere else.
//
// LC_KERNELS is a namespace that each of the two has to itself: a program may hold both.
// Each score has a proven error (scan_bounds.h), which rests on how sums are formed here: change both together.
#include "index/gpu/scan_args.h"

namespace lightcone::gpu::LC_KERNELS {

constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kWarps = kBlockThreads / kWarp;

// Storage of rows: how 16 bytes of them become numbers.
struct Floats {
  static constexpr uint32_t kNumbers = 4;  // numbers in 16 bytes
  static __device__ void Unpack(uint4 bits, float* out) {
    out[0] = __uint_as_float(bits.x);
    out[1] = __uint_as_float(bits.y);
    out[2] = __uint_as_float(bits.z);
    out[3] = __uint_as_float(bits.w);
  }
};

struct Halves {
  static constexpr uint32_t kNumbers = 8;
  static __device__ void Pair(uint32_t bits, float* out) {
    const float2 pair = __half22float2(LC_HALF2_OF_BITS(bits));
    out[0] = pair.x;
    out[1] = pair.y;
  }
  static __device__ void Unpack(uint4 bits, float* out) {
    Pair(bits.x, out);
    Pair(bits.y, out + 2);
    Pair(bits.z, out + 4);
    Pair(bits.w, out + 6);
  }
};

// The segment of a tile.
__device__ inline uint32_t SegmentOf(const ScanLaunch& launch, uint32_t tile) {
  uint32_t at = 0;
  while (at + 1 < launch.segment_count && launch.segments[at + 1].tile_begin <= tile) ++at;
  return at;
}

__device__ inline uint32_t TileAt(const ScanLaunch& launch, uint32_t position) {
  return static_cast<uint32_t>(static_cast<uint64_t>(position) * launch.step % launch.tiles);
}

// Keeps the row if it may belong to the k nearest.
__device__ inline void Offer(const ScanLaunch& launch, const QueryArgs& query, float floor, const RowTail& tail,
                             uint32_t row, float dot) {
  const float score = tail.step * (query.sigma * dot) - query.b * tail.bias - query.c;
  float error = query.slack + query.row_error * tail.error;
  if (query.euclidean != 0) {
    error = query.slack + tail.error * (2.00001f * sqrtf(fmaxf(query.slack - score, 0.0f)) + 1.00001f * tail.error);
  }
  if (!(score + error >= floor)) return;
  if (query.allowed != nullptr && (query.allowed[row / 32] >> (row % 32) & 1u) == 0) return;
  const uint32_t place = atomicAdd(&launch.states[query.state].count, 1u);
  if (place >= launch.found_max) return;  // Select sees it by the count
  const FoundRow found = {score, error, query.part, row};
  launch.found[static_cast<uint64_t>(query.state) * launch.found_max + place] = found;
}

// Few queries: every row is read once, 16 bytes a thread, eight threads a row, four rows a thread. Bound by memory.
// A sum is formed by eight threads, each adding up every eighth group of numbers in one chain, and then by halves.
template <typename Storage, int kHeld>
__global__ void __launch_bounds__(kBlockThreads) ScanFew(ScanLaunch launch) {
  constexpr uint32_t kLanes = 8, kRowsAtOnce = 4, kNumbers = Storage::kNumbers;
  LC_DYNAMIC_SHARED(float, held);  // the queries of the segment at hand, one after another
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, part = lane % kLanes, group = lane / kLanes;
  uint32_t current = kAllLanes;
  for (uint32_t position = launch.begin + blockIdx.x; position < launch.end; position += gridDim.x) {
    const uint32_t tile = TileAt(launch, position), at = SegmentOf(launch, tile);
    const SegmentArgs segment = launch.segments[at];
    const uint32_t numbers = segment.vectors * kNumbers;
    if (at != current) {
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < kHeld * numbers; i += kBlockThreads) {
        const uint32_t q = i / numbers;
        const bool there = q < segment.queries;
        held[i] = there ? static_cast<const float*>(launch.queries[segment.query_begin + q].a)[i % numbers] : 0.0f;
      }
      __syncthreads();
      current = at;
    }
    const uint32_t first = (tile - segment.tile_begin) * kTileRows + warp * (kTileRows / kWarps) + group;
    const uint4* from[kRowsAtOnce];
    float sums[kRowsAtOnce][kHeld];
    LC_UNROLL
    for (uint32_t u = 0; u < kRowsAtOnce; ++u) {
      const uint32_t row = min(first + u * (kWarp / kLanes), segment.count - 1);
      from[u] = static_cast<const uint4*>(segment.rows) + static_cast<uint64_t>(row) * segment.vectors;
      LC_UNROLL
      for (uint32_t q = 0; q < kHeld; ++q) sums[u][q] = 0.0f;
    }
    for (uint32_t v = part; v < segment.vectors; v += kLanes) {
      uint4 bits[kRowsAtOnce];
      LC_UNROLL
      for (uint32_t u = 0; u < kRowsAtOnce; ++u) bits[u] = LC_LOAD_ONCE(from[u] + v);
      float z[kRowsAtOnce][kNumbers];
      LC_UNROLL
      for (uint32_t u = 0; u < kRowsAtOnce; ++u) Storage::Unpack(bits[u], z[u]);
      LC_UNROLL
      for (uint32_t q = 0; q < kHeld; ++q) {
        const float4* a = reinterpret_cast<const float4*>(held + q * numbers + v * kNumbers);
        LC_UNROLL
        for (uint32_t i = 0; i < kNumbers; i += 4) {
          const float4 some = a[i / 4];
          LC_UNROLL
          for (uint32_t u = 0; u < kRowsAtOnce; ++u) {
            float sum = sums[u][q];
            sum = fmaf(some.x, z[u][i], sum);
            sum = fmaf(some.y, z[u][i + 1], sum);
            sum = fmaf(some.z, z[u][i + 2], sum);
            sums[u][q] = fmaf(some.w, z[u][i + 3], sum);
          }
        }
      }
    }
    LC_UNROLL
    for (uint32_t u = 0; u < kRowsAtOnce; ++u) {
      LC_UNROLL
      for (uint32_t q = 0; q < kHeld; ++q) {
        float sum = sums[u][q];
        sum += __shfl_xor_sync(kAllLanes, sum, 4);
        sum += __shfl_xor_sync(kAllLanes, sum, 2);
        sum += __shfl_xor_sync(kAllLanes, sum, 1);
        const uint32_t row = first + u * (kWarp / kLanes);
        if ((u * kHeld + q) % kLanes != part || row >= segment.count || q >= segment.queries) continue;
        const QueryArgs& query = launch.queries[segment.query_begin + q];
        Offer(launch, query, launch.states[query.state].floor, segment.tails[row], row, sum);
      }
    }
  }
}

// A query that a thread compares scores for, in its registers.
struct Asked {
  QueryArgs query;
  float floor;
  bool there;
};

// Where a block of ScanMany is at.
struct Product {
  const SegmentArgs* segment;
  uint32_t first_row, first_query, queries;

  // False when the segment has no such queries.
  __device__ bool Turn(const ScanLaunch& launch, uint32_t index) {
    const uint32_t tile = TileAt(launch, launch.begin + index / launch.query_tiles);
    segment = launch.segments + SegmentOf(launch, tile);
    first_row = (tile - segment->tile_begin) * kTileRows;
    first_query = index % launch.query_tiles * kTileQueries;
    if (first_query >= segment->queries) return false;
    queries = min(segment->queries - first_query, kTileQueries);
    first_query += segment->query_begin;
    return true;
  }
  __device__ uint4 RowBits(uint32_t row, uint32_t vector) const {
    if (first_row + row >= segment->count || vector >= segment->vectors) return make_uint4(0, 0, 0, 0);
    return static_cast<const uint4*>(segment->rows)[static_cast<uint64_t>(first_row + row) * segment->vectors + vector];
  }
  __device__ uint4 QueryBits(const ScanLaunch& launch, uint32_t q, uint32_t vector) const {
    if (q >= queries || vector >= segment->vectors) return make_uint4(0, 0, 0, 0);
    return static_cast<const uint4*>(launch.queries[first_query + q].a)[vector];
  }
  __device__ void Take(const ScanLaunch& launch, uint32_t row, const Asked& asked, float dot) const {
    if (first_row + row >= segment->count || !asked.there) return;
    Offer(launch, asked.query, asked.floor, segment->tails[first_row + row], first_row + row, dot);
  }
  __device__ Asked Ask(const ScanLaunch& launch, uint32_t q) const {
    Asked asked = {};
    asked.there = q < queries;
    if (!asked.there) return asked;
    asked.query = launch.queries[first_query + q];
    asked.floor = launch.states[asked.query.state].floor;
    return asked;
  }
};

// Many queries, float16: products of 128 rows and 64 queries on the tensor cores, 64 numbers at a time. Neighbouring
// blocks have the same rows and other queries, so that rows come from memory once and then from the cache.
__global__ void __launch_bounds__(kBlockThreads) ScanManyHalves(ScanLaunch launch) {
  constexpr uint32_t kDepth = 64, kVectors = kDepth / 8, kPitch = kDepth + 8, kPatchPitch = 20;
  __shared__ LC_ALIGNED(32) __half rows[kTileRows * kPitch];
  __shared__ LC_ALIGNED(32) __half queries[kTileQueries * kPitch];
  __shared__ LC_ALIGNED(32) float patches[kWarps * 16 * kPatchPitch];
  using RowPatch = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
  using QueryPatch = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major>;
  using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t warp_row = warp / 2 * 32, warp_query = warp % 2 * 32;
  float* const patch = patches + warp * 16 * kPatchPitch;
  Product product;
  const uint32_t all = (launch.end - launch.begin) * launch.query_tiles;
  for (uint32_t index = blockIdx.x; index < all; index += gridDim.x) {
    if (!product.Turn(launch, index)) continue;  // the same for the whole block
    Sums sums[2][2];
    LC_UNROLL
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i / 2][i % 2], 0.0f);
    for (uint32_t v = 0; v < product.segment->vectors; v += kVectors) {
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < kTileRows * kVectors; i += kBlockThreads) {
        const uint32_t row = i / kVectors, vector = i % kVectors;
        *reinterpret_cast<uint4*>(rows + row * kPitch + vector * 8) = product.RowBits(row, v + vector);
      }
      for (uint32_t i = threadIdx.x; i < kTileQueries * kVectors; i += kBlockThreads) {
        const uint32_t q = i / kVectors, vector = i % kVectors;
        *reinterpret_cast<uint4*>(queries + q * kPitch + vector * 8) = product.QueryBits(launch, q, v + vector);
      }
      __syncthreads();
      LC_UNROLL
      for (uint32_t depth = 0; depth < kDepth; depth += 16) {
        RowPatch a[2];
        QueryPatch b[2];
        LC_UNROLL
        for (uint32_t i = 0; i < 2; ++i) {
          wmma::load_matrix_sync(a[i], rows + (warp_row + 16 * i) * kPitch + depth, kPitch);
          wmma::load_matrix_sync(b[i], queries + (warp_query + 16 * i) * kPitch + depth, kPitch);
        }
        LC_UNROLL
        for (int i = 0; i < 4; ++i) wmma::mma_sync(sums[i / 2][i % 2], a[i / 2], b[i % 2], sums[i / 2][i % 2]);
      }
    }
    LC_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const Asked asked = product.Ask(launch, warp_query + i / 2 * 16 + lane % 16);
      wmma::store_matrix_sync(patch, sums[i % 2][i / 2], kPatchPitch, wmma::mem_row_major);
      __syncwarp();
      LC_UNROLL
      for (uint32_t row = lane / 16; row < 16; row += kWarp / 16) {
        product.Take(launch, warp_row + i % 2 * 16 + row, asked, patch[row * kPatchPitch + lane % 16]);
      }
      __syncwarp();
    }
  }
}

// Many queries, float32: the same by fused multiply-adds, eight rows and four queries a thread, each sum in one chain.
__global__ void __launch_bounds__(kBlockThreads) ScanManyFloats(ScanLaunch launch) {
  constexpr uint32_t kDepth = 16, kVectors = kDepth / 4, kRowPitch = kTileRows + 4, kQueryPitch = kTileQueries + 4;
  constexpr uint32_t kRowsEach = 8, kQueriesEach = 4, kAcross = kTileQueries / kQueriesEach;
  __shared__ LC_ALIGNED(16) float rows[kDepth * kRowPitch];
  __shared__ LC_ALIGNED(16) float queries[kDepth * kQueryPitch];
  const uint32_t row0 = threadIdx.x / kAcross * kRowsEach, query0 = threadIdx.x % kAcross * kQueriesEach;
  Product product;
  const uint32_t all = (launch.end - launch.begin) * launch.query_tiles;
  for (uint32_t index = blockIdx.x; index < all; index += gridDim.x) {
    if (!product.Turn(launch, index)) continue;
    float sums[kRowsEach][kQueriesEach] = {};
    for (uint32_t v = 0; v < product.segment->vectors; v += kVectors) {
      __syncthreads();
      float four[4];
      for (uint32_t i = threadIdx.x; i < kTileRows * kVectors; i += kBlockThreads) {
        const uint32_t row = i / kVectors, vector = i % kVectors;
        Floats::Unpack(product.RowBits(row, v + vector), four);
        for (uint32_t j = 0; j < 4; ++j) rows[(vector * 4 + j) * kRowPitch + row] = four[j];
      }
      for (uint32_t i = threadIdx.x; i < kTileQueries * kVectors; i += kBlockThreads) {
        const uint32_t q = i / kVectors, vector = i % kVectors;
        Floats::Unpack(product.QueryBits(launch, q, v + vector), four);
        for (uint32_t j = 0; j < 4; ++j) queries[(vector * 4 + j) * kQueryPitch + q] = four[j];
      }
      __syncthreads();
      LC_UNROLL
      for (uint32_t depth = 0; depth < kDepth; ++depth) {
        float z[kRowsEach], a[kQueriesEach];
        LC_UNROLL
        for (uint32_t r = 0; r < kRowsEach; ++r) z[r] = rows[depth * kRowPitch + row0 + r];
        LC_UNROLL
        for (uint32_t q = 0; q < kQueriesEach; ++q) a[q] = queries[depth * kQueryPitch + query0 + q];
        LC_UNROLL
        for (uint32_t r = 0; r < kRowsEach; ++r) {
          LC_UNROLL
          for (uint32_t q = 0; q < kQueriesEach; ++q) sums[r][q] = fmaf(z[r], a[q], sums[r][q]);
        }
      }
    }
    LC_UNROLL
    for (uint32_t q = 0; q < kQueriesEach; ++q) {
      const Asked asked = product.Ask(launch, query0 + q);
      LC_UNROLL
      for (uint32_t r = 0; r < kRowsEach; ++r) product.Take(launch, row0 + r, asked, sums[r][q]);
    }
  }
}

// A number whose order as an integer is that of the float.
__device__ inline uint32_t OrderOf(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
}
__device__ inline float FloatOfOrder(uint32_t order) {
  return __uint_as_float(order ^ (order >> 31 != 0 ? 0x80000000u : 0xffffffffu));
}

// The k-th largest of score - error, byte by byte from the highest. For all threads of the block. k is at most n.
__device__ inline float KthLowerEnd(const FoundRow* found, uint32_t n, uint32_t k) {
  __shared__ uint32_t counts[256];
  __shared__ uint32_t chosen, left;
  uint32_t prefix = 0, wanted = k;
  for (int shift = 24; shift >= 0; shift -= 8) {
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += kBlockThreads) {
      const uint32_t order = OrderOf(found[i].score - found[i].error);
      const bool same = shift == 24 || order >> (shift + 8) == prefix >> (shift + 8);
      if (same) atomicAdd(&counts[order >> shift & 255u], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t above = 0;
      int digit = 255;
      while (digit > 0 && above + counts[digit] < wanted) above += counts[digit--];
      chosen = static_cast<uint32_t>(digit);
      left = wanted - above;
    }
    __syncthreads();
    prefix |= chosen << shift;
    wanted = left;
    __syncthreads();
  }
  return FloatOfOrder(prefix);
}

// Between two launches of a scan, one block a query: raises the floor to the k-th best lower end of what is known, and
// lets go of rows that are below it.
__global__ void __launch_bounds__(kBlockThreads) Select(ScanLaunch launch) {
  static_assert(kBlockThreads == 256, "a thread a value of a byte");
  __shared__ uint32_t kept_by[kWarps];
  StateArgs* const state = launch.states + blockIdx.x;
  FoundRow* const found = launch.found + static_cast<uint64_t>(blockIdx.x) * launch.found_max;
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t count = state->count, n = min(count, launch.found_max), k = state->k;
  float floor = state->floor;
  if (n >= k) floor = fmaxf(floor, KthLowerEnd(found, n, k));
  uint32_t kept = 0;  // each is written where it or an earlier one was read
  for (uint32_t base = 0; base < n; base += kBlockThreads) {
    const uint32_t i = base + threadIdx.x;
    FoundRow row = {};
    if (i < n) row = found[i];
    const bool keep = i < n && row.score + row.error >= floor;
    const uint32_t warp_keeps = __ballot_sync(kAllLanes, keep);
    if (lane == 0) kept_by[warp] = __popc(warp_keeps);
    __syncthreads();
    uint32_t place = kept + __popc(warp_keeps & ((1u << lane) - 1u));
    for (uint32_t w = 0; w < kWarps; ++w) {
      if (w < warp) place += kept_by[w];
      kept += kept_by[w];
    }
    if (keep) found[place] = row;
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  state->floor = floor;
  state->count = kept;
  if (count > launch.found_max) state->overflowed = 1;
}

}  // namespace lightcone::gpu::LC_KERNELS

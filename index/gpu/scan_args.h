// What a scan on a device is told and what it gives back: plain values, the same for the host and for the kernels.
// Compiled by nvcc too: no third party is included here, and nothing beyond C++17.
#pragma once

#include <cstdint>

namespace lightcone::gpu {

inline constexpr uint32_t kTileRows = 128;          // rows that a block of threads scores at once
inline constexpr uint32_t kFewQueries = 4;          // queries held in shared memory while rows pass
inline constexpr uint32_t kTileQueries = 64;        // queries of one product of rows and queries
inline constexpr uint32_t kBlockThreads = 256;      // threads of a block in every kernel
inline constexpr uint32_t kFewBytesMax = 48 << 10;  // shared memory for queries that every device has

// Beside every row. score = step * <a, row> - b * bias - c; |exact row - step * row| is at most `error`.
struct RowTail {
  float step, bias, error, unused;
};

// Rows side by side, each `vectors` times 16 bytes: float32 or float16 numbers, zeros behind the last.
struct SegmentArgs {
  const void* rows;
  const RowTail* tails;
  uint32_t count;       // rows
  uint32_t vectors;     // vectors of 16 bytes in a row
  uint32_t tile_begin;  // number of its first tile among those of the launch
  uint32_t query_begin, queries;
};

// A query as one segment's rows are scored for it.
struct QueryArgs {
  const void*
      a;  // numbers of the query divided by sigma, as many as a row has: float32 in ScanFew, else the rows' type
  const uint32_t* allowed;  // a bit a row: whether it may be found; nullptr: all may
  float sigma, b, c;
  float slack, row_error;  // a score errs by at most slack + row_error * RowTail::error ...
  uint32_t euclidean;      // ... or, if not 0, by slack + error * (2 sqrt(slack - score) + error)
  uint32_t state;          // state that has the floor and takes found rows
  uint32_t part;           // FoundRow::part of found rows
};

// A query over all its segments.
struct StateArgs {
  float floor;  // floor of score + error: the k-th best score - error once k rows are known
  uint32_t count;
  uint32_t overflowed;  // not 0: found rows had no place
  uint32_t k;
};

struct FoundRow {
  float score, error;
  uint32_t part, row;
};

// Tiles are visited as (position * step) mod tiles, with step prime to tiles: a few positions are rows from everywhere,
// whatever order they were written in.
struct ScanLaunch {
  const SegmentArgs* segments;
  const QueryArgs* queries;
  StateArgs* states;
  FoundRow* found;  // found_max places a state
  uint32_t segment_count, state_count, found_max;
  uint32_t tiles, step;
  uint32_t begin, end;    // positions of this launch
  uint32_t query_tiles;   // ScanMany: of the segment with most queries
  uint32_t vectors_max;   // ScanFew: of a row
  uint32_t queries_held;  // ScanFew: 1 or kFewQueries
};

}  // namespace lightcone::gpu

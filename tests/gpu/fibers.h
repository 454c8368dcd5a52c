// The threads of one block of a device, played one after another by fibers of the thread that calls. A fiber runs until
// it waits for others: for its block, or for its warp of 32.
//
// What a device would do in any order happens in one order here, so races are not found; barriers that not all threads
// reach are: that ends the program with a word.
// Threads: one block at a time on a thread.
#pragma once

#include <cstdint>
#include <functional>

namespace lightcone::gpu::emulated {

struct Index {
  unsigned x = 0;
};

// Of the fiber that runs.
Index ThreadIndex();
extern thread_local Index block_index, grid_size;

void WaitForBlock();
void WaitForWarp();
// All lanes of a warp give a value; each gets that of `lane`.
uint32_t Exchange(uint32_t value, unsigned lane);
// A bit a lane that says yes.
uint32_t Ballot(bool yes);

inline constexpr unsigned kSharedBytes = 48 << 10;
void* SharedMemory();  // what a launch gives to each block

// Runs `thread` as `threads` threads of each of `blocks` blocks, block after block.
void RunBlocks(unsigned blocks, unsigned threads, const std::function<void()>& thread);

}  // namespace lightcone::gpu::emulated

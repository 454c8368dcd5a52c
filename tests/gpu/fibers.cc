#include "tests/gpu/fibers.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace lightcone::gpu::emulated {

thread_local Index block_index, grid_size;

namespace {

constexpr unsigned kLanes = 32;
constexpr size_t kStackBytes = 96 << 10;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "emulated kernel: %s\n", what);
  std::abort();
}

void EnterFiber();

// Where a fiber, or the scheduler, stands.
#if defined(__x86_64__)
// Saves what a call keeps on the old stack and takes it from the new one: no system call, unlike swapcontext.
extern "C" void lightcone_switch_stacks(void** from, void* to);
asm(R"(
.text
.type lightcone_switch_stacks, @function
lightcone_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lightcone_switch_stacks, .-lightcone_switch_stacks
)");
struct Place {
  void* stack = nullptr;
};
void Switch(Place* from, const Place& to) { lightcone_switch_stacks(&from->stack, to.stack); }
void Prepare(Place* place, char* memory) {
  void** top = reinterpret_cast<void**>(memory + kStackBytes - 64);  // 16-byte aligned, as a call leaves it
  *--top = nullptr;                                                  // a return address that nothing returns to
  *--top = reinterpret_cast<void*>(&EnterFiber);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  place->stack = top;
}
#else
struct Place {
  ucontext_t context;
};
void Switch(Place* from, const Place& to) { swapcontext(&from->context, &to.context); }
void Prepare(Place* place, char* memory) {
  getcontext(&place->context);
  place->context.uc_stack.ss_sp = memory;
  place->context.uc_stack.ss_size = kStackBytes;
  place->context.uc_link = nullptr;
  makecontext(&place->context, EnterFiber, 0);
}
#endif

// Threads that have to come, and how often all have come.
struct Barrier {
  unsigned arrived = 0;
  uint64_t passed = 0;
};

struct Fiber {
  Place place;
  bool done = false;
};

struct Warp {
  Barrier barrier;
  uint32_t values[2][kLanes] = {};  // by turns: a fast lane may be one exchange ahead
  unsigned turn[kLanes] = {};
};

struct Block {
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barrier;
  Place scheduler;
  unsigned current = 0;
  bool progress = false;
  const std::function<void()>* thread = nullptr;
  alignas(64) char shared[kSharedBytes];
};

Block& TheBlock() {
  static thread_local const std::unique_ptr<Block> block = std::make_unique<Block>();
  return *block;
}

void EnterFiber() {
  Block& block = TheBlock();
  (*block.thread)();
  block.fibers[block.current].done = true;
  Switch(&block.fibers[block.current].place, block.scheduler);
  Die("a thread ran on behind its end");
}

void Yield(Block& block) { Switch(&block.fibers[block.current].place, block.scheduler); }

void WaitAt(Block& block, Barrier& barrier, unsigned threads) {
  const uint64_t passed = barrier.passed;
  block.progress = true;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.passed;
    return;
  }
  while (barrier.passed == passed) Yield(block);
  block.progress = true;
}

void RunBlock(Block& block, unsigned threads) {
  block.fibers.assign(threads, Fiber());
  block.warps.assign((threads + kLanes - 1) / kLanes, Warp());
  block.barrier = Barrier();
  std::memset(block.shared, 0xcd, sizeof(block.shared));
  while (block.stacks.size() < threads) block.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  for (unsigned i = 0; i < threads; ++i) Prepare(&block.fibers[i].place, block.stacks[i].get());
  for (unsigned left = threads; left > 0;) {
    block.progress = false;
    for (unsigned i = 0; i < threads; ++i) {
      if (block.fibers[i].done) continue;
      block.current = i;
      Switch(&block.scheduler, block.fibers[i].place);
      if (!block.fibers[i].done) continue;
      block.progress = true;
      --left;
    }
    if (!block.progress) Die("threads wait at barriers that others never reach");
  }
  if (block.barrier.arrived != 0) Die("a block ended while threads waited");
}

}  // namespace

Index ThreadIndex() { return {TheBlock().current}; }
void* SharedMemory() { return TheBlock().shared; }

void WaitForBlock() {
  Block& block = TheBlock();
  WaitAt(block, block.barrier, static_cast<unsigned>(block.fibers.size()));
}

void WaitForWarp() {
  Block& block = TheBlock();
  WaitAt(block, block.warps[block.current / kLanes].barrier, kLanes);
}

uint32_t Exchange(uint32_t value, unsigned lane) {
  Block& block = TheBlock();
  Warp& warp = block.warps[block.current / kLanes];
  const unsigned own = block.current % kLanes, turn = warp.turn[own]++ % 2;
  warp.values[turn][own] = value;
  WaitForWarp();
  return warp.values[turn][lane % kLanes];
}

uint32_t Ballot(bool yes) {
  Block& block = TheBlock();
  Warp& warp = block.warps[block.current / kLanes];
  const unsigned own = block.current % kLanes, turn = warp.turn[own]++ % 2;
  warp.values[turn][own] = yes ? 1 : 0;
  WaitForWarp();
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) bits |= warp.values[turn][lane] << lane;
  return bits;
}

void RunBlocks(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
  Block& block = TheBlock();
  block.thread = &thread;
  grid_size.x = blocks;
  for (unsigned b = 0; b < blocks; ++b) {
    block_index.x = b;
    RunBlock(block, threads);
  }
}

}  // namespace lightcone::gpu::emulated

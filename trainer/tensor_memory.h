// What a process does with memory that tensors gave back.
#pragma once

namespace lightcone {

// From now on this process keeps it for the next tensors and gives none of it back to the kernel: for processes that
// train. Every step frees what the next one asks for again, and glibc as it comes returns it in between, so that each
// step faults the same pages in again: 45,000 a step of ResNet-18, one twentieth of its time
// (docs/internals/training-steps.md).
// Nothing happens where the C library is not glibc. Once is enough; another call changes nothing. Threads: safe.
void KeepFreedMemory();

}  // namespace lightcone

// What this processor can do at best.
#pragma once

namespace lightcone::bench {

// Fused multiply-adds of float32, in registers alone, by one thread: operations a second, multiply and add counted
// apart.
double FmaRate();

}  // namespace lightcone::bench

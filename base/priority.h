// The priority of background threads. Threads: safe; each function acts on the calling thread.
#pragma once

namespace lightcone {

// Lowers the priority of the calling thread, and of threads that it starts, below that of the process's first thread by
// `niceness` (1 .. 19). The priority stays where the system refuses.
void StandBack(int niceness);

// Whether the thread has a lower priority than the process's first one.
bool ThreadStandsBack();

}  // namespace lightcone

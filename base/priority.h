// Threads whose work may wait. Threads: safe from any thread; each function is about the calling one.
#pragma once

namespace lightcone {

// Gives the calling thread, and those that it will start, less of a core than the process's first one has, by
// `niceness` (1 .. 19). Where the system refuses, it runs as others do.
void StandBack(int niceness);

// Whether the thread has less priority than the process's first one.
bool ThreadStandsBack();

}  // namespace lightcone
